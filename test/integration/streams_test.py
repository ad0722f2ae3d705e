"""Large files that are written in order, which lie in blobs: writes of any size, ends of space and of limits, and memory."""

import json
import mmap
import os
import random
import resource
import signal
import threading

import harness
import memory_test
from harness import GiB, LSMFS, MiB, in_child, outcome

SEED = 20261128


@harness.lsmfs_only
class Streams(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)

    def stream_bytes(self, volume):
        """What lies in blobs. While it is mounted, blobs that are being written count whole, as much as they may take."""
        return json.loads(self.must(LSMFS, "info", "--json", volume.point))["blobs"]["bytes"]

    def contents(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_writes_of_any_size_in_order(self):
        volume = self.volume()
        volume.mount()
        for flags in (0, os.O_DIRECT, os.O_APPEND, os.O_DSYNC):
            with self.subTest(flags):
                path, wanted = volume.path(str(flags)), bytearray()
                fd = os.open(path, os.O_CREAT | os.O_RDWR | flags, 0o644)
                while len(wanted) < 24 * MiB:
                    data = self.rng.randbytes(self.rng.choice((1, 511, 4095, 4096, 4097, 65_536, 123_457, MiB, 2 * MiB + 1)))
                    if flags == os.O_DIRECT:  # from memory that is as aligned as a program's may be asked to be
                        aligned = mmap.mmap(-1, len(data))
                        aligned.write(data)
                        data = aligned
                    self.assertEqual(os.pwrite(fd, data, len(wanted)), len(data))
                    wanted += data[:]
                for _ in range(200):  # while its end is still in memory
                    at, size = self.rng.randrange(len(wanted)), self.rng.randrange(1, 200_000)
                    self.assertEqual(os.pread(fd, size, at), wanted[at:at + size])
                os.close(fd)
        before = {name: self.contents(volume.path(name)) for name in os.listdir(volume.point)}
        self.assertEqual({len(data) >= 24 * MiB for data in before.values()}, {True})
        volume.remount()
        self.assertGreater(self.stream_bytes(volume), 4 * 10 * MiB)
        for name, data in before.items():
            self.assertTrue(self.contents(volume.path(name)) == data, name)

    def test_a_mapping_shows_it_and_changes_it(self):
        volume = self.volume()
        volume.mount()
        data = bytearray(self.rng.randbytes(16 * MiB))
        with open(volume.path("file"), "wb") as file:
            file.write(data)
        volume.remount()
        with open(volume.path("file"), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            for _ in range(100):
                at = self.rng.randrange(len(data) - 5000)
                self.assertEqual(mapped[at:at + 5000], data[at:at + 5000])
                data[at:at + 3] = mapped[at:at + 3] = self.rng.randbytes(3)
        volume.remount()
        self.assertTrue(self.contents(volume.path("file")) == data)

    def test_a_full_disk_in_its_middle_leaves_a_prefix(self):
        volume = self.volume(GiB)
        volume.mount()
        empty = os.statvfs(volume.point)
        piece = self.rng.randbytes(MiB + 4097)
        for name in ("first", "again"):
            written = 0
            fd = os.open(volume.path(name), os.O_CREAT | os.O_RDWR, 0o644)
            while True:
                part = piece[written % len(piece):]
                got = outcome(os.write, fd, part)
                if not isinstance(got, int):
                    break
                written += got
            self.assertEqual(got, "ENOSPC")
            self.assertGreater(written, empty.f_bavail * empty.f_frsize * 9 // 10)
            self.assertEqual(os.fstat(fd).st_size, written)
            os.fsync(fd)
            os.close(fd)
            volume.remount()
            self.assertGreater(self.stream_bytes(volume), written // 2)
            with open(volume.path(name), "rb") as file:
                at = 0
                while at < written:
                    part = file.read(len(piece))
                    self.assertTrue(part == piece[:min(len(piece), written - at)], f"at {at}")
                    at += len(part)
                self.assertEqual(file.read(1), b"")
            os.unlink(volume.path(name))

    def test_a_limit_in_its_middle_leaves_a_prefix(self):
        volume = self.volume()
        volume.mount()
        limit = 20 * MiB + 12_345
        piece = self.rng.randbytes(MiB)

        def write():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            with open(volume.path("file"), "wb", buffering=0) as file:
                while True:
                    file.write(piece)

        self.assertEqual(in_child(write), "EFBIG")
        self.assertEqual(os.stat(volume.path("file")).st_size, limit)
        volume.remount()
        self.assertTrue(self.contents(volume.path("file")) == (piece * 21)[:limit])

    def test_eight_at_a_time_take_no_more_memory_than_other_files(self):
        volume = self.volume(4 * GiB)
        volume.mount(f"cache={memory_test.CACHE}")
        data = self.rng.randbytes(48 * MiB)
        compressible = b"".join(self.rng.randbytes(3000) + bytes(1096) for _ in range(48 * MiB // 4096))

        def write(number):
            with open(volume.path(str(number)), "wb") as file:
                file.write(compressible if number % 2 else data)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        harness.caches.drop()
        for number in range(8):
            self.assertTrue(self.contents(volume.path(str(number))) == (compressible if number % 2 else data), number)
        peak = memory_test.status(volume, "VmHWM")
        print(f"{peak / MiB:.0f} MiB at most")
        self.assertLess(peak, memory_test.CACHE + memory_test.BESIDE)
        volume.remount()
        self.assertGreater(self.stream_bytes(volume), 8 * 24 * MiB)


if __name__ == "__main__":
    harness.main()
