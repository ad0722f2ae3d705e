"""Several processes at once, each with its share of one tree: more of them than processors must not cost more in all."""

import os
import stat

from shared.cold import grep_command
from shared.commands import run, run_at_once

from .piece import Figure, KiB, Piece
from .tree import unpack

COUNTS = (1, 2, 4, 8)
ROUNDS = 5           # walks of each share: one alone is over too soon
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


def _find(paths):
    """Asks for the attributes of all files, and finds nothing."""
    return ["find", *paths, "-size", "-0"]


def _parallel(session):
    tree = unpack(session, "tree")
    parts = {count: shares(tree, count) for count in COUNTS}
    for count in COUNTS:
        commands = [[*grep_command(paths[0], session.rng), *paths[1:]] for paths in parts[count]]
        session.cold()
        _note(session, f"grep by {count}", commands, ok=(0, 1))
    run(*_find([tree]))
    for count in COUNTS:
        _note(session, f"find by {count}", [_find(paths * ROUNDS) for paths in parts[count]])


def _note(session, name, commands, **more):
    with session.measured():
        taken = run_at_once(commands, **more)
    session.note(name, taken)


def _of(count):
    return "one process" if count == 1 else f"{count} processes at once, each of its share"


PIECES = (
    Piece("parallel", _parallel, (
        *(Figure(f"grep by {count}", "s", f"grep -r of the tree, after a cold mount, by {_of(count)}") for count in COUNTS),
        *(Figure(f"find by {count}", "s", f"find -size -0 there, {ROUNDS} times, with warm caches, by {_of(count)}") for count in COUNTS),
    ), inputs=("tree",), tools=("tar",)),
)
