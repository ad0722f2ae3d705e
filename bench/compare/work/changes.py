"""What has changed in a tree since a moment that was noted."""

import time

from shared.commands import run

from .piece import Figure, Piece
from .states import COUNTS, FILES, WHAT, States, room

TICK = 0.1  # seconds: times of files are as coarse as the kernel's clock, and find tells what is newer


def _changes(session):
    states = States(session)
    mark = session.path("mark")
    for name, count in states.counts():
        run(*session.fs.mark_command(states.tree, mark))
        time.sleep(TICK)
        changed = states.change(count)
        command = session.fs.since_command(states.tree, mark)
        session.note_cold(f"changes {name}", *command)
        session.note(f"changes {name} warm", session.time(*command))
        states.check_told(command, changed)


def _figures():
    for name in COUNTS:
        yield Figure(f"changes {name}", "s", f"telling which files have changed when {WHAT[name]} were changed, after a cold mount: lsmfs changes --since, "
                     "btrfs subvolume find-new, else find -newer")
        yield Figure(f"changes {name} warm", "s", "the same again")


PIECES = (Piece("changes", _changes, tuple(_figures()), tools=("find",), settings=(FILES,), room=room),)
