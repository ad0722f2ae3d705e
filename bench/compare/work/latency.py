"""Single calls: how long each of many takes, or one that has much to do. Python adds about a microsecond to each."""

import os
import time
from array import array
from time import perf_counter_ns

from shared.cold import used_bytes
from shared.commands import Problem

from .data import Noise, percentiles, timed, undisturbed, write_file
from .fio import fio
from .piece import Budget, Figure, KiB, MiB, Piece, Setting

BLOCK = 4 * KiB
APPENDED = 100       # bytes
LOADED_FILE = 64 * MiB
SPARSE_PIECES = 64
AT_ONCE = 16         # processes
FREED = 95           # percent of a file: the rest may be kept for what is in flight
LONGEST_WAIT = 300   # seconds

FSYNCS = Setting("fsyncs", "1000", "files, each synced; of those at once, writes of each process")
LOAD = Setting("load", "2g", "bytes in all")


def write_and_sync(session, folder, noise):
    """Makes files of one block in a new folder, and syncs each. Returns the nanoseconds of each, and of its fsync alone."""
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
    return whole, alone


def _fsync(session):
    whole, alone = write_and_sync(session, session.path("folder"), Noise(session.rng))
    for name, latencies in (("new+fsync", whole), ("fsync", alone)):
        note_latencies(session, name, latencies)
    folder = session.path("at-once")
    os.mkdir(folder)
    job = fio(session, f"--directory={folder}", "--rw=write", f"--bs={BLOCK}", f"--size={session.settings['fsyncs'] * BLOCK}", "--fsync=1", f"--numjobs={AT_ONCE}",
              "--fallocate=none")
    for percent in (50, 99):
        session.note(f"fsync by {AT_ONCE} p{percent}", job["sync"]["lat_ns"]["percentile"][f"{percent}.000000"] / 1e9)


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
        note_latencies(session, name, latencies)


def note_latencies(session, name, latencies):
    """The median, and what one in a hundred exceeds."""
    for percent, value in zip((50, 99), percentiles(latencies, 50, 99)):
        session.note(f"{name} p{percent}", value)


def write_on(session, folder, noise):
    """Writes files in a new folder, one after the other, as fast as that goes. Returns the nanoseconds of each write."""
    os.mkdir(folder)
    latencies = array("q")
    left = session.settings["load"]
    number = 0
    with session.measured(), undisturbed():
        while left > 0:
            fd = os.open(f"{folder}/file{number:05}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
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
    return latencies


def _load(session):
    latencies = write_on(session, session.path("folder"), Noise(session.rng))
    for name, value in zip(("load p50", "load p99", "load p99.9", "load max"), percentiles(latencies, 50, 99, 99.9, 100)):
        session.note(name, value)


def _write_sparsely(path, size, noise):
    """A block in each of SPARSE_PIECES equal pieces."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.ftruncate(fd, size)
        for piece in range(SPARSE_PIECES):
            os.pwrite(fd, noise.take(BLOCK), piece * (size // SPARSE_PIECES))
        os.fsync(fd)
    finally:
        os.close(fd)


def _wait_for_less_used(point, most):
    """Returns when df says that at most so many bytes are used."""
    begin = perf_counter_ns()
    while (used := used_bytes(point)) > most:
        if perf_counter_ns() - begin > LONGEST_WAIT * 1e9:
            raise Problem(f"{point} still uses {used} bytes after {LONGEST_WAIT} seconds, more than {most}")
        time.sleep(0.01)


def _huge(session):
    size = session.settings["huge"]
    noise = Noise(session.rng)
    calls = {"unlink": os.unlink, "truncate": lambda path: os.truncate(path, 1)}
    for kind, write in (("", write_file), (" sparse", _write_sparsely)):
        for name in calls:
            write(session.path(name + kind), size, noise)
    for name, call in calls.items():
        for kind in ("", " sparse"):
            path = session.path(name + kind)
            session.cold()
            os.stat(path)
            used = used_bytes(session.point)
            with session.measured():
                taken = timed(call, path)
                freed = taken if kind else taken + timed(_wait_for_less_used, session.point, used - size * FREED // 100)
            session.note(name + kind, taken)
            if not kind:
                session.note(name + " freed", freed)


_FSYNC = Budget(1.2, "ext4")
_GROUPED = Budget(0.5, "ext4")
_IMMEDIATE = Budget(0.001)
_SOON = Budget(5.0)

PIECES = (
    Piece("fsync", _fsync, (
        Figure("new+fsync p50", "ms", "open of a new file, write of 4 KiB, fsync: all three, the median", _FSYNC),
        Figure("new+fsync p99", "ms", "the same, what one in a hundred exceeds"),
        Figure("fsync p50", "ms", "that fsync alone, the median", _FSYNC),
        Figure("fsync p99", "ms", "the same, what one in a hundred exceeds"),
        Figure(f"fsync by {AT_ONCE} p50", "ms", f"fsync after each write of 4 KiB to a file, by {AT_ONCE} processes at once, the median", _GROUPED),
        Figure(f"fsync by {AT_ONCE} p99", "ms", "the same, what one in a hundred exceeds", _GROUPED),
    ), tools=("fio",), settings=(FSYNCS,), room=lambda settings: (2 + AT_ONCE) * settings["fsyncs"] * 16 * KiB),
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
    ), settings=(LOAD,), room=lambda settings: settings["load"]),
    Piece("huge", _huge, (
        Figure("unlink", "ms", "unlink of a large allocated file, which has been looked up after a cold mount, until it returns", _IMMEDIATE),
        Figure("unlink freed", "s", f"from that call until df has {FREED} % of it back", _SOON),
        Figure("unlink sparse", "ms", f"the same of a file of holes, with a block in each of {SPARSE_PIECES} pieces", _IMMEDIATE),
        Figure("truncate", "ms", "truncate of another such file to one byte", _IMMEDIATE),
        Figure("truncate freed", "s", f"from that call until df has {FREED} % of it back", _SOON),
        Figure("truncate sparse", "ms", "the same of a file of holes", _IMMEDIATE),
    ), settings=(Setting("huge", "2g", "bytes of each of the four files, two of which are holes", budget="100g"),), room=lambda settings: 2 * settings["huge"]),
)
