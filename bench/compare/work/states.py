"""A tree of small files of which some are changed again and again, at random places of it, and what it was before each time.

It is no piece of work. Those that ask what has changed share it.
"""

import os
import re

from shared.cold import grep_command
from shared.commands import Problem, call, described, one_line, run

from .create import FANOUT, ROOM, SIZE, make_small_files, small_files
from .data import EDIT, Noise, write_over
from .piece import MiB, Setting

COUNTS = {"10": 10, "1000": 1000, "tenth": None}  # files that are changed; None, and at most: a tenth of all
FILES = Setting("files", "100000", "files of the tree in which some are changed", least=FANOUT + 1)
WHAT = {"10": "10 files", "1000": "1000 files, a tenth at most,", "tenth": "a tenth of the files"}


def room(settings):
    """Bytes of the device for the tree and a copy of it."""
    return 2 * settings[FILES.name] * ROOM


class States:
    def __init__(self, session):
        self._session = session
        self._kept = None
        self._number = 0
        count = session.settings[FILES.name]
        noise = Noise(session.rng)
        self.tree = session.path("tree")
        run(*session.fs.folder_command(self.tree))
        os.makedirs(session.path(".snapshots"), exist_ok=True)
        make_small_files(self.tree, count, noise)
        self._files = [os.path.join(folder, name) for folder, names in small_files(count) for name in names]
        self._noise = Noise(session.rng, MiB)
        # A path of a file among other words, with or without what it lies in.
        self._path = re.compile(r"(?:^|[\s/])((?:\d{3}/){%d}\d{3})(?!\S)" % self._files[0].count("/"), re.MULTILINE)
        session.time_cold(*grep_command(self.tree, session.rng), ok=(0, 1))  # the first pays for what was left to do after writing
        session.inputs.same_everywhere("states", self.tree)

    def counts(self):
        """(name, files) of each change."""
        tenth = len(self._files) // 10
        return [(name, min(count or tenth, tenth)) for name, count in COUNTS.items()]

    def change(self, count):
        """Writes over some bytes in so many files. Returns their paths in the tree."""
        changed = self._session.rng.sample(self._files, count)
        write_over(((path, self._session.rng.randrange(SIZE - EDIT + 1), self._noise.take(EDIT)) for path in changed), self.tree)
        return changed

    def now(self):
        """A folder of the files as they are now, until the next change at least: a snapshot, or where there are none the tree itself."""
        if not self._session.fs.snapshots:
            return self.tree
        snapshot = self._next()
        run(*self._session.fs.snapshot_command(self.tree, snapshot))
        return snapshot

    def kept(self):
        """The same, which stays so until this is called again: a snapshot, or a copy."""
        if self._session.fs.snapshots:
            return self.now()
        copy = self._next()
        run(*self._session.fs.transfer_command(self.tree, copy, self._kept, self._kept))
        self._kept = copy
        return copy

    def _next(self):
        self._number += 1
        return self._session.path(".snapshots", f"state{self._number}")

    def check_told(self, command, changed):
        """Problem, unless what a command prints has the paths of these files, and of no others."""
        status, out, err, _ = call(*command)
        found, wanted = set(self._path.findall(out)), set(changed)
        if found != wanted:
            raise Problem(f"{described(command)}: tells {len(found & wanted)} of {len(wanted)} changed files and {len(found - wanted)} others; "
                          f"exit status {status}, {one_line(err)}")
