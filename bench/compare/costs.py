"""What work costs on a file system in user space: requests of the kernel to its daemon, and processor time of the programs and
of the daemon's threads. To answer, the daemon takes turns with the programs: what both need adds up, and the rest of the time is waiting."""

import contextlib
import dataclasses
import glob
import os
import re
import resource
import statistics
import time

from shared.commands import Problem, run

EVENT = "events/fuse/fuse_request_send"


@dataclasses.dataclass(frozen=True)
class Costs:
    seconds: float
    requests: float
    program: float  # seconds of this process and those that it has waited for, the kernel's part of each request among it
    threads: dict   # name of threads of the daemon -> seconds


@dataclasses.dataclass(frozen=True)
class Reading:
    """Of all clocks and counters at one moment."""

    at: float  # seconds
    requests: int
    program: float
    threads: dict  # number of a thread of the daemon -> (its name, seconds)

    def since(self, before):
        """What a thread used that has ended meanwhile is lost."""
        threads = {}
        for number, (name, seconds) in self.threads.items():
            threads[name] = threads.get(name, 0.0) + seconds - before.threads.get(number, ("", 0.0))[1]
        return Costs(self.at - before.at, self.requests - before.requests, self.program - before.program, threads)


def median(several):
    """Of each part of several Costs."""
    names = {name for one in several for name in one.threads}
    of = {part: statistics.median(getattr(one, part) for one in several) for part in ("seconds", "requests", "program")}
    return Costs(**of, threads={name: statistics.median(one.threads.get(name, 0.0) for one in several) for name in names})


class Meter:
    """Counts requests by an instance of tracefs, which keeps nearly nothing but their number; that makes each some tenths of a
    microsecond longer. Problem: this kernel does not count them."""

    def __init__(self, folder):
        self._tracefs = os.path.join(folder, "tracing")
        os.mkdir(self._tracefs)
        run("mount", "-t", "tracefs", "none", self._tracefs)
        self._instances = os.path.join(self._tracefs, "instances")
        self._remove_orphans()
        self._instance = os.path.join(self._instances, f"lsmfs-compare-{os.getpid()}")
        try:
            os.mkdir(self._instance)
            self._write("buffer_size_kb", 64)
            self._write(EVENT + "/enable", 1)
        except OSError as error:
            self.close()
            raise Problem(f"--costs: this kernel does not trace requests of FUSE ({EVENT}: {error.strerror}); leave --costs out, or load the module fuse") from None

    def close(self):
        with contextlib.suppress(OSError):
            os.rmdir(self._instance)
        run("umount", self._tracefs)
        os.rmdir(self._tracefs)

    def _remove_orphans(self):
        """Of runs that were killed: an instance stays when its owner has gone."""
        for path in glob.glob(os.path.join(self._instances, "lsmfs-compare-*")):
            if not os.path.exists(f"/proc/{path.rpartition('-')[2]}"):
                with contextlib.suppress(OSError):
                    os.rmdir(path)

    def _write(self, name, value):
        with open(os.path.join(self._instance, name), "w", encoding="ascii") as file:
            file.write(f"{value}\n")

    def watch(self, point):
        """From now on requests of what is mounted at `point`, and no others, are counted."""
        device = os.stat(point).st_dev
        self._write(EVENT + "/filter", f"connection == {os.major(device) << 20 | os.minor(device)}")  # as the kernel has them in one number

    def now(self, daemons):
        """`daemons`: process ids."""
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return Reading(time.perf_counter(), self._requests(), sum(one.ru_utime + one.ru_stime for one in usage), _threads(daemons))

    def _requests(self):
        total = 0
        for path in glob.glob(os.path.join(self._instance, "per_cpu/cpu*/stats")):
            with open(path, encoding="ascii") as file:
                fields = dict(re.findall(r"^(entries|overrun|dropped events): (\d+)$", file.read(), re.MULTILINE))
            total += sum(map(int, fields.values()))
        return total


def _threads(daemons):
    """{number: (name, seconds of processor time)}"""
    found = {}
    for pid in daemons:
        for task in glob.glob(f"/proc/{pid}/task/*"):
            with contextlib.suppress(OSError):  # it has ended
                with open(task + "/comm", encoding="utf-8", errors="replace") as file:
                    name = file.read().strip()
                with open(task + "/schedstat", encoding="ascii") as file:
                    found[int(os.path.basename(task))] = name, int(file.read().split()[0]) / 1e9
    return found


@contextlib.contextmanager
def metered(folder):
    """A Meter. `folder`: where tracefs can be mounted meanwhile."""
    meter = Meter(folder)
    try:
        yield meter
    finally:
        meter.close()
