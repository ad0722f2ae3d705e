"""Large files: written and read in order, and written at random places."""

import os

from .data import Noise, read_file, timed, write_file
from .piece import Budget, Figure, GiB, KiB, Piece, Setting


def _sequential(session):
    size = session.settings["sequential"]
    path = session.path("large")
    noise = Noise(session.rng)
    session.cold()
    before = session.device.written()
    with session.measured():
        session.note("write", size / timed(write_file, path, size, noise))
        session.unmount()
    session.mount()
    with session.measured():
        session.note("read", size / timed(read_file, path, size))
        # Once more: what a file system goes on with after a mount counts, too.
        session.unmount()
    session.note("written", (session.device.written() - before) / size)


def _write_at_random(path, places, length, noise):
    fd = os.open(path, os.O_WRONLY)
    try:
        for at in places:
            os.pwrite(fd, noise.take(length), at)
        os.fsync(fd)
    finally:
        os.close(fd)


def _random(session):
    size, count = session.settings["random-file"], session.settings["random-writes"]
    path = session.path("large")
    noise = Noise(session.rng)

    def read_in_order(name):
        session.cold()
        with session.measured():
            taken = timed(read_file, path, size)
        session.note(name, size / taken)

    write_file(path, size, noise)
    read_in_order("read before random")
    for name, length in (("random 4 B", 4), ("random 4 KiB", 4 * KiB)):
        places = [session.rng.randrange(size // length) * length for _ in range(count)]
        session.cold()
        with session.measured():
            taken = timed(_write_at_random, path, places, length, noise)
        session.note(name, taken)
    read_in_order("read after random")
    session.note_ratio("read after/before random", "read after random", "read before random")


RANDOM_FILE = Setting("random-file", "1g", "bytes of the file", least=4 * KiB, budget="10g")
_STILL_READ = Budget(0.7)
_FAR_AHEAD = Budget(1 / 50, "ext4", device="simdisk:hdd")

PIECES = (
    Piece("sequential", _sequential, (
        Figure("write", "MiB/s", "a file of data that does not compress, in order, until fsync returns", Budget(0.9, "ext4"), more_is_better=True),
        Figure("read", "MiB/s", "the same file, in order, after a cold mount", Budget(0.9, "ext4"), more_is_better=True),
        Figure("written", "x", "bytes written to the device for a byte of the file, until it was unmounted, mounted, read and unmounted again",
               Budget(1.15)),
    ), settings=(Setting("sequential", "4g", "bytes of the file", budget="4g"),), room=lambda settings: settings["sequential"]),
    Piece("random", _random, (
        Figure("read before random", "MiB/s", "a file of data that does not compress, in order, after a cold mount", more_is_better=True),
        Figure("random 4 B", "s", "writes of 4 bytes at random places of an allocated file, after a cold mount, until fsync returns", _FAR_AHEAD),
        Figure("random 4 KiB", "s", "the same with 4 KiB", _FAR_AHEAD),
        Figure("read after random", "MiB/s", "the file in order, after a cold mount", more_is_better=True),
        Figure("read after/before random", "x", "the ratio of the two", _STILL_READ, more_is_better=True),
    ), settings=(RANDOM_FILE, Setting("random-writes", "16k", "writes", budget="256k")), room=lambda settings: settings["random-file"] + GiB),
)
