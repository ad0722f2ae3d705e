"""What the integration tests share: a file system under test on a loop device or an image, in a workspace of its own
that leaves nothing behind, also when a test fails or is killed."""

import errno
import fcntl
import glob
import hashlib
import os
import pickle
import random
import signal
import subprocess
import sys
import time
import unittest

import namespace
from namespace import ROOT

sys.path[:0] = [os.path.join(ROOT, "scripts", "support"), os.path.join(ROOT, "test")]

import caches  # noqa: E402
import loop  # noqa: E402
import two_programs  # noqa: E402
import workspace  # noqa: E402
from until import until  # noqa: E402

LSMFS = os.environ.get("LSMFS", os.path.join(ROOT, "build", "release", "lsmfs"))
WHOLE = two_programs.whole(LSMFS)  # which a daemon runs
FS = os.environ.get("LSMFS_TEST_FS", "lsmfs")
MOUNT_OPTIONS = os.environ.get("LSMFS_MOUNT_OPTIONS", "")  # of every mount of an lsmfs, as in "writeback"
MOUNTER = "lsmfs-mounter"
SEED = int(os.environ.get("LSMFS_SEED") or random.SystemRandom().getrandbits(32))  # of what a test draws
SKIPPED = 77  # the exit status that ctest takes for a test that did not run
MiB = 1 << 20
GiB = 1 << 30
# For commands: English messages, and no configuration of the person who runs the tests.
ENVIRONMENT = dict(os.environ, LC_ALL="C", HOME="/nonexistent", GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull,
                   GIT_AUTHOR_NAME="A", GIT_AUTHOR_EMAIL="a@example.org", GIT_COMMITTER_NAME="A",
                   GIT_COMMITTER_EMAIL="a@example.org", GIT_TERMINAL_PROMPT="0")

lsmfs_only = unittest.skipUnless(FS == "lsmfs", "about lsmfs itself; not run against its peers")


def call(*command, cwd=None, seconds=900):
    """Runs a command to its end, whatever its exit status."""
    return subprocess.run([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=seconds, encoding="utf-8", errors="backslashreplace", env=ENVIRONMENT, check=False)


def outcome(work, *arguments):
    """What `work` returns, or the name of the error that it meets: "ENOSPC"."""
    try:
        return work(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))


def in_child(work, *arguments, user=None):
    """outcome() of `work` in a process of its own, which is `user`'s if one is given; the name of the signal
    that ended the process if one did."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            with os.fdopen(writer, "wb") as out:
                pickle.dump(outcome(work, *arguments), out)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        result = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        return signal.Signals(-code).name
    if code != 0:
        raise AssertionError(f"a child process ended with status {code}")
    return pickle.loads(result)


def comm(pid):
    """The name of a process, "" when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def print_seed(test):
    """The line with which a test draws the same again. When a kill or a thread strikes is up to the machine."""
    settings = " ".join(f"{name}={os.environ[name]}" for name in ("LSMFS", "LSMFS_LONG", "LSMFS_TEST_FS") if name in os.environ)
    program = os.path.relpath(sys.modules["__main__"].__file__, ROOT)
    print(f"once more: LSMFS_SEED={SEED} {settings} python3 -B {program} {test.id().removeprefix('__main__.')}", flush=True)


def daemons_at(point):
    """[(pid, start)] of the daemon of what is mounted there, without the process that mounts and unmounts for it."""
    return [(pid, start) for pid, start in workspace.processes_of(point, WHOLE) if comm(pid) != MOUNTER]


class Volume:
    """A device or image with a file system, and the place where it is mounted."""

    def __init__(self, folder, size, image, fs=FS, options=()):
        """`options`: of mkfs."""
        self.folder = folder
        self.fs = fs
        self.point = os.path.join(folder, "mnt")
        self.log = os.path.join(folder, "daemon.log")
        self.image = os.path.join(folder, "volume.img")
        os.makedirs(self.point)
        loop.make_sparse(self.image, size)
        self.device = self.image if image and fs == "lsmfs" else loop.attach(self.image)
        if fs == "lsmfs":
            self._must(LSMFS, "mkfs", *options, self.device)
        else:
            self._must("mkfs." + fs, "-q", *options, self.device)

    @staticmethod
    def _must(*command):
        done = call(*command)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")

    def mount(self, options=""):
        """Mounts; returns the seconds it took."""
        begin = time.monotonic()
        if self.fs == "lsmfs":
            command, words = [LSMFS, "mount", self.device, self.point, "--log", self.log], [MOUNT_OPTIONS, options]
        else:
            command, words = ["mount", "-t", self.fs, self.device, self.point], [options]
        self._must(*command, *(part for word in words if word for part in ("-o", word)))
        taken = time.monotonic() - begin
        if not os.path.ismount(self.point):
            raise AssertionError("mount succeeded, but nothing is mounted")
        return taken

    def umount(self):
        self._must(*([LSMFS] if self.fs == "lsmfs" else []), "umount", self.point)
        if os.path.ismount(self.point):
            raise AssertionError("umount succeeded, but it is still mounted")

    def remount(self, options=""):
        self.umount()
        return self.mount(options)

    def digest(self):
        """Of all that is on the device, unmounted or not. It takes as long as that which is not zeros."""
        block, zeros, found, last = 1 << 16, bytes(1 << 16), hashlib.blake2b(), -1
        with open(self.image, "rb", buffering=0) as file:
            at = 0
            while (at := outcome(os.lseek, file.fileno(), at, os.SEEK_DATA)) != "ENXIO":
                end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
                for number in range(max(at // block, last + 1), -(-end // block)):
                    data = os.pread(file.fileno(), block, number * block)
                    if data != zeros[:len(data)]:
                        found.update(b"%d:" % number + data)
                    last = number
                at = end
        return found.hexdigest()

    def wait_for_end(self):
        until(lambda: not self.processes(), f"the end of the daemon of {self.device}")
        # A process that ends has no name any more for a moment in which it has its files still.
        until(self.is_let_go, f"the end of the lock on {self.device}")

    def is_let_go(self):
        try:
            fd = os.open(self.device, os.O_RDONLY)
        except OSError:  # a test has taken it away
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def processes(self):
        """[(pid, start)] of the daemon and of the process that mounts and unmounts for it."""
        return workspace.processes_of(self.point, WHOLE)

    def daemons(self):
        return daemons_at(self.point)

    def kill(self):
        """kill -9 of the daemon, as an out-of-memory killer would, and takes the dead mount away."""
        daemons = self.daemons()
        if not daemons:
            raise AssertionError("no daemon to kill")
        for pid, _ in daemons:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(workspace.start_time(pid) == start for pid, start in daemons) and not self.processes(), "the end of the killed daemon")
        self._must("umount", "-l", self.point)

    def path(self, *names):
        return os.path.join(self.point, *names)


class MountCase(unittest.TestCase):
    """A test with a workspace. What the test leaves mounted is unmounted after it, and that must work; then it is checked."""

    maxDiff = None

    def setUp(self):
        if os.geteuid() != 0:
            self.fail("the integration tests mount, so they need root")
        self.work = workspace.Workspace("it")
        _open.append(self.work)
        self.volumes = []
        self.addCleanup(self._finish)

    def volume(self, size=2 * GiB, image=False, **more):
        folder = self.work.sub(f"volume{len(self.volumes)}")
        volume = Volume(folder, size, image, **more)
        self.volumes.append(volume)
        return volume

    def native(self, size):
        """A directory of an ext4 of its own, as an oracle of what the system calls do."""
        folder = self.work.sub("native")
        image = os.path.join(folder, "ext4.img")
        point = os.path.join(folder, "mnt")
        os.mkdir(point)
        loop.make_sparse(image, size)
        self.must("mkfs.ext4", "-q", "-b", 4096, image)
        device = loop.attach(image)
        self.addCleanup(loop.detach, device)
        self.must("mount", "-t", "ext4", device, point)
        self.addCleanup(self.must, "umount", point)
        return point

    def _finish(self):
        try:
            os.chdir("/")
            result = self._outcome.result
            failed = any(test is self for test, _ in result.errors + result.failures)
            for volume in self.volumes:
                if os.path.ismount(volume.point):
                    volume.umount()
                volume.wait_for_end()
                if FS == "lsmfs":
                    self._check(volume)
                if volume.device != volume.image:
                    loop.detach(volume.device)
                if failed:
                    self._print_log(volume)
        finally:
            left = [line for line in self.work.close() if line]
            _open.remove(self.work)
        self.assertEqual(left, [], "left behind after the test")

    def _check(self, volume):
        """Whatever a test does to a file system, it must be sound afterwards."""
        if not os.path.exists(volume.device):
            return  # it lay on something that the test has taken away
        done = call(LSMFS, "fsck", volume.device)
        if "is not lsmfs" not in done.stderr:  # a test has put something else there
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)

    @staticmethod
    def _print_log(volume):
        for path in glob.glob(volume.log + "*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                print(f"--- the end of {path}\n" + "".join(file.readlines()[-30:]), file=sys.stderr)

    def must(self, *command, cwd=None, seconds=900):
        """Runs a command that has to succeed; returns what it printed."""
        done = call(*command, cwd=cwd, seconds=seconds)
        if done.returncode != 0:
            self.fail(f"{' '.join(str(word) for word in command)}: exit status {done.returncode}\n"
                      f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout

    def outcome(self, command, folder):
        """All that a user sees of a shell command run in `folder`."""
        done = call("sh", "-c", command, cwd=folder)
        return f"{done.returncode}\n{done.stdout}\n{done.stderr}"

    def compare(self, commands, folder, native):
        """Runs each line in both folders, one after the other; what they show must be the same."""
        for command in commands.strip().splitlines():
            with self.subTest(command):
                self.assertEqual(self.outcome(command, folder), self.outcome(command, native))

    def refused(self, *command, says=(), codes=None):
        """Runs a command that has to fail with one clear line on stderr and nothing on stdout."""
        done = call(*command)
        name = " ".join(str(word) for word in command)
        if codes is None:
            self.assertNotEqual(done.returncode, 0, name)
        else:
            self.assertIn(done.returncode, codes, f"{name}: {done.stderr}")
        self.assertGreater(done.returncode, 0, f"{name}: ended by a signal")
        self.assertEqual(done.stderr.strip().count("\n"), 0, f"{name}: more than one line: {done.stderr}")
        self.assertNotEqual(done.stderr.strip(), "", f"{name}: fails without a word")
        for word in says:
            self.assertIn(word, done.stderr, name)
        return done


_open = []


def main():
    if os.geteuid() == 0:  # without root, the tests say themselves that they need it
        namespace.enter()
    workspace.stop_on_signals()
    try:
        result = unittest.main(module="__main__", exit=False).result
        code = (SKIPPED if len(result.skipped) >= max(1, result.testsRun) else 0) if result.wasSuccessful() else 1
    except KeyboardInterrupt as stopped:
        print(f"stopped: {stopped}", file=sys.stderr)
        code = 130
    finally:
        for work in list(_open):
            work.close()
    sys.exit(code)
