"""The ways to write and read: past the cache, appending, synchronously, through mappings, and what becomes of files
that lose their name or their end meanwhile. All as on ext4 where docs/limits.md does not say otherwise."""

import concurrent.futures
import mmap
import os
import random

import harness
from harness import MiB, in_child, outcome

LSMFS = harness.FS == "lsmfs"
PAGE = 4096


def aligned(size, fill=b"\0"):
    """Memory that begins on a page, as direct I/O wants it."""
    memory = mmap.mmap(-1, size)
    memory.write((fill * -(-size // len(fill)))[:size])
    return memoryview(memory)


class Io(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.mounted = self.volume()
        self.mounted.mount()
        self.path = self.mounted.path("f")
        self.fds = []
        self.addCleanup(self.close)

    def open(self, flags, path=None):
        self.fds.append(os.open(path or self.path, flags, 0o644))
        return self.fds[-1]

    def close(self):
        while self.fds:
            os.close(self.fds.pop())

    def contents(self, path=None):
        with open(path or self.path, "rb") as file:
            return file.read()

    def test_direct_reads_and_writes_agree_with_those_through_the_cache(self):
        rng = random.Random(1)
        size = 2 * MiB
        expected = bytearray(size)
        cached, direct = self.open(os.O_RDWR | os.O_CREAT), self.open(os.O_RDWR | os.O_DIRECT)
        os.ftruncate(cached, size)
        with mmap.mmap(cached, size) as memory:
            for step in range(400):
                offset = rng.randrange(size // PAGE - 64) * PAGE
                length = rng.choice([1, 1, 2, 7, 64]) * PAGE
                data = rng.randbytes(PAGE) * (length // PAGE)
                how = rng.randrange(3)
                if how == 0:
                    self.assertEqual(os.pwrite(direct, aligned(length, data), offset), length)
                elif how == 1:
                    self.assertEqual(os.pwrite(cached, data, offset), length)
                else:
                    memory[offset:offset + length] = data
                expected[offset:offset + length] = data
                offset = rng.randrange(size // PAGE - 64) * PAGE
                into = aligned(length)
                self.assertEqual(os.preadv(direct, [into], offset), length)
                self.assertEqual(bytes(into), expected[offset:offset + length], f"direct, step {step}")
                self.assertEqual(os.pread(cached, length, offset), expected[offset:offset + length], f"cached, step {step}")
        self.assertEqual(self.contents(), expected)
        # At the end, and past it.
        into = aligned(4 * PAGE)
        self.assertEqual(os.preadv(direct, [into], size - PAGE), PAGE)
        self.assertEqual(os.preadv(direct, [into], size), 0)
        os.ftruncate(cached, size - PAGE + 10)
        self.assertEqual(os.preadv(direct, [into], size - 2 * PAGE), PAGE + 10)
        os.pwrite(direct, aligned(PAGE, b"x"), size + PAGE)  # behind a hole
        expected[size - PAGE + 10:] = bytes(2 * PAGE - 10) + b"x" * PAGE
        self.assertEqual(self.contents(), expected)
        self.close()
        self.mounted.remount()
        self.assertEqual(self.contents(), expected)

    def test_direct_io_of_odd_sizes_and_places(self):
        # ext4 refuses what is not in whole sectors. lsmfs, as FUSE, takes anything: more than it has to.
        refused = None if LSMFS else "EINVAL"
        os.pwrite(self.open(os.O_RDWR | os.O_CREAT), b"." * 3 * PAGE, 0)
        direct = self.open(os.O_RDWR | os.O_DIRECT)
        for offset, data in ((0, aligned(100, b"a")), (1, aligned(PAGE, b"b")), (PAGE - 1, aligned(PAGE)[:2]), (512 + 7, aligned(512, b"c"))):
            self.assertEqual(outcome(os.pwrite, direct, data, offset), refused or len(data))
            self.assertEqual(outcome(os.preadv, direct, [data], offset), refused or len(data))
        into = aligned(2 * PAGE)[1:PAGE + 1]  # memory at an odd place
        self.assertEqual(outcome(os.preadv, direct, [into], 0), refused or PAGE)
        expected = bytearray(b"." * 3 * PAGE)
        if LSMFS:
            expected[0:100] = b"a" * 100
            expected[1:PAGE + 1] = b"b" * PAGE
            expected[PAGE - 1:PAGE + 1] = bytes(2)
            expected[519:1031] = b"c" * 512
            self.assertEqual(bytes(into), expected[:PAGE])
        self.assertEqual(self.contents(), bytes(expected))

    def test_records_that_many_append_are_whole_and_all_there(self):
        writers, records = 4, 1500

        def append(number):
            rng = random.Random(number)
            fd = os.open(self.path, os.O_WRONLY | (0 if number == 2 else os.O_APPEND))
            for record in range(records):
                data = b"%d:%d:" % (number, record) + b"abcd"[number:number + 1] * rng.choice([0, 1, 50, 700, 5000]) + b"\n"
                if number == 1:
                    written = os.writev(fd, [data[:3], data[3:]])
                elif number == 2:
                    written = os.pwritev(fd, [data], 0, os.RWF_APPEND)  # at an offset that does not count
                else:
                    written = os.write(fd, data)
                if written != len(data):
                    return f"{written} of {len(data)} bytes written"
            return records
        self.open(os.O_CREAT)
        with concurrent.futures.ThreadPoolExecutor(writers) as pool:
            results = list(pool.map(lambda number: in_child(append, number), range(writers)))
        self.close()
        self.assertEqual(results, [records] * writers)
        for _ in range(2):
            nexts = [0] * writers
            for line in self.contents().splitlines():
                number, record, rest = line.split(b":")
                self.assertEqual(int(record), nexts[int(number)])
                self.assertIn(len(rest), (0, 1, 50, 700, 5000))
                self.assertEqual(rest.strip(b"abcd"[int(number):int(number) + 1]), b"")
                nexts[int(number)] += 1
            self.assertEqual(nexts, [records] * writers)
            self.mounted.remount()

    def test_flags_of_a_single_read_or_write(self):
        fd = self.open(os.O_RDWR | os.O_CREAT)
        self.assertEqual(os.pwritev(fd, [b"one"], 0, os.RWF_APPEND), 3)
        self.assertEqual(os.pwritev(fd, [b"two"], 0, os.RWF_APPEND | os.RWF_SYNC), 3)
        self.assertEqual(os.pwritev(fd, [b"X"], 0, os.RWF_DSYNC), 1)
        self.assertEqual(self.contents(), b"Xnetwo")
        self.assertEqual(os.lseek(fd, 0, os.SEEK_CUR), 0)
        self.assertEqual(os.pwritev(fd, [b"three"], -1, os.RWF_APPEND), 5)
        self.assertEqual(os.lseek(fd, 0, os.SEEK_CUR), 11)
        into = bytearray(11)
        self.assertEqual(os.preadv(fd, [into], 0, os.RWF_HIPRI), 11)
        # What is in memory can be read from ext4 without waiting. FUSE never says that it would not wait.
        self.assertEqual(outcome(os.preadv, fd, [into], 0, os.RWF_NOWAIT), "ENOTSUP" if LSMFS else 11)
        self.assertEqual(into, b"Xnetwothree")

    @harness.lsmfs_only
    def test_what_was_written_synchronously_survives_kill_9(self):
        def o_sync(path):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_SYNC)
            return os.write(fd, path.encode())

        def o_dsync(path):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
            return os.write(fd, path.encode())

        def rwf_dsync(path):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT)
            return os.pwritev(fd, [path.encode()], 0, os.RWF_DSYNC)

        def direct(path):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT | os.O_DSYNC)
            return os.write(fd, aligned(PAGE, path.encode() + b"\n"))

        def msync(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT)
            os.ftruncate(fd, 1000)
            with mmap.mmap(fd, 1000) as memory:
                memory[:len(path)] = path.encode()
                memory.flush()
            return 1000

        def append(path):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_SYNC)
            return sum(os.write(fd, part) for part in (path[:9].encode(), path[9:].encode()))
        for work in (o_sync, o_dsync, rwf_dsync, direct, msync, append):
            path = self.mounted.path(work.__name__)
            size = in_child(work, path)
            self.mounted.kill()
            self.mounted.mount()
            contents = self.contents(path)
            self.assertEqual((len(contents), contents[:len(path)]), (size, path.encode()), work.__name__)

    # ---- mappings

    def test_a_mapping_ends_where_its_file_ends(self):
        fd = self.open(os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"m" * 3 * PAGE, 0)

        def touch(size, offset, write):
            with mmap.mmap(fd, 3 * PAGE) as memory:
                os.ftruncate(fd, size)
                if write:
                    memory[offset] = 7
                return memory[offset]
        for write in (False, True):
            for size, offset, result in ((3 * PAGE, 3 * PAGE - 1, ord("m")), (PAGE + 1, 2 * PAGE - 1, 0), (PAGE + 1, 2 * PAGE, "SIGBUS"),
                                         (PAGE, PAGE, "SIGBUS"), (PAGE, PAGE - 1, ord("m")), (0, 0, "SIGBUS")):
                os.ftruncate(fd, 0)
                os.pwrite(fd, b"m" * 3 * PAGE, 0)
                self.assertEqual(in_child(touch, size, offset, write), 7 if write and result != "SIGBUS" else result, (size, offset, write))
                self.assertEqual(os.fstat(fd).st_size, size)
        # Writes past the end in its last page are nobody's, and are zeros when the file grows over them.
        os.pwrite(fd, b"e" * 3 * PAGE, 0)
        self.assertEqual(in_child(touch, 100, 200, True), 7)
        os.ftruncate(fd, 1000)
        self.assertEqual(self.contents(), b"e" * 100 + b"\0" * 900)
        self.close()
        self.mounted.remount()
        self.assertEqual(self.contents(), b"e" * 100 + b"\0" * 900)

    # ---- holes

    def test_what_the_kernel_has_gathered_is_no_hole(self):
        self.mounted.remount("writeback" if LSMFS else "")
        fd = self.open(os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 2 * MiB)
        os.pwrite(fd, b"x" * MiB, 0)
        self.assertEqual(os.lseek(fd, 0, os.SEEK_DATA), 0)
        self.assertGreaterEqual(os.lseek(fd, 0, os.SEEK_HOLE), MiB)
        self.assertEqual(os.lseek(fd, 4097, os.SEEK_DATA), 4097)
        self.assertEqual(outcome(os.lseek, fd, 2 * MiB, os.SEEK_DATA), "ENXIO")

    # ---- files without names

    def test_files_and_directories_live_on_without_names(self):
        fd = self.open(os.O_RDWR | os.O_CREAT)
        os.write(fd, b"data")
        os.unlink(self.path)
        self.assertEqual(os.fstat(fd).st_nlink, 0)
        os.pwrite(fd, b"more" * PAGE, 4)
        self.assertEqual(os.pread(fd, 12, 0), b"datamoremore")
        os.ftruncate(fd, 6)
        os.fchmod(fd, 0o600)
        os.setxattr(fd, "user.x", b"value")
        again = self.open(os.O_RDWR, f"/proc/self/fd/{fd}")  # the same file, opened once more
        self.assertEqual((os.read(again, 100), os.getxattr(again, "user.x")), (b"datamo", b"value"))
        # A new file of the name is another, and one that is replaced lives on as well.
        with open(self.path, "wb") as file:
            file.write(b"new")
        kept = self.open(os.O_RDONLY)
        with open(self.path + "2", "wb") as file:
            file.write(b"newer")
        os.rename(self.path + "2", self.path)
        self.assertEqual((os.read(kept, 10), os.pread(fd, 10, 0), self.contents()), (b"new", b"datamo", b"newer"))
        # A directory that is gone is empty for those who are in it.
        folder = self.mounted.path("d")
        os.mkdir(folder)
        inside = os.open(folder, os.O_RDONLY)
        self.addCleanup(os.close, inside)
        os.rmdir(folder)
        self.assertEqual(os.listdir(inside), [])
        self.assertEqual(outcome(lambda: os.mkdir("x", dir_fd=inside)), "ENOENT")
        self.assertEqual(outcome(lambda: os.stat("..", dir_fd=inside).st_ino), os.stat(self.mounted.point).st_ino)
        self.assertEqual(os.fstat(inside).st_nlink, 0)


if __name__ == "__main__":
    harness.main()
