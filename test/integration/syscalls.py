"""System calls that Python has no name for."""

import ctypes
import fcntl
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.opendir.restype = _libc.readdir.restype = ctypes.c_void_p
_libc.closedir.argtypes = _libc.readdir.argtypes = _libc.telldir.argtypes = [ctypes.c_void_p]
_libc.telldir.restype = ctypes.c_long
_libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
_SYS_GETDENTS64 = {"x86_64": 217}.get(os.uname().machine, 61)
_STATX_BTIME = 0x800
_AT_SYMLINK_NOFOLLOW = 0x100


def _checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def getdents(fd, size):
    """[(name, DT_ type, where to go on)]: what one getdents64(2) with a buffer of `size` bytes gives; [] at the end."""
    buffer = ctypes.create_string_buffer(size)
    end = _checked(_libc.syscall(_SYS_GETDENTS64, fd, buffer, ctypes.c_size_t(size)))
    entries, at, raw = [], 0, buffer.raw
    while at < end:
        _, offset, length, kind = struct.unpack_from("=QqHB", raw, at)
        entries.append((raw[at + 19:raw.index(b"\0", at + 19)], kind, offset))
        at += length
    return entries


class Directory:
    """opendir(3) and what goes with it."""

    def __init__(self, path):
        self._dir = _libc.opendir(os.fsencode(path))
        if not self._dir:
            _checked(-1)

    def read(self):
        """The next name; None at the end."""
        entry = _libc.readdir(self._dir)
        return ctypes.string_at(entry + 19) if entry else None

    def tell(self):
        return _libc.telldir(self._dir)

    def seek(self, place):
        _libc.seekdir(self._dir, place)

    def close(self):
        _libc.closedir(self._dir)


def punch_hole(fd, at, size):
    """Zeros there, and the file's size as it was."""
    keep_size, hole = 1, 2
    _checked(_libc.fallocate(fd, keep_size | hole, ctypes.c_long(at), ctypes.c_long(size)))


def birth_time(path):
    """In nanoseconds; None when the kernel does not tell."""
    facts = ctypes.create_string_buffer(256)
    _checked(_libc.statx(-100, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, facts))
    if not struct.unpack_from("=I", facts.raw)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", facts.raw, 80)
    return seconds * 1_000_000_000 + nanoseconds


class Inotify:
    """inotify(7) without waiting."""

    EVENTS = {0x2: "modify", 0x4: "attrib", 0x8: "close_write", 0x20: "open", 0x40: "moved_from", 0x80: "moved_to", 0x100: "create",
              0x200: "delete", 0x400: "delete_self", 0x800: "move_self"}

    def __init__(self):
        self.fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path, *names):
        mask = sum(bit for bit, name in self.EVENTS.items() if name in names)
        return _checked(_libc.inotify_add_watch(self.fd, os.fsencode(path), mask))

    def events(self):
        """[(watch, event, name)] since the last call."""
        found = []
        try:
            while True:
                raw, at = os.read(self.fd, 65536), 0
                while at < len(raw):
                    watch, mask, _, length = struct.unpack_from("=iIII", raw, at)
                    name = raw[at + 16:at + 16 + length].rstrip(b"\0").decode()
                    found += [(watch, event, name) for bit, event in self.EVENTS.items() if mask & bit]
                    at += 16 + length
        except BlockingIOError:
            return found

    def close(self):
        os.close(self.fd)


def mount(source, point, kind, options):
    _checked(_libc.mount(os.fsencode(source), os.fsencode(point), kind.encode(), ctypes.c_ulong(0), options.encode()))


def forget(point):
    """Has the kernel let go of all names, inodes and pages of a mount that nobody uses, as after a mount: a remount that changes nothing."""
    remount, others = 32, {"sync": 16, "dirsync": 128, "lazytime": 1 << 25}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        options = [line.rsplit(" ", 1)[1].strip().split(",") for line in table if line.split()[4] == point][-1]
    flags = remount | os.statvfs(point).f_flag & 0xF | sum(bit for name, bit in others.items() if name in options)  # those of access times stay
    _checked(_libc.mount(None, os.fsencode(point), None, ctypes.c_ulong(flags), None))


def make_a_call_that_is_refused_aloud():
    """In a process that is to end then: the kernel's log tells of it. Returns the process's number."""
    getppid, seccomp = {"x86_64": (110, 317)}.get(os.uname().machine, (173, 277))
    # Load the call's number; is it getppid(2)? Then refuse with EPERM, else allow.
    program = b"".join(struct.pack("=HBBI", *step) for step in (
        (0x20, 0, 0, 0), (0x15, 0, 1, getppid), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)))
    memory = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(memory))
    _checked(_libc.prctl(38, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)))  # no_new_privs
    _checked(_libc.syscall(seccomp, 1, 2, described))  # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG
    os.getppid()
    return os.getpid()


def _partition(device, operation, number, start=0, size=0):
    """BLKPG of linux/blkpg.h. addpart(8) and delpart(8) do it, too, but not every Debian has them."""
    partition = ctypes.create_string_buffer(struct.pack("=qqi64s64s", start, size, number, b"", b""))
    argument = struct.pack("iiiP", operation, 0, len(partition.raw), ctypes.addressof(partition))
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, 0x1269, argument)
    finally:
        os.close(fd)


def add_partition(device, number, start, size):
    """Makes bytes [start, start + size) of a block device a partition, with no table on it."""
    _partition(device, 1, number, start, size)


def delete_partition(device, number):
    _partition(device, 2, number)
