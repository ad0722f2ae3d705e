"""Directories with very many entries, and what removing very many leaves behind."""

import os

from shared.cold import drop_caches
from shared.commands import run

from .create import ROOM, make_small_files
from .data import Noise, timed
from .piece import Budget, Figure, KiB, Piece, Setting

NAME = 8  # bytes that a name is made of, in hexadecimal
SAMPLE = 10_000  # files


def _make_empty_files(folder, names):
    for name in names:
        os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def _directory(session):
    folder = session.path("folder")
    os.mkdir(folder)
    names = [session.rng.randbytes(NAME).hex() for _ in range(session.settings["entries"])]
    session.cold()
    with session.measured():
        session.note("many created", timed(_make_empty_files, folder, names))
    session.note_cold("many ls -f", "ls", "-f", folder)
    session.note_cold("many find", "find", folder)
    session.note_cold("many ls -l", "ls", "-l", folder)
    session.inputs.same_everywhere("entries", folder)
    session.note_cold("many removed", "rm", "-rf", folder)


def _sample(session, when, top, count, noise):
    with session.measured():
        session.note(f"create {when} removal", timed(make_small_files, os.path.join(top, "small"), count, noise))
    drop_caches()
    session.note(f"find {when} removal", session.time("find", top))


def _removal(session):
    noise = Noise(session.rng)
    top = session.path("top")
    count = session.settings["removed"]
    sample = min(SAMPLE, count)
    _sample(session, "before", top, sample, noise)
    run("rm", "-rf", top)
    make_small_files(os.path.join(top, "small"), count, noise)
    session.note_cold("removal", "rm", "-rf", os.path.join(top, "small"))
    _sample(session, "after", top, sample, noise)
    for name in ("create", "find"):
        session.note_ratio(f"{name} after/before", f"{name} after removal", f"{name} before removal")


_LISTED = Budget(2.0, "ext4")
_OTHER = Budget(1.5, "ext4")
_NO_SWAMP = Budget(1.5)

PIECES = (
    Piece("directory", _directory, (
        Figure("many created", "s", "making empty files of random names in one directory, until the last is closed", _OTHER),
        Figure("many ls -f", "s", "ls -f of it, after a cold mount", _LISTED),
        Figure("many find", "s", "find there, after a cold mount", _LISTED),
        Figure("many ls -l", "s", "ls -l of it, after a cold mount", _OTHER),
        Figure("many removed", "s", "rm -rf of it, after a cold mount, until rm returns", _OTHER),
    ), settings=(Setting("entries", "100000", "entries of the directory", budget="2000000"),), room=lambda settings: settings["entries"] * ROOM),
    Piece("removal", _removal, (
        Figure("create before removal", "s", f"making {SAMPLE} small files at most in a new tree"),
        Figure("find before removal", "s", "find there, with the kernel's caches dropped"),
        Figure("removal", "s", "rm -rf of a tree of many small files, after a cold mount, until rm returns"),
        Figure("create after removal", "s", "making as many files as before at the same place, at once"),
        Figure("find after removal", "s", "find there, with the kernel's caches dropped"),
        Figure("create after/before", "x", "the ratio of the two", _NO_SWAMP),
        Figure("find after/before", "x", "the ratio of the two", _NO_SWAMP),
    ), settings=(Setting("removed", "100000", "files of the tree that is removed", budget="1000000"),), room=lambda settings: settings["removed"] * ROOM),
)
