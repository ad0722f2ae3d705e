"""A limit on memory for everything that this program starts: page cache, daemons and programs together, but not simulated disks.

By a control group of its own, of either version of cgroups.
"""

import contextlib
import os
import time

import simdisk

from shared.commands import Problem

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


def _root():
    """(folder, name of the file with the limit); None: there is no such controller."""
    if os.path.exists(os.path.join(V1, "memory.limit_in_bytes")):
        return V1, "memory.limit_in_bytes"
    try:
        with open(os.path.join(V2, "cgroup.controllers"), encoding="ascii") as file:
            if "memory" in file.read().split():
                return V2, "memory.max"
    except OSError:
        pass
    return None


def check():
    if _root() is None:
        raise Problem("this kernel's cgroups cannot limit memory: neither /sys/fs/cgroup/memory nor a memory controller in /sys/fs/cgroup")


def _write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


@contextlib.contextmanager
def limited(size):
    """This process and what it starts share `size` bytes of memory while it is entered."""
    root, limit = _root()
    with open("/proc/self/cgroup", encoding="ascii") as file:
        groups = dict(line.strip().split(":", 2)[1:] for line in file)
    before = os.path.join(root, (groups.get("memory" if root == V1 else "") or "/").lstrip("/"))
    folder = os.path.join(root, f"lsmfs-aging-{os.getpid()}")
    if root == V2:
        _write(os.path.join(V2, "cgroup.subtree_control"), "+memory")
    os.mkdir(folder)
    try:
        _write(os.path.join(folder, limit), str(size))
        _write(os.path.join(folder, "cgroup.procs"), str(os.getpid()))
        simdisk.control_group = before
        try:
            yield
        finally:
            simdisk.control_group = None
            _write(os.path.join(before, "cgroup.procs"), str(os.getpid()))
    except BaseException:  # which says more than that the group is still there
        _remove(folder)
        raise
    if error := _remove(folder):
        raise Problem(f"{folder}: cannot be removed: {error.strerror}")


def _remove(folder):
    """Waits for what it has started to end, too. The error if it does not."""
    deadline = time.monotonic() + 30
    while True:
        try:
            os.rmdir(folder)
            return None
        except OSError as error:
            if time.monotonic() > deadline:
                return error
        time.sleep(0.1)
