"""One file system on one kind of device: where a workload ages a tree, and where the aged tree and its unaged twin are
scanned."""

import contextlib
import dataclasses
import json
import os
import time

import workspace

from . import cold, results
from .commands import Problem, call


class Stopped(Exception):
    """Somebody asked the run to end; what can go on later has been saved."""


@dataclasses.dataclass
class Context:
    """What all cells of a run share."""

    tools: object
    results: results.Results
    work: workspace.Workspace
    size: int                # of each device, bytes
    seed: int
    repeat: int              # how often the last point is measured
    stop: object             # stop() says whether somebody asked the run to end
    tell: object             # tell(text): what is being done now
    advance: object          # advance(steps)


class Stage:
    def __init__(self, context, workload, fs, kind):
        self.context = context
        self.workload = workload
        self.fs = fs
        self.kind = kind
        self.cell = results.Cell(context.results, workload, fs.name, kind.name)
        self.point = context.work.sub("aged")
        self._twin_point = context.work.sub("twin")
        self._aged = None
        self._twin = None
        self._written = 0
        self._worked = 0.0

    def open(self):
        """Mounts the file system that ages. True: it is a new one."""
        fresh = self.cell.done is None
        self.cell.begin()
        self._aged = self.kind.open(self.context.tools, "aged", self.cell.folder, self.context.size)
        if fresh:
            self.fs.make(self._aged.path)
        self.fs.mount(self._aged.path, self.point)
        self._written = self._aged.written()
        return fresh

    def remake(self):
        """An empty file system again, for workloads that age each point from the beginning."""
        self.fs.unmount(self.point)
        self.fs.make(self._aged.path)
        self.fs.mount(self._aged.path, self.point)
        self._written = self._aged.written()

    def close(self, done):
        """Unmounts, so that a later run can go on after `done`; None: the cell is over."""
        if os.path.ismount(self.point):
            self.fs.unmount(self.point)
        self._aged.close()
        if done is None:
            self.cell.end()
        else:
            self.cell.save(done)

    def abandon(self):
        """After an error: takes down what can be, so that the next cell finds its place empty."""
        for point in (self.point, self._twin_point):
            if os.path.ismount(point):
                call("umount", point)
        for device in (self._aged, self._twin):
            if device is not None:
                with contextlib.suppress(Exception):
                    device.close()

    @contextlib.contextmanager
    def aging(self):
        """Counts the time of what ages the tree."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._worked += time.perf_counter() - start

    def checkpoint(self, done):
        """Between two steps: stops here if that is asked for."""
        self.context.advance(1)
        if self.context.stop():
            self.close(done)
            raise Stopped

    def measure(self, x, last=False, command=None, tree="aged", twin=True, **more):
        """Scans the aged tree cold, then its unaged twin, and writes both down. `command(point)`: the scan, by default the
        study's grep. `tree`: what the tree is called where there is no twin."""
        context = self.context
        repeats = context.repeat if last else 1
        tree_bytes, used = cold.tree_bytes(self.point), cold.used_bytes(self.point)
        self.fs.unmount(self.point)
        written = self._aged.written()
        facts = {"workload": self.workload, "fs": self.fs.name, "device": self.kind.name, "x": x, "tree_bytes": tree_bytes}
        for repeat in range(repeats):
            context.tell(f"scanning the aged tree at {x:g}")
            scan = self._scan(self._aged, self.point, command, x, repeat)
            first = {"aging_seconds": round(self._worked, 6), "written_bytes": written - self._written, "used_bytes": used} if repeat == 0 else {}
            context.results.add(results.Point.of(scan, **facts, **first, tree=tree, repeat=repeat, more=json.dumps(more) if more else ""))
            if repeat + 1 < repeats:
                self.fs.unmount(self.point)
        self._worked = 0.0
        if twin:
            self._measure_twin(x, repeats, command, facts)
        self._written = self._aged.written()

    def measure_warm(self, x, last=False, **more):
        """Scans the aged tree as it is, then its unaged twin after one scan of it: nothing is unmounted, no cache dropped."""
        context = self.context
        repeats = context.repeat if last else 1
        facts = {"workload": self.workload, "fs": self.fs.name, "device": self.kind.name, "x": x, "tree_bytes": cold.tree_bytes(self.point)}
        self._scan_warm(self._aged, self.point, "aged", repeats, facts, {"aging_seconds": round(self._worked, 6)}, more)
        self._worked = 0.0
        with self._copied(f"copying the tree at {x:g} to an unaged twin"):
            call(*cold.grep_command(self._twin_point, cold.seeded(x)))
            self._scan_warm(self._twin, self._twin_point, "unaged", repeats, facts, {}, {})

    def _scan_warm(self, device, point, tree, repeats, facts, first, more):
        for repeat in range(repeats):
            self.context.tell(f"scanning the {tree} tree at {facts['x']:g}")
            words = cold.grep_command(point, cold.seeded(self.context.seed, self.workload, facts["x"], repeat))
            with device.measured():
                scan = cold.scan_mounted(self.context.tools, device, self.fs, self.context.work.path, words)
            self.context.results.add(results.Point.of(scan, **facts, **(first if repeat == 0 else {}), tree=tree, repeat=repeat,
                                                      more=json.dumps(more) if more else ""))

    def _scan(self, device, point, command, x, repeat):
        rng = cold.seeded(self.context.seed, self.workload, x, repeat)
        words = command(point) if command else cold.grep_command(point, rng)
        return cold.scan(self.context.tools, device, self.fs, point, self.context.work.path, words)

    def _measure_twin(self, x, repeats, command, facts):
        context = self.context
        with self._copied(f"copying the tree at {x:g} to an unaged twin") as (written, used):
            for repeat in range(repeats):
                context.tell(f"scanning the unaged twin at {x:g}")
                self.fs.unmount(self._twin_point)
                first = {"written_bytes": written, "used_bytes": used} if repeat == 0 else {}
                scan = self._scan(self._twin, self._twin_point, command, x, repeat)
                context.results.add(results.Point.of(scan, **facts, **first, tree="unaged", repeat=repeat))

    @contextlib.contextmanager
    def _copied(self, what):
        """While it is entered, the tree is on a newly made file system, which is mounted. Gives the bytes written to its
        device until all was there, and the space used."""
        self.context.tell(what)
        self.cell.forget("twin")
        self._twin = self.kind.open(self.context.tools, "twin", self.cell.folder, self.context.size)
        try:
            before = self._twin.written()
            cold.copy_to_twin(self.fs, self._twin, self.point, self._twin_point)
            if cold.tree_bytes(self._twin_point) != cold.tree_bytes(self.point):
                raise Problem(f"{self.fs.name}: the twin is not the same tree as the aged one")
            used = cold.used_bytes(self._twin_point)
            self.fs.unmount(self._twin_point)
            written = self._twin.written() - before
            self.fs.mount(self._twin.path, self._twin_point)
            yield written, used
            self.fs.unmount(self._twin_point)
        finally:
            if not os.path.ismount(self._twin_point):
                self._twin.close()
                self._twin = None
        self.cell.forget("twin")

    # ---- what is not a curve: variants of a tree or of a call, at one moment

    @property
    def device(self):
        return self._aged

    def forget_caches(self):
        self.fs.unmount(self.point)
        cold.drop_caches()
        self.fs.mount(self._aged.path, self.point)

    def note(self, tree, seconds, **more):
        """A figure that is no scan's."""
        self.context.results.add(results.Point(workload=self.workload, fs=self.fs.name, device=self.kind.name, x=0, tree=tree, repeat=0,
                                               seconds=round(seconds, 9), more=json.dumps(more)))

    def scan_cold(self, tree, repeat, command, **more):
        self._note_scan(self._aged, self.point, tree, repeat, command, more)

    def _note_scan(self, device, point, tree, repeat, command, more):
        place = os.path.join(point, tree)
        size = cold.tree_bytes(place if os.path.isdir(place) else point)
        self.fs.unmount(point)
        scan = cold.scan(self.context.tools, device, self.fs, point, self.context.work.path, command, found=(0,))
        self.context.results.add(results.Point.of(scan, workload=self.workload, fs=self.fs.name, device=self.kind.name, x=0, tree=tree, repeat=repeat,
                                                  tree_bytes=size, more=json.dumps(more) if more else ""))

    def scan_twin_cold(self, scans):
        """Copies the tree and scans the copy. `scans`: (tree, repeat, command(point))."""
        with self._copied("copying the tree to an unaged twin"):
            for tree, repeat, command in scans:
                self._note_scan(self._twin, self._twin_point, tree, repeat, command(self._twin_point), {})
