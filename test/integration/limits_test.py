"""Sizes, names, paths, links and targets up to their limits and one beyond, before and after a remount, as on ext4."""

import os
import random
import resource
import signal

import harness
from harness import GiB, MiB, in_child, outcome

LSMFS = harness.FS == "lsmfs"
TiB = 1 << 40
BLOCK = 4096
LARGEST = 1 << 60 if LSMFS else 16 * TiB - BLOCK  # bytes of a file
LINKS = 65_000


def pieces_of(fd, size):
    """[(begin, end)] of the data in a file, by SEEK_DATA and SEEK_HOLE."""
    found, at = [], 0
    while at < size:
        begin = outcome(os.lseek, fd, at, os.SEEK_DATA)
        if begin == "ENXIO":
            break
        at = os.lseek(fd, begin, os.SEEK_HOLE)
        found.append((begin, at))
    return found


def in_blocks(pieces, size):
    """[(begin, end)]: the blocks that hold [(offset, length)], joined where they touch."""
    joined = []
    for offset, length in sorted(pieces):
        begin, end = offset // BLOCK * BLOCK, min(-(-(offset + length) // BLOCK) * BLOCK, size)
        if joined and joined[-1][1] >= begin:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


class Limits(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.mounted = self.volume(size=4 * GiB)
        self.mounted.mount()

    def path(self, *names):
        return self.mounted.path(*names)

    # ---- sizes

    def check_sparse(self, path, pieces, size):
        """`pieces`: {offset: bytes}; all else is zeros."""
        info = os.stat(path)
        self.assertEqual(info.st_size, size)
        expected = in_blocks([(offset, len(data)) for offset, data in pieces.items()], size)
        blocks = sum(-(-(end - begin) // BLOCK) for begin, end in expected) * BLOCK // 512
        self.assertGreaterEqual(info.st_blocks, blocks)
        self.assertLessEqual(info.st_blocks, blocks if LSMFS else blocks + 256)  # ext4 counts its own as well
        self.assertLess(int(self.must("du", "-k", path).split()[0]), 1024)
        fd = os.open(path, os.O_RDONLY)
        try:
            self.assertEqual(pieces_of(fd, size), expected)
            for offset, data in pieces.items():
                begin = max(0, offset - 5000)
                around = bytearray(min(len(data) + 10000, size - begin))
                for other, text in pieces.items():
                    for at in range(max(begin, other), min(begin + len(around), other + len(text))):
                        around[at - begin] = text[at - other]
                self.assertEqual(os.pread(fd, len(around), begin), bytes(around), offset)
            self.assertEqual(os.pread(fd, 100, size), b"")
            self.assertEqual(outcome(os.lseek, fd, size, os.SEEK_DATA), "ENXIO")
            self.assertEqual(outcome(os.lseek, fd, size, os.SEEK_HOLE), "ENXIO")
        finally:
            os.close(fd)

    def test_sparse_files_of_many_tebibytes(self):
        rng = random.Random(5)
        size = 16 * TiB - BLOCK
        path = self.path("sparse")
        offsets = [0, 4097, 1 << 20, (1 << 31) - 1, (1 << 32) - 2, 1 << 40, (1 << 43) + 12345, size - 12_000]
        pieces = {offset: rng.randbytes(rng.choice([1, 10, 4096, 10_000])) for offset in offsets}
        pieces[size - 12_000] = rng.randbytes(12_000)
        with open(path, "wb", buffering=0) as file:
            for offset in rng.sample(offsets, len(offsets)):
                self.assertEqual(os.pwrite(file.fileno(), pieces[offset], offset), len(pieces[offset]))
        for _ in range(2):
            self.check_sparse(path, pieces, size)
            self.mounted.remount()
        # A copy takes the data and leaves the holes.
        self.must("cp", "--sparse=auto", path, self.path("copy"))
        self.check_sparse(self.path("copy"), pieces, size)
        self.must("cmp", "--ignore-initial", str(size - 5 * MiB), path, self.path("copy"))
        # Cut within a piece, then lengthened: what was cut off is zeros.
        end = (1 << 40) + 5
        pieces[1 << 40] = b"x" * 5000
        with open(path, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), pieces[1 << 40], 1 << 40)
        os.truncate(path, end)
        pieces = {offset: data[:max(0, end - offset)] for offset, data in pieces.items() if offset < end}
        self.check_sparse(path, pieces, end)
        os.truncate(path, size)
        for _ in range(2):
            self.check_sparse(path, pieces, size)
            self.mounted.remount()
        os.truncate(path, 0)
        self.assertEqual(os.stat(path).st_blocks, 0)

    def test_the_largest_file_and_one_byte_more(self):
        path = self.path("f")
        with open(path, "w+b", buffering=0) as file:
            fd = file.fileno()
            os.truncate(fd, LARGEST)
            self.assertEqual(os.fstat(fd).st_size, LARGEST)
            for size in (LARGEST + 1, (1 << 63) - 1):
                self.assertEqual(outcome(os.truncate, path, size), "EFBIG")
                self.assertEqual(outcome(os.ftruncate, fd, size), "EFBIG")
                self.assertEqual(outcome(os.posix_fallocate, fd, size - 1, 1), "EFBIG")
            self.assertEqual(outcome(os.pwrite, fd, b"x", LARGEST), "EFBIG")
            self.assertEqual(outcome(os.pwrite, fd, b"x", (1 << 63) - 2), "EFBIG")
            # What has room is written.
            self.assertEqual(outcome(os.pwrite, fd, b"the end" * 2000, LARGEST - 7), 7)
            room = 3 * MiB // 2
            self.assertEqual(outcome(os.pwrite, fd, b"y" * (3 * MiB), LARGEST - room), room)
            self.assertEqual(os.pread(fd, 100, LARGEST - 7), b"y" * 7)
            self.assertEqual(os.fstat(fd).st_size, LARGEST)
        self.mounted.remount()
        with open(path, "rb") as file:
            self.assertEqual(pieces_of(file.fileno(), LARGEST), [(LARGEST - room, LARGEST)])
        os.unlink(path)

    def test_a_process_may_be_limited_in_the_size_of_its_files(self):
        path = self.path("f")
        limit = 10_000

        def limited(work, ignore=True):
            def run():
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN if ignore else signal.SIG_DFL)
                with open(path, "w+b", buffering=0) as file:
                    return work(file.fileno()), os.fstat(file.fileno()).st_size
            return in_child(run)
        self.assertEqual(limited(lambda fd: os.write(fd, b"x" * limit)), (limit, limit))
        self.assertEqual(limited(lambda fd: os.write(fd, b"x" * (limit + 1))), (limit, limit))  # the rest is not written
        self.assertEqual(limited(lambda fd: outcome(os.pwrite, fd, b"x", limit)), ("EFBIG", 0))
        self.assertEqual(limited(lambda fd: os.pwrite(fd, b"x", limit), ignore=False), "SIGXFSZ")
        self.assertEqual(limited(lambda fd: outcome(os.ftruncate, fd, limit)), (None, limit))
        self.assertEqual(limited(lambda fd: outcome(os.ftruncate, fd, limit + 1)), ("EFBIG", 0))
        self.assertEqual(limited(lambda fd: os.ftruncate(fd, limit + 1), ignore=False), "SIGXFSZ")
        self.assertEqual(limited(lambda fd: outcome(os.posix_fallocate, fd, 0, limit + 1)), ("EFBIG", 0))
        with open(self.path("source"), "wb") as file:
            file.write(b"s" * 3 * limit)

        def copy(fd):
            with open(self.path("source"), "rb") as source:
                return outcome(os.copy_file_range, source.fileno(), fd, 3 * limit)
        self.assertEqual(limited(copy), (limit, limit))

    # ---- names and paths

    def test_names_of_any_bytes_and_lengths(self):
        names = [bytes([byte]) for byte in range(1, 256) if byte not in b"./"]
        names += [bytes([byte, byte]) for byte in range(1, 256) if byte not in b"./"]
        names += [b".a", b"...", b". ", b" .", b"\xc3", b"\xc3\xa4", b"a\xcc\x88", b"A", "\u00e4".encode("utf-16-le").replace(b"\0", b"\1")]
        names += [b"n" * length for length in range(3, 256)] + [b"\xff" * length for length in range(3, 256)]
        names = sorted(set(names))
        folder = os.fsencode(self.path("names"))
        os.mkdir(folder)
        for number, name in enumerate(names):
            if number % 3 == 0:
                os.mkdir(os.path.join(folder, name))
                os.symlink(name, os.path.join(folder, name, b"to"))
            else:
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(name)
        for _ in range(2):
            self.assertEqual(sorted(os.listdir(folder)), names)
            for number, name in enumerate(names):
                if number % 3 == 0:
                    self.assertEqual(os.readlink(os.path.join(folder, name, b"to")), name)
                else:
                    with open(os.path.join(folder, name), "rb") as file:
                        self.assertEqual(file.read(), name)
            self.mounted.remount()
        for name in names[::2]:  # renamed, and back
            os.rename(os.path.join(folder, name), os.path.join(folder, b"between"))
            os.rename(os.path.join(folder, b"between"), os.path.join(folder, name))
        self.assertEqual(sorted(os.listdir(folder)), names)
        self.must("rm", "-rf", os.fsdecode(folder))
        self.assertFalse(os.path.lexists(folder))

    def test_a_name_of_256_bytes_is_too_long_for_every_call(self):
        good, long = self.path("good"), self.path("n" * 256)
        os.mknod(good)
        os.mkdir(self.path("d"))
        calls = [(os.stat, long), (os.mkdir, long), (os.rmdir, long), (os.mknod, long), (os.unlink, long), (os.symlink, "x", long), (os.readlink, long),
                 (os.link, good, long), (os.link, long, good), (os.rename, good, long), (os.rename, long, good), (os.open, long, os.O_CREAT | os.O_RDWR),
                 (os.truncate, long, 0), (os.chmod, long, 0o600), (os.listdir, long), (os.stat, os.path.join(long, "x")), (os.rename, self.path("d"), long)]
        for call, *arguments in calls:
            self.assertEqual(outcome(call, *arguments), "ENAMETOOLONG", call.__name__)
        self.assertEqual(os.statvfs(good).f_namemax, 255)

    def test_paths_as_long_as_the_kernel_takes_and_trees_that_are_deeper(self):
        # The path from the root that has 4095 bytes, in names of 200.
        path = self.path("p")
        os.mkdir(path)
        while len(path) + 201 < 4095 - 2:
            path += "/" + "p" * 200
            os.mkdir(path)
        path += "/" + "f" * (4095 - len(path) - 1)
        with open(path, "wb") as file:
            file.write(b"far")
        self.assertEqual(outcome(os.stat, path + "f"), "ENAMETOOLONG")
        self.mounted.remount()
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"far")

        # Step by step it goes deeper than any path can say.
        depth, name = 1000, "d" * 255
        at = os.open(self.mounted.point, os.O_PATH)
        for level in range(depth):
            os.mkdir(name, dir_fd=at)
            below = os.open(name, os.O_PATH, dir_fd=at)
            os.close(at)
            at = below
            if level == depth // 2:
                middle = os.dup(at)
        fd = os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=at)
        os.write(fd, b"deep")
        os.close(fd)
        os.link("f", "hard", src_dir_fd=at, dst_dir_fd=at)
        os.symlink("f", "soft", dir_fd=at)
        os.mkdir("d", dir_fd=at)
        os.rename("d", "e", src_dir_fd=at, dst_dir_fd=at)
        os.close(at)
        os.rename(name, self.path("moved"), src_dir_fd=middle)
        os.close(middle)
        self.mounted.remount()
        at = os.open(self.path("moved"), os.O_PATH)
        for _ in range(depth - depth // 2 - 2):
            below = os.open(name, os.O_PATH, dir_fd=at)
            os.close(at)
            at = below
        folder = os.open(".", os.O_RDONLY, dir_fd=at)
        self.assertEqual(sorted(os.listdir(folder)), ["e", "f", "hard", "soft"])
        fd = os.open("soft", os.O_RDONLY, dir_fd=folder)
        self.assertEqual((os.read(fd, 10), os.fstat(fd).st_nlink), (b"deep", 2))
        for open_file in (fd, folder, at):
            os.close(open_file)
        self.must("rm", "-rf", self.path("moved"), self.path(name), self.path("p"))
        self.assertEqual(set(os.listdir(self.mounted.point)) - {"lost+found"}, set())

    # ---- links

    def test_hard_links_up_to_65000(self):
        path = self.path("f")
        with open(path, "wb") as file:
            file.write(b"one file")
        os.mkdir(self.path("links"))
        for number in range(1, LINKS):
            os.link(path, self.path("links", str(number)))
        self.assertEqual(outcome(os.link, path, self.path("one more")), "EMLINK")
        self.assertEqual(os.stat(path).st_nlink, LINKS)
        os.rename(path, self.path("renamed"))  # makes no link
        self.mounted.remount()
        for number in (1, LINKS // 2, LINKS - 1):
            self.assertEqual(os.stat(self.path("links", str(number))).st_nlink, LINKS)
        self.assertEqual(outcome(os.link, self.path("links", "1"), self.path("one more")), "EMLINK")
        os.unlink(self.path("renamed"))
        os.link(self.path("links", "1"), self.path("one more"))
        self.must("rm", "-r", self.path("links"))
        self.assertEqual(os.stat(self.path("one more")).st_nlink, 1)
        with open(self.path("one more"), "rb") as file:
            self.assertEqual(file.read(), b"one file")

    def test_symbolic_links_up_to_4095_bytes(self):
        rng = random.Random(9)
        targets = {f"l{length}": bytes(rng.randrange(1, 256) for _ in range(length)) for length in (1, 2, 59, 60, 61, 255, 256, 1000, 4094, 4095)}
        for name, target in targets.items():
            os.symlink(target, os.fsencode(self.path(name)))
        self.assertEqual(outcome(os.symlink, "t" * 4096, self.path("long")), "ENAMETOOLONG")
        self.assertEqual(outcome(os.symlink, "", self.path("empty")), "ENOENT")
        for _ in range(2):
            for name, target in targets.items():
                self.assertEqual(os.readlink(os.fsencode(self.path(name))), target)
                self.assertEqual(os.lstat(self.path(name)).st_size, len(target))
            self.mounted.remount()
        # One that is followed, through as many as the kernel follows, and in a ring.
        os.mkdir(self.path("d"))
        os.symlink("d", self.path("s0"))
        for number in range(1, 41):
            os.symlink(f"s{number - 1}", self.path(f"s{number}"))
        self.assertTrue(os.path.isdir(self.path("s39")))
        self.assertEqual(outcome(os.stat, self.path("s40")), "ELOOP")
        os.symlink("ring", self.path("ring"))
        self.assertEqual(outcome(os.stat, self.path("ring")), "ELOOP")
        self.assertEqual(outcome(os.open, self.path("s0"), os.O_RDONLY | os.O_NOFOLLOW), "ELOOP")


if __name__ == "__main__":
    harness.main()
