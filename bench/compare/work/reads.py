"""Reads at random places of a large file."""

from .data import Noise, write_file
from .fio import fio, rate
from .io import RANDOM_FILE
from .piece import Budget, Figure, GiB, KiB, MiB, Piece, Setting

LENGTHS = {"4k": 4 * KiB, "64k": 64 * KiB, "1m": MiB}
WAYS = {
    **{f"{name} {depth}": ("--ioengine=libaio", f"--direct={direct}", f"--iodepth={depth}") for name, direct in (("direct", 1), ("buffered", 0)) for depth in (1, 16)},
    "mmap": ("--ioengine=mmap",),
}


def _reads(session):
    size = session.settings["random-file"]
    path = session.path("large")
    write_file(path, size, Noise(session.rng))
    for of, length in LENGTHS.items():
        for way, words in WAYS.items():
            session.cold()
            total = min(size, session.settings["random-reads"] * length)
            job = fio(session, f"--filename={path}", "--rw=randread", f"--bs={length}", f"--size={size}", f"--io_size={total}", *words)
            session.note(f"read {of} {way}", rate(job["read"]))


def _what(length, way):
    kind, _, depth = way.partition(" ")
    return f"reads of {length} at random places of a file, after a cold mount, " + (f"{kind}, {depth} at a time" if depth else "through a mapping")


PIECES = (
    Piece("reads", _reads, tuple(Figure(f"read {of} {way}", "MiB/s", _what(of, way), Budget(0.7, "ext4"), more_is_better=True) for of in LENGTHS for way in WAYS),
          tools=("fio",), settings=(RANDOM_FILE, Setting("random-reads", "4k", "reads of each kind, of each place once at most")),
          room=lambda settings: settings["random-file"] + GiB),
)
