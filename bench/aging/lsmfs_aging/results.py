"""A results directory:

    run.json      what was asked for, and of each sitting of the run since when, on what machine, with which versions and commands
    points.csv    a row for each thing measured, as it was measured, in the order in which that was done
    state/        the devices' files of a run that is not over, so that it can go on
"""

import csv
import dataclasses
import datetime
import glob
import json
import os
import platform
import shutil

from shared.commands import Problem, call, one_line

VERSION = 4


@dataclasses.dataclass
class Point:
    """One measurement. Bytes and seconds throughout; None: not measured."""

    workload: str
    fs: str
    device: str
    x: float                     # how far aging had come: pulls, rounds, percent, days
    tree: str                    # aged, unaged; or which variant
    repeat: int                  # 0, 1, ... of the same measurement
    seconds: float               # of the scan
    tree_bytes: int | None = None
    reads: int | None = None     # of the device, in the scan
    read_bytes: int | None = None
    discontinuous: int | None = None
    layout_score: float | None = None
    stolen_seconds: float | None = None  # the host had the processors meanwhile, summed over them
    disturbed: int | None = None         # 1: so much that it does not count, if enough others of its point do
    late_seconds: float | None = None    # what the answers of a simulated disk came late by, summed over them
    modelled_hdd: float | None = None  # seconds that the profile would take for the scan's requests
    modelled_ssd: float | None = None
    modelled_cloud: float | None = None
    aging_seconds: float | None = None        # of the aging since the point before
    written_bytes: int | None = None          # to the device since the point before
    used_bytes: int | None = None             # by statvfs
    more: str = ""                            # JSON, what only this workload has
    at: str = ""

    @classmethod
    def of(cls, scan, **more):
        modelled = {"modelled_hdd": scan.modelled.get("hdd"), "modelled_ssd": scan.modelled.get("ssd-sata"),
                    "modelled_cloud": scan.modelled.get("cloud-volume")}
        return cls(seconds=round(scan.seconds, 6), reads=scan.reads.count, read_bytes=scan.reads.bytes,
                   discontinuous=scan.reads.discontinuous, layout_score=scan.reads.score, stolen_seconds=scan.stolen_seconds,
                   late_seconds=scan.late_seconds, **modelled, **more)


FIELDS = [field.name for field in dataclasses.fields(Point)]
NUMBERS = {field.name for field in dataclasses.fields(Point) if "int" in str(field.type) or "float" in str(field.type)}


def machine():
    """What the figures depend on."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(next(line for line in file if line.startswith("MemTotal")).split()[1]) * 1024
    versions = {}
    for tool in (["git", "--version"], ["grep", "--version"]):
        versions[tool[0]] = one_line(call(*tool)[1].splitlines()[0])
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    return {"kernel": platform.release(), "system": system, "cpu": cpu, "cpus": os.cpu_count(), "memory_bytes": memory, "versions": versions}


def _write_json(path, content):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


class Results:
    """`asked`: what decides about the figures; a run goes on only where the same was asked for. `facts`: of this sitting.
    The directory is there, and nobody else's meanwhile."""

    def __init__(self, folder, asked, facts):
        self.folder = os.path.abspath(folder)
        self._csv = os.path.join(self.folder, "points.csv")
        self._path = os.path.join(self.folder, "run.json")
        if os.path.exists(self._path):
            there, points = load(self.folder)
            if not points and not self._has_come_anywhere():  # nothing is lost by beginning anew
                shutil.rmtree(os.path.join(self.folder, "state"), ignore_errors=True)
                os.unlink(self._path)
                os.unlink(self._csv)
        sitting = {"since": now(), "machine": machine(), **facts}
        if os.path.exists(self._path):
            if there["asked"] != asked:
                different = sorted(key for key in asked.keys() | there["asked"].keys() if asked.get(key) != there["asked"].get(key))
                raise Problem(f"{self.folder}: holds a run with another {', '.join(different)}; choose another --results folder")
            self.run = there
            if not there["finished"]:
                there["sittings"].append(sitting)
                _write_json(self._path, there)
        else:
            if os.path.exists(self._csv):
                raise Problem(f"{self.folder}: holds points.csv but no run.json; choose another --results folder")
            self.run = {"format": VERSION, "asked": asked, "finished": None, "sittings": [sitting]}
            _write_json(self._path, self.run)
            with open(self._csv, "w", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, FIELDS).writeheader()

    def _has_come_anywhere(self):
        """Some cell has been left so that it can go on."""
        return any(CellState.load(path).done for path in glob.glob(os.path.join(glob.escape(self.folder), "state", "*", "*", "cell.json")))

    def state(self, *names):
        """A folder for what is needed to go on."""
        folder = os.path.join(self.folder, "state", *names)
        os.makedirs(folder, exist_ok=True)
        return folder

    def add(self, point):
        point.at = now()
        with open(self._csv, "a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, FIELDS).writerow(dataclasses.asdict(point))
            file.flush()
            os.fsync(file.fileno())

    def drop(self, unwanted):
        """Takes points out again: those of a cell that has to begin anew."""
        kept = [point for point in load(self.folder)[1] if not unwanted(point)]
        with open(self._csv + ".new", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(dataclasses.asdict(point) for point in kept)
        os.replace(self._csv + ".new", self._csv)

    def finish(self):
        self.run["finished"] = now()
        _write_json(self._path, self.run)
        shutil.rmtree(os.path.join(self.folder, "state"), ignore_errors=True)


@dataclasses.dataclass
class CellState:
    """As it is written down whenever its devices are unmounted."""

    done: int = 0          # steps of the workload
    worked: float = 0.0    # seconds of aging since the last point
    written: int = 0       # bytes to the device since the last point
    clean: bool = True     # nothing is mounted, so the devices' files can be used
    over: bool = False

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls(**json.load(file))


class Cell:
    """What is known of one file system on one device: how far it has come, and whether its devices' files can be used."""

    def __init__(self, results, workload, fs, device):
        self.folder = results.state(workload, f"{fs}-on-{device.replace(':', '-')}")
        self._path = os.path.join(self.folder, "cell.json")
        self.state = CellState()
        if os.path.exists(self._path):
            self.state = CellState.load(self._path)
        if not self.state.clean:  # it was ended in the middle: nothing is known of its devices
            shutil.rmtree(self.folder)
            os.makedirs(self.folder)
            self.state = CellState()
            results.drop(lambda point: (point.workload, point.fs, point.device) == (workload, fs, device))

    def begin(self):
        """Its devices are about to be used."""
        self._update(clean=False)

    def save(self, done, worked, written):
        """All devices are unmounted now."""
        self._update(done=done, worked=worked, written=written, clean=True)

    def _update(self, **changes):
        self.state = dataclasses.replace(self.state, **changes)
        _write_json(self._path, dataclasses.asdict(self.state))

    def forget(self, role):
        """Removes the file of a device, which is not attached."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if name == role:
                shutil.rmtree(path)
            elif name.startswith(role + ".img"):  # with what was kept of it
                os.unlink(path)

    def end(self):
        for role in ("aged", "twin"):
            self.forget(role)
        self._update(clean=True, over=True)


def now():
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def load(folder):
    """(run, points) of a results directory."""
    try:
        with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
            run = json.load(file)
        with open(os.path.join(folder, "points.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError as error:
        raise Problem(f"{folder}: is no results directory: {os.path.basename(error.filename)} is not there") from None
    except (OSError, ValueError) as error:
        raise Problem(f"{folder}: cannot be read: {error}") from None
    if run.get("format") != VERSION:
        raise Problem(f"{folder}: was written by another version (format {run.get('format')}, this is {VERSION})")
    points = []
    for row in rows:
        values = {}
        for name in FIELDS:
            text = row.get(name) or ""
            if name not in NUMBERS:
                values[name] = text
            elif text == "":
                values[name] = None
            else:
                values[name] = float(text) if "." in text or "e" in text else int(text)
        points.append(Point(**values))
    return run, points
