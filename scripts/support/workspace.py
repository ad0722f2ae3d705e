"""A folder for everything that a test or a benchmark makes, and the certainty that it goes away.

Mounts, loop devices and daemons are recognised by the folder's unique name, so nothing has to be
registered: clean() finds what lies below the folder and takes it down. A guard, a process of its own,
does the same when its owner dies without doing so (killed by a timeout, say).

    with Workspace("compare") as work:
        ...  # work.path
"""

import contextlib
import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time


def unescape(field):
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field


def _mounts():
    """(mount point, type) of every mount, the last mounted first. The format is that of proc_pid_mountinfo(5)."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        lines = [line.split() for line in table]
    return [(unescape(fields[4]), fields[fields.index("-") + 1]) for fields in reversed(lines)]


def mounts_below(path):
    """Mount points at or below `path`, the last mounted first."""
    return [point for point, _ in _mounts() if point == path or point.startswith(path + "/")]


def mounts_of(*types):
    """Mount points of file systems of these types, the last mounted first."""
    return [point for point, kind in _mounts() if kind in types]


def loops_below(path):
    """Loop devices whose backing file lies below `path`, also when that file is already deleted."""
    found = []
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file", encoding="utf-8", errors="surrogateescape") as file:
                if file.read().startswith(path + "/"):
                    found.append("/dev/" + name)
        except OSError:
            continue
    return found


def _same_program(pid, start):
    return start is not None and start_time(pid) == start


def start_time(pid):
    """What tells a process from a later one of the same number; None when it is gone or dead."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def processes_of(path, binary=None):
    """[(pid, start)] of processes that name `path` on their command line or stand below it. `binary`: only
    those that run this program. Never this process or its parents."""
    ours = set()
    pid = os.getpid()
    while pid > 1:
        ours.add(pid)
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in ours:
            continue
        start = start_time(name)
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            cwd = os.readlink(f"/proc/{name}/cwd")
            exe = os.readlink(f"/proc/{name}/exe")
        except OSError:
            continue
        if binary is not None and exe.removesuffix(" (deleted)") != os.path.realpath(binary):
            continue
        named = any(os.fsencode(path) in word for word in words)
        if start is not None and (named or cwd == path or cwd.startswith(path + "/")):
            found.append((int(name), start))
    return found


def end_processes(processes, patience=10.0):
    """SIGTERM, then SIGKILL for those still there after `patience` seconds. Returns when they are gone."""
    for sig, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 60.0)):
        for pid, start in processes:
            if _same_program(pid, start):
                os.kill(pid, sig)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            processes = [(pid, start) for pid, start in processes if _same_program(pid, start)]
            if not processes:
                return
            time.sleep(0.05)


def _run(*command, seconds):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=seconds, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _thaw(path):
    """What a test has frozen could not be unmounted, nor could what lies on it."""
    for point, kind in _mounts():
        if (point == path or point.startswith(path + "/")) and not kind.startswith("fuse"):
            _run("fsfreeze", "--unfreeze", point, seconds=10)


def _close_own(points):
    """Closes what this process has open below these mount points: a signal right after open(2) leaves a descriptor that nobody knows."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one by which this list was read
            target = os.readlink(f"/proc/self/fd/{name}")
            if any(target.startswith(point + "/") for point in points):
                os.close(int(name))


def clean(path, gently=True, kept=None, patience=300.0):
    """Takes down all below `path` and removes it; what is below the folder `kept` is taken down and left there. Returns
    one line for each mount, loop device or process that was still there. `gently`: lets file systems write out what they
    hold. `patience`: seconds after which it gives up on what does not go; a loop device goes only when nobody has it open, be it
    for a look, or because one of its threads still writes to it."""
    roots = [path] + ([kept] if kept else [])

    def below(find):
        return [found for root in roots for found in find(root)]

    left = []
    _thaw(path)
    deadline = time.monotonic() + patience
    for attempt in itertools.count():
        mounts = below(mounts_below)
        processes = processes_of(path)
        _close_own(mounts)
        if attempt == 0:
            left += [f"mount at {point}" for point in mounts]
            left += [f"process {pid}" for pid, _ in processes]
        for point in mounts:
            for loop in loops_below(point):  # once that is unmounted, the path of the file does not tell whose it is
                _run("losetup", "-d", loop, seconds=60)
            if gently and attempt == 0:
                _run("umount", point, seconds=120)
            else:
                _run("umount", "-l", point, seconds=60)
        end_processes(processes_of(path), patience=10.0 if gently else 0.5)
        loops = below(loops_below)
        if attempt == 0:
            left += [f"loop device {loop}" for loop in loops]
        for loop in loops:
            _run("losetup", "-d", loop, seconds=60)
        remains = below(mounts_below) or below(loops_below) or processes_of(path)
        if not remains or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    if not mounts_below(path):  # never walk into something that is still mounted
        shutil.rmtree(path, ignore_errors=True)
    return left


def _guard():
    """Waits until the owner says that it is done, or dies, which closes the pipe on stdin. The path comes through
    the pipe, not on the command line, by which clean() would take the guard for one of the processes to end."""
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    words = b""
    while chunk := os.read(0, 4096):
        words += chunk
    path, kept, last = words.split(b"\0")
    if last != b"done":
        clean(os.fsdecode(path), gently=False, kept=os.fsdecode(kept) or None)


class Interrupted(KeyboardInterrupt):
    """A signal asked this program to stop."""


_held = 0  # so many uninterrupted() are under way
_missed = None  # the signal that came meanwhile


@contextlib.contextmanager
def uninterrupted():
    """A signal that asks this program to stop is heard at the end of this: for what must not be made without its maker knowing of it."""
    global _held
    if threading.current_thread() is not threading.main_thread():  # which is the only one that hears signals
        yield
        return
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        if _missed is not None and _held == 0:
            raise Interrupted(_missed)


def stop_on_signals():
    """Turns SIGINT, SIGTERM and SIGHUP into an exception, so that `with` and `finally` run."""

    def stop(number, _frame):
        global _missed
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, signal.SIG_IGN)  # cleaning up is not to be interrupted in its turn
        if _held > 0:
            _missed = signal.Signals(number).name
            return
        raise Interrupted(signal.Signals(number).name)

    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, stop)


class Taken(Exception):
    """A folder to keep things in is another workspace's."""


def _take(path, patience):
    """Locks a folder; the lock ends with the last process that has the descriptor."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(folder)
                raise Taken(path) from None
        time.sleep(0.1)


class Workspace:
    """`kept`: a folder for what is to outlive it, in which nothing stays mounted or attached either. It is one workspace's
    at a time; the guard of one that was killed has it for a while. Taken: after `patience` seconds it was not free."""

    def __init__(self, name, parent=None, kept=None, patience=30.0):
        self._kept = os.path.realpath(kept) if kept else None
        lock = _take(self._kept, patience) if kept else None
        # Not tempfile's default: /tmp may be a tmpfs, and a loop device with direct I/O needs a disk.
        parent = parent or os.environ.get("LSMFS_TMPDIR") or "/var/tmp"
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=f"lsmfs-{name}-", dir=parent))
        os.chmod(self.path, 0o755)
        reader, self._to_guard = os.pipe()
        self._guard = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--guard"],
                                       stdin=reader, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       pass_fds=[lock] if kept else [])
        os.close(reader)
        if kept:
            os.close(lock)  # the guard holds it, and outlives this
        self._guard.wait()
        os.write(self._to_guard, os.fsencode(self.path) + b"\0" + os.fsencode(self._kept or "") + b"\0")

    def sub(self, name):
        path = os.path.join(self.path, name)
        os.makedirs(path, exist_ok=True)
        return path

    def close(self):
        """Cleans up; returns what had been left over (see clean)."""
        if self._to_guard is None:
            return []
        left = clean(self.path, kept=self._kept)
        os.write(self._to_guard, b"done")
        os.close(self._to_guard)
        self._to_guard = None
        return left

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__" and sys.argv[1:2] == ["--guard"]:
    _guard()
