"""fstrim gives the space of deleted files back to the device and takes nothing else; the label can be read and changed.
The errors are those of ext4."""

import errno
import fcntl
import hashlib
import os
import random
import re
import struct
import threading

import harness
from harness import LSMFS, MiB
from until import until

SIZE = 1024 * MiB
FITRIM = 0xC0185879           # _IOWR('X', 121, struct fstrim_range)
FS_IOC_GETFSLABEL = 0x81009431  # _IOR(0x94, 49, char[256])
FS_IOC_SETFSLABEL = 0x41009432  # _IOW(0x94, 50, char[256])
ALL = 2 ** 64 - 1
NOBODY = 65534


def ioctl(path, command, argument):
    """(0 or errno, what is in the argument afterwards)."""
    argument = bytearray(argument)
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, command, argument, True)
        return 0, bytes(argument)
    except OSError as error:
        return error.errno, bytes(argument)
    finally:
        os.close(fd)


def as_nobody(function):
    """The exit status of a child that runs `function` as an ordinary user."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            code = function()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Trim(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(5)
        self.written = {}

    def write(self, path, size):
        contents = self.rng.randbytes(size)
        with open(path, "wb") as file:
            file.write(contents)
        self.written[path] = hashlib.blake2b(contents).digest()

    def fill(self, place, files):
        os.mkdir(place)
        for number in range(files):
            self.write(os.path.join(place, f"f{number:04}"), MiB)

    def empty(self, place):
        for name in os.listdir(place):
            path = os.path.join(place, name)
            os.unlink(path)
            del self.written[path]
        os.rmdir(place)

    def check(self):
        for path, expected in self.written.items():
            with open(path, "rb") as file:
                self.assertEqual(hashlib.blake2b(file.read()).digest(), expected, path)

    def sync(self, volume):
        os.sync()
        # Newer kernels only hand sync(2) on to lsmfs, and only that of a block device.
        fd = os.open(volume.point, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def free(self, volume):
        facts = os.statvfs(volume.point)
        return facts.f_bavail * facts.f_frsize

    def on_disk(self, volume):
        return os.stat(volume.image).st_blocks * 512

    def fstrim(self, volume, *command):
        """Runs a command that trims; gives the bytes that it names."""
        said = self.must(*(command or ("fstrim", "-v", volume.point)))
        found = re.search(r"\((\d+) bytes\) trimmed", said)
        self.assertIsNotNone(found, said)
        return int(found.group(1))

    def shrinks(self, volume, *command):
        volume.mount()
        self.fill(volume.path("kept"), 30)
        self.sync(volume)
        before = self.free(volume)
        self.fill(volume.path("gone"), 150)
        self.sync(volume)
        self.empty(volume.path("gone"))
        self.assertGreaterEqual(self.free(volume), before - 10 * MiB)
        self.sync(volume)
        full = self.on_disk(volume)
        self.assertGreater(full, 150 * MiB)
        # It is free at once, but can be discarded only when the tables that hold it have been merged.
        trimmed = freed = 0

        def trim():
            nonlocal trimmed, freed
            trimmed = self.fstrim(volume, *command)
            freed = full - self.on_disk(volume)
            return freed > 120 * MiB
        until(trim, lambda: f"a file that is 120 MiB smaller, not {freed / MiB:.1f}")
        print(f"{trimmed / MiB:.0f} MiB trimmed, the file is {freed / MiB:.0f} MiB smaller")
        self.assertGreaterEqual(trimmed, 120 * MiB)
        self.assertLess(trimmed, SIZE)
        self.check()
        self.fill(volume.path("again"), 100)
        self.check()
        volume.remount()
        self.check()

    def test_fstrim_shrinks_the_file_below_a_device(self):
        self.shrinks(self.volume(SIZE))

    @harness.lsmfs_only
    def test_lsmfs_trim_shrinks_an_image(self):
        volume = self.volume(SIZE, image=True)
        self.shrinks(volume, LSMFS, "trim", volume.point)

    def test_the_weekly_fstrim_finds_it(self):
        volume = self.volume(SIZE)
        volume.mount()
        kind = self.must("findmnt", "-n", "-o", "FSTYPE", volume.point).strip()
        table = os.path.join(self.work.path, "fstab")
        with open(table, "w", encoding="ascii") as file:
            file.write(f"{volume.device} {volume.point} {kind} defaults 0 0\n")
        trimmed = self.fstrim(volume, "fstrim", "--listed-in", table, "--verbose")
        self.assertGreater(trimmed, SIZE // 2)

    def test_what_is_written_while_it_runs_is_whole(self):
        volume = self.volume(SIZE)
        volume.mount()
        self.fill(volume.path("kept"), 30)
        stop = threading.Event()
        trims = []

        def trim():
            while not stop.is_set():
                trims.append(ioctl(volume.point, FITRIM, struct.pack("QQQ", 0, ALL, 0)))

        thread = threading.Thread(target=trim)
        thread.start()
        try:
            for number in range(6):
                self.fill(volume.path(f"round{number}"), 40)
                if number % 2:
                    self.empty(volume.path(f"round{number - 1}"))
        finally:
            stop.set()
            thread.join()
        self.assertEqual({code for code, _ in trims}, {0})
        self.check()
        if harness.FS == "lsmfs":
            self.sync(volume)
            volume.kill()
            volume.mount()
        else:
            volume.remount()
        self.check()

    def test_errors_are_those_of_ext4(self):
        volume = self.volume(SIZE)
        volume.mount()
        with open(volume.path("file"), "wb"):
            pass

        def trim(start, length, least, path=volume.point):
            return ioctl(path, FITRIM, struct.pack("QQQ", start, length, least))[0]

        for path in (volume.point, volume.path("file")):
            self.assertEqual(trim(0, ALL, 0, path), 0)
        self.assertEqual(trim(4 * MiB, ALL, 4096), 0)
        self.assertEqual(trim(0, 4096, 0), 0)
        self.assertEqual(trim(SIZE, ALL, 0), errno.EINVAL)
        self.assertEqual(trim(ALL, ALL, 0), errno.EINVAL)
        self.assertEqual(trim(0, 0, 0), errno.EINVAL)
        self.assertEqual(trim(0, ALL, SIZE + 4096), errno.EINVAL)
        self.assertEqual(trim(0, ALL, ALL), errno.EINVAL)
        # Nothing of what would be refused for other reasons is looked at.
        for folder in (volume.point, volume.folder, self.work.path):
            os.chmod(folder, 0o755)
        for arguments in ((0, ALL, 0), (ALL, 0, ALL)):
            self.assertEqual(as_nobody(lambda arguments=arguments: trim(*arguments)), errno.EPERM)
        self.assertEqual(as_nobody(lambda: ioctl(volume.point, FS_IOC_SETFSLABEL, bytes(256))[0]), errno.EPERM)
        self.assertEqual(as_nobody(lambda: ioctl(volume.point, FS_IOC_GETFSLABEL, bytes(256))[0]), 0)
        self.assertEqual(ioctl(volume.point, FS_IOC_SETFSLABEL, b"x" * 256)[0], errno.EINVAL)
        volume.umount()
        if harness.FS == "lsmfs":
            volume.mount("ro")
            # Like an ext4 whose journal was not replayed: the log is read into memory only.
            self.assertEqual(trim(0, ALL, 0), errno.EROFS)
        else:
            self.must("mount", "-o", "ro", volume.device, volume.point)
        self.assertEqual(ioctl(volume.point, FS_IOC_SETFSLABEL, bytes(256))[0], errno.EROFS)
        self.assertEqual(ioctl(volume.point, FS_IOC_SETFSLABEL, b"x" * 256)[0], errno.EINVAL)

    def test_the_label_is_told_and_changed(self):
        volume = self.volume(SIZE)
        volume.mount()
        with open(volume.path("file"), "wb"):
            pass
        for label in (b"first", b"sixteen bytes 16", "größer".encode(), b""):
            self.assertEqual(ioctl(volume.point, FS_IOC_SETFSLABEL, label.ljust(256, b"\0"))[0], 0)
            for path in (volume.point, volume.path("file")):
                code, told = ioctl(path, FS_IOC_GETFSLABEL, bytes(256))
                self.assertEqual((code, told.rstrip(b"\0")), (0, label))
        ioctl(volume.point, FS_IOC_SETFSLABEL, b"last".ljust(256, b"\0"))
        volume.remount()
        self.assertEqual(ioctl(volume.point, FS_IOC_GETFSLABEL, bytes(256)), (0, b"last".ljust(256, b"\0")))
        if harness.FS == "lsmfs":
            self.assertIn("last", self.must(LSMFS, "info", volume.point))

    @harness.lsmfs_only
    def test_a_device_that_cannot_discard_says_so(self):
        volume = self.volume(200 * MiB, image=True)
        # Files of a ramfs have no holes.
        ram = self.work.sub("ram")
        self.must("mount", "-t", "ramfs", "none", ram)
        self.addCleanup(self.must, "umount", ram)
        volume.device = volume.image = os.path.join(ram, "image")
        self.must(LSMFS, "mkfs", volume.device, "--size", "200M")
        volume.mount()
        try:
            self.assertEqual(ioctl(volume.point, FITRIM, struct.pack("QQQ", 0, ALL, 0))[0], errno.EOPNOTSUPP)
            self.refused(LSMFS, "trim", volume.point, says=[volume.point, "cannot discard"])
            self.refused("fstrim", volume.point, says=["not supported"])
            self.write(volume.path("file"), MiB)
            self.check()
        finally:
            volume.umount()


if __name__ == "__main__":
    harness.main()
