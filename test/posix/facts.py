"""What can be seen of a file system from outside, in a form that can be compared with another one's.

Inode numbers become marks that say which names and open files are the same file. A time becomes the step in which it
was taken from the clock, so that it is compared which times an operation changes, or stays the number that somebody
gave it. What is not compared, and why, is listed in state_machine_test.py.
"""

import array
import bisect
import errno
import fcntl
import mmap
import os
import stat
import time

import calls
from until import CLOCK_REALTIME_COARSE, until

BLOCK = 4096
WHOLE_MAX = 4 << 20  # larger files are read where SEEK_DATA finds something
O_NOATIME_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW


class Inconsistent(AssertionError):
    """One side contradicts itself."""


class Clock:
    """The ends of the steps so far. A time of the clock belongs to the first step that ended after it."""

    def __init__(self):
        self.begin = time.clock_gettime_ns(time.CLOCK_REALTIME)
        self.ends = []

    def wait(self):
        """Until a time that a file system takes now, perhaps from the coarse clock, is after the last step."""
        last = self.ends[-1] if self.ends else self.begin
        until(lambda: time.clock_gettime_ns(CLOCK_REALTIME_COARSE) > last, "the next tick of the clock")

    def step_ends(self):
        self.ends.append(time.clock_gettime_ns(time.CLOCK_REALTIME))

    def name(self, nanoseconds):
        if self.begin - 10**9 <= nanoseconds:
            step = bisect.bisect_left(self.ends, nanoseconds)
            if step < len(self.ends) or nanoseconds <= time.clock_gettime_ns(time.CLOCK_REALTIME):
                return f"step {step}"
        return nanoseconds


class Facts:
    FLAGS = calls.FLAG_IMMUTABLE | calls.FLAG_APPEND | calls.FLAG_NODUMP | calls.FLAG_NOATIME

    def __init__(self, clock, times_of_files=True):
        """`times_of_files`: whether it is compared when regular files were last changed."""
        self.clock = clock
        self.times_of_files = times_of_files
        self.changed_before = {}  # inode of a copy: its time of change, and what that is called (copied_as_clone)

    def attributes(self, found):
        """Of an os.stat_result."""
        kind = stat.S_IFMT(found.st_mode)
        out = {"type": kind, "mode": found.st_mode & 0o7777, "links": found.st_nlink, "owner": found.st_uid, "group": found.st_gid,
               "device": found.st_rdev, "block size": found.st_blksize}
        if kind != stat.S_IFDIR:
            out["size"] = found.st_size
        for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns") if kind != stat.S_IFREG or self.times_of_files else ("st_atime_ns",):
            out[name[3:8]] = self.clock.name(getattr(found, name))
        copied_at, name = self.changed_before.get(found.st_ino, (None, None))
        if found.st_ctime_ns == copied_at and "ctime" in out:
            out["ctime"] = name
        return out

    def copied_as_clone(self, source, target):
        """What cp does not copy is from now on as that of the source: flags, set-group-id bits that a directory does not have,
        empty capabilities, which nobody can read, and times of change until there is another one."""
        pairs = [(source, target)]
        for folder, folders, names in os.walk(source):
            inside = os.path.relpath(folder, source)
            pairs += [(os.path.join(folder, name), os.path.join(target, inside, name)) for name in folders + names]
        for old, new in reversed(pairs):  # what is immutable comes after what is in it
            found = os.lstat(old)
            if not stat.S_ISLNK(found.st_mode) and os.lstat(new).st_mode != found.st_mode:
                os.chmod(new, stat.S_IMODE(found.st_mode))
            for name in self.xattrs(old).keys() - self.xattrs(new).keys():
                os.setxattr(new, name, b"", follow_symlinks=False)
            if (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) and self.flags(new) != self.flags(old):
                self._set_flags(new, self.flags(old))
        for old, new in pairs:
            copy = os.lstat(new)
            self.changed_before[copy.st_ino] = copy.st_ctime_ns, self.attributes(os.lstat(old)).get("ctime")

    # ---- what is inside

    def xattrs(self, path, follow=False):
        out = {}
        for name in os.listxattr(path, follow_symlinks=follow):
            try:
                out[name] = os.getxattr(path, name, follow_symlinks=follow)
            except OSError as error:  # of a capability that is none
                out[name] = errno.errorcode[error.errno]
        return out

    def flags(self, path):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            word = array.array("i", [0])
            fcntl.ioctl(fd, calls.FS_IOC_GETFLAGS, word)
            return word[0] & self.FLAGS
        finally:
            os.close(fd)

    @staticmethod
    def _read(fd, offset, size, direct):
        if not direct or size == 0:
            return os.pread(fd, size, offset)
        start, end = offset // BLOCK * BLOCK, -(-(offset + size) // BLOCK) * BLOCK
        with mmap.mmap(-1, end - start) as buffer:
            got = os.preadv(fd, [buffer], start)
            return buffer[offset - start:got]

    def contents(self, path, direct=False):
        """The blocks of a regular file that are not all zeros, by number. Also finds them by SEEK_DATA."""
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (os.O_DIRECT if direct else 0))
        try:
            size = os.fstat(fd).st_size
            by_seek, at = {}, 0
            while at < size:
                try:
                    start = os.lseek(fd, at, os.SEEK_DATA)
                except OSError as error:
                    if error.errno != errno.ENXIO:
                        raise
                    break
                end = os.lseek(fd, start, os.SEEK_HOLE)
                if not at <= start < end <= size:
                    raise Inconsistent(f"{path}: of {size} bytes, from {at} on data is at {start}, and the hole after it at {end}")
                self._blocks(by_seek, start, self._read(fd, start, end - start, direct), end - start)
                at = end
            if size <= WHOLE_MAX:
                whole = {}
                self._blocks(whole, 0, self._read(fd, 0, size, direct), size)
                if whole != by_seek:
                    raise Inconsistent(f"{path}: SEEK_DATA leads to the blocks {sorted(by_seek)}, but {sorted(whole)} are not zeros")
            return by_seek
        finally:
            os.close(fd)

    @staticmethod
    def _blocks(blocks, offset, data, expected):
        if len(data) != expected:
            raise Inconsistent(f"a read of {expected} bytes at {offset} gave {len(data)}")
        at = 0
        while at < len(data):
            number = (offset + at) // BLOCK
            part = data[at:(number + 1) * BLOCK - offset]
            if part.count(0) != len(part):
                blocks[number] = part.rstrip(b"\0")
            at += len(part)

    def inside(self, path, found, direct=False):
        """The part of the facts that costs more: of the file at `path`, of whose kind `found` tells."""
        out = {"attributes": self.xattrs(path)}
        if stat.S_ISLNK(found.st_mode):
            out["target"] = os.readlink(path)
        if stat.S_ISREG(found.st_mode):
            out["contents"] = self.contents(path, direct)
        if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
            out["flags"] = self.flags(path)
        return out

    # ---- the tree

    def tree(self, side, deep=False, direct=False):
        """{path: facts} of all below the side's top and of its open files. `deep`: with all that is inside."""
        out, marks = {}, {}

        def note(path, reach, found):
            facts = self.attributes(found)
            facts["same as"] = marks.setdefault(found.st_ino, path)
            if deep:
                facts.update(self.inside(reach, found, direct))
            out[path] = facts

        def walk(fd, path):
            listed = {}
            while some := calls.getdents(fd, 32768):
                for ino, _, kind, name in some:
                    if name in listed:
                        raise Inconsistent(f"{path}: {name} is listed twice")
                    listed[name] = ino, kind
            if not {b".", b".."} <= listed.keys():
                raise Inconsistent(f"{path}: listed without its dots")
            for name in sorted(listed.keys() - {b".", b".."}):
                ino, kind = listed[name]
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                where = os.path.join(path, name)
                if (found.st_ino, stat.S_IFMT(found.st_mode)) != (ino, kind << 12):
                    raise Inconsistent(f"{where}: listed as inode {ino} of type {kind}, is {found.st_ino} {found.st_mode:o}")
                note(where, b"/proc/self/fd/%d/%s" % (fd, name), found)
                if kind << 12 == stat.S_IFDIR:
                    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                    try:
                        walk(below, where)
                    finally:
                        os.close(below)

        top = os.open(side.top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            note(b"", b"/proc/self/fd/%d/." % top, os.fstat(top))
            walk(top, b"")
        finally:
            os.close(top)
        for handle, fd in side.files.items():
            found = os.fstat(fd)
            out[f"handle {handle}"] = dict(self.attributes(found), **{"same as": marks.setdefault(found.st_ino, f"handle {handle}")})
        return out

    def check_with_file_system(self, side):
        """The kernel's remembered attributes against what the file system says when it is asked."""
        for folder, folders, names in os.walk(side.top):
            for name in folders + names:
                path = os.path.join(folder, name)
                found = os.lstat(path)
                times, others = calls.times_of_file_system(path)
                kept = [found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns]
                if times != kept or others != (found.st_mode, found.st_nlink, found.st_size):
                    raise Inconsistent(f"{path}: the kernel has {kept} {found}, the file system {times} {others}")

    def _set_flags(self, path, flags):
        fd = os.open(path, O_NOATIME_READ)
        try:
            word = array.array("i", [0])
            fcntl.ioctl(fd, calls.FS_IOC_GETFLAGS, word)
            word[0] = word[0] & ~self.FLAGS | flags
            fcntl.ioctl(fd, calls.FS_IOC_SETFLAGS, word)
        finally:
            os.close(fd)

    def clear_flags(self, top):
        """So that all can be removed."""
        for folder, folders, names in os.walk(top):
            for path in [folder] + [os.path.join(folder, name) for name in names]:
                if not stat.S_ISREG(os.lstat(path).st_mode) and not stat.S_ISDIR(os.lstat(path).st_mode):
                    continue
                self._set_flags(path, 0)
