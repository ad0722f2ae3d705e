"""Times, owners and permission bits, before and after a remount, as on ext4."""

import os
import stat
import time

import harness
import syscalls
from harness import in_child
from until import until_later

LSMFS = harness.FS == "lsmfs"
NANO = 1_000_000_000
# ext4 keeps times from 1901 to 2446.
FIRST, LAST = -(1 << 31), (1 << 34) - (1 << 31) - 1
ONE, OTHER = 1234, 1235  # users, each with a group of the same number


class Attributes(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.mounted = self.volume()
        self.mounted.mount()
        os.chmod(self.mounted.point, 0o777)

    def path(self, *names):
        return self.mounted.path(*names)

    def file(self, *names, mode=0o644, owner=0):
        # What is another's in a sticky directory not even root may open with O_CREAT, where fs.protected_regular is set.
        os.close(os.open(self.path(*names), os.O_WRONLY | (0 if os.path.exists(self.path(*names)) else os.O_CREAT)))
        os.chown(self.path(*names), owner, owner)
        os.chmod(self.path(*names), mode)
        return self.path(*names)

    def test_times_from_1901_to_2446_to_the_nanosecond(self):
        seconds = [FIRST + 1, -1_000_000_000, -1, 0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 10_000_000_000, LAST - 1]
        times = {}
        for number, second in enumerate(seconds):
            for nanosecond in (0, 1, 123_456_789, NANO - 1):
                for kind in ("file", "folder", "link"):
                    path = self.path(f"{kind}{number}-{nanosecond}")
                    {"file": os.mknod, "folder": os.mkdir, "link": lambda path: os.symlink("x", path)}[kind](path)
                    times[path] = (second * NANO + nanosecond, seconds[-1 - number] * NANO + NANO - 1 - nanosecond)
        for path, both in times.items():
            os.utime(path, ns=both, follow_symlinks=False)
        for _ in range(2):
            for path, both in times.items():
                info = os.lstat(path)
                self.assertEqual((info.st_atime_ns, info.st_mtime_ns), both)
                self.assertLess(abs(info.st_ctime_ns - time.time_ns()), 3600 * NANO)
            self.mounted.remount()
        # What lies beyond is kept here, where ext4 has the last that it knows.
        path = self.file("beyond")
        for second, known in ((FIRST - 1, FIRST), (-60_000_000_000, FIRST), (LAST + 1, LAST), (100_000_000_000, LAST)):
            os.utime(path, ns=(second * NANO + 5, second * NANO + 7))
            for _ in range(2):
                expected = (second * NANO + 5, second * NANO + 7) if LSMFS else (known * NANO, known * NANO)
                info = os.stat(path)
                self.assertEqual((info.st_atime_ns, info.st_mtime_ns), expected)
                self.mounted.remount()

    def test_the_time_of_birth_stays(self):
        before = time.time_ns()
        until_later()
        path = self.file("f")
        born = syscalls.birth_time(path)
        if born is None:
            self.assertLess([int(part) for part in os.uname().release.split(".")[:2]], [6, 6], "this kernel asks FUSE for the time of birth")
            self.skipTest("the kernel asks no FUSE daemon for the time of birth (before 6.6)")
        self.assertTrue(before <= born <= time.time_ns())
        os.mkdir(self.path("d"))
        of_folder = syscalls.birth_time(self.path("d"))
        with open(path, "wb") as file:
            file.write(b"data")
        os.utime(path, ns=(0, 0))
        os.chmod(path, 0o600)
        os.rename(path, self.path("d", "g"))
        os.link(self.path("d", "g"), self.path("h"))
        self.file("d", "new")
        for _ in range(2):
            for name in (("d", "g"), ("h",)):
                self.assertEqual(syscalls.birth_time(self.path(*name)), born)
            self.assertEqual(syscalls.birth_time(self.path("d")), of_folder)
            self.mounted.remount()
        os.unlink(self.path("d", "g"))
        os.rename(self.path("h"), self.path("f"))
        self.assertEqual(syscalls.birth_time(self.path("f")), born)
        until_later()
        self.must("cp", "-a", path, self.path("copy"))
        self.assertGreater(syscalls.birth_time(self.path("copy")), born)

    def test_set_group_id_directories_give_their_group_on(self):
        shared = self.path("shared")
        os.mkdir(shared)
        os.chown(shared, ONE, OTHER)
        os.chmod(shared, 0o2777)

        def make():
            os.umask(0)
            os.mkdir(self.path("shared", "d"), 0o755)
            os.close(os.open(self.path("shared", "f"), os.O_CREAT | os.O_WRONLY, 0o644))
            os.close(os.open(self.path("shared", "program"), os.O_CREAT | os.O_WRONLY, 0o2755))  # not a member of the group
            os.close(os.open(self.path("shared", "locked"), os.O_CREAT | os.O_WRONLY, 0o2644))
            os.symlink("x", self.path("shared", "l"))
            os.mkfifo(self.path("shared", "p"), 0o600)
            os.mkdir(self.path("shared", "d", "below"), 0o700)
            os.mkdir(self.path("own"), 0o755)
            os.rename(self.path("own"), self.path("shared", "moved"))  # keeps what it has
            fd = os.open(shared, os.O_TMPFILE | os.O_RDWR, 0o600)
            return os.fstat(fd).st_gid
        self.assertEqual(in_child(make, user=ONE), OTHER)
        for _ in range(2):
            found = {name: (oct(os.lstat(self.path("shared", name)).st_mode & 0o7777), os.lstat(self.path("shared", name)).st_gid)
                     for name in ("d", "f", "program", "locked", "l", "p", "d/below", "moved")}
            self.assertEqual(found, {
                "d": ("0o2755", OTHER), "f": ("0o644", OTHER), "program": ("0o755", OTHER), "locked": ("0o2644", OTHER), "l": ("0o777", OTHER),
                "p": ("0o600", OTHER), "d/below": ("0o2700", OTHER), "moved": ("0o755", ONE)})
            self.mounted.remount()
        # Who is not of a file's group cannot have it run as that group.
        self.assertEqual(in_child(os.chmod, self.path("shared", "program"), 0o2755, user=ONE), None)
        self.assertEqual(os.stat(self.path("shared", "program")).st_mode & 0o7777, 0o755)

    def test_the_sticky_bit_protects_what_is_others(self):
        os.mkdir(self.path("tmp"))
        os.chmod(self.path("tmp"), 0o1777)
        os.mkdir(self.path("plain"))
        os.chmod(self.path("plain"), 0o777)
        for _ in range(2):
            for name in ("tmp", "plain"):
                self.file(name, "ones", mode=0o666, owner=ONE)
                self.file(name, "others", owner=OTHER)
                os.mkdir(self.path(name, "folder"))
                os.chown(self.path(name, "folder"), ONE, ONE)
            refused = {"tmp": "EPERM", "plain": None}
            for name, expected in refused.items():
                ones, others, folder = (self.path(name, entry) for entry in ("ones", "others", "folder"))
                self.assertEqual(in_child(os.rename, ones, others, user=OTHER), expected)
                self.assertEqual(in_child(os.rename, folder, others + "2", user=OTHER), expected)
                self.file(name, "ones", mode=0o666, owner=ONE)
                self.assertEqual(in_child(os.unlink, ones, user=OTHER), expected)
                self.assertEqual(in_child(lambda: os.close(os.open(self.path(name, "mine"), os.O_CREAT | os.O_WRONLY)), user=OTHER), None)
                self.assertEqual(in_child(os.unlink, self.path(name, "mine"), user=OTHER), None)
            # The owner of the directory may.
            os.chown(self.path("tmp"), OTHER, OTHER)
            self.assertEqual(in_child(os.unlink, self.path("tmp", "ones"), user=OTHER), None)
            os.chown(self.path("tmp"), 0, 0)
            self.must("sh", "-c", "rm -rf tmp/* plain/*", cwd=self.mounted.point)
            self.mounted.remount()

    def test_the_umask_takes_bits_from_everything_that_is_made(self):
        def make(umask):
            os.umask(umask)
            folder = self.path(f"{umask:o}")
            os.mkdir(folder, 0o7777)
            os.close(os.open(os.path.join(folder, "f"), os.O_CREAT | os.O_WRONLY, 0o7777))
            os.mkfifo(os.path.join(folder, "p"), 0o777)
            os.mknod(os.path.join(folder, "n"), stat.S_IFREG | 0o666)
            os.symlink("x", os.path.join(folder, "l"))
            os.close(os.open(os.path.join(folder, "f"), os.O_CREAT | os.O_WRONLY, 0))  # is there: keeps its mode
            return [oct(os.lstat(os.path.join(folder, name)).st_mode & 0o7777) for name in (".", "f", "p", "n", "l")]
        self.assertEqual(in_child(make, 0, user=ONE), ["0o1777", "0o7777", "0o777", "0o666", "0o777"])
        self.assertEqual(in_child(make, 0o022, user=ONE), ["0o1755", "0o7755", "0o755", "0o644", "0o777"])
        self.assertEqual(in_child(make, 0o077, user=ONE), ["0o1700", "0o7700", "0o700", "0o600", "0o777"])

    def test_who_is_neither_owner_nor_root_changes_nothing(self):
        path = self.file("f", mode=0o666, owner=ONE)
        os.utime(path, (1, 1))
        for work, result in ((lambda: os.chmod(path, 0o777), "EPERM"), (lambda: os.chown(path, OTHER, -1), "EPERM"), (lambda: os.utime(path, (5, 5)), "EPERM"),
                             (lambda: os.utime(path), None), (lambda: os.truncate(path, 0), None), (lambda: os.setxattr(path, "user.x", b""), None),
                             (lambda: os.setxattr(path, "trusted.x", b""), "EPERM"), (lambda: os.setxattr(path, "security.x", b""), "EPERM"),
                             (lambda: os.open(path, os.O_RDONLY | os.O_NOATIME), "EPERM")):
            self.assertEqual(in_child(work, user=OTHER), result)
        self.assertEqual(in_child(os.chown, path, OTHER, -1, user=ONE), "EPERM")  # not even one's own to another
        self.assertEqual(in_child(os.chown, path, -1, OTHER, user=ONE), "EPERM")
        self.assertEqual(in_child(os.chown, path, -1, ONE, user=ONE), None)


if __name__ == "__main__":
    harness.main()
