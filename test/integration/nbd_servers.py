"""Servers of NBD for tests: those of nbdkit and qemu on an image, and a relay before them whose connections can be cut."""

import os
import random
import signal
import socket
import subprocess
import threading

from until import until


class Server:
    """A program that serves an image by a socket. `words`: of its command line, with {image}, {socket} and {port}."""

    NBDKIT = ("nbdkit", "--foreground", "--exit-with-parent", "--unix", "{socket}", "file", "{image}")
    NBDKIT_TCP = ("nbdkit", "--foreground", "--exit-with-parent", "--ipaddr", "127.0.0.1", "--port", "{port}", "file", "{image}")
    QEMU = ("qemu-nbd", "--persistent", "--shared", "0", "--format", "raw", "--discard", "unmap", "--socket", "{socket}", "{image}")

    def __init__(self, test, image, words=NBDKIT):
        self.image, self.socket = image, os.path.join(os.path.dirname(image), "socket")
        self.port = 0
        if "{port}" in words:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        self.words = [word.format(image=image, socket=self.socket, port=self.port) for word in words]
        self.process = None
        test.addCleanup(self.stop)
        self.start()

    @property
    def source(self):
        return f"nbd://127.0.0.1:{self.port}/" if self.port else f"nbd+unix:///?socket={self.socket}"

    def connect(self):
        made = socket.socket(socket.AF_INET if self.port else socket.AF_UNIX)
        try:
            made.connect(("127.0.0.1", self.port) if self.port else self.socket)
        except OSError:
            made.close()
            return None
        return made

    def start(self):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        with open(self.image + ".log", "ab") as log:  # of each connection that is cut it says something
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stderr=log)  # pylint: disable=R1732
        until(self.connect, f"a connection to {self.words[0]}").close()

    def stop(self, number=signal.SIGKILL):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None


class Relay:
    """Passes on what comes by its own socket. Each connection is cut after a number of bytes that is drawn, as long as `cuts` are left."""

    def __init__(self, test, server, seed, name="relay"):
        self.server, self.socket = server, f"{server.socket}-{name}"
        self.draw, self.cuts, self.most = random.Random(seed), 0, 0
        self.connections, self.away = set(), False
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.socket)
        self.listener.listen()
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()
        test.addCleanup(self.close)

    @property
    def source(self):
        return f"nbd+unix:///?socket={self.socket}"

    def cut(self, times, most):
        """From now on, so many connections after at most so many bytes each."""
        with self.lock:
            self.cuts, self.most = times, most

    def go_away(self):
        """Cuts all connections, and takes none until come_back()."""
        with self.lock:
            self.away = True
            for client in self.connections:
                client.shutdown(socket.SHUT_RDWR)

    def come_back(self):
        with self.lock:
            self.away = False

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()

    def _accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            with self.lock:
                if self.away:
                    client.close()
                    continue
                self.connections.add(client)
            thread = threading.Thread(target=self._relay, args=(client,))
            self.threads.append(thread)
            thread.start()

    def _left(self):
        """How many bytes a connection may pass before it is cut, which is decided when the first one comes after cut()."""
        with self.lock:
            return self.draw.randrange(1, self.most) if self.cuts > 0 else None

    def _relay(self, client):
        server = until(self.server.connect, "a connection to the server")
        ends = {client: server, server: client}
        with client, server:
            left = None

            def pump(source):
                nonlocal left
                try:
                    while data := source.recv(1 << 16):
                        if left is None:
                            left = self._left()
                        if left is not None and left < len(data):
                            data, cut = data[:left], True
                        else:
                            cut = False
                        ends[source].sendall(data)
                        if cut:
                            with self.lock:
                                self.cuts -= 1
                            break
                        if left is not None:
                            left -= len(data)
                except OSError:
                    pass
                for end in ends:
                    try:
                        end.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass

            other = threading.Thread(target=pump, args=(server,))
            other.start()
            pump(client)
            other.join()
            with self.lock:
                self.connections.remove(client)
