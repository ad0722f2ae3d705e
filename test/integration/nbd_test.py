"""A device that a server keeps: made, mounted, checked as any other; and what becomes of it when the server or the way to it is gone for a while."""

import errno
import hashlib
import itertools
import os
import random
import signal
import statistics
import sys
import threading
import time

import harness
import loop
from harness import LSMFS, MiB
from hosts import Host
from nbd_servers import Relay, Server
from until import until

FILES = 60
TAKEOVERS = 100 if os.environ.get("LSMFS_LONG") else 1
CUTS = 1000 if os.environ.get("LSMFS_LONG") else 100


# Connections are cut before qemu alone: nbdkit 1.32 may end by an assertion when that happens while several of its threads answer.
@harness.lsmfs_only
class Nbd(harness.MountCase):
    def setUp(self):
        super().setUp()
        folder = self.work.sub("served")
        self.image, self.point, self.log = (os.path.join(folder, name) for name in ("image", "mnt", "log"))
        os.mkdir(self.point)
        loop.make_sparse(self.image, 300 * MiB)

    def umount(self):
        if os.path.ismount(self.point):
            self.must(LSMFS, "umount", self.point)

    def mount(self, source, *options):
        self.must(LSMFS, "mount", "--log", self.log, *options, source, self.point)
        self.addCleanup(self.umount)  # before its server ends

    def made(self, source):
        self.must(LSMFS, "mkfs", source)
        return source

    def path(self, *names):
        return os.path.join(self.point, *names)

    def write(self, number, durable=True):
        data = hashlib.sha512(str(number).encode()).digest() * (17 * number + 1)
        with open(self.path(f"file{number:03}"), "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        return data

    def check(self, written, source):
        """All is there, now and after the next mount, and sound."""
        for _ in range(2):
            for number, data in written.items():
                with open(self.path(f"file{number:03}"), "rb") as file:
                    self.assertEqual(file.read(), data, number)
            self.umount()
            self.assertIn("clean", self.must(LSMFS, "fsck", source))
            self.mount(source)

    def says(self, text):
        with open(self.log, encoding="utf-8") as file:
            return text in file.read()

    def lifecycle(self, words):
        server = Server(self, self.image, words)
        source = self.made(server.source)
        self.assertIn("lease:       on", self.must(LSMFS, "info", source))
        self.mount(source)
        self.assertEqual(self.must("findmnt", "--noheadings", "--output", "SOURCE", self.point).strip(), source)
        self.assertIn(source, self.must(LSMFS, "info", source))
        written = {number: self.write(number) for number in range(FILES)}
        self.check(written, source)
        self.must(LSMFS, "tune", "--label", "served", source)
        self.must(LSMFS, "trim", self.point)
        self.umount()
        self.assertIn("served", self.must(LSMFS, "info", source))
        server.stop()
        # It is the same volume without a server.
        self.assertIn("clean", self.must(LSMFS, "fsck", self.image))

    def test_of_nbdkit_by_a_socket(self):
        self.lifecycle(Server.NBDKIT)

    def test_of_nbdkit_by_tcp(self):
        self.lifecycle(Server.NBDKIT_TCP)

    def test_of_qemu(self):
        self.lifecycle(Server.QEMU)

    def test_a_server_that_is_killed_and_started_again_is_waited_for(self):
        for words in (Server.NBDKIT, Server.QEMU):
            with self.subTest(words[0]):
                server = Server(self, self.image, words)
                self.must(LSMFS, "mkfs", "-f", server.source)
                self.mount(server.source)
                written = {}
                for number in range(FILES):
                    written[number] = self.write(number, durable=number % 3 == 0)
                    if number % 20 == 10:
                        server.stop()
                        server.start()
                self.check(written, server.source)
                self.assertTrue(self.says("there is a connection again"))
                self.umount()
                server.stop()

    def test_connections_that_are_cut_anywhere_lose_nothing(self):
        relay = Relay(self, Server(self, self.image, Server.QEMU), harness.SEED)
        source = self.made(relay.source)
        self.mount(source)
        relay.cut(CUTS, 300000)
        written = {}
        for number in itertools.count():
            written[number % FILES] = self.write(number % FILES, durable=number % 2 == 0)
            if relay.cuts == 0:
                break
        self.check(written, source)

    def test_a_host_that_is_gone_is_replaced_and_writes_nothing_any_more(self):
        """Two hosts on one server, each by a way of its own. The one that writes is cut off, stopped or killed, while something is to be written; the other takes over."""
        server = Server(self, self.image, Server.QEMU)
        self.made(server.source)
        self.relays, hosts = {}, []
        for name in ("alpha", "beta"):
            self.relays[name] = Relay(self, server, harness.SEED, name)
            hosts.append(Host(self, name, self.relays[name].source))
        holder, other = hosts
        holder.mounts()
        draw, seconds = random.Random(harness.SEED), {}
        for number in range(TAKEOVERS):
            way = draw.choice(sorted(self.WAYS)) if TAKEOVERS > 1 else "cut off"
            with self.subTest(f"takeover {number}: {holder.name} is {way}"):
                seconds.setdefault(way, []).append(self.takeover(holder, other, self.WAYS[way], f"{number} of {holder.name}"))
            holder, other = other, holder
        holder.umount()
        self.assertIn("clean", holder.must(LSMFS, "fsck", holder.device))
        for way, times in sorted(seconds.items()):
            print(f"{len(times)} hosts {way}: replaced after {statistics.median(times):.1f} s, at most {max(times):.1f} s", file=sys.stderr)

    # How a host goes, and how it is there again.
    WAYS = {"cut off": (lambda self, host: self.relays[host.name].go_away(), lambda self, host: self.relays[host.name].come_back()),
            "stopped": (lambda self, host: host.signal(signal.SIGSTOP), lambda self, host: host.signal(signal.SIGCONT)),
            "killed": (lambda self, host: host.signal(signal.SIGKILL), lambda self, host: None)}

    def takeover(self, holder, other, way, text):
        """Returns for how many seconds nobody could write."""
        goes, comes = way
        self.assertEqual(holder.write(text).returncode, 0)
        goes(self, holder)
        gone, late = time.monotonic(), []
        writer = threading.Thread(target=lambda: late.append(holder.write("late")))
        writer.start()
        self.assertIn(f"host {holder.name} does not renew its lease any more, so it is taken over", other.mounts())
        self.assertEqual(other.read(), text)
        self.assertEqual(other.write("after " + text).returncode, 0)
        seconds = time.monotonic() - gone
        comes(self, holder)
        writer.join()
        self.assertNotEqual(late[0].returncode, 0)
        if way is self.WAYS["cut off"]:
            self.assertIn("another host has taken its lease meanwhile", holder.log())
        holder.call("umount", "-l", holder.point)
        until(lambda: not holder.daemons(), "the end of the daemon that has lost it")
        for _ in range(2):
            self.assertEqual(other.read(), "after " + text)
            other.umount()
            self.assertIn("clean", other.must(LSMFS, "fsck", other.device))
            other.mounts()
        return seconds

    def test_a_server_that_stays_away_stops_it_and_what_was_synced_is_there_later(self):
        server = Server(self, self.image)
        source = self.made(server.source)
        self.mount(source, "-o", "timeout=1")
        written = {number: self.write(number) for number in range(3)}
        server.stop()
        with self.assertRaises(OSError) as refused:
            self.write(7)
        self.assertIn(refused.exception.errno, (errno.EIO, errno.ETIMEDOUT, errno.EROFS))
        self.assertTrue(self.says("nothing was answered for 1 seconds"))
        self.must("umount", self.point)
        server.start()
        self.must(LSMFS, "fsck", "-y", source)
        self.mount(source)
        self.check(written, source)

    def test_one_process_of_a_host_at_a_time(self):
        server = Server(self, self.image)
        source = self.made(server.source)
        self.mount(source)
        other = source.replace("///", "///other")  # nbdkit serves one device by any name
        second = self.work.sub("second")
        self.refused(LSMFS, "mount", other, second, says=["is mounted already", "unmount that first"], codes=[32])
        self.refused(LSMFS, "mount", source, self.point, says=["is mounted here already"], codes=[32])
        for name in (source, other):
            self.refused(LSMFS, "fsck", name, says=[name, "is in use by another lsmfs of this host"], codes=[8])
            self.refused(LSMFS, "mkfs", "-f", name, says=[name, "is in use by another lsmfs of this host"], codes=[1])
        self.refused(LSMFS, "tune", "--uuid", "random", source, says=["is mounted, and only its label can change"], codes=[1])

    def test_what_is_wrong_is_said_in_a_line(self):
        server = Server(self, self.image)
        self.refused(LSMFS, "info", server.source, says=["is not lsmfs: it is empty; make one with lsmfs mkfs"], codes=[1])
        self.must("mkfs.ext4", "-q", self.image)
        self.refused(LSMFS, "mkfs", server.source, says=["holds ext4; -f destroys it"], codes=[1])
        self.refused(LSMFS, "mount", server.source, self.point, says=["is not lsmfs: it holds ext4"], codes=[32])
        self.refused(LSMFS, "mkfs", "--size", "1G", server.source, says=["--size is for images"], codes=[2, 1])
        for source, why in (("nbd://127.0.0.1:1/x", "Connection refused"), (f"nbd+unix:///x?socket={self.image}-none", "does not exist"),
                            ("nbd://", "names no host"), ("nbd+unix:///x", "names no socket"), ("nbd+unix://host/x?socket=/s", "a socket has none"),
                            ("nbd://host:x/", "port that is no number"), ("nbd://host/%zz", "hexadecimal"), ("nbds://host/x", "TLS is not spoken here"),
                            ("nbd://host/x?socket=/s", "parameter that is not known"), ("nbd+unix:///x?socket=/" + "s" * 200, "a path of more than 107 bytes")):
            for command in (["info", source], ["mkfs", source], ["fsck", source], ["mount", source, self.point], ["resize", source, "1G"]):
                self.refused(LSMFS, *command, says=[source, why])
        server.stop(signal.SIGTERM)
        self.assertEqual(self.must(LSMFS, "mount", "-o", "nofail", server.source, self.point), "")
        self.assertFalse(os.path.ismount(self.point))
        server = Server(self, self.image, Server.NBDKIT[:3] + ("--readonly",) + Server.NBDKIT[3:])
        self.refused(LSMFS, "mkfs", "-f", server.source, says=["is read-only"])


if __name__ == "__main__":
    harness.main()
