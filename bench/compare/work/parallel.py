"""Several processes at once, each with its share of one tree: more of them than processors must not cost more in all."""

import contextlib
import multiprocessing
import os
import signal
import stat
import time

from shared.cold import grep_command
from shared.commands import Problem, run_at_once

from .piece import Figure, KiB, Piece
from .tree import unpack

COUNTS = (1, 2, 4, 8)
ROUNDS = 5           # stats of each file: one alone is over too soon
FILE_COST = 8 * KiB  # what a file costs besides its bytes, in bytes
MOST_ENTRIES = 1000  # a larger directory is one share's: a command line has an end


def _facts(tree):
    """{path: (what reading all below costs, children if it is a directory)} of directories and regular files."""
    facts = {}
    for folder, folders, names in os.walk(tree, topdown=False):
        children = []
        for name in names:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            if stat.S_ISREG(info.st_mode):
                facts[path] = (info.st_size + FILE_COST, None)
                children.append(path)
        children += [path for path in (os.path.join(folder, name) for name in folders) if path in facts]  # no links
        facts[folder] = (sum(facts[path][0] for path in children), sorted(children))
    return facts


def shares(tree, count):
    """The tree in `count` parts or, if it is small, less: paths whose reading costs about the same, in the order of a walk."""
    facts = _facts(tree)
    parts = [tree]
    while len(parts) < 16 * count:
        largest = max(parts, key=lambda path: facts[path][0])
        children = facts[largest][1]
        if not children or len(children) > MOST_ENTRIES:
            break
        place = parts.index(largest)
        parts[place:place + 1] = children
    total = sum(facts[path][0] for path in parts)
    found = [[] for _ in range(count)]
    before = 0
    for path in parts:
        found[min(count - 1, before * count // max(1, total))].append(path)
        before += facts[path][0]
    return [share for share in found if share]


_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _stops_later():
    """Signals to stop arrive when it is left. The exception that they become would be lost in what Python does around a fork."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stat(paths, start):
    for number in _STOPS:
        signal.signal(number, signal.SIG_DFL)  # not the parent's, which cleans up
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    start.wait()
    for _ in range(ROUNDS):
        for path in paths:
            os.lstat(path)


def _stat_at_once(parts):
    context = multiprocessing.get_context("fork")
    start = context.Barrier(len(parts) + 1)
    processes = [context.Process(target=_stat, args=(paths, start), daemon=True) for paths in parts]
    try:
        with _stops_later():
            for process in processes:
                process.start()
        start.wait()
        begin = time.perf_counter()
        for process in processes:
            process.join()
        taken = time.perf_counter() - begin
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()
    if any(process.exitcode != 0 for process in processes):
        raise Problem("a process that asked for attributes failed")
    return taken


def _parallel(session):
    tree = unpack(session, "tree")
    for count in COUNTS:
        if session.wants(_readers(count)):
            commands = [[*grep_command(paths[0], session.rng), *paths[1:]] for paths in shares(tree, count)]
            session.cold()
            with session.measured():
                taken = run_at_once(commands, ok=(0, 1))
            session.note(_readers(count), taken)
    if session.wants(*map(_stats, COUNTS)):
        paths = [os.path.join(folder, name) for folder, folders, names in os.walk(tree) for name in folders + names]
        for path in paths:
            os.lstat(path)
        for count in COUNTS:
            if session.wants(_stats(count)):
                length = -(-len(paths) // count)
                parts = [paths[at:at + length] for at in range(0, len(paths), length)]
                with session.measured():
                    taken = _stat_at_once(parts)
                session.note(_stats(count), taken)


def _readers(count):
    return f"grep by {count}"


def _stats(count):
    return f"stat by {count}"


def _of(count):
    return "one process" if count == 1 else f"{count} processes at once, each of its share"


PIECES = (
    Piece("parallel", _parallel, (
        *(Figure(_readers(count), "s", f"grep -r of the tree, after a cold mount, by {_of(count)}") for count in COUNTS),
        *(Figure(_stats(count), "s", f"lstat of all its names {ROUNDS} times, with warm caches, by {_of(count)}") for count in COUNTS),
    ), inputs=("tree",), tools=("tar",)),
)
