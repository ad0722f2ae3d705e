"""The requests that a disk was sent, in the format of the kernel's dm-log-writes, and the disks that a power cut could leave.

Format (all little-endian; documented with the kernel's dm-log-writes): sectors; the first has magic, version, number of entries and
the size of a sector; each entry is a sector with the place of the request, its length, its flags and the length of a text, followed
by what was written, if something was.
"""

import dataclasses
import os
import struct

import syscalls

MAGIC, VERSION = 0x6A736677736872, 1
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
SECTOR = 512


@dataclasses.dataclass(frozen=True)
class Entry:
    at: int     # on the disk, in bytes
    size: int
    flags: int
    data: int   # where in the log what was written lies


@dataclasses.dataclass(frozen=True)
class Cut:
    """The power fails when `upto` requests have been done. On the disk are the first `safe` ones, and of the later ones those in
    `kept`: (request, how many bytes of it)."""
    upto: int
    safe: int
    kept: tuple = ()


def count(path):
    """How many requests a log that grows held at its last flush."""
    with open(path, "rb") as file:
        return SUPER.unpack(file.read(SUPER.size))[2]


class PowerLog:
    def __init__(self, path):
        self.entries = []
        with open(path, "rb") as file:
            self._fd = os.dup(file.fileno())
            magic, version, entries, sector = SUPER.unpack(file.read(SUPER.size))
            if (magic, version, sector) != (MAGIC, VERSION, SECTOR):
                raise ValueError(f"{path}: not such a log: {magic:#x}, version {version}, sectors of {sector}")
            at = SECTOR
            for _ in range(entries):
                file.seek(at)
                place, sectors, flags, text = ENTRY.unpack(file.read(ENTRY.size))
                if flags & FUA or (flags & FLUSH and sectors > 0):
                    raise ValueError(f"{path}: a write that is a flush as well, which the recorder never gave so far")
                data = at + SECTOR
                self.entries.append(Entry(place * SECTOR, sectors * SECTOR, flags, data))
                at = data + (0 if flags & DISCARD else sectors * SECTOR) + -(-text // SECTOR) * SECTOR
        self.flushes = [number for number, entry in enumerate(self.entries) if entry.flags & FLUSH]

    def close(self):
        os.close(self._fd)

    def safe(self, upto):
        """How many of the first `upto` requests no power cut takes away: those before the last flush."""
        return max((number + 1 for number in self.flushes if number < upto), default=0)

    def whole(self, upto):
        """All that was done has reached the disk."""
        safe = self.safe(upto)
        return Cut(upto, safe, tuple((number, self.entries[number].size) for number in range(safe, upto)))

    def lost(self, upto):
        """Nothing has that was not flushed."""
        return Cut(upto, self.safe(upto))

    def drawn(self, upto, rng):
        """Of what was not flushed, some has, some of that in part."""
        kept = []
        for number, size in self.whole(upto).kept:
            dice = rng.random()
            if dice < 0.5:
                kept.append((number, size))
            elif dice < 0.6:
                kept.append((number, rng.randrange(0, size + 1, SECTOR)))
        return Cut(upto, self.safe(upto), tuple(kept))

    def without(self, upto, number):
        """All but one request."""
        return Cut(upto, number, tuple((other, self.entries[other].size) for other in range(number + 1, upto)))

    def apply(self, disk, number, size):
        entry = self.entries[number]
        if entry.flags & DISCARD:
            syscalls.punch_hole(disk, entry.at, size)
        else:
            at = 0
            while at < size:
                at += os.pwrite(disk, os.pread(self._fd, min(size - at, 1 << 20), entry.data + at), entry.at + at)


class Replay:
    """Makes the disks of cuts, in the order of their `safe`."""

    def __init__(self, log, base, path):
        """`base`: the disk before the first request. `path`: for a file of this one's own."""
        self._log = log
        self._path = path
        self._done = 0
        copy_sparse(base, path)
        self._fd = os.open(path, os.O_RDWR)

    def make(self, cut, path):
        while self._done < cut.safe:
            self._log.apply(self._fd, self._done, self._log.entries[self._done].size)
            self._done += 1
        if self._done > cut.safe:
            raise ValueError("cuts out of order")
        copy_sparse(self._path, path)
        disk = os.open(path, os.O_RDWR)
        for number, size in cut.kept:
            self._log.apply(disk, number, size)
        os.close(disk)

    def close(self):
        os.close(self._fd)
        os.unlink(self._path)


def copy_sparse(source, target):
    with open(source, "rb") as old, open(target, "wb") as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        at = 0
        while True:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA)
            except OSError:  # ENXIO: only a hole is left
                return
            end = os.lseek(old.fileno(), at, os.SEEK_HOLE)
            os.lseek(new.fileno(), at, os.SEEK_SET)
            while at < end:
                at += os.sendfile(new.fileno(), old.fileno(), at, end - at)


def same(one, other):
    with open(one, "rb") as first, open(other, "rb") as second:
        while a := first.read(1 << 20):
            if a != second.read(1 << 20):
                return False
        return not second.read(1)
