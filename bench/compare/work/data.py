"""File data that does not compress, and the small tools with which single calls are timed.

What is timed call by call is timed in this process: Python adds about a microsecond to each, the same on every file system.
"""

import contextlib
import gc
import math
import os
import time

from shared.commands import Problem

from .piece import MiB

CHUNK = MiB
EDIT = 100  # bytes of a file that are written over where it is changed


class Noise:
    """Bytes from a seed that do not compress, as fast as memory: slices of a pool, each at another place of it."""

    _STEP = 4099  # a prime, so that slices of the pool's second round lie elsewhere than those of its first

    def __init__(self, rng, pool=16 * MiB):
        self._pool = memoryview(rng.randbytes(pool))
        self._at = 0

    def take(self, size):
        """Up to half of the pool."""
        if self._at + size > len(self._pool):
            self._at %= self._STEP
        piece = self._pool[self._at:self._at + size]
        self._at += size + self._STEP
        return piece


def write_file(path, size, noise):
    """Returns when all of it is on the device."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        done = 0
        while done < size:
            done += os.write(fd, noise.take(min(CHUNK, size - done)))
        os.fsync(fd)
    finally:
        os.close(fd)


def read_file(path, size):
    """Problem, unless it has so many bytes."""
    buffer = bytearray(CHUNK)
    total = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    if total != size:
        raise Problem(f"{path} has {total} bytes of {size}")


def write_over(edits, tree):
    """edits: (path of a file in the tree, where, what is written there)."""
    for path, at, data in edits:
        fd = os.open(os.path.join(tree, path), os.O_WRONLY)
        try:
            os.pwrite(fd, data, at)
        finally:
            os.close(fd)


def timed(work, *arguments):
    """The seconds that work(*arguments) takes."""
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


@contextlib.contextmanager
def undisturbed():
    """Without Python's collections of garbage in between."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def percentile(ordered, percent):
    """The least of the values that `percent` of all do not exceed. `ordered`: from the least to the largest, not empty."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def percentiles(nanoseconds, *percents):
    """In seconds; the 100th is the largest."""
    ordered = sorted(nanoseconds)
    return [percentile(ordered, percent) / 1e9 for percent in percents]
