"""A source tree whose directories are moved about."""

import os
import time

from shared.cold import grep_command

from .piece import Budget, Figure, Piece, Setting
from .tree import unpack


class _Folders:
    """The directories below `top`, which are moved by turns. They are known by number: the top is 0."""

    def __init__(self, top):
        self._top = top
        self._names, self._parents = [""], [0]
        numbers = {top: 0}
        for folder, folders, _ in os.walk(top):
            for name in sorted(folders):
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    numbers[path] = len(self._names)
                    self._names.append(name)
                    self._parents.append(numbers[folder])

    def _above(self, number):
        """Itself, and all that it lies in but the top."""
        while number:
            yield number
            number = self._parents[number]

    def _path(self, number):
        return os.path.join(self._top, *(self._names[one] for one in reversed([*self._above(number)])))

    def move_one(self, turn, rng):
        """One, chosen at random, into another one, under a name that is not there."""
        moved = rng.randrange(1, len(self._names))
        others = [number for number in range(len(self._names)) if moved not in self._above(number)]
        old, to = self._path(moved), rng.choice(others)
        self._names[moved], self._parents[moved] = f"{self._names[moved]}.{turn}", to
        os.rename(old, self._path(moved))


def _shuffle(session):
    tree = unpack(session, "tree")

    def grep(name):
        session.note_cold(name, *grep_command(tree, session.rng), ok=(0, 1))

    session.time_cold(*grep_command(tree, session.rng), ok=(0, 1))  # the first pays for what was left to do after writing
    grep("grep before shuffle")
    folders = _Folders(tree)
    for turn in range(session.settings["moves"]):
        folders.move_one(turn, session.rng)
    grep("grep after shuffle")
    time.sleep(session.settings["idle"])
    grep("grep after idling")
    session.inputs.same_everywhere("shuffled", tree)
    for name in ("shuffle", "idling"):
        session.note_ratio(f"grep after {name}/before", f"grep after {name}", "grep before shuffle")


PIECES = (
    Piece("shuffle", _shuffle, (
        Figure("grep before shuffle", "s", "grep -r of the tree, after a cold mount"),
        Figure("grep after shuffle", "s", "the same after directories of it have been moved into others at random"),
        Figure("grep after idling", "s", "the same when the file system has idled after that"),
        Figure("grep after shuffle/before", "x", "the ratio of the two", Budget(1.5)),
        Figure("grep after idling/before", "x", "the ratio of the two", Budget(1.05)),
    ), inputs=("tree",), tools=("tar",), settings=(Setting("moves", "200", "directories that are moved", budget="200"), Setting("idle", "60", "seconds"))),
)
