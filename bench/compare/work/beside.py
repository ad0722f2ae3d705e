"""What `cp` of a large file does to other work: each is done alone, and while such a copy goes on."""

import contextlib
import os

from inputs import warm_file
from shared.commands import going_on, run

from .data import Noise, percentiles
from .latency import FSYNCS, LOAD, note_latencies, write_and_sync, write_on
from .piece import Budget, Figure, GiB, Piece, Setting

_COPY_ON = 'while cp "$1" "$2"; do :; done'


def _beside(session):
    tar, source = session.inputs.path("tree"), session.inputs.path("beside")
    noise = Noise(session.rng)
    for when in ("alone", "beside"):
        folder = session.path(when)
        session.cold()
        os.makedirs(folder + "/tree")
        warm_file(source)
        warm_file(tar)
        copying = going_on("sh", "-c", _COPY_ON, "sh", source, session.path("large")) if when == "beside" else contextlib.nullcontext()
        with copying:
            with session.measured():
                taken = run("tar", "-xf", tar, "-C", folder + "/tree")
            session.note(f"untar {when}", taken)
            _, synced = write_and_sync(session, folder + "/synced", noise)
            note_latencies(session, f"fsync {when}", synced)
            session.note(f"load {when} p99.9", *percentiles(write_on(session, folder + "/load", noise), 99.9))
    for name in _COMPARED:
        session.note_ratio(*(_named(name, when) for when in ("beside/alone", "beside", "alone")))


# What is done, its unit, what it is, and the most that it may take beside a copy, as a multiple of what it takes alone.
_COMPARED = {
    "untar": ("s", "tar -xf of the tree, until tar returns", 1.5),
    "fsync p50": ("ms", "fsync of a new file of 4 KiB, the median", 2.0),
    "fsync p99": ("ms", "the same, what one in a hundred exceeds", 2.0),
    "load p99.9": ("us", "single writes of 4 KiB without a pause, what one in a thousand exceeds", 1.5),
}


def _named(name, when):
    """The figure of one of these: "fsync p50" done "alone" is "fsync alone p50"."""
    what, *percent = name.split(" ")
    return " ".join((what, when, *percent))


def _figures():
    for name, (unit, what, limit) in _COMPARED.items():
        yield Figure(_named(name, "alone"), unit, what)
        yield Figure(_named(name, "beside"), unit, "the same, beside `cp` of a large file, again and again")
        yield Figure(_named(name, "beside/alone"), "x", "the ratio of the two", Budget(limit))


PIECES = (
    Piece("beside", _beside, tuple(_figures()), inputs=("tree", "beside"), tools=("tar", "cp"),
          settings=(Setting("beside", "2g", "bytes of the file that is copied meanwhile", budget="10g"), FSYNCS, LOAD),
          room=lambda settings: settings["beside"] + 2 * settings["load"] + 4 * GiB),
)
