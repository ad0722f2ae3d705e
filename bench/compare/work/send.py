"""A tree is sent to another folder, and brought up to date there when few or many files were changed."""

import os

from shared.commands import Problem, read, run

from .piece import Figure, Piece
from .states import COUNTS, FILES, WHAT, States, room


def _facts(path):
    info = os.lstat(path)
    with open(path, "rb") as file:
        return info.st_mode, info.st_mtime_ns, file.read()


def _note_stream(session, name, *of):
    """How long the stream is, where there is one."""
    command = session.fs.stream_command(*of)
    if command:
        session.note(name, int(read("bash", "-c", 'set -o pipefail; "$@" | wc -c', "bash", *command)))


def _send(session):
    states = States(session)
    folder = session.path("received")
    os.mkdir(folder)
    base = received = None
    for name, count in [("full", 0), *states.counts()]:
        changed = states.change(count)
        source = states.now()
        target = os.path.join(folder, os.path.basename(source) if session.fs.snapshots else name)
        session.cold()
        session.note_until_unmounted(f"send {name}", run, *session.fs.transfer_command(source, target, base, received))
        session.mount()
        wrong = sorted(path for path in changed if _facts(os.path.join(source, path)) != _facts(os.path.join(target, path)))
        if wrong:
            raise Problem(f"{target}: {wrong[0]}, one of {len(wrong)} such files, is not what was sent")
        _note_stream(session, f"stream {name}", source, base)
        base, received = source, target
    run("diff", "-rq", "--no-dereference", source + "/", target + "/")


def _figures():
    yield Figure("send full", "s", "all of the tree to another folder, after a cold mount, until the command returns: lsmfs send into receive, btrfs send into receive, else cp -a")
    yield Figure("send full+umount", "s", "the same, until umount has returned: all is on the device")
    for name in COUNTS:
        yield Figure(f"send {name}", "s", f"the same of what differs when {WHAT[name]} were changed: send -i, send -p, else rsync -a")
        yield Figure(f"send {name}+umount", "s", "the same, until umount has returned")
    yield Figure("stream full", "MiB", "bytes of the stream of all, where there is one")
    for name in COUNTS:
        yield Figure(f"stream {name}", "MiB", f"the same of what differs when {WHAT[name]} were changed")


PIECES = (Piece("send", _send, tuple(_figures()), tools=("cp", "rsync", "diff"), settings=(FILES,), room=room),)
