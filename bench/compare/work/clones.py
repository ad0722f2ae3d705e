"""Clones of a source tree, as each file system makes them: read, changed, removed, and made of each other again and again.

What clones and what removes is in the descriptions of file systems (shared/fs). Where nothing is shared, a clone is a copy by `cp -a`.
"""

import os
import statistics
import stat
import time
import zlib

from shared.cold import grep_command, used_bytes
from shared.commands import Problem, run

from .data import EDIT, Noise, timed, write_over
from .piece import Figure, GiB, MiB, Piece, Setting
from .tree import unpack

SHARE = 100          # one file in so many is changed
STEADY = 3           # seconds without a fall of df, after which what was removed counts as freed
LOOK_EVERY = 0.2     # seconds, at the rest that there is to free
LONGEST_WAIT = 600   # seconds
ROOM = 96 * MiB      # bytes of the device for a generation: xfs writes all inodes anew
KEPT_COPIES = 2      # generations that are kept where a clone is a copy


class Contents:
    """What the regular files of a tree have in them now, by their paths in it."""

    def __init__(self, tree):
        self._tree = tree
        self._sums = _sums(tree)

    def check(self, tree, edits=()):
        """Problem, unless `tree` has the same files, and in them the same but for these edits, made in turn. With some, the tree that all
        began with has to be as it was."""
        wanted = dict(self._sums)
        if edits:
            data = {path: bytearray(_read(os.path.join(self._tree, path))) for path, _, _ in edits}
            for path, at, piece in edits:
                data[path][at:at + len(piece)] = piece
            wanted.update((path, zlib.crc32(now)) for path, now in data.items())
        found = _sums(tree)
        wrong = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
        if wrong:
            raise Problem(f"{tree}: {wrong[0]}, one of {len(wrong)} such files, is not what was written")


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _sums(tree):
    return {path: zlib.crc32(_read(os.path.join(tree, path))) for path, _ in _files(tree)}


def _files(tree):
    """(path in the tree, size) of all regular files."""
    for folder, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            if stat.S_ISREG(info.st_mode):
                yield os.path.relpath(path, tree), info.st_size


class Edits:
    """Changes of files, at random, that fit a tree and its clones alike: these have the same files of the same sizes."""

    def __init__(self, tree, rng):
        self._files = sorted((path, size) for path, size in _files(tree) if size > 0)
        self._rng = rng
        self._noise = Noise(rng, MiB)

    def some(self):
        """One file in SHARE, but one at least: [(its path in the tree, where, what is written there)]. Its size stays."""
        chosen = self._rng.sample(self._files, max(1, len(self._files) // SHARE))
        return [(path, self._rng.randrange(max(1, size - EDIT + 1)), self._noise.take(min(size, EDIT))) for path, size in chosen]


def _grep(session, tree):
    return grep_command(tree, session.rng)


def _note_grep(session, name, tree):
    session.note_cold(name, *_grep(session, tree), ok=(0, 1))


def _unpack(session):
    """The tree, with all that is left to do after writing done, and with access times that need no further change."""
    tree = unpack(session, "tree", lambda folder: run(*session.fs.folder_command(folder)))
    session.time_cold(*_grep(session, tree), ok=(0, 1))
    return tree


def _used(session):
    """After all is on the device."""
    session.cold()
    return used_bytes(session.point)


def _until_freed(session):
    """The seconds until df has fallen for the last time, and the file system had nothing left to free, as far as it tells."""
    start = last = looked = time.perf_counter()
    least = used_bytes(session.point)
    while (now := time.perf_counter()) - last < STEADY:
        if now - start > LONGEST_WAIT:
            raise Problem(f"{session.point} still frees space {LONGEST_WAIT} seconds after the removal")
        if now - looked > LOOK_EVERY:
            looked = now
            if session.fs.frees(session.point):
                last = time.perf_counter()
        if (used := used_bytes(session.point)) < least:
            least, last = used, time.perf_counter()
        time.sleep(0.01)
    return last - start


def _one_clone(session, tree, contents, edits):
    """A clone of the tree that is read, changed, and removed again."""
    clone, some = session.path("clone"), edits.some()
    before = _used(session)
    session.note_until_unmounted("clone tree", run, *session.fs.clone_command(tree, clone))
    session.mount()
    session.inputs.same_everywhere("clone", clone)
    _note_grep(session, "grep source", tree)
    _note_grep(session, "grep clone", clone)
    session.note("grep clone warm", session.time(*_grep(session, clone), ok=(0, 1)))
    session.note_ratio("grep clone/source", "grep clone", "grep source")
    session.cold()
    session.note_until_unmounted("clone changed", timed, write_over, some, clone)
    session.mount()
    _note_grep(session, "grep changed", clone)
    contents.check(tree)
    contents.check(clone, some)
    session.note("clone space", _used(session) - before)
    with session.measured():
        taken = run(*session.fs.remove_command(clone))
        session.note("clone removed", taken)
        session.note("clone freed", taken + _until_freed(session))
    if os.path.lexists(clone):
        raise Problem(f"{clone} is still there after it was removed")


def _generations(session, tree, contents, edits):
    """Each is made of the one before, is changed, and is on the device before the next. All of them stay, but of copies the last ones."""
    count = session.settings["generations"]
    kept, made, whole, alone = [tree], [], [], []
    session.cold()
    before = session.device.written()
    for number in range(count):
        some, newest = edits.some(), session.path(f"generation{number:05}")
        with session.measured():
            alone.append(run(*session.fs.clone_command(kept[-1], newest)))
            whole.append(alone[-1] + timed(write_over, some, newest) + run("sync", "-f", newest))
        made += some
        kept.append(newest)
        if not session.fs.shares and len(kept) > 1 + KEPT_COPIES:
            run(*session.fs.remove_command(kept.pop(1)))
    session.note("generation cloned", statistics.median(alone))
    session.note("generation", statistics.median(whole))
    session.unmount()
    session.note("generation written", (session.device.written() - before) / count)
    session.mount()
    newest, copy = kept[-1], session.path("copy")
    contents.check(tree)
    contents.check(newest, made)
    # By default cp shares what it copies, where it can.
    run("cp", "-a", "--reflink=never", newest, copy)
    session.time_cold(*_grep(session, copy), ok=(0, 1))  # the first pays for what was left to do after writing, as the check of the other did
    _note_grep(session, "grep generation", newest)
    _note_grep(session, "grep copy", copy)
    session.note_ratio("grep generation/copy", "grep generation", "grep copy")


def _clones(session):
    tree = _unpack(session)
    contents, edits = Contents(tree), Edits(tree, session.rng)
    _one_clone(session, tree, contents, edits)
    _generations(session, tree, contents, edits)


def _worktrees(session):
    """What many use in place of a clone. It needs a repository."""
    repository, tree = session.path("repository.git"), session.path("worktree")
    run("cp", "-r", session.inputs.path("tree-repository"), repository)
    git = ["git", "-C", repository, "worktree"]
    session.cold()
    session.note_until_unmounted("worktree", run, *git, "add", "--detach", tree)
    session.mount()
    session.inputs.same_everywhere("worktree", tree)
    _note_grep(session, "grep worktree", tree)
    session.note_cold("worktree removed", *git, "remove", "--force", tree)


_CHANGED = f"one file in {SHARE}"

PIECES = (
    Piece("clones", _clones, (
        Figure("clone tree", "s", "a clone of the tree, cold: btrfs snapshot, cp -a --reflink=always on xfs, lsmfs clone, else cp -a"),
        Figure("clone tree+umount", "s", "the same, until umount has returned"),
        Figure("grep source", "s", "grep -r of what was cloned, after a cold mount"),
        Figure("grep clone", "s", "grep -r of the clone, after a cold mount"),
        Figure("grep clone warm", "s", "the same again"),
        Figure("grep clone/source", "x", "the ratio of the two after a cold mount"),
        Figure("clone changed", "s", f"writing over {EDIT} bytes in {_CHANGED} of the clone, after a cold mount, until the last is closed"),
        Figure("clone changed+umount", "s", "the same, until umount has returned"),
        Figure("grep changed", "s", "grep -r of the clone then, after a cold mount"),
        Figure("clone space", "MiB", "what df has lost by the clone and its changes"),
        Figure("clone removed", "s", "removal of the clone, after a cold mount, until the command returns"),
        Figure("clone freed", "s", f"from its beginning until df has last fallen; {STEADY} s without a fall are the end"),
        Figure("generation cloned", "s", "a clone of the clone before, again and again: the median"),
        Figure("generation", "s", f"the same, with {_CHANGED} changed, until all is on the device: the median"),
        Figure("generation written", "MiB", "bytes written to the device for each, until it was unmounted"),
        Figure("grep generation", "s", f"grep -r of the last, after a cold mount; {KEPT_COPIES} are kept where they are copies, and all where they share"),
        Figure("grep copy", "s", "the same of a copy of it that shares nothing"),
        Figure("grep generation/copy", "x", "the ratio of the two"),
    ), inputs=("tree",), tools=("tar", "cp"), settings=(Setting("generations", "100", "clones, each of the one before"),),
          room=lambda settings: 4 * GiB + settings["generations"] * ROOM),
    Piece("worktrees", _worktrees, (
        Figure("worktree", "s", "git worktree add of a repository of the tree, cold, until git returns"),
        Figure("worktree+umount", "s", "the same, until umount has returned"),
        Figure("grep worktree", "s", "grep -r there, after a cold mount"),
        Figure("worktree removed", "s", "git worktree remove, after a cold mount, until git returns"),
    ), inputs=("tree", "tree-repository"), tools=("tar", "git", "cp")),
)
