"""The operations of the state machine, each on one side: a folder and what is open in it. An operation returns what
the caller of the system call would see, but for what may differ between file systems, or raises its OSError."""

import array
import contextlib
import errno
import fcntl
import mmap
import os
import stat
import struct
import subprocess

import calls
import harness

BLOCK = 4096
PROC = b"/proc/self/fd/%d"


# ---- names

def mkdir(side, path, mode):
    os.mkdir(side.at(path), mode)


def rmdir(side, path):
    os.rmdir(side.at(path))


def unlink(side, path):
    os.unlink(side.at(path))


def _know_mode(ask):
    """fs.protected_hardlinks goes by the mode that the kernel knows: of FUSE, the one before a write took bits away."""
    with contextlib.suppress(OSError):
        ask()


def link(side, old, new, follow):
    _know_mode(lambda: os.stat(side.at(old), follow_symlinks=follow))
    calls.linkat(calls.AT_FDCWD, side.at(old), side.at(new), calls.AT_SYMLINK_FOLLOW if follow else 0)


def link_open_file(side, handle, new):
    _know_mode(lambda: os.fstat(side.files[handle]))
    calls.linkat(calls.AT_FDCWD, PROC % side.files[handle], side.at(new), calls.AT_SYMLINK_FOLLOW)


def link_by_descriptor(side, handle, new):
    _know_mode(lambda: os.fstat(side.files[handle]))
    calls.linkat(side.files[handle], b"", side.at(new), calls.AT_EMPTY_PATH)


def symlink(side, target, path):
    os.symlink(target, side.at(path))


def readlink(side, path):
    return os.readlink(side.at(path))


def rename(side, old, new, flags):
    if flags == 0:
        os.rename(side.at(old), side.at(new))
    else:
        calls.renameat2(side.at(old), side.at(new), flags)


def clone(side, source, target):
    """A copy of a directory: by `lsmfs clone`, or by cp. Errors are not told apart, since those of programs have no numbers."""
    source, target = side.at(source), side.at(target)
    # cp would copy a directory into itself for a while, and to a place that is there.
    inside = os.path.realpath(os.path.dirname(target)) + b"/"
    if os.path.lexists(target) or inside.startswith(os.path.realpath(source) + b"/"):
        raise OSError(errno.ECANCELED, "")
    lsmfs = side.mount.fs == "lsmfs"
    command = [harness.LSMFS, "clone", source, target] if lsmfs else ["cp", "-a", source, target]
    if subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False).returncode != 0:
        raise OSError(errno.ECANCELED, "")
    if not lsmfs:
        side.facts.copied_as_clone(source, target)


def mknod(side, path, mode, device):
    os.mknod(side.at(path), mode, device)


# ---- names relative to an open directory, also one that has been removed

def mkdir_at(side, handle, name):
    os.mkdir(name, 0o755, dir_fd=side.files[handle])


def create_at(side, handle, name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK, 0o644, dir_fd=side.files[handle]))  # a FIFO may be there


def unlink_at(side, handle, name, directory):
    (os.rmdir if directory else os.unlink)(name, dir_fd=side.files[handle])


def rename_at(side, old_handle, old, new_handle, new):
    os.rename(old, new, src_dir_fd=side.files[old_handle], dst_dir_fd=side.files[new_handle])


def symlink_at(side, handle, name):
    os.symlink(b"target", name, dir_fd=side.files[handle])


# ---- attributes

def status(side, path, follow):
    return side.facts.attributes(os.stat(side.at(path), follow_symlinks=follow))


def chmod(side, path, mode):
    os.chmod(side.at(path), mode)


def fchmod(side, handle, mode):
    os.fchmod(side.files[handle], mode)


def chown(side, path, uid, gid, follow):
    os.chown(side.at(path), uid, gid, follow_symlinks=follow)


def fchown(side, handle, uid, gid):
    os.fchown(side.files[handle], uid, gid)


def utimens(side, path, times, follow):
    calls.utimensat(calls.AT_FDCWD, side.at(path), times, follow)


def futimens(side, handle, times):
    calls.utimensat(side.files[handle], None, times)


def access(side, path, mode, effective):
    calls.faccessat2(side.at(path), mode, calls.AT_EACCESS if effective else 0)


def truncate(side, path, size):
    os.truncate(side.at(path), size)


def statvfs(side, path):
    facts = os.statvfs(side.at(path))
    return facts.f_namemax, facts.f_frsize, facts.f_bfree <= facts.f_blocks, facts.f_bavail <= facts.f_bfree


def get_flags(side, path):
    fd = os.open(side.at(path), os.O_RDONLY | os.O_NONBLOCK)
    try:
        flags = array.array("i", [0])
        fcntl.ioctl(fd, calls.FS_IOC_GETFLAGS, flags)
        return flags[0] & side.facts.FLAGS
    finally:
        os.close(fd)


def set_flags(side, path, wanted):
    fd = os.open(side.at(path), os.O_RDONLY | os.O_NONBLOCK)
    try:
        flags = array.array("i", [0])
        fcntl.ioctl(fd, calls.FS_IOC_GETFLAGS, flags)
        flags[0] = (flags[0] & ~side.facts.FLAGS) | wanted
        fcntl.ioctl(fd, calls.FS_IOC_SETFLAGS, flags)
    finally:
        os.close(fd)


# ---- extended attributes

def setxattr(side, path, name, value, flags, follow):
    os.setxattr(side.at(path), name, value, flags, follow_symlinks=follow)


def fsetxattr(side, handle, name, value, flags):
    os.setxattr(side.files[handle], name, value, flags)


def getxattr(side, path, name, follow):
    return os.getxattr(side.at(path), name, follow_symlinks=follow)


def getxattr_into(side, path, name, room):
    return calls.getxattr_into(side.at(path), name, room)


def listxattr(side, path, follow):
    return sorted(os.listxattr(side.at(path), follow_symlinks=follow))


def removexattr(side, path, name, follow):
    os.removexattr(side.at(path), name, follow_symlinks=follow)


def fremovexattr(side, handle, name):
    os.removexattr(side.files[handle], name)


# ---- open files

def open_file(side, handle, path, flags, mode):
    # A FIFO without a partner or a strange device shall not make the test wait.
    side.files[handle] = os.open(side.at(path), flags | os.O_NONBLOCK | os.O_NOCTTY, mode)


def open_again(side, handle, other, flags):
    side.files[handle] = os.open(PROC % side.files[other], flags | os.O_NONBLOCK | os.O_NOCTTY)


def close(side, handle):
    os.close(side.files.pop(handle))


def set_appending(side, handle, on):
    fd = side.files[handle]
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_APPEND if on else flags & ~os.O_APPEND)


def seek(side, handle, offset, whence):
    return os.lseek(side.files[handle], offset, whence)


def find_data(side, handle, offset, whence):
    """Of the places that are found, only what has to be so: which they are depends on what a file system makes holes of.
    That the data found is all there is, is part of what is compared as contents."""
    fd = side.files[handle]
    size = os.fstat(fd).st_size
    try:
        found = os.lseek(fd, offset, whence)
    except OSError as error:
        if error.errno != errno.ENXIO or whence == os.SEEK_HOLE or not 0 <= offset < size:
            raise
        found = size
    os.lseek(fd, offset, os.SEEK_SET)
    return offset <= found <= size


# ---- data

def _aligned(size):
    """Memory that O_DIRECT takes."""
    return mmap.mmap(-1, max(size, 1))


def write(side, handle, data):
    return os.write(side.files[handle], data)


def pwrite(side, handle, data, offset):
    return os.pwrite(side.files[handle], data, offset)


def pwritev(side, handle, parts, offset, flags):
    return os.pwritev(side.files[handle], parts, offset, flags)


def pwrite_direct(side, handle, data, offset):
    buffer = _aligned(len(data))
    buffer[:len(data)] = data
    return os.pwritev(side.files[handle], [memoryview(buffer)[:len(data)]], offset)


def read(side, handle, size):
    return os.read(side.files[handle], size)


def pread(side, handle, size, offset):
    return os.pread(side.files[handle], size, offset)


def preadv(side, handle, sizes, offset):
    buffers = [bytearray(size) for size in sizes]
    got = os.preadv(side.files[handle], buffers, offset)
    return got, b"".join(buffers)[:got]


def pread_direct(side, handle, size, offset):
    buffer = _aligned(size)
    got = os.preadv(side.files[handle], [buffer], offset)
    return buffer[:got]


def ftruncate(side, handle, size):
    os.ftruncate(side.files[handle], size)


def fallocate(side, handle, mode, offset, length):
    calls.fallocate(side.files[handle], mode, offset, length)


def copy_file_range(side, source, target, size, source_offset, target_offset):
    return os.copy_file_range(side.files[source], side.files[target], size, source_offset, target_offset)


def sendfile(side, source, target, size, offset):
    return os.sendfile(side.files[target], side.files[source], offset, size)


def _mapping(fd, block, blocks, protection):
    facts = os.fstat(fd)
    start = block * BLOCK
    size = min(facts.st_size - start, blocks * BLOCK)
    if not stat.S_ISREG(facts.st_mode) or size <= 0:
        return None
    return mmap.mmap(fd, size, mmap.MAP_SHARED, protection, offset=start)


def write_mapped(side, handle, data, block, at):
    """Stores through a shared mapping, as much as fits into the file there, and syncs it."""
    mapping = _mapping(side.files[handle], block, 4, mmap.PROT_READ | mmap.PROT_WRITE)
    if mapping is None:
        return "nothing to map"
    with mapping:
        at = min(at, len(mapping))
        part = data[:len(mapping) - at]
        mapping[at:at + len(part)] = part
        mapping.flush()
        return len(part)


def read_mapped(side, handle, block, blocks):
    mapping = _mapping(side.files[handle], block, blocks, mmap.PROT_READ)
    if mapping is None:
        return "nothing to map"
    with mapping:
        return mapping[:]


def fsync(side, handle):
    os.fsync(side.files[handle])


def fdatasync(side, handle):
    os.fdatasync(side.files[handle])


def sync_file_range(side, handle, offset, length, flags):
    calls.sync_file_range(side.files[handle], offset, length, flags)


def syncfs(side, handle):
    calls.syncfs(side.files[handle])


def drop_pages(side, handle):
    """What is read next comes from the file system, not from the kernel's page cache."""
    os.fsync(side.files[handle])
    os.posix_fadvise(side.files[handle], 0, 0, os.POSIX_FADV_DONTNEED)


# ---- locks, between the open files of this one process

_FLOCK = "@hhqqi0q"


def flock(side, handle, operation):
    fcntl.flock(side.files[handle], operation | fcntl.LOCK_NB)


def lock_range(side, handle, kind, start, length):
    fcntl.fcntl(side.files[handle], fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0))


def who_locks(side, handle, kind, start, length):
    answer = fcntl.fcntl(side.files[handle], fcntl.F_GETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0))
    return struct.unpack(_FLOCK, answer)


# ---- listings

def entries(side, path):
    fd = os.open(side.at(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = []
        while some := calls.getdents(fd, 32768):
            found += [(name, kind) for _, _, kind, name in some]
        return sorted(found)
    finally:
        os.close(fd)


class Walk:
    """A listing that goes on step by step while the directory changes. The order is the file system's own."""

    def __init__(self, fd):
        self.fd = fd
        self.given = []   # names so far
        self.places = [0]  # where to go on after so many of them


def start_walk(side, number, path):
    side.walks[number] = Walk(os.open(side.at(path), os.O_RDONLY | os.O_DIRECTORY))


def _go_on(walk, room):
    some = calls.getdents(walk.fd, room)
    for _, after, _, name in some:
        walk.given.append(name)
        walk.places.append(after)
    return bool(some)


def go_on_walking(side, number, room):
    _go_on(side.walks[number], room)


def walk_back(side, number, share):
    """Back to a place where it was before, by `share` of 256 of what was given so far."""
    walk = side.walks[number]
    count = len(walk.given) * share // 256
    os.lseek(walk.fd, walk.places[count], os.SEEK_SET)
    del walk.given[count:], walk.places[count + 1:]


def end_walk(side, number, room, there_throughout, there_at_times):
    walk = side.walks[number]
    try:
        while _go_on(walk, room):
            pass
        missing = [name for name in there_throughout if name not in walk.given]
        twice = [name for name in there_throughout if walk.given.count(name) > 1]
        unknown = [name for name in walk.given if name not in there_at_times]
        return [(word, names) for word, names in (("missing", missing), ("twice", twice), ("never there", unknown)) if names]
    finally:
        os.close(side.walks.pop(number).fd)
