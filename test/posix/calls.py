"""System calls that Python's os module lacks, or gives in part only. Each raises OSError as os does."""

import ctypes
import os
import struct

RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE = 0x01, 0x02, 0x10
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
FLAG_IMMUTABLE, FLAG_APPEND, FLAG_NODUMP, FLAG_NOATIME = 0x10, 0x20, 0x40, 0x80
AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_SYMLINK_FOLLOW, AT_EACCESS, AT_EMPTY_PATH = -100, 0x100, 0x400, 0x200, 0x1000
AT_STATX_FORCE_SYNC = 0x2000
STATX_BASIC_STATS = 0x7ff
_SYS_GETDENTS64, _SYS_RENAMEAT2, _SYS_STATX, _SYS_FACCESSAT2 = 217, 316, 332, 439  # x86-64
if os.uname().machine == "aarch64":
    _SYS_GETDENTS64, _SYS_RENAMEAT2, _SYS_STATX, _SYS_FACCESSAT2 = 61, 276, 291, 439
_MS_REMOUNT, _MS_NOATIME = 32, 1024

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.lgetxattr.restype = ctypes.c_ssize_t
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


def _checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def renameat2(old, new, flags):
    _checked(_libc.syscall(_SYS_RENAMEAT2, AT_FDCWD, old, AT_FDCWD, new, flags))


def linkat(old_fd, old, new, flags):
    _checked(_libc.linkat(old_fd, old, AT_FDCWD, new, flags))


def fallocate(fd, mode, offset, length):
    _checked(_libc.fallocate(fd, mode, offset, length))


def sync_file_range(fd, offset, length, flags):
    _checked(_libc.sync_file_range(fd, offset, length, flags))


def syncfs(fd):
    _checked(_libc.syncfs(fd))


def faccessat2(path, mode, flags):
    _checked(_libc.syscall(_SYS_FACCESSAT2, AT_FDCWD, path, mode, flags))


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_long)]


def utimensat(fd, path, times, follow=True):
    """`times`: None, or two of "now", "omit" and nanoseconds since 1970. `path` None: the file that is open as `fd`."""

    def spec(when):
        if when == "now":
            return _Timespec(0, UTIME_NOW)
        if when == "omit":
            return _Timespec(0, UTIME_OMIT)
        return _Timespec(when // 10**9, when % 10**9)

    given = None if times is None else (_Timespec * 2)(*map(spec, times))
    if path is None:
        _checked(_libc.futimens(fd, given))
    else:
        _checked(_libc.utimensat(fd, path, given, 0 if follow else AT_SYMLINK_NOFOLLOW))


def getxattr_into(path, name, room):
    """The value of an attribute by a buffer of `room` bytes; with none, how long it is."""
    buffer = ctypes.create_string_buffer(room) if room else None
    got = _checked(_libc.lgetxattr(path, name, buffer, ctypes.c_size_t(room)))
    return buffer.raw[:got] if room else got


def getdents(fd, room):
    """[(inode number, where to go on, type, name)] that fit into `room` bytes; empty at the end."""
    buffer = ctypes.create_string_buffer(room)
    got = _checked(_libc.syscall(_SYS_GETDENTS64, fd, buffer, room))
    found, at = [], 0
    while at < got:
        ino, after, size, kind = struct.unpack_from("=QqHB", buffer, at)
        found.append((ino, after, kind, buffer.raw[at + 19:at + size].split(b"\0", 1)[0]))
        at += size
    return found


def times_of_file_system(path):
    """The times of `path` as its file system has them, past what the kernel remembers of them: (access,
    modification, change) and then (mode, links, size), which the kernel does not remember either then."""
    buffer = ctypes.create_string_buffer(256)
    _checked(_libc.syscall(_SYS_STATX, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, buffer))
    links, = struct.unpack_from("=I", buffer, 16)
    mode, = struct.unpack_from("=H", buffer, 28)
    size, = struct.unpack_from("=Q", buffer, 40)
    times = [seconds * 10**9 + nanoseconds for seconds, nanoseconds in
             (struct.unpack_from("=qI", buffer, at) for at in (64, 112, 96))]
    return times, (mode, links, size)


def forget_names(mount_point):
    """Makes the kernel let go of all names and inodes of a mount that are not in use: a remount that changes nothing."""
    _checked(_libc.mount(None, os.fsencode(mount_point), None, _MS_REMOUNT | _MS_NOATIME, None))
