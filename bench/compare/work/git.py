"""A git repository: cloned, looked at, and taken from one commit to a distant one."""

import os
import statistics
import time

from inputs import warm_repository
from shared.commands import Problem, one_line, read, run

from .piece import BEST, Budget, Figure, Piece, Setting

WARM = 9  # times: one is over too soon
CHANGED = 10  # files


def _distant(repository):
    """(the newest commit, one with nine tenths of the history after it)"""
    commits = read("git", "-C", repository, "rev-list", "--first-parent", "HEAD").split()
    return commits[0], commits[max(1, len(commits) * 9 // 10)]


def _settle(git):
    """An index of the same second as files does not vouch for them, and git would read these: the more, the faster they were
    written. This writes another. Problem, unless the files are those of the commit."""
    time.sleep(1.1)
    changed = read(*git, "status", "--short")
    if changed:
        raise Problem(f"git status finds other files than were checked out: {one_line(changed)}")


def _look_at_changes(session, git, clone):
    """git status of a work tree in which some files have changed, with all that the file system and git have for that."""
    run(*git, "config", "core.untrackedCache", "true")
    if session.fs.fsmonitor():
        run(*git, "config", "core.fsmonitor", session.fs.fsmonitor())
        run(*git, "config", "core.fsmonitorHookVersion", "2")
    for _ in range(2):  # the first finds out what the second can trust
        _settle(git)
    tracked = read(*git, "ls-files", "-z").split("\0")[:-1]
    changed = session.rng.sample(tracked, min(CHANGED, len(tracked)))
    for name in changed:
        with open(os.path.join(clone, name), "ab") as file:
            file.write(b"changed\n")
    session.note_cold("status changed", *git, "status", "--short")
    found = read(*git, "diff", "--name-only", "-z").split("\0")[:-1]
    if set(found) != set(changed):
        raise Problem(f"git status finds {len(found)} files, and {len(changed)} were changed")
    run(*git, "checkout", "-q", "--", ".")
    for name in ("core.untrackedCache", "core.fsmonitor", "core.fsmonitorHookVersion") if session.fs.fsmonitor() else ("core.untrackedCache",):
        run(*git, "config", "--unset", name)


def _git(session):
    source = session.inputs.path("repository")
    newest, old = _distant(source)
    session.cold()
    warm_repository(source)
    clone = session.path("clone")
    session.note_until_unmounted("clone", run, "git", "clone", "-q", "file://" + source, clone)
    session.mount()
    git = ["git", "-C", clone]
    _settle(git)
    status = [*git, "status", "--short"]
    session.note_cold("status cold", *status)
    session.note("status warm", statistics.median(session.time(*status) for _ in range(WARM)))
    _look_at_changes(session, git, clone)
    session.cold()
    for name, commit in (("checkout", old), ("checkout back", newest)):
        session.note(name, session.time(*git, "checkout", "-q", "--detach", commit))
        _settle(git)


_AS_EXT4 = Budget(1.0, "ext4")

PIECES = (
    Piece("git", _git, (
        Figure("clone", "s", "git clone from a file:// URL, until git returns", _AS_EXT4),
        Figure("clone+umount", "s", "the same, until umount has returned", _AS_EXT4),
        Figure("status cold", "s", "git status in the clone, whose index is fresh, after a cold mount", Budget(0.8, BEST)),
        Figure("status warm", "s", f"the same again, the median of {WARM}", Budget(1.2, "ext4")),
        Figure("status changed", "s", f"git status with {CHANGED} files changed, after a cold mount, with core.untrackedCache, and core.fsmonitor where the file system has one", Budget(0.5, BEST)),
        Figure("checkout", "s", "git checkout of a commit nine tenths of the history back, after a cold mount", _AS_EXT4),
        Figure("checkout back", "s", "git checkout of the newest commit again, warm", _AS_EXT4),
    ), inputs=("repository",), tools=("git",), settings=(
        Setting("repo-commits", "10000", "commits of the made-up repository", least=2),
        Setting("repo-files", "5000", "files of its first commit"),
    )),
)
