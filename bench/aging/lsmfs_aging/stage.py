"""One file system on one kind of device: where a workload ages a tree, and where the aged tree and its unaged twin are
scanned."""

import contextlib
import dataclasses
import json
import os
import time

import workspace

from shared.cold import drop_caches, grep_command, seeded, used_bytes
from shared.commands import Problem, call

from . import host, results, scan


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
    stolen: float            # a scan is disturbed when the host had the processors for this share of its time
    patience: float          # seconds for which a scan may wait until the host has less
    stop: object             # stop() says whether somebody asked the run to end
    tell: object             # tell(text): what is being done now
    advance: object          # advance(steps), as they are done
    skip: object             # skip(steps): an earlier sitting has done them


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
        """Mounts the file system that ages. Returns how many of the workload's steps it has behind it; 0: it is a new one."""
        before = self.cell.state
        self.cell.begin()
        self._aged = self.kind.open(self.context.tools, "aged", self.cell.folder, self.context.size)
        if before.done == 0:
            self.fs.make(self._aged.path)
        self._worked, self._written = before.worked, self._aged.written() - before.written
        self.fs.mount(self._aged.path, self.point)
        self.context.skip(before.done)
        return before.done

    def remake(self):
        """An empty file system again, for workloads that age each point from the beginning."""
        self.fs.unmount(self.point)
        self.fs.make(self._aged.path)
        self._written = self._aged.written()
        self.fs.mount(self._aged.path, self.point)

    def close(self, done):
        """Unmounts, so that a later run can go on after `done`; None: the cell is over."""
        self._unmount(self.point)
        written = self._aged.written() - self._written
        self._aged.close()
        if done is None:
            self.cell.end()
        else:
            self.cell.save(done, self._worked, written)

    @contextlib.contextmanager
    def taken_down_on_errors(self):
        """Whatever it is that goes wrong while it is entered, the next cell finds its place empty."""
        try:
            yield
        except Stopped:  # between two steps, where all is unmounted
            raise
        except BaseException:
            self._abandon()
            raise

    def _abandon(self):
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

    def measure(self, x, last=False, tree="aged", twin=True, **more):
        """Scans the aged tree cold, by the study's grep, then its unaged twin, and writes both down. `tree`: what the tree is
        called where there is no twin."""
        contents, used = scan.contents(self.point), used_bytes(self.point)
        self.fs.unmount(self.point)
        facts = {"aging_seconds": round(self._worked, 6), "written_bytes": self._aged.written() - self._written, "used_bytes": used}
        self._grep(self._cold, self._aged, self.point, tree, x, contents.bytes, last, facts, more)
        if twin:
            with self._copied(x, contents) as facts:
                self._grep(self._cold, self._twin, self._twin_point, "unaged", x, contents.bytes, last, facts)
        # What the scans and the copying have changed, as access times, is no aging.
        self.fs.unmount(self.point)
        self._worked, self._written = 0.0, self._aged.written()
        self.fs.mount(self._aged.path, self.point)

    def measure_warm(self, x, last=False, **more):
        """Scans the aged tree and then its unaged twin, each after one scan that is not measured: nothing is unmounted, no cache dropped."""
        contents = scan.contents(self.point)
        self._warm_up(self.point, x)
        self._grep(self._warm, self._aged, self.point, "aged", x, contents.bytes, last, {"aging_seconds": round(self._worked, 6)}, more)
        with self._copied(x, contents):
            self._warm_up(self._twin_point, x)
            self._grep(self._warm, self._twin, self._twin_point, "unaged", x, contents.bytes, last, {})
        self._worked = 0.0

    @staticmethod
    def _warm_up(point, x):
        call(*grep_command(point, seeded(x)))

    def _grep(self, scanned, device, point, tree, x, size, last, facts, more=None):
        """`scanned`: _cold or _warm. `facts` are known once for all repetitions, `more` is of each. Cold ones begin with equal
        devices; those that were disturbed are made again, as many times as there are repetitions."""
        repeats = self.context.repeat if last else 1
        quiet = 0
        for repeat in range(2 * repeats):
            self.context.tell(f"waiting to scan the {tree} tree at {x:g}")
            host.wait(self.context.stolen, self.context.patience, self.context.stop)
            self.context.tell(f"scanning the {tree} tree at {x:g}")
            if scanned == self._cold:
                self._unmount(point)
                if repeat == 0:
                    device.keep()
                else:
                    device.restore()
            words = grep_command(point, seeded(self.context.seed, self.workload, x, repeat))
            made = scanned(device, point, words)
            disturbed = host.is_disturbed(made.stolen_seconds, made.seconds, self.context.stolen)
            self._add(made, tree, repeat, more, x=x, tree_bytes=size, disturbed=int(disturbed), **(facts if repeat == 0 else {}))
            quiet += not disturbed
            if quiet == repeats:
                break
        device.forget()

    def _unmount(self, point):
        if os.path.ismount(point):
            self.fs.unmount(point)

    def _cold(self, device, point, words, **more):
        self._unmount(point)
        return scan.cold(self.context.tools, device, self.fs, point, self.context.work.path, words, **more)

    def _warm(self, device, point, words):
        del point
        with device.measured():
            return scan.mounted(self.context.tools, device, self.fs, self.context.work.path, words)

    def _add(self, scanned, tree, repeat, more, x=0, **facts):
        """Writes a scan down."""
        self.context.results.add(results.Point.of(scanned, workload=self.workload, fs=self.fs.name, device=self.kind.name, x=x, tree=tree,
                                                  repeat=repeat, more=json.dumps(more) if more else "", **facts))

    @contextlib.contextmanager
    def _copied(self, x, contents):
        """While it is entered, the tree is on a newly made file system, which is mounted. Gives what that came to: the bytes
        written to its device until all was there, and the space used."""
        self.context.tell(f"copying the tree at {x:g} to an unaged twin")
        self.cell.forget("twin")
        self._twin = self.kind.open(self.context.tools, "twin", self.cell.folder, self.context.size)
        try:
            before = self._twin.written()
            scan.copy_to_twin(self.fs, self._twin, self.point, self._twin_point)
            if scan.contents(self._twin_point) != contents:
                raise Problem(f"{self.fs.name}: the twin is not the same tree as the aged one")
            used = used_bytes(self._twin_point)
            self.fs.unmount(self._twin_point)
            written = self._twin.written() - before
            self.fs.mount(self._twin.path, self._twin_point)
            yield {"written_bytes": written, "used_bytes": used}
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
        drop_caches()
        self.fs.mount(self._aged.path, self.point)

    def note(self, tree, seconds, **more):
        """A figure that is no scan's."""
        self.context.results.add(results.Point(workload=self.workload, fs=self.fs.name, device=self.kind.name, x=0, tree=tree, repeat=0,
                                               seconds=round(seconds, 9), more=json.dumps(more)))

    def scan_cold(self, tree, repeat, command, **more):
        place = os.path.join(self.point, tree)
        size = scan.contents(place if os.path.isdir(place) else self.point).bytes
        self._add(self._cold(self._aged, self.point, command, found=(0,)), tree, repeat, more, tree_bytes=size)

    def scan_twin_cold(self, scans):
        """Copies the tree and scans the copy. `scans`: (tree, repeat, command(point))."""
        contents = scan.contents(self.point)
        with self._copied(0, contents):
            for tree, repeat, command in scans:
                self._add(self._cold(self._twin, self._twin_point, command(self._twin_point), found=(0,)), tree, repeat, None, tree_bytes=contents.bytes)
