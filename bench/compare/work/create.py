"""Many small files: made as TokuBench makes them, and then renamed as one directory."""

import os

from shared.cold import grep_command

from .data import Noise, timed
from .piece import Budget, Figure, KiB, Piece, Setting

FANOUT = 128
SIZE = 200  # bytes of a file
ROOM = 16 * KiB  # bytes of the device for a file: what ext4 sets aside for an inode


def folders(count):
    """The folders of a balanced tree of `count` files, in the order of a walk: at most FANOUT files or folders in each. They
    are relative paths."""
    leaves = -(-count // FANOUT)
    levels = 0
    while FANOUT ** levels < leaves:
        levels += 1
    for leaf in range(leaves):
        digits = [leaf // FANOUT ** level % FANOUT for level in reversed(range(levels))]
        yield os.path.join("", *(f"{digit:03}" for digit in digits))


def small_files(count):
    """(folder, names of the files in it) of such a tree."""
    names = [f"{number:03}" for number in range(FANOUT)]
    for place, folder in enumerate(folders(count)):
        yield folder, names[:count - place * FANOUT]


def make_small_files(root, count, noise):
    for folder, names in small_files(count):
        folder = os.path.join(root, folder)
        os.makedirs(folder, exist_ok=True)
        for name in names:
            fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(fd, noise.take(SIZE))
            os.close(fd)


def _create(session):
    noise = Noise(session.rng)
    session.cold()
    session.note_until_unmounted("create", timed, make_small_files, session.path("small"), session.settings["created"], noise)
    session.mount()
    session.inputs.same_everywhere("created", session.path("small"))


def _rename(session):
    names = [session.path(name) for name in ("small", "renamed", "again")]
    make_small_files(names[0], session.settings["renamed"], Noise(session.rng))
    session.time_cold(*grep_command(names[0], session.rng), ok=(0, 1))  # the first pays for what was left to do after writing
    session.note_cold("grep before rename", *grep_command(names[0], session.rng), ok=(0, 1))
    session.cold()
    os.stat(names[0])
    with session.measured():
        cold = timed(os.rename, names[0], names[1])
        warm = timed(os.rename, names[1], names[2])
    session.note("rename cold", cold)
    session.note("rename warm", warm)
    session.note_cold("grep after rename", *grep_command(names[2], session.rng), ok=(0, 1))
    session.inputs.same_everywhere("renamed", names[2])
    session.note_ratio("grep after/before", "grep after rename", "grep before rename")


PIECES = (
    Piece("create", _create, (
        Figure("create", "s", f"making files of {SIZE} bytes in a balanced tree of fan-out {FANOUT}, in its order, until the last is closed"),
        Figure("create+umount", "s", "the same, until umount has returned"),
    ), settings=(Setting("created", "100000", "files to make (TokuBench: 3000000)"),), room=lambda settings: settings["created"] * ROOM),
    Piece("rename", _rename, (
        Figure("rename cold", "ms", "rename of the root of such a tree, which has been looked up after a cold mount", Budget(0.001)),
        Figure("rename warm", "ms", "another rename of it at once", Budget(0.001)),
        Figure("grep before rename", "s", "grep -r there before, after a cold mount"),
        Figure("grep after rename", "s", "the same after both renames"),
        Figure("grep after/before", "x", "the ratio of the two", Budget(1.05)),
    ), settings=(Setting("renamed", "100000", "files below the directory that is renamed", budget="1000000"),),
          room=lambda settings: settings["renamed"] * ROOM),
)
