"""One file system doing one piece of work, on a device of its own."""

import contextlib
import functools
import mmap
import os
import re
import shutil
import subprocess
import tempfile

from shared.cold import drop_caches
from shared.commands import Problem, call, run

import work
from work.piece import SECONDS, shown

# What work is timed with.
PROGRAMS = ("bash", "cat", "cp", "du", "find", "git", "/usr/lib/git-core/git", "grep", "ls", "rm", "rsync", "sh", "sync", "tar", "umount",
            "ar", "as", "awk", "bc", "cmp", "cut", "env", "expr", "gcc", "head", "ld", "ln", "make", "mkdir", "mv", "nm", "objcopy", "sed", "sha1sum", "sort", "touch", "tr", "uname")


@functools.cache
def _hold(*programs):
    """Keeps programs, as far as they are there, and the libraries that they are linked with in memory: dropping the caches leaves
    what is mapped."""
    paths = [path for path in map(shutil.which, programs) if path]
    held = []
    for path in {*paths, *re.findall(r"(/\S+) \(0x", call("ldd", *paths)[1])}:
        with open(path, "rb") as file:
            held.append(mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ))
    return held


class Session:
    """What a piece of work is given. It is mounted when the work begins; the work may leave it mounted or not."""

    def __init__(self, fs, device, point, inputs, settings, rng, say, meter):
        self.fs = fs
        self.device = device
        self.point = point
        self.inputs = inputs
        self.settings = settings
        self.rng = rng          # gives every file system of a round the same numbers
        self.figures = {}
        self.costs = {}         # of file systems with a daemon, when there is a meter: {figure: Costs}
        self._say = say
        self._meter = meter
        self._begun = self._ended = None  # readings of the meter around what is measured now, or was last

    def path(self, *names):
        return os.path.join(self.point, *names)

    def note(self, name, value):
        self.figures[name] = value
        unit = work.FIGURES[name].unit
        self._say(f"{self.fs.name} {name}: {shown(value, unit)} {unit}")
        self._look_at_memory()
        if self._begun and unit in SECONDS:
            self.costs[name] = (self._ended or self._read_meter()).since(self._begun)

    def mount(self):
        """Cold, when it is not mounted."""
        drop_caches()
        self.fs.mount(self.device.path, self.point)
        if self._meter:
            self._meter.watch(self.point)

    def unmount(self):
        """The seconds until all was on the device."""
        self._look_at_memory()
        self._begun = self._ended = None
        return self.fs.unmount(self.point)

    def cold(self):
        self.unmount()
        self.mount()

    @contextlib.contextmanager
    def measured(self):
        """While it is entered, the device takes the time that it stands for. Whatever is timed has to be inside."""
        with self.device.measured():
            self._begun, self._ended = self._read_meter(), None
            yield
            self._ended = self._begun and self._read_meter()

    def time(self, *command, **more):
        """The seconds that a command takes."""
        with self.measured():
            return run(*command, stdout=subprocess.DEVNULL, **more)

    def time_cold(self, *command, **more):
        self.cold()
        return self.time(*command, **more)

    def note_cold(self, name, *command, **more):
        """Notes what a command takes after a cold mount."""
        self.note(name, self.time_cold(*command, **more))

    def note_ratio(self, name, above, below):
        """Notes the ratio of two figures that have been noted."""
        self.note(name, self.figures[above] / self.figures[below])

    def note_until_unmounted(self, name, work_of, *arguments):
        """Notes `name`, the seconds that work_of(*arguments) returns, and `name`+umount, those until umount had returned too."""
        with self.measured():
            taken = work_of(*arguments)
            self.note(name, taken)
            self.note(name + "+umount", taken + self.unmount())

    def _read_meter(self):
        """None: there is none, or no daemon."""
        daemons = self.fs.daemons(self.point) if self._meter else None
        return self._meter.now(daemons) if daemons else None

    def _look_at_memory(self):
        memory = self.fs.memory(self.point) if os.path.ismount(self.point) else None
        if memory:
            for figure, now in zip(work.MEMORY, memory):
                self.figures[figure.name] = max(self.figures.get(figure.name, 0), now)


def run_piece(piece, fs, kind, tools, size, folder, *context):
    """The figures that a piece of work gives on a file system, and their costs. `context`: the rest of what a Session is made of."""
    point = os.path.join(folder, "mnt")
    os.makedirs(point, exist_ok=True)
    place = tempfile.mkdtemp(prefix="device-", dir=folder)
    _hold(*PROGRAMS, *fs.tools())  # which lie on the host's disk
    device = kind.open(tools, fs.name, place, size)
    session = Session(fs, device, point, *context)
    try:
        fs.make(device.path)
        session.mount()  # after a sync: what the last device's removal left to the host's journal is not charged to this one
        piece.run(session)
        if os.path.ismount(point):
            session.unmount()
    except (Problem, OSError) as error:  # what there is then is for the workspace to take down
        raise Problem(f"{piece.name} on {fs.name}: {_explained(error, size)}") from error
    late = device.late_seconds()
    if late is not None:
        session.figures[f"{piece.name}: late seconds"] = late  # of the simulated disk
    device.close()
    shutil.rmtree(place)
    return session.figures, session.costs


def _explained(error, size):
    if "No space left on device" in str(error):
        return f"{error}; its device has {size >> 20} MiB: give a larger --size, or smaller work with --set"
    return str(error)
