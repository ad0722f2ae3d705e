"""What processes do with each other through files of the mount: locks, notices of change, shared memory, pipes, sockets,
and programs that run from it. All of it is as on ext4."""

import errno
import fcntl
import mmap
import os
import socket
import struct
import subprocess
import sys
import threading

import harness
import syscalls
from harness import MiB, in_child, outcome
from until import PATIENCE, until

NOBODY = 65534
F_OFD_SETLK = 37


def lock(fd, kind, start, length, command=fcntl.F_SETLK):
    fcntl.fcntl(fd, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


def holder(fd, start, length):
    """(kind, start, length, process) of the lock that is in the way of an exclusive one."""
    kind, _, start, length, pid = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, start, length, 0)))
    return None if kind == fcntl.F_UNLCK else (kind, start, length, pid)


class Processes(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.mounted = self.volume()
        self.mounted.mount()

    def file(self, name, contents=b""):
        path = self.mounted.path(name)
        with open(path, "wb") as file:
            file.write(contents)
        return path

    @staticmethod
    def waits_for_a_lock(inode):
        with open("/proc/locks", encoding="ascii") as table:
            return any("->" in line and f":{inode} " in line for line in table)

    def test_whole_files_are_locked_by_flock(self):
        path = self.file("f")
        with open(path, "rb") as first:
            fcntl.flock(first, fcntl.LOCK_SH)
            self.must("flock", "--shared", "--nonblock", path, "true")
            self.assertEqual(harness.call("flock", "--nonblock", path, "true").returncode, 1)
            fcntl.flock(first, fcntl.LOCK_EX)
            self.assertEqual(harness.call("flock", "--shared", "--nonblock", path, "true").returncode, 1)
            # Who waits gets it when the holder lets go.
            waiting = subprocess.Popen(["flock", path, "echo", "mine"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            inode = os.fstat(first.fileno()).st_ino
            until(lambda: waiting.poll() is not None or self.waits_for_a_lock(inode), "one who waits for the lock")
            self.assertIsNone(waiting.poll())
        self.assertEqual(waiting.communicate(timeout=300)[0], b"mine\n")
        self.must("flock", "--nonblock", self.mounted.point, "true")  # a directory

    def test_ranges_are_locked_by_processes_and_by_open_files(self):
        path = self.file("f", b"x" * 100)
        fd, other = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
        lock(fd, fcntl.F_WRLCK, 10, 20)
        lock(fd, fcntl.F_RDLCK, 50, 0)  # to the end, wherever that is
        lock(other, fcntl.F_WRLCK, 15, 1)  # the same process: its own lock

        def tries():
            with open(path, "r+b") as mine:
                return (outcome(lock, mine, fcntl.F_WRLCK, 0, 10), outcome(lock, mine, fcntl.F_WRLCK, 9, 2), outcome(lock, mine, fcntl.F_RDLCK, 29, 1),
                        outcome(lock, mine, fcntl.F_RDLCK, 1 << 60, 1), outcome(lock, mine, fcntl.F_WRLCK, 1 << 60, 1), holder(mine, 12, 50))
        self.assertEqual(in_child(tries), (None, "EAGAIN", "EAGAIN", None, "EAGAIN", (fcntl.F_WRLCK, 10, 20, os.getpid())))
        lock(fd, fcntl.F_UNLCK, 12, 5)  # a hole in the middle
        self.assertEqual(in_child(lambda: (holder(fd, 12, 5), holder(fd, 12, 6))), (None, (fcntl.F_WRLCK, 17, 13, os.getpid())))
        os.close(other)  # which lets go of all locks of the process on this file
        self.assertEqual(in_child(lambda: holder(fd, 0, 0)), None)

        # Locks of open files: between two of one process, and kept by a child.
        other = os.open(path, os.O_RDWR)
        lock(fd, fcntl.F_WRLCK, 0, 10, F_OFD_SETLK)
        self.assertEqual(outcome(lock, other, fcntl.F_RDLCK, 9, 1, F_OFD_SETLK), "EAGAIN")
        self.assertEqual(outcome(lock, other, fcntl.F_RDLCK, 10, 1, F_OFD_SETLK), None)
        self.assertEqual(in_child(lock, fd, fcntl.F_WRLCK, 0, 10, F_OFD_SETLK), None)
        os.close(fd)
        self.assertEqual(outcome(lock, other, fcntl.F_WRLCK, 0, 10, F_OFD_SETLK), None)
        os.close(other)

    def test_two_that_wait_for_each_other_are_told(self):
        path = self.file("f", b"x" * 100)
        ready = os.pipe()
        with open(path, "r+b") as mine:
            lock(mine, fcntl.F_WRLCK, 0, 1)

            def other():
                with open(path, "r+b") as file:
                    lock(file, fcntl.F_WRLCK, 1, 1)
                    os.write(ready[1], b".")
                    lock(file, fcntl.F_WRLCK, 0, 1, fcntl.F_SETLKW)  # until the parent lets go
            results = []
            thread = threading.Thread(target=lambda: results.append(in_child(other)))
            thread.start()
            os.read(ready[0], 1)
            # The one that comes second is told, and lets go of what it has.
            told = outcome(lock, mine, fcntl.F_WRLCK, 1, 1, fcntl.F_SETLKW)
            lock(mine, fcntl.F_UNLCK, 0, 1)
            thread.join(300)
            refusal = errno.errorcode[errno.EDEADLK]  # it has two names
            self.assertIn((told, *results), [(refusal, None), (None, refusal)])
        for fd in ready:
            os.close(fd)

    def test_changes_are_noticed_by_inotify(self):
        folder = self.mounted.path("watched")
        os.mkdir(folder)
        path = os.path.join(folder, "f")
        notify = syscalls.Inotify()
        self.addCleanup(notify.close)
        place = notify.watch(folder, "modify", "attrib", "close_write", "moved_from", "moved_to", "create", "delete", "delete_self")

        def append():
            with open(path, "ab") as file:
                file.write(b"x")

        def noticed(work):
            self.assertEqual(notify.events(), [])
            in_child(work)
            return [(event, name) for watch, event, name in notify.events() if watch == place]
        self.assertEqual(noticed(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY))), [("create", "f"), ("close_write", "f")])
        self.assertEqual(noticed(lambda: os.truncate(path, 10)), [("modify", "f")])
        self.assertEqual(noticed(append), [("modify", "f"), ("close_write", "f")])
        self.assertEqual(noticed(lambda: os.chmod(path, 0o600)), [("attrib", "f")])
        self.assertEqual(noticed(lambda: os.setxattr(path, "user.x", b"")), [("attrib", "f")])
        self.assertEqual(noticed(lambda: os.link(path, path + "2")), [("create", "f2")])
        self.assertEqual(noticed(lambda: os.rename(path, path + "3")), [("moved_from", "f"), ("moved_to", "f3")])
        self.assertEqual(noticed(lambda: os.unlink(path + "3")), [("delete", "f3")])
        self.assertEqual(noticed(lambda: os.mkdir(path)), [("create", "f")])
        self.assertEqual(noticed(lambda: os.symlink("x", path + "4")), [("create", "f4")])
        one = notify.watch(path + "2", "delete_self", "move_self")
        in_child(lambda: os.rename(path + "2", self.mounted.path("out")))
        self.assertEqual(notify.events(), [(place, "moved_from", "f2"), (one, "move_self", "")])
        in_child(os.unlink, self.mounted.path("out"))
        self.assertIn((one, "delete_self", ""), notify.events())
        self.must("rm", "-r", folder)
        self.assertEqual([event for watch, event, _ in notify.events() if watch == place][-1], "delete_self")

    def test_sendfile_and_splice_move_data(self):
        data = os.urandom(3 * MiB + 17)
        path = self.file("source", data)
        # A file to a file, a file to a socket, a file through a pipe to a file.
        with open(path, "rb") as source, open(self.mounted.path("sent"), "wb") as target:
            sent = 0
            while count := os.sendfile(target.fileno(), source.fileno(), sent, len(data)):
                sent += count
        one, other = socket.socketpair()
        with one, other, open(path, "rb") as source:
            sender = threading.Thread(target=lambda: (one.sendfile(source), one.shutdown(socket.SHUT_WR)))
            sender.start()
            received = b"".join(iter(lambda: other.recv(1 << 16), b""))
            sender.join()
        self.assertEqual(received, data)
        reader, writer = os.pipe()
        with open(path, "rb") as source, open(self.mounted.path("spliced"), "wb") as target:
            while count := os.splice(source.fileno(), writer, 1 << 16):
                while count > 0:
                    count -= os.splice(reader, target.fileno(), count)
        os.close(reader)
        os.close(writer)
        for name in ("sent", "spliced"):
            with open(self.mounted.path(name), "rb") as file:
                self.assertEqual(file.read(), data, name)

    def test_a_mapping_is_shared_between_processes_and_with_reads_and_writes(self):
        path = self.file("f", b"\0" * 8192)
        rounds = 200
        with open(path, "r+b") as file:
            with mmap.mmap(file.fileno(), 8192) as memory:
                def answer():
                    with open(path, "r+b", buffering=0) as mine, mmap.mmap(mine.fileno(), 8192) as shared:
                        for number in range(1, rounds + 1):
                            while shared[0] != number % 256:
                                pass
                            os.pwrite(mine.fileno(), b"%07d" % number, 5000)  # a write shows in the other's mapping
                            shared[4096] = number % 256
                        return bytes(shared[:1])
                results = []
                thread = threading.Thread(target=lambda: results.append(in_child(answer)))
                thread.start()
                for number in range(1, rounds + 1):
                    memory[0] = number % 256
                    while memory[4096] != number % 256:
                        pass
                    self.assertEqual(memory[5000:5007], b"%07d" % number)
                    self.assertEqual(os.pread(file.fileno(), 1, 4096), bytes([number % 256]))
                thread.join()
                self.assertEqual(results, [bytes([rounds % 256])])
                private = mmap.mmap(file.fileno(), 8192, flags=mmap.MAP_PRIVATE)
                private[1] = 7
                self.assertEqual(memory[1], 0)
                private.close()
        self.mounted.remount()
        with open(path, "rb") as file:
            kept = file.read()
        self.assertEqual((kept[0], kept[4096], kept[5000:5007]), (rounds % 256, rounds % 256, b"%07d" % rounds))

    def test_sockets_and_fifos_connect_processes(self):
        path = self.mounted.path("socket")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            server.settimeout(PATIENCE)  # or who cannot connect is waited for

            def client():
                with socket.socket(socket.AF_UNIX) as end:
                    end.connect(path)
                    end.sendall(b"question")
                    return end.recv(100)
            results = []
            thread = threading.Thread(target=lambda: results.append(in_child(client)))
            thread.start()
            connection, _ = server.accept()
            with connection:
                connection.settimeout(PATIENCE)
                self.assertEqual(connection.recv(100), b"question")
                connection.sendall(b"answer")
            thread.join()
            self.assertEqual(results, [b"answer"])
        self.assertEqual(in_child(client), "ECONNREFUSED")  # the file is still there, its server is not
        os.unlink(path)

        path = self.mounted.path("fifo")
        os.mkfifo(path, 0o600)
        self.assertEqual(outcome(os.open, path, os.O_WRONLY | os.O_NONBLOCK), "ENXIO")
        # By one descriptor: what comes by another, between the end of the first and the reader's close, goes with the fifo's last reader.
        writer = subprocess.Popen(["sh", "-c", '{ echo one; echo two; } > "$0"', path], stdin=subprocess.DEVNULL)
        with open(path, "rb") as fifo:
            self.assertEqual(fifo.read(), b"one\ntwo\n")
        self.assertEqual(writer.wait(PATIENCE), 0)
        self.assertEqual(in_child(lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK), user=NOBODY), "EACCES")

    def test_programs_run_from_it(self):
        program = self.mounted.path("cat")
        self.must("cp", "/bin/cat", program)
        self.must("cp", "/bin/sleep", self.mounted.path("sleep"))
        self.must("cp", "/usr/bin/id", self.mounted.path("id"))
        data = self.file("data", b"contents")
        script = self.file("script", b"#!" + os.fsencode(program) + b"\nthe script\n")
        self.assertEqual(outcome(subprocess.run, [script]), "EACCES")
        os.chmod(script, 0o755)
        for _ in range(2):
            self.assertEqual(self.must(program, data), "contents")
            self.assertIn("the script", self.must(script))
            self.must(program, "/proc/self/exe")  # reads itself
            self.mounted.remount()
        # A program that runs is not written to; it may be replaced and removed.
        running = subprocess.Popen([self.mounted.path("sleep"), "3600"], stdin=subprocess.DEVNULL)
        try:
            until(lambda: os.readlink(f"/proc/{running.pid}/exe") == self.mounted.path("sleep"), "the program")
            self.assertEqual(outcome(os.open, self.mounted.path("sleep"), os.O_WRONLY), "ETXTBSY")
            self.assertEqual(outcome(os.truncate, self.mounted.path("sleep"), 0), "ETXTBSY")
            os.rename(self.mounted.path("data"), self.mounted.path("sleep"))
            self.assertIsNone(running.poll())
            self.assertEqual(self.must(program, f"/proc/{running.pid}/comm"), "sleep\n")
        finally:
            running.kill()
            running.wait()

        def said(path, *words):
            return subprocess.run([path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        # Set-user-id, set-group-id and capabilities count.
        tool = self.mounted.path("id")
        self.assertEqual(in_child(said, tool, "-u", user=NOBODY), b"65534\n")
        os.chown(tool, 1234, 5678)
        os.chmod(tool, 0o6755)
        self.assertEqual((in_child(said, tool, "-u", user=NOBODY), in_child(said, tool, "-g", user=NOBODY)), (b"1234\n", b"5678\n"))
        secret = self.file("secret", b"secret")
        os.chmod(secret, 0)
        self.assertEqual(in_child(said, program, secret, user=NOBODY), b"")
        os.setxattr(program, "security.capability", bytes.fromhex("0100000202000000000000000000000000000000"))  # cap_dac_override
        self.assertEqual(in_child(said, program, secret, user=NOBODY), b"secret")
        self.mounted.remount()
        self.assertEqual(in_child(said, program, secret, user=NOBODY), b"secret")
        # A library is mapped from it.
        with open("/proc/self/maps", encoding="utf-8") as file:
            library = next(line.split()[-1] for line in file if "/libc.so" in line)
        self.must("cp", library, self.mounted.path("libc.so"))
        self.must(sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", self.mounted.path("libc.so"))

    @harness.lsmfs_only
    def test_it_holds_no_swap(self):
        for volume in (self.mounted, self.volume(image=True)):
            if volume is not self.mounted:
                volume.mount()
            path = volume.path("swap")
            with open(path, "wb") as file:
                file.write(b"\0" * (4 * MiB))
            os.chmod(path, 0o600)
            self.must("mkswap", path)
            self.refused("swapon", path, says=["Invalid argument"])
            with open("/proc/swaps", encoding="utf-8") as file:
                self.assertNotIn(path, file.read())
            os.unlink(path)


if __name__ == "__main__":
    harness.main()
