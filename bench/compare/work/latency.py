"""Single calls: how long each of many takes, or one that has much to do. Python adds about a microsecond to each."""

import os
from array import array
from time import perf_counter_ns

from .data import Noise, percentiles, timed, undisturbed, write_file
from .piece import Budget, Figure, KiB, MiB, Piece, Setting

BLOCK = 4 * KiB
APPENDED = 100       # bytes
LOADED_FILE = 64 * MiB


def _fsync(session):
    noise = Noise(session.rng)
    folder = session.path("folder")
    os.mkdir(folder)
    whole, alone = [], []
    with session.measured(), undisturbed():
        for number in range(session.settings["fsyncs"]):
            path, data = f"{folder}/{number:07}", noise.take(BLOCK)
            begin = perf_counter_ns()
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(fd, data)
            middle = perf_counter_ns()
            os.fsync(fd)
            end = perf_counter_ns()
            os.close(fd)
            whole.append(end - begin)
            alone.append(end - middle)
    for name, latencies in (("new+fsync", whole), ("fsync", alone)):
        _note(session, name, latencies)


def _append(session):
    noise = Noise(session.rng)
    for name, durable in (("append", False), ("append+fsync", True)):
        latencies = []
        fd = os.open(session.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        try:
            with session.measured(), undisturbed():
                for _ in range(session.settings["appends"]):
                    data = noise.take(APPENDED)
                    begin = perf_counter_ns()
                    os.write(fd, data)
                    if durable:
                        os.fsync(fd)
                    latencies.append(perf_counter_ns() - begin)
        finally:
            os.close(fd)
        _note(session, name, latencies)


def _note(session, name, latencies):
    """The median, and what one in a hundred exceeds."""
    for percent, value in zip((50, 99), percentiles(latencies, 50, 99)):
        session.note(f"{name} p{percent}", value)


def _load(session):
    """Files written one after the other, as fast as that goes."""
    noise = Noise(session.rng)
    latencies = array("q")
    left = session.settings["load"]
    number = 0
    with session.measured(), undisturbed():
        while left > 0:
            fd = os.open(session.path(f"file{number:05}"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                for _ in range(min(-(-left // BLOCK), LOADED_FILE // BLOCK)):
                    data = noise.take(BLOCK)
                    begin = perf_counter_ns()
                    os.write(fd, data)
                    latencies.append(perf_counter_ns() - begin)
            finally:
                os.close(fd)
            left -= LOADED_FILE
            number += 1
    for name, value in zip(("load p50", "load p99", "load p99.9", "load max"), percentiles(latencies, 50, 99, 99.9, 100)):
        session.note(name, value)


def _huge(session):
    size = session.settings["huge"]
    noise = Noise(session.rng)
    calls = {"unlink": os.unlink, "truncate": lambda path: os.truncate(path, 1)}
    for name in calls:
        write_file(session.path(name), size, noise)
    for name, call in calls.items():
        session.cold()
        os.stat(session.path(name))
        with session.measured():
            taken = timed(call, session.path(name))
        session.note(name, taken)


_FSYNC = Budget(1.2, "ext4")
_AT_ONCE = Budget(0.001)

PIECES = (
    Piece("fsync", _fsync, (
        Figure("new+fsync p50", "ms", "open of a new file, write of 4 KiB, fsync: all three, the median", _FSYNC),
        Figure("new+fsync p99", "ms", "the same, what one in a hundred exceeds"),
        Figure("fsync p50", "ms", "that fsync alone, the median", _FSYNC),
        Figure("fsync p99", "ms", "the same, what one in a hundred exceeds"),
    ), settings=(Setting("fsyncs", "1000", "files"),), room=lambda settings: settings["fsyncs"] * 16 * KiB),
    Piece("append", _append, (
        Figure("append p50", "us", f"write of {APPENDED} bytes to the end of a file, the median"),
        Figure("append p99", "us", "the same, what one in a hundred exceeds"),
        Figure("append+fsync p50", "ms", "the same with fsync, the median", _FSYNC),
        Figure("append+fsync p99", "ms", "the same, what one in a hundred exceeds"),
    ), settings=(Setting("appends", "1000", "of each kind"),)),
    Piece("load", _load, (
        Figure("load p50", "us", f"single writes of 4 KiB to files of {LOADED_FILE // MiB} MiB, written in order without a pause: the median"),
        Figure("load p99", "us", "the same, what one in a hundred exceeds"),
        Figure("load p99.9", "us", "the same, what one in a thousand exceeds"),
        Figure("load max", "ms", "the same, the longest"),
    ), settings=(Setting("load", "2g", "bytes in all"),), room=lambda settings: settings["load"]),
    Piece("huge", _huge, (
        Figure("unlink", "ms", "unlink of a large allocated file, which has been looked up after a cold mount, until it returns", _AT_ONCE),
        Figure("truncate", "ms", "truncate of another such file to one byte", _AT_ONCE),
    ), settings=(Setting("huge", "2g", "bytes of each of the two files", budget="100g"),), room=lambda settings: 2 * settings["huge"]),
)
