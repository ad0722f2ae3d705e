"""lsmfs rm -r: a directory goes with all that lies below it, at once for who looks, and in the background for what takes space."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading

import harness
import trees
from harness import LSMFS, MiB, call, outcome
from trees import NOBODY, names
from until import until

# A process that works in a directory: it says each time it is asked what getcwd(3) gives.
WORKER = """
import os, sys
for line in sys.stdin:
    try:
        print(os.getcwd(), flush=True)
    except OSError as error:
        print(os.strerror(error.errno), flush=True)
"""


def fill(folder, files, size=3000):
    """Some directories with files, down to three levels."""
    for number in range(files):
        below = os.path.join(folder, f"d{number % 7}", f"e{number % 11}")
        os.makedirs(below, exist_ok=True)
        with open(os.path.join(below, f"f{number}"), "wb") as file:
            file.write(os.urandom(size))


class Rm(trees.TreeCase):
    def rm(self, *directories):
        self.assertEqual(self.must(LSMFS, "rm", "-r", *directories), "")

    def not_removed(self, path, *says, code=1):
        """It is refused, with one line that says so, and nothing has changed."""
        before = names(self.lsmfs.point)
        self.refused(LSMFS, "rm", "-r", path, says=says, codes=[code])
        self.assertEqual(names(self.lsmfs.point), before)

    def inodes(self):
        facts = os.statvfs(self.lsmfs.point)
        return facts.f_files - facts.f_ffree

    def until_freed(self, inodes):
        until(lambda: self.inodes() == inodes, lambda: f"{self.inodes()} inodes, and not {inodes}")
        self.assertNotIn("removed:", self.must(LSMFS, "info", self.lsmfs.point))


class Removal(Rm):
    def test_a_tree_is_gone_at_once_and_its_space_comes_back(self):
        before, space = self.inodes(), os.statvfs(self.lsmfs.point).f_bfree
        fill(self.path("d"), 3000)
        self.make("d/large", os.urandom(20 * MiB))
        os.sync()
        self.lsmfs.remount()
        for cached in (False, True):  # what the kernel knows all of, and what it knows nothing of
            with self.subTest(cached):
                fill(self.path("d"), 100)
                if cached:
                    names(self.path("d"))
                self.rm(self.path("d"))
                self.assertEqual(os.listdir(self.lsmfs.point), [])
                self.assertEqual(outcome(os.stat, self.path("d", "d0", "e0", "f0")), "ENOENT")
                self.make("d/other")
                self.assertEqual(names(self.lsmfs.point), [self.path("d"), self.path("d", "other")])
                self.until_freed(before + 2)
                self.assertEqual(os.listdir(self.path("d")), ["other"])
        os.sync()
        until(lambda: os.statvfs(self.lsmfs.point).f_bfree > space - 2 * MiB // 4096, "the space to come back")

    def test_several_are_removed_and_those_that_cannot_be_are_named(self):
        for name in ("a/x", "b/x", "c/x", "file"):
            self.make(name)
        done = call(LSMFS, "rm", "--recursive", self.path("a") + "/", self.path("file"), self.path("missing"), self.path("c"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual([line.split(":")[1].strip() for line in done.stderr.splitlines()], [self.path("file"), self.path("missing")])
        self.assertEqual(sorted(os.listdir(self.lsmfs.point)), ["b", "file"])
        done = call(LSMFS, "rm", "-R", "b", cwd=self.lsmfs.point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(os.listdir(self.lsmfs.point), ["file"])

    def test_what_is_in_use_is_as_after_rm_rf(self):
        fill(self.path("d"), 500)
        self.make("d/a/b/file", b"contents")
        self.make("d/a/b/c/deep", b"contents")
        files = [os.open(self.path(name), os.O_RDWR) for name in ("d/a/b/file", "d/a/b/c/deep")]
        folders = [os.open(self.path(name), os.O_RDONLY) for name in ("d", "d/a/b", "d/a/b/c")]
        for folder in folders:
            self.assertNotEqual(os.listdir(folder), [])  # which the kernel caches
        workers = [subprocess.Popen([sys.executable, "-c", WORKER], cwd=self.path(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                   for name in ("d", "d/a/b/c")]

        def where(worker):
            worker.stdin.write("where\n")
            worker.stdin.flush()
            return worker.stdout.readline().strip()

        self.assertEqual([where(worker) for worker in workers], [self.path("d"), self.path("d/a/b/c")])
        self.rm(self.path("d"))
        for folder in folders:
            self.assertEqual(outcome(lambda at: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=at), folder), "ENOENT")
            self.assertEqual(outcome(lambda at: os.mkdir("new", dir_fd=at), folder), "ENOENT")
        self.assertEqual(os.listdir(folders[0]), [])
        for file in files:
            self.assertEqual(os.pread(file, 100, 0), b"contents")
            os.pwrite(file, b"CON", 0)
        for file in files:
            until(lambda at=file: os.fstat(at).st_nlink == 0, "the last name of an open file to go")
            self.assertTrue(os.readlink(f"/proc/self/fd/{file}").endswith(" (deleted)"))
            self.assertEqual(os.pread(file, 100, 0), b"CONtents")
            os.ftruncate(file, 3)
            os.fsync(file)
        for folder in folders:
            until(lambda at=folder: os.fstat(at).st_nlink == 0, "the last name of an open directory to go")
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(outcome(lambda: os.open("file", os.O_RDONLY, dir_fd=folders[1])), "ENOENT")
        for worker in workers:
            until(lambda of=worker: where(of) == os.strerror(errno.ENOENT), "getcwd to say that the directory is gone")
            worker.stdin.close()
            worker.stdout.close()
            worker.wait()
        for fd in files + folders:
            os.close(fd)
        self.until_freed(1)

    def test_other_names_of_a_file_keep_it(self):
        self.make("d/a/file", b"contents")
        os.link(self.path("d/a/file"), self.path("outside"))
        os.link(self.path("d/a/file"), self.path("d/inside"))
        self.assertEqual(os.stat(self.path("outside")).st_nlink, 3)
        self.rm(self.path("d"))
        until(lambda: os.stat(self.path("outside")).st_nlink == 1, "the names below to go")
        self.lsmfs.remount()
        with open(self.path("outside"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        self.until_freed(2)

    def test_what_is_no_directory_of_an_lsmfs_is_refused(self):
        self.make("d/file")
        os.symlink("d", self.path("link"))
        self.not_removed(self.path("d/file"), "not a directory", "use rm")
        self.not_removed(self.path("link"), "not a directory")
        self.not_removed(self.path("link") + "/", "not a directory")
        self.not_removed(self.path("d/."), "name the directory")
        self.not_removed(self.path("d/.."), "name the directory")
        self.not_removed(self.path("missing"), "missing", "does not exist")
        self.not_removed(self.lsmfs.point, self.lsmfs.point, "mounted there")
        elsewhere = self.work.sub("elsewhere")
        self.not_removed(elsewhere, elsewhere, "not in an lsmfs")
        self.assertTrue(os.path.isdir(elsewhere))
        self.refused(LSMFS, "rm", self.path("d"), says=["-r"], codes=[1])
        self.lsmfs.umount()
        self.lsmfs.mount("ro")
        self.not_removed(self.path("d"), "read-only")

    def test_where_something_is_mounted_it_is_refused(self):
        self.make("d/a/b/file")
        self.make("other/file")
        mounts = contextlib.ExitStack()
        self.addCleanup(mounts.close)

        def mount(*words):
            self.must("mount", *words)
            mounts.callback(self.must, "umount", words[-1])

        mount("-t", "tmpfs", "tmpfs", self.path("d/a/b"))
        for name in ("d", "d/a"):
            self.not_removed(self.path(name), self.path("d/a/b"), "unmount")
        self.not_removed(self.path("d/a/b"), "not in an lsmfs")
        mounts.close()
        # A part of this one.
        mount("--bind", self.path("other"), self.path("d/a"))
        self.not_removed(self.path("d"), self.path("d/a"), "unmount")
        self.not_removed(self.path("d/a"), self.path("d/a"), "mounted there")
        mounts.close()
        # By another path.
        elsewhere = self.work.sub("elsewhere")
        mount("--bind", self.path("d"), elsewhere)
        mount("-t", "tmpfs", "tmpfs", os.path.join(elsewhere, "a"))
        self.not_removed(self.path("d"), os.path.join(elsewhere, "a"), "unmount")
        self.rm(self.path("other"))
        mounts.close()
        # What is shown elsewhere goes there, too, as by rm -rf.
        mount("--bind", self.path("d"), elsewhere)
        self.rm(self.path("d"))
        self.assertEqual(os.listdir(elsewhere), [])
        mounts.close()

    def test_what_is_fixed_below_or_above_it_is_refused(self):
        self.make("p/d/a/b/file")
        self.make("other")
        for flag in "ia":
            for name in ("p", "p/d", "p/d/a", "p/d/a/b/file"):
                self.must("chattr", f"+{flag}", self.path(name))
                self.not_removed(self.path("p/d"), "immutable or append-only")
                self.must("chattr", f"-{flag}", self.path(name))
        self.must("chattr", "+i", self.path("other"))
        self.rm(self.path("p/d"))
        self.must("chattr", "-i", self.path("other"))
        self.assertEqual(sorted(os.listdir(self.lsmfs.point)), ["other", "p"])

    def test_unmounting_does_not_wait_and_the_next_mount_goes_on(self):
        self.make("kept")
        for tries in range(5):  # until the unmount comes before all is freed
            fill(self.path("d"), 5000 << tries, 100)
            self.lsmfs.remount()
            self.rm(self.path("d"))
            self.lsmfs.umount()
            self.lsmfs.wait_for_end()
            said = self.must(LSMFS, "fsck", self.lsmfs.device)
            self.lsmfs.mount()
            if "goes on to free" in said:
                break
        self.assertIn("goes on to free", said)
        self.assertEqual(os.listdir(self.lsmfs.point), ["kept"])
        self.until_freed(2)

    def test_a_kill_at_any_time_leaves_all_or_nothing_to_be_found(self):
        self.make("kept")
        os.sync()
        for round_ in range(6):
            with self.subTest(round_):
                fill(self.path("d"), 3000, 100)
                os.sync()
                killing = threading.Timer(0.03 * round_ * round_, lambda: [os.kill(pid, signal.SIGKILL) for pid, _ in self.lsmfs.daemons()])
                killing.start()
                call(LSMFS, "rm", "-r", self.path("d"))
                if round_ % 2:
                    with contextlib.suppress(OSError):
                        fd = os.open(self.lsmfs.point, os.O_RDONLY)
                        with contextlib.suppress(OSError):
                            os.fsync(fd)
                        os.close(fd)
                killing.join()
                until(lambda: not self.lsmfs.processes(), "the end of the daemon")
                self.must("umount", "-l", self.lsmfs.point)
                self.lsmfs.wait_for_end()
                self.must(LSMFS, "fsck", self.lsmfs.device)
                self.lsmfs.mount()
                found = os.listdir(self.lsmfs.point)
                self.assertIn("kept", found)
                if "d" in found:
                    self.assertEqual(sum(len(files) for _, _, files in os.walk(self.path("d"))), 3000)
                    self.rm(self.path("d"))
                self.until_freed(2)

    def test_a_full_file_system_takes_it_and_what_is_written_then(self):
        fill(self.path("d"), 50)
        with self.assertRaises(OSError) as full:
            for number in range(10000):
                self.make(f"d/{number}", os.urandom(4 * MiB))
        self.assertEqual(full.exception.errno, errno.ENOSPC)
        self.rm(self.path("d"))
        self.make("new", os.urandom(100 * MiB))
        with open(self.path("new"), "rb") as file:
            os.fsync(file.fileno())
        self.until_freed(2)


class Others(Rm):
    def as_user(self, *directories, uid=NOBODY, groups="--clear-groups"):
        return call("setpriv", f"--reuid={uid}", f"--regid={uid}", groups, LSMFS, "rm", "-r", *directories)

    def own(self, name, uid=NOBODY):
        self.make(name + "/below/of root")
        os.chown(self.path(name), uid, uid)

    def refuses(self, name, **more):
        done = self.as_user(self.path(name), **more)
        self.assertEqual(done.returncode, 1)
        self.assertIn("only root", done.stderr)
        self.assertTrue(os.path.isdir(self.path(name)))

    def allows(self, name, **more):
        done = self.as_user(self.path(name), **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(os.path.lexists(self.path(name)))

    def test_only_root_may_unless_an_option_lets_owners(self):
        self.own("d")
        os.chmod(self.lsmfs.point, 0o777)
        self.refuses("d")
        self.lsmfs.remount("user_rm")
        self.allows("d")
        self.own("d", 1)
        self.refuses("d")
        self.rm(self.path("d"))

    def test_owners_need_permission_where_the_directory_is(self):
        self.lsmfs.remount("user_rm")
        for mode, owner, allowed in ((0o755, 0, False), (0o757, 0, True), (0o777, 0, True), (0o700, NOBODY, True), (0o577, NOBODY, False), (0o1777, 0, True)):
            with self.subTest(oct(mode)):
                self.own("parent/d")
                os.chmod(self.path("parent"), mode)
                os.chown(self.path("parent"), owner, owner)
                (self.allows if allowed else self.refuses)("parent/d")
        os.chown(self.path("parent"), 0, 5)
        os.chmod(self.path("parent"), 0o775)
        self.own("parent/d")
        self.refuses("parent/d")
        self.allows("parent/d", groups="--groups=5")
        self.own("parent/d")
        self.must("setfacl", "-m", f"u:{NOBODY}:rwx", self.path("parent"))
        self.allows("parent/d")
        self.own("parent/d")
        self.must("setfacl", "-m", f"u:{NOBODY}:rwx,m::rx", self.path("parent"))
        self.refuses("parent/d")


if __name__ == "__main__":
    harness.main()
