"""For what a kernel or another program does in its own time: a test waits until it is so, however long that takes.

It is the one place in which tests sleep, but for the paces of those who put load on a file system (test/soak/workers.py)."""

import time

PATIENCE = 120  # seconds after which what has not come does not come any more
CLOCK_REALTIME_COARSE = 5


def until(condition, what, patience=PATIENCE):
    """Looks again and again until condition() is true; returns what it gave. AssertionError, which says `what` (words, or a function
    that finds them): it is not within `patience`."""
    begin = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - begin
        if waited > patience:
            raise AssertionError(f"{what() if callable(what) else what}: not within {patience:g} s")
        time.sleep(min(max(waited / 10, 0.0005), 0.1))  # the longer it takes, the more rarely
    return found


def until_later():
    """What file systems do from now on gets later times than what they did before: they take them from a clock that goes in ticks."""
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    until(lambda: time.clock_gettime_ns(CLOCK_REALTIME_COARSE) > now, "the next tick of the clock")
