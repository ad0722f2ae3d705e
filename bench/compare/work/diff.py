"""What differs between two states of a tree in which few or many files were changed."""

from .piece import Figure, Piece
from .states import COUNTS, FILES, WHAT, States, room


def _diff(session):
    states = States(session)
    base = states.kept()
    for name, count in states.counts():
        changed = states.change(count)
        command = session.fs.differences_command(states.now(), base)
        session.note_cold(f"diff {name}", *command, ok=(0, 1))
        session.note(f"diff {name} warm", session.time(*command, ok=(0, 1)))
        states.check_told(command, changed)
        base = states.kept()


def _figures():
    for name in COUNTS:
        yield Figure(f"diff {name}", "s", f"telling which files differ when {WHAT[name]} were changed, after a cold mount: lsmfs diff, "
                     "btrfs send --no-data into btrfs receive --dump, else rsync -an with a copy")
        yield Figure(f"diff {name} warm", "s", "the same again")


PIECES = (Piece("diff", _diff, tuple(_figures()), tools=("cp", "rsync"), settings=(FILES,), room=room),)
