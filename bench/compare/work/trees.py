"""Trees of other kinds than the source of a kernel, so that nothing is good at that one alone: cold reads of each."""

from shared.cold import grep_command

from .piece import Figure, KiB, Piece, Setting
from .tree import WALK_BY_TAR, unpack


def _piece(name, what, files, mean):
    """`mean`: bytes of a file."""

    def work(session):
        tree = unpack(session, name)
        session.note_cold(f"{name} grep", *grep_command(tree, session.rng), ok=(0, 1))
        session.note_cold(f"{name} find", "find", tree)
        session.note_cold(f"{name} tar", *WALK_BY_TAR, tree)
        session.inputs.same_everywhere(name, tree)

    return Piece(name, work, (
        Figure(f"{name} grep", "s", f"grep -r of {what}, after a cold mount"),
        Figure(f"{name} find", "s", "find there, after a cold mount"),
        Figure(f"{name} tar", "s", "tar -cf - into a pipe there, after a cold mount"),
    ), inputs=(name,), tools=("tar",), settings=(Setting(name, files, f"files of {what}"),), room=lambda settings: settings[name] * mean)


PIECES = (
    _piece("objects", "a made-up git object store", "20000", 16 * KiB),
    _piece("modules", "a made-up node_modules", "30000", 16 * KiB),
    _piece("mail", "made-up maildirs", "20000", 32 * KiB),
)
