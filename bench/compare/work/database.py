"""What databases do: small transactions, and reads and writes of pages at random places."""

import contextlib
import sqlite3

from .data import Noise, timed, write_file
from .fio import fio
from .io import RANDOM_FILE
from .piece import Budget, Figure, GiB, KiB, Piece, Setting

PAGE = 8 * KiB
FILLER = 80  # bytes of a row besides its numbers
JOURNALS = ("delete", "wal")


def _connect(path, journal):
    """Each transaction is durable when it has been committed."""
    base = sqlite3.connect(path, isolation_level=None)
    base.execute(f"pragma journal_mode={journal}")
    base.execute("pragma synchronous=full")
    return base


def _fill(path, journal, accounts):
    with contextlib.closing(_connect(path, journal)) as base:
        base.execute("create table accounts (number integer primary key, balance integer, filler text)")
        base.execute("create table history (account integer, change integer)")
        base.execute("begin")
        base.executemany("insert into accounts values (?, 0, ?)", ((number, "x" * FILLER) for number in range(accounts)))
        base.execute("commit")


def _transfer(path, journal, numbers):
    with contextlib.closing(_connect(path, journal)) as base:
        for number in numbers:
            base.execute("begin immediate")
            base.execute("update accounts set balance = balance + 1 where number = ?", (number,))
            base.execute("insert into history values (?, 1)", (number,))
            base.execute("commit")


def _sqlite(session):
    accounts, count = session.settings["accounts"], session.settings["transactions"]
    for journal in JOURNALS:
        path = session.path(journal)
        _fill(path, journal, accounts)
        numbers = [session.rng.randrange(accounts) for _ in range(count)]
        session.cold()
        with session.measured():
            taken = timed(_transfer, path, journal, numbers)
        session.note(f"sqlite {journal}", count / taken)


def _mixed(session):
    size = session.settings["random-file"]
    path = session.path("large")
    write_file(path, size, Noise(session.rng))
    session.cold()
    before = session.device.written()
    job = fio(session, f"--filename={path}", "--rw=randrw", "--rwmixread=70", f"--bs={PAGE}", f"--size={size}", "--ioengine=libaio", "--direct=1", "--iodepth=16",
              "--refill_buffers", "--time_based", f"--runtime={session.settings['mixed-seconds']}")
    session.note("mixed", job["read"]["iops"] + job["write"]["iops"])
    session.unmount()
    session.note("mixed written", (session.device.written() - before) / max(job["write"]["io_bytes"], PAGE))


_HALF = Budget(0.5, "ext4")

PIECES = (
    Piece("sqlite", _sqlite, tuple(Figure(f"sqlite {journal}", "1/s", f"durable transactions of one row changed and one added, journal mode {journal}", _HALF, more_is_better=True)
                                   for journal in JOURNALS),
          settings=(Setting("accounts", "100000", "rows of a hundred bytes that are changed at random"), Setting("transactions", "2000", "of each journal mode")),
          room=lambda settings: 2 * (settings["accounts"] * 256 + settings["transactions"] * 16 * KiB)),
    Piece("mixed", _mixed, (
        Figure("mixed", "1/s", "reads and writes of 8 KiB, 70 to 30, direct, 16 at a time, at random places of a file after a cold mount", _HALF, more_is_better=True),
        Figure("mixed written", "x", "bytes written to the device for a byte of these writes, until it was unmounted"),
    ), tools=("fio",), settings=(RANDOM_FILE, Setting("mixed-seconds", "30", "how long", budget="600")), room=lambda settings: 2 * settings["random-file"] + GiB),
)
