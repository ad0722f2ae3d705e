"""lsmfs-simdisk through real mounts and loop devices: what it holds, what it counts, what it takes, and how it ends.
No test looks at a clock: the disk's own account says how long it was busy."""

import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", "..", "..", ".."))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(ROOT, "test"), os.path.join(ROOT, "test", "integration")]

import bandwidth  # noqa: E402
import harness  # noqa: E402
import loop  # noqa: E402
from bandwidth import KiB  # noqa: E402
from harness import MiB, outcome  # noqa: E402
from simdisk import Simdisk  # noqa: E402
from until import PATIENCE, until  # noqa: E402

SIMDISK = os.environ.get("LSMFS_SIMDISK", os.path.join(ROOT, "build", "release", "lsmfs-simdisk"))


BLKDISCARD, BLKZEROOUT = 0x1277, 0x127F


@contextlib.contextmanager
def direct(path, flags=os.O_RDWR):
    fd = os.open(path, flags | os.O_DIRECT)
    try:
        yield fd
    finally:
        os.close(fd)


def aligned(contents):
    """The same bytes in memory that direct I/O takes."""
    memory = mmap.mmap(-1, len(contents))
    memory.write(contents)
    return memory


def read_direct(fd, size, offset):
    with mmap.mmap(-1, size) as memory:
        assert os.preadv(fd, [memory], offset) == size
        return bytes(memory)


class Case(harness.MountCase):
    def disk(self, size, profile, *options, **more):
        disk = Simdisk(SIMDISK, self.work.sub("disk"), size, profile, *options, **more)
        self.addCleanup(self._end, disk)
        return disk

    @staticmethod
    def _end(disk):
        if disk.device is not None or disk.process.returncode is None:
            disk.close()

    def ends(self, disk):
        """The program ends by itself, leaves nothing mounted, and says nothing."""
        self.assertEqual(disk.process.wait(timeout=PATIENCE), 0)
        self.assertEqual(disk.process.communicate()[1], "")
        self.assertFalse(os.path.ismount(disk.point))


class FileSystem(Case):
    def setUp(self):
        super().setUp()
        self.point = self.work.sub("mnt")
        self.rng = random.Random(3)
        self.written = {}

    def write(self, name, size):
        contents = self.rng.randbytes(size)
        with open(os.path.join(self.point, name), "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        self.written[name] = hashlib.blake2b(contents).digest()

    def check(self):
        for name, expected in self.written.items():
            with open(os.path.join(self.point, name), "rb") as file:
                self.assertEqual(hashlib.blake2b(file.read()).digest(), expected, name)

    def mount(self, disk):
        self.must("mount", "-t", "ext4", disk.device, self.point)
        self.addCleanup(self.unmount)

    def unmount(self):
        if os.path.ismount(self.point):
            self.must("umount", self.point)

    def test_what_is_on_it_survives_changes_of_profile_and_a_new_start(self):
        disk = self.disk(256 * MiB, "none")
        self.must("mkfs.ext4", "-q", disk.device)
        self.assertGreater(disk.stats()["discards"], 0)
        self.mount(disk)
        stop = threading.Event()
        told = []

        def switch():
            while not stop.is_set():
                for profile in ("ssd-sata", "none", "cloud-volume", "hdd", "none"):
                    before = disk.stats()["writes"]
                    disk.set_profile(profile)
                    told.append((disk.read("profile"), profile + "\n"))
                    until(lambda before=before: stop.is_set() or disk.stats()["writes"] > before + 2, "writes under a profile")

        thread = threading.Thread(target=switch)
        thread.start()
        try:
            for number in range(30):
                self.write(f"f{number}", self.rng.choice((100, 5000, 300_000, 3 * MiB)))
        finally:
            stop.set()
            thread.join()
        self.assertGreater(len(told), 5)
        for profile, expected in told:
            self.assertEqual(profile, expected)
        stats = disk.stats()
        self.assertGreater(stats["written_bytes"], sum(os.path.getsize(os.path.join(self.point, n)) for n in self.written))
        self.assertGreater(stats["flushes"], 0)
        self.assertGreater(stats["busy_seconds"], 0)
        self.unmount()
        self.must("e2fsck", "-fn", disk.device)
        self.assertEqual(disk.close(), "")
        disk = self.disk(256 * MiB, "ssd-sata")
        self.mount(disk)
        self.check()

    def test_a_signal_while_it_is_in_use_lets_the_file_system_finish(self):
        disk = self.disk(64 * MiB, "ssd-sata")
        self.must("mkfs.ext4", "-q", disk.device)
        self.mount(disk)
        disk.process.send_signal(signal.SIGTERM)
        until(lambda: not os.path.ismount(disk.point), "the end of the name of a disk in use")
        self.write("late", 3 * MiB)
        self.must("umount", self.point)
        self.must("mount", "-t", "ext4", disk.device, self.point)
        self.check()
        self.must("umount", self.point)
        self.assertIsNone(disk.process.poll())
        loop.detach(disk.device)
        disk.device = None
        self.assertEqual(disk.process.wait(timeout=PATIENCE), 0)
        said = disk.process.communicate()[1]
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("in use", said)


class Requests(Case):
    # Some programs look at all devices that there are, for a label: what is exact is done again then.
    TRIES = 50

    def undisturbed(self, act):
        for _ in range(self.TRIES - 1):
            with contextlib.suppress(bandwidth.Disturbed):
                return act()
        return act()

    def counted(self, disk, size, act):
        """What act(file descriptor) returned, and the counters before and after it. It reads so many bytes."""
        def once():
            with direct(disk.device) as fd:
                before = disk.stats()
                result = act(fd)
                after = disk.stats()  # before it is closed, when udev may look at the device
            if after["read_bytes"] - before["read_bytes"] != size:
                raise bandwidth.Disturbed(f"{before} {after}")
            return result, before, after
        return self.undisturbed(once)

    def test_the_trace_and_the_counters_say_what_was_done(self):
        disk = self.disk(256 * MiB, "hdd")

        def act(fd):
            disk.write("trace", "on")
            for offset, size in ((64 * MiB, 4096), (64 * MiB + 4096, 8192), (128 * MiB, 64 * KiB), (MiB, 512)):
                read_direct(fd, size, offset)
            os.pwritev(fd, [aligned(b"x" * 4096)], 10 * MiB)
            os.fsync(fd)
            fcntl.ioctl(fd, BLKDISCARD, struct.pack("QQ", 32 * MiB, MiB))
            disk.write("trace", "off")
            read_direct(fd, 4096, 0)
            return disk.read("trace")
        trace, before, after = self.counted(disk, 4096 + 8192 + 64 * KiB + 512 + 4096, act)
        lines = [line.split() for line in trace.splitlines()]
        self.assertEqual([tuple(words[1:4]) for words in lines],
                         [(kind, str(offset), str(size)) for kind, offset, size in (
                             ("R", 64 * MiB, 4096), ("R", 64 * MiB + 4096, 8192), ("R", 128 * MiB, 64 * KiB), ("R", MiB, 512),
                             ("W", 10 * MiB, 4096), ("F", 0, 0), ("D", 32 * MiB, MiB))], trace)
        for words in lines:
            self.assertRegex(words[0], r"^\d+\.\d{9}$")
            self.assertEqual(len(words), 5)
        times = [float(words[0]) for words in lines]
        self.assertEqual(times, sorted(times))
        disk.write("trace", "on")
        self.assertEqual(disk.read("trace"), "")
        grown = {name: after[name] - before[name] for name in before if name != "profile"}
        self.assertEqual(after["profile"], "hdd")
        self.assertEqual((grown["reads"], grown["read_bytes"]), (5, 4096 + 8192 + 64 * KiB + 512 + 4096))
        self.assertEqual((grown["writes"], grown["written_bytes"]), (1, 4096))
        self.assertEqual((grown["flushes"], grown["discards"], grown["discarded_bytes"]), (1, 1, MiB))
        # Where the disk stood before is not in the trace: the first request is left out.
        service = sum(round(float(words[4]) * 1e9) for words in lines[1:])
        first = self.model("hdd", trace.split("\n")[0])["busy_seconds"]
        whole = self.model("hdd", trace)
        self.assertAlmostEqual((whole["busy_seconds"] - first) * 1e9, service, delta=2)
        self.assertEqual((whole["requests"], whole["reads"], whole["discontinuous_reads"]), (7, 4, 2))

    def model(self, profile, trace):
        done = subprocess.run([SIMDISK, "model", "--profile", profile, "--json", "-"], input=trace, stdout=subprocess.PIPE,
                              text=True, check=True)
        return json.loads(done.stdout)

    def test_random_reads_take_what_the_study_measured(self):
        counts = {"hdd": (60, 40, 30, 16, 10), "ssd-sata": (100, 100, 50, 30, 20)}
        for profile, table in bandwidth.PUBLISHED.items():
            disk = self.disk(bandwidth.DISK, profile)
            for (size, published), count in zip(table.items(), counts[profile]):
                with self.subTest(profile=profile, size=size):
                    offsets = bandwidth.places(size, count, seed=5)
                    account, _ = self.undisturbed(lambda: bandwidth.measured(disk, size, offsets))
                    self.assertAlmostEqual(account / published, 1, delta=0.15)
                    self.assertAlmostEqual(account / bandwidth.modelled(SIMDISK, profile, size, offsets), 1, delta=0.02)
            disk.close()

    def test_a_large_read_is_one_run_though_it_comes_in_pieces(self):
        disk = self.disk(512 * MiB, "hdd")

        def act(fd):
            read_direct(fd, 64 * MiB, 256 * MiB)
        with direct(disk.device) as fd:
            read_direct(fd, 4096, 0)
        _, before, after = self.counted(disk, 64 * MiB, act)
        self.assertGreaterEqual(after["reads"] - before["reads"], 64)
        self.assertEqual(after["discontinuous_reads"] - before["discontinuous_reads"], 1)

    def test_sectors_are_written_as_they_are(self):
        disk = self.disk(64 * MiB, "none")
        rng = random.Random(8)
        contents = bytearray(256 * KiB)
        with direct(disk.device) as fd:
            for _ in range(200):
                size = 512 * rng.randint(1, 40)
                offset = 512 * rng.randrange((len(contents) - size) // 512)
                contents[offset:offset + size] = rng.randbytes(size)
                os.pwritev(fd, [aligned(contents[offset:offset + size])], offset)
            self.assertEqual(read_direct(fd, len(contents), 0), contents)
            fcntl.ioctl(fd, BLKZEROOUT, struct.pack("QQ", 512 * 3, 512 * 70))
            contents[512 * 3:512 * 73] = bytes(512 * 70)
            self.assertEqual(read_direct(fd, len(contents), 0), contents)
        disk.close()
        with open(disk.backing, "rb") as file:
            self.assertEqual(file.read(len(contents)), contents)

    def test_a_place_without_direct_io_will_do(self):
        ram = os.path.join(self.work.sub("disk"), "ram")
        os.mkdir(ram)
        self.must("mount", "-t", "ramfs", "none", ram)
        self.addCleanup(self.must, "umount", ram)
        os.symlink(os.path.join(ram, "disk.img"), os.path.join(self.work.path, "disk", "disk.img"))
        disk = self.disk(16 * MiB, "ssd-sata")
        contents = random.Random(1).randbytes(3 * MiB)
        with direct(disk.device) as fd:
            os.pwritev(fd, [aligned(contents)], MiB)
            self.assertEqual(read_direct(fd, len(contents), MiB), contents)
        disk.close()


class Control(Case):
    def test_what_cannot_be_obeyed_is_refused(self):
        disk = self.disk(MiB, "hdd", attach=False)

        def put(name, text):
            fd = os.open(disk.file(name), os.O_WRONLY)
            try:
                return os.write(fd, text)
            finally:
                os.close(fd)

        for name, text in (("profile", b"floppy\n"), ("profile", b"none\nhdd\n"), ("trace", b"maybe\n"), ("stats", b"on\n")):
            self.assertEqual(outcome(put, name, text), "EINVAL", (name, text))
        self.assertEqual(put("profile", b"cloud-volume\n"), 13)
        self.assertEqual(disk.read("profile"), "cloud-volume\n")
        self.assertEqual(outcome(os.truncate, disk.file("disk"), 5), "EPERM")
        self.assertEqual(os.path.getsize(disk.file("disk")), MiB)
        with open(disk.file("disk"), "r+b", buffering=0) as file:
            file.seek(MiB - 100)
            self.assertEqual(outcome(file.write, b"x" * 101), "ENOSPC")
            self.assertEqual(file.write(b"x" * 100), 100)
            self.assertEqual(file.read(), b"")
        self.refused("fallocate", "--zero-range", "--length", 4096, disk.file("disk"), says=["not supported"])
        self.assertEqual(sorted(os.listdir(disk.point)), ["disk", "profile", "stats", "trace"])
        self.assertEqual(outcome(os.stat, disk.file("other")), "ENOENT")

    def test_it_ends_when_it_is_unmounted_and_by_signals(self):
        for end in (lambda disk: self.must("umount", disk.point), lambda disk: disk.process.send_signal(signal.SIGTERM),
                    lambda disk: disk.process.send_signal(signal.SIGINT)):
            disk = self.disk(MiB, "hdd", attach=False)
            end(disk)
            self.ends(disk)

    def test_its_mount_point_may_be_a_symbolic_link(self):
        elsewhere = self.work.sub("elsewhere")
        os.symlink(elsewhere, os.path.join(self.work.sub("disk"), "simdisk"))
        disk = self.disk(MiB, "hdd", attach=False)
        self.assertTrue(os.path.ismount(elsewhere))
        disk.process.send_signal(signal.SIGTERM)
        self.ends(disk)
        self.assertFalse(os.path.ismount(elsewhere))

    def test_what_it_was_started_to_ignore_does_not_end_it(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        disk = self.disk(MiB, "hdd", attach=False)
        with open(f"/proc/{disk.process.pid}/status", encoding="ascii") as file:
            masks = dict(re.findall(r"^Sig(\w+):\s*(\w+)$", file.read(), re.MULTILINE))
        hangup, stop = (1 << number - 1 for number in (signal.SIGHUP, signal.SIGTERM))
        self.assertEqual((int(masks["Ign"], 16) & hangup, int(masks["Blk"], 16) & (hangup | stop)), (hangup, stop))
        disk.process.send_signal(signal.SIGHUP)
        self.assertEqual(disk.stats()["profile"], "hdd")
        self.assertEqual(disk.close(), "")

    def test_errors_are_one_clear_line(self):
        folder = self.work.sub("errors")
        point, image, text, cut, two = (os.path.join(folder, name) for name in ("mnt", "disk.img", "text", "cut", "two"))
        os.mkdir(point)
        loop.make_sparse(image, MiB)
        for name, trace in ((text, "0.5 R 0 4096\n# so far so good\n0.6 X 0 4096\n"), (cut, "0.5 R 0 4096\n# truncated\n"),
                            (two, "# device /dev/a\n0.5 R 0 4096\n# device /dev/b\n0.6 R 0 4096\n")):
            with open(name, "w", encoding="ascii") as file:
                file.write(trace)
        for arguments, code, says in (
                ((), 1, ["--help"]),
                ((image,), 1, ["mount_point", "--help"]),
                ((image, point, "--profile", "floppy"), 1, ["floppy", "hdd, ssd-sata, cloud-volume, none"]),
                ((image, point, "--size", "many"), 1, ["many", "20G"]),
                ((image, point, "--size", "64K"), 32, [image, "larger"]),
                ((image, point, "--speed", "9"), 1, ["--speed", "--help"]),
                ((image, os.path.join(folder, "nowhere")), 32, ["nowhere", "does not exist"]),
                ((image, image), 32, [image, "not a directory"]),
                ((os.path.join(folder, "none"), point), 32, ["none", "--size"]),
                ((os.path.join(folder, "no", "where"), point, "--size", "1M"), 32, ["folder"]),
                ((point, point), 32, [point, "not a regular file"]),
                (("/dev/null", point), 32, ["/dev/null", "not a regular file"]),
                (("model", "--profile", "floppy", text), 1, ["floppy", "hdd"]),
                (("model", text), 1, ["--profile", "--help"]),
                (("model", "--profile", "hdd", text), 1, [text, "line 3", "R, W, F or D"]),
                (("model", "--profile", "hdd", cut), 1, [cut, "line 2", "cut off"]),
                (("model", "--profile", "hdd", two), 1, [two, "line 3", "another device"]),
                (("model", "--profile", "hdd", text + "no"), 1, [text + "no", "does not exist"])):
            with self.subTest(arguments):
                self.refused(SIMDISK, *arguments, says=["simdisk: ", *says], codes=[code])
        disk = self.disk(MiB, "hdd", attach=False)
        self.refused(SIMDISK, disk.backing, point, says=[disk.backing, "in use"], codes=[32])
        self.assertFalse(os.path.ismount(point))

    def test_help_names_the_commands(self):
        self.assertIn("--profile", self.must(SIMDISK, "--help"))
        self.assertIn("--json", self.must(SIMDISK, "model", "--help"))


if __name__ == "__main__":
    harness.main()
