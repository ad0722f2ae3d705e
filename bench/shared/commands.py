"""Running programs: whatever goes wrong is one line that names the program and what it said."""

import contextlib
import os
import signal
import subprocess
import time

import workspace


class Problem(Exception):
    """What a person is told, in one line, when a run cannot go on."""


ENVIRONMENT = dict(os.environ, LC_ALL="C", HOME="/nonexistent", GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull,
                   GIT_AUTHOR_NAME="A U Thor", GIT_AUTHOR_EMAIL="author@example.org", GIT_COMMITTER_NAME="A U Thor",
                   GIT_COMMITTER_EMAIL="author@example.org", GIT_TERMINAL_PROMPT="0")


def described(command):
    text = " ".join(command)
    return text if len(text) <= 200 else text[:190] + " ..."


def _start(command, cwd=None, environment=None, stdout=subprocess.PIPE):
    """A command in a session of its own, so that a ^C meant for this program does not reach it."""
    try:
        return subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                                env={**ENVIRONMENT, **(environment or {})}, start_new_session=True)
    except FileNotFoundError:
        raise Problem(f"{command[0]}: not installed; scripts/install-deps --bench installs what the examples need") from None


@contextlib.contextmanager
def _started(command, **more):
    """The same, and it is killed if it has not ended when this is left."""
    process = None
    try:
        with workspace.uninterrupted():
            process = _start(command, **more)
        yield process
    finally:
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def going_on(*command):
    """A command beside what is done meanwhile. It is killed, with all that it has started, and has gone when this is left.
    Problem: it had ended before."""
    with _started(command, stdout=subprocess.DEVNULL) as process:
        yield process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()  # to the end of what others said, too
            return
        _, err = process.communicate()
        raise Problem(f"{described(command)}: has ended: {one_line(err.decode(errors='replace'))}")


def _ended(process, command, seconds):
    """(exit status, stdout, stderr)"""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Problem(f"{described(command)}: not done after {seconds} s") from None
    return process.returncode, (out or b"").decode(errors="replace"), err.decode(errors="replace")


def _must(command, status, out, err, ok):
    if status not in ok:
        raise Problem(f"{described(command)}: exit status {status}: {one_line(err.strip() or out)}")


def call(*command, seconds=7200, **more):
    """Runs a command to its end. Returns (exit status, stdout, stderr, seconds it took)."""
    start = time.perf_counter()
    with _started(command, **more) as process:
        status, out, err = _ended(process, command, seconds)
    return status, out, err, time.perf_counter() - start


def run(*command, ok=(0,), **more):
    """The same for what has to succeed. Returns the seconds it took."""
    status, out, err, taken = call(*command, **more)
    _must(command, status, out, err, ok)
    return taken


def run_at_once(commands, ok=(0,), seconds=7200):
    """The same for several at the same time, which say little. Returns the seconds until all had ended."""
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        with workspace.uninterrupted():
            processes = [stack.enter_context(_started(command)) for command in commands]
        ends = [_ended(process, command, seconds) for process, command in zip(processes, commands)]
    taken = time.perf_counter() - start
    for command, end in zip(commands, ends):
        _must(command, *end, ok)
    return taken


def read(*command, **more):
    """Its standard output, without the last line's end."""
    status, out, err, _ = call(*command, **more)
    if status != 0:
        raise Problem(f"{described(command)}: exit status {status}: {one_line(err)}")
    return out.rstrip("\n")


def one_line(text, last=3):
    return "; ".join(line.strip() for line in text.strip().splitlines()[-last:]) or "it said nothing"
