"""Calls on large files, and direct I/O beside them: how long they take, and how much metadata they read."""

import ctypes
import mmap
import os
import time

from shared.cold import seeded
from shared.commands import Problem

from .workload import Workload

KiB, MiB = 1 << 10, 1 << 20
SLOW = 0.1  # seconds: the study of ext4's clusters counted I/O that took longer
PIECE = 128 * KiB
_LIBC = ctypes.CDLL(None, use_errno=True)


def _fallocate(fd, size):
    if _LIBC.fallocate(fd, 0, ctypes.c_int64(0), ctypes.c_int64(size)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class BigAlloc(Workload):
    name = "bigalloc"
    help = "fallocate, truncate and unlink of large files, then direct reads and writes in a steady state"

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--files", type=int, default=20, metavar="N", help="of each kind of call; default: 20")
        parser.add_argument("--megabytes", type=int, default=64, metavar="M", help="of each file; default: 64")
        parser.add_argument("--seconds", type=int, default=30, metavar="S", help="of direct I/O; default: 30")

    def __init__(self, given):
        self._files, self._size, self._seconds = given.files, given.megabytes * MiB, given.seconds
        if min(given.files, given.megabytes, given.seconds) < 1:
            raise Problem("--files, --megabytes and --seconds: at least 1")

    def asked(self):
        return {"files": self._files, "bytes": self._size, "seconds": self._seconds}

    def steps(self):
        return 1

    def run(self, stage):
        stage.open()
        rng = seeded(stage.context.seed, self.name)
        stage.context.tell("writing the files")
        for number in range(self._files):
            with open(os.path.join(stage.point, f"file{number}"), "wb", buffering=0) as file:
                for _ in range(self._size // MiB):
                    file.write(rng.randbytes(MiB))
        os.sync()
        with stage.device.measured():
            for name, call in (("fallocate", self._allocate), ("truncate", self._truncate), ("unlink", self._unlink)):
                stage.context.tell(name)
                self._calls(stage, name, call)
            stage.context.tell("direct I/O")
            self._direct(stage, rng)
        stage.context.advance(1)
        stage.close(None)

    def _allocate(self, point, number):
        fd = os.open(os.path.join(point, f"new{number}"), os.O_CREAT | os.O_RDWR, 0o644)
        try:
            _fallocate(fd, self._size)
        finally:
            os.close(fd)

    def _truncate(self, point, number):
        os.truncate(os.path.join(point, f"file{number}"), self._size // 2 + 1)

    @staticmethod
    def _unlink(point, number):
        os.unlink(os.path.join(point, f"file{number}"))

    def _calls(self, stage, name, call):
        """Each call with cold caches; its directory and inode have been looked at before."""
        latencies, reads = [], []
        for number in range(self._files):
            stage.forget_caches()
            os.listdir(stage.point)
            before, start = stage.device.reads(), time.perf_counter()
            call(stage.point, number)
            latencies.append(time.perf_counter() - start)
            reads.append(stage.device.reads() - before)
        stage.note(name, sum(latencies) / len(latencies), calls=len(latencies), max_seconds=max(latencies), reads_per_call=sum(reads) / len(reads),
                   max_reads=max(reads))

    def _direct(self, stage, rng):
        """Reads and writes of 128 KiB at random, one after the other."""
        path = os.path.join(stage.point, "direct")
        buffer = mmap.mmap(-1, PIECE)
        buffer.write(rng.randbytes(PIECE))
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
        try:
            for at in range(0, self._size, PIECE):
                os.pwritev(fd, [buffer], at)
            taken = {"direct-read": [], "direct-write": []}
            end = time.monotonic() + self._seconds
            while time.monotonic() < end:
                at = rng.randrange(self._size // PIECE) * PIECE
                kind, call = rng.choice((("direct-read", os.preadv), ("direct-write", os.pwritev)))
                start = time.perf_counter()
                call(fd, [buffer], at)
                taken[kind].append(time.perf_counter() - start)
        finally:
            os.close(fd)
        for kind, latencies in taken.items():
            if latencies:
                stage.note(kind, sum(latencies) / len(latencies), calls=len(latencies), max_seconds=max(latencies),
                           share_slow=sum(one > SLOW for one in latencies) / len(latencies))


