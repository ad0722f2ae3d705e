"""The host of a virtual machine: how much it has of the processors, and waiting until it has less."""

import os
import time

LOOK, PAUSE = 2, 10  # seconds


def stolen_seconds():
    """Summed over all processors, since the machine started; see proc_stat(5), steal."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def is_disturbed(stolen, seconds, share):
    """Whether it had the processors for `share` of the time or more. `stolen` is of all of them together."""
    return stolen >= share * seconds


def look():
    """(stolen, seconds) of a short while with a processor at work: from one that idles nothing can be taken."""
    stolen, start = stolen_seconds(), time.perf_counter()
    while (seconds := time.perf_counter() - start) < LOOK:
        pass
    return stolen_seconds() - stolen, seconds


def wait(share, patience, stop, looked=look, pause=time.sleep, now=time.monotonic):
    """Waits for at most `patience` seconds until the processors are the machine's own: until a look finds that less than
    `share` of its time was taken, or stop() is true."""
    end = now() + patience
    while now() < end and is_disturbed(*looked(), share) and not stop():
        pause(max(0, min(PAUSE, end - now())))
