"""Copies within the file system take no space, whatever becomes of either file, and show what the kernel has in its cache."""

import mmap
import os
import random

import harness
from harness import MiB
from until import until

SEED = 20261129
SIZE = 48 * MiB + 1234
BLOCK = 4096


@harness.lsmfs_only
class Copies(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        self.mounted = self.volume()
        self.mounted.mount()

    def free(self):
        facts = os.statvfs(self.mounted.point)
        return facts.f_bfree * facts.f_bsize

    def make(self, name, size=SIZE):
        data = self.rng.randbytes(size)
        with open(self.mounted.path(name), "wb") as file:
            file.write(data)
        return data

    def check(self, name, data):
        with open(self.mounted.path(name), "rb") as file:
            self.assertTrue(file.read() == data, name)

    def test_cp_takes_no_space(self):
        data = self.make("source")
        os.sync()
        before = self.free()
        for i in range(4):
            self.must("cp", self.mounted.path("source"), self.mounted.path(f"copy{i}"))
            self.check(f"copy{i}", data)
        os.sync()
        self.assertLess(before - self.free(), 4 * MiB)
        blocks = {os.stat(self.mounted.path(name)).st_blocks for name in os.listdir(self.mounted.point) if name.startswith(("source", "copy"))}
        self.assertEqual(len(blocks), 1)

    def test_either_side_can_change_and_go(self):
        data = self.make("source")
        before = self.free()
        self.must("cp", self.mounted.path("source"), self.mounted.path("copy"))
        wanted = {"source": bytearray(data), "copy": bytearray(data)}
        for name in list(wanted) * 50:
            at, piece = self.rng.randrange(SIZE), self.rng.randbytes(self.rng.randrange(1, 100_000))
            with open(self.mounted.path(name), "r+b") as file:
                file.seek(at)
                file.write(piece)
            wanted[name][at:at + len(piece)] = piece
        for name, contents in wanted.items():
            self.check(name, contents)
        self.mounted.remount()
        for name, contents in wanted.items():
            self.check(name, contents)
        os.unlink(self.mounted.path("source"))
        self.check("copy", wanted["copy"])
        os.unlink(self.mounted.path("copy"))
        until(lambda: self.free() > before + SIZE - 8 * MiB, "the space of both files")

    def test_a_source_that_is_open_without_a_name(self):
        data = self.make("source")
        with open(self.mounted.path("source"), "rb") as source, open(self.mounted.path("copy"), "wb") as copy:
            os.unlink(source.name)
            done = 0
            while copied := os.copy_file_range(source.fileno(), copy.fileno(), SIZE):
                done += copied
        self.assertEqual(done, SIZE)
        self.check("copy", data)

    def test_ranges(self):
        source, target = self.make("source", 8 * MiB), bytearray(self.make("target", 8 * MiB))
        with open(self.mounted.path("source"), "rb") as one, open(self.mounted.path("target"), "r+b") as two:
            for _ in range(60):
                size, at, to = self.rng.randrange(MiB), self.rng.randrange(7 * MiB), self.rng.randrange(7 * MiB)
                if self.rng.random() < 0.7:
                    size, at, to = (number // BLOCK * BLOCK for number in (size, at, to))
                while size > 0:
                    copied = os.copy_file_range(one.fileno(), two.fileno(), size, at, to)
                    target[to:to + copied] = source[at:at + copied]
                    size, at, to = size - copied, at + copied, to + copied
                self.assertTrue(os.pread(two.fileno(), 8 * MiB, 0) == target)
        self.mounted.remount()
        self.check("source", source)
        self.check("target", target)

    def test_the_kernels_pages_show_it(self):
        source, target = self.make("source", 4 * MiB), bytearray(self.make("target", 4 * MiB))
        with open(self.mounted.path("source"), "r+b") as one, open(self.mounted.path("target"), "r+b") as two:
            with mmap.mmap(one.fileno(), 0) as pages, mmap.mmap(two.fileno(), 0) as others:
                self.assertTrue(others[:] == target)
                pages[100:105] = b"12345"  # not written yet
                source = source[:100] + b"12345" + source[105:]
                self.assertEqual(os.copy_file_range(one.fileno(), two.fileno(), 2 * MiB, 0, MiB), 2 * MiB)
                target[MiB:3 * MiB] = source[:2 * MiB]
                self.assertTrue(others[:] == target)
                pages[200:205] = b"67890"
                others[300:305] = b"abcde"
        self.check("target", target[:300] + b"abcde" + target[305:])
        self.check("source", source[:200] + b"67890" + source[205:])

    def test_a_daemon_that_is_killed(self):
        data = self.make("source")
        self.must("cp", self.mounted.path("source"), self.mounted.path("copy"))
        os.unlink(self.mounted.path("source"))
        fd = os.open(self.mounted.path("copy"), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        self.mounted.kill()
        self.mounted.mount()
        self.check("copy", data)


if __name__ == "__main__":
    harness.main()
