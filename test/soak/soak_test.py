"""Mixed work for a long time on a file system that is kept 70 to 90 % full: every read is right, no error is met but a counted
ENOSPC of what grows, when df says that it is full, the daemon does not grow, it unmounts in good time, nothing is wrong
afterwards, and all space comes back.

Needs root. 20 seconds; LSMFS_LONG=1: 30 minutes; LSMFS_SOAK_SECONDS: so many. LSMFS: the program, also one that was built with a
sanitizer, which may not report anything. What the daemon took is written to soak.csv beside the program, what it said to soak.log."""

import errno
import glob
import os
import shutil
import statistics
import sys
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "integration"))

import clones  # noqa: E402
import harness  # noqa: E402
import workers  # noqa: E402
from harness import LSMFS, SEED, MiB  # noqa: E402
from samples import Sampler  # noqa: E402
from until import PATIENCE, until  # noqa: E402

LONG = bool(os.environ.get("LSMFS_LONG"))
SECONDS = int(os.environ.get("LSMFS_SOAK_SECONDS", 1800 if LONG else 20))
SIZE = 1024 * MiB if SECONDS >= 300 else 768 * MiB  # on smaller ones there are no blobs
CACHE = 64 * MiB
STEADY = 600          # seconds of a run from which on it is judged whether the daemon grows
LOST = 0.02           # of the space, when all has been deleted
SAMPLES = 12
# Threads that are made when they are first needed, be it late, and stay: how many of each name there may be. No others become more.
LATE = {"lsmfs-ahead": 16, "lsmfs-files": 2, "lsmfs-log": 1, "lsmfs-flush": 2, "lsmfs-compact": 2, "lsmfs-keeper": 1, "lsmfs-latency": 1}
EARLY = 1 / 1000      # of the steps, that may find no room before it is full


class Kind:
    """What builds may take: sanitizers keep shadows of memory, and what was freed for a while."""

    def __init__(self, beside, growth, slower):
        self.beside, self.growth, self.slower = beside, growth, slower


KINDS = {"": Kind(192 * MiB, 16 * MiB, 1), "address": Kind(1024 * MiB, 64 * MiB, 5), "thread": Kind(2048 * MiB, 128 * MiB, 10)}


def sanitizer():
    with open(LSMFS, "rb") as file:
        program = file.read()
    return "address" if b"__asan_init" in program else "thread" if b"__tsan_init" in program else ""


@harness.lsmfs_only
class Soak(harness.MountCase):
    def setUp(self):
        # Restored when all else has ended: the checks at the end are told of suppressions, too.
        self.addCleanup(lambda before: (harness.ENVIRONMENT.clear(), harness.ENVIRONMENT.update(before)), dict(harness.ENVIRONMENT))
        super().setUp()
        self.sanitizer = sanitizer()
        self.kind = KINDS[self.sanitizer]
        self._reports = self.work.sub("reports")
        os.chmod(self._reports, 0o777)  # the daemon opens files as nobody
        if self.sanitizer:
            self._listen()

    def _listen(self):
        """What a sanitizer has to say goes to files. Leaks are looked for by the unit tests: it takes rights that the daemon gives up."""
        suppressions = os.path.join(self.work.path, "suppressions")
        with open(suppressions, "w", encoding="ascii") as file:
            file.write("race:librocksdb\nrace:libzstd\n")  # not instrumented: see test/kv/tsan_suppressions.cc
        to = f"log_path={self._reports}/report"
        variables = {"ASAN_OPTIONS": f"detect_leaks=0:{to}", "UBSAN_OPTIONS": f"halt_on_error=1:print_stacktrace=1:{to}",
                     "TSAN_OPTIONS": f"suppressions={suppressions}:{to}"}
        harness.ENVIRONMENT.update(variables)

    def reports(self):
        text = ""
        for path in glob.glob(os.path.join(self._reports, "*")):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += file.read()
        return text

    def test_a_long_time_of_mixed_work(self):
        harness.print_seed(self)
        volume = self.volume(SIZE)
        volume.mount(f"cache={CACHE}")
        fresh = self.free(volume)
        begin = time.monotonic()
        # The same for all of the run, so that it does not end in the middle of making ready.
        ballast = workers.Ballast(volume.point, SEED)
        team = workers.Team()
        few = SECONDS < 300
        crew = [workers.Unpack(volume.point, SEED, self.work.sub("unpack"), 100 if few else 800),
                workers.Git(volume.point, SEED, self.work.sub("git"), 30 if few else 150),
                workers.Writes(volume.point, SEED), workers.Streams(volume.point, SEED), workers.InPlace(volume.point, SEED), workers.Sparse(volume.point, SEED),
                workers.Renames(volume.point, SEED, 200 if few else 2000), clones.Clones(volume.point, SEED, 60 if few else 600)]
        readers = [workers.Reader(volume.point, SEED, ballast, number) for number in range(2)]
        while workers.used(volume.point) < 0.72:
            ballast.step()
        ballast.pause = 0.05
        print(f"ready after {time.monotonic() - begin:.0f} s")

        def failed(what):
            team.errors.append(what)
            team.stop.set()
        place = os.path.dirname(os.path.realpath(LSMFS))
        sampler = Sampler(volume, os.path.join(place, "soak.csv"), 0.5 if few else 5, failed)
        try:
            team.start(crew + readers + [ballast])
            if not team.stop.wait(SECONDS):  # on a slow machine longer: all have done something
                until(lambda: team.stop.is_set() or all(worker.steps > 0 for worker in team.workers) and len(sampler.rows) >= SAMPLES,
                      lambda: f"a step of each: {[(worker.name, worker.steps) for worker in team.workers]}; {len(sampler.rows)} samples", 600 * self.kind.slower)
        finally:
            late = team.end(600 * self.kind.slower)
            sampler.end()
            shutil.copy(volume.log, os.path.join(place, "soak.log"))
        for worker in team.workers:
            print(f"{worker.name}: {worker.steps} steps, {worker.without_room} times no room, {worker.too_early} of them too early")
        self.assertEqual(team.errors, [])
        self.assertEqual(late, [], "these wait for something that does not come")
        self.assertLessEqual(sum(worker.too_early for worker in team.workers), EARLY * sum(worker.steps for worker in team.workers))
        self.judge(sampler)

        begin = time.monotonic()
        volume.umount()
        print(f"unmounted in {time.monotonic() - begin:.1f} s")
        self.must(LSMFS, "fsck", volume.device, seconds=600)
        volume.mount(f"cache={CACHE}")
        for worker in team.workers:
            worker.verify()
            worker.clear()
        self.must("find", volume.point, "-mindepth", "1", "-delete", seconds=600)
        until(lambda: self.free(volume) >= fresh * (1 - LOST),
              lambda: f"{self.free(volume) / MiB:.1f} MiB are free after all was deleted, {fresh / MiB:.1f} MiB were at first", 240 * self.kind.slower)
        volume.umount()
        self.assertEqual(self.reports(), "", "of the sanitizer")

    def judge(self, sampler):
        """What the daemon took."""
        used, rss = sampler.column("used_share"), sampler.column("rss_bytes")
        for name in ("rss_bytes", "threads", "descriptors", "used_share", "stat_ms", "tables", "blob_bytes"):
            values = sampler.column(name)
            print(f"{name}: least {min(values)}, median {statistics.median(values)}, most {max(values)}")
        self.assertGreater(statistics.median(used), 0.70)
        self.assertLess(statistics.median(used), 0.90)
        self.assertGreater(max(sampler.column("blob_bytes")), 0)
        self.assertLess(max(rss), CACHE + self.kind.beside)
        first, middle, last = (0.0, 2 / 3), (1 / 3, 2 / 3), (2 / 3, 1.0)
        self.assertLessEqual(statistics.median_low(sampler.column("descriptors", *last)), max(sampler.column("descriptors", *first)), "descriptors become more")
        before, after = sampler.kinds(*first), sampler.kinds(*last)
        for kind in sorted(set().union(*before, *after)):
            # A thread has for a moment the name of the one that began it.
            usual, most = statistics.median_low(counts[kind] for counts in after), max(counts[kind] for counts in before)
            print(f"threads {kind}: {usual}, before at most {most}")
            self.assertLessEqual(usual, LATE.get(kind, most), f"threads {kind} become more")
        if SECONDS >= STEADY:
            growth = statistics.median(sampler.column("rss_bytes", *last)) - statistics.median(sampler.column("rss_bytes", *middle))
            print(f"grew by {growth / MiB:.1f} MiB from the middle third to the last")
            self.assertLess(growth, self.kind.growth)

    @staticmethod
    def free(volume):
        facts = os.statvfs(volume.point)
        return facts.f_bavail * facts.f_frsize


class Noticed(unittest.TestCase):
    """Each worker complains when something has changed behind its back: here on a native file system."""

    def setUp(self):
        self.work = harness.workspace.Workspace("soak")
        self.addCleanup(self.work.close)

    def noticed(self, worker, change):
        worker.verify()
        change()
        with self.assertRaises(AssertionError):
            worker.verify()

    @staticmethod
    def flip(path):
        with open(path, "r+b") as file:
            at = max(0, os.path.getsize(path) // 2)
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))

    @staticmethod
    def some_file(root, size_min=1):
        return next(path for place, _, names in os.walk(root) for path in (os.path.join(place, name) for name in sorted(names))
                    if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) >= size_min and "/.git/" not in path)

    def test_a_changed_byte(self):
        root = self.work.path
        ballast = workers.Ballast(root, 1)
        ballast._write()
        reader = workers.Reader(root, 1, ballast, 0)
        reader.step()
        self.noticed(ballast, lambda: self.flip(self.some_file(ballast.root)))
        with self.assertRaises(AssertionError):
            reader.step()
        unpack = workers.Unpack(root, 1, self.work.sub("unpack"), 50)
        unpack.step()
        self.noticed(unpack, lambda: self.flip(self.some_file(unpack.root)))
        git = workers.Git(root, 1, self.work.sub("git"), 20)
        git.step()
        git._commit()
        self.noticed(git, lambda: self.flip(self.some_file(git._clone)))
        writes = workers.Writes(root, 1)
        for _ in range(60):
            writes.step()
        self.noticed(writes, lambda: self.flip(self.some_file(writes.root)))
        streams = workers.Streams(root, 1)
        for _ in range(10):
            streams.step()
        self.noticed(streams, lambda: self.flip(self.some_file(streams.root)))
        in_place = workers.InPlace(root, 1)
        in_place.step()
        self.noticed(in_place, lambda: self.flip(self.some_file(in_place.root)))
        renames = workers.Renames(root, 1, 50)
        renames.step()
        self.noticed(renames, lambda: self.flip(self.some_file(renames.root)))
        trees = self.clones()
        self.noticed(trees, lambda: self.flip(self.some_file(trees.root)))

    def clones(self):
        """With two trees, one of which is a copy: here is nothing that clones."""
        worker = clones.Clones(self.work.path, 1, 30)
        with unittest.mock.patch.object(worker, "_lsmfs", lambda _, *words: workers.command("cp", "-a", *words)):
            worker.rng.random = lambda: 0.0
            worker.step()
        return worker

    def test_a_block_that_is_gone_or_too_much(self):
        sparse = workers.Sparse(self.work.path, 1)
        for _ in range(100):
            sparse.step()
        block = next(iter(sparse._data))
        with open(sparse._path, "r+b") as file:
            self.noticed(sparse, lambda: workers.syscalls.punch_hole(file.fileno(), block * workers.BLOCK, workers.BLOCK))

    def ended(self, worker, name):
        """The team of one worker for whom a system call gives ENOSPC. It may go on until that has been met some times."""
        def no_room(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        team = workers.Team()
        with unittest.mock.patch.object(workers.os, name, no_room):
            team.start([worker])
            until(lambda: team.stop.is_set() or worker.without_room >= 3, "the end of the team, or that there is no room")
            self.assertEqual(team.end(PATIENCE), [])
        return team

    def test_no_room_for_what_needs_none(self):
        for kind, name in (workers.Writes, "fsync"), (workers.Writes, "fdatasync"), (workers.InPlace, "pwrite"):
            worker = kind(self.work.sub(name), 1)
            self.assertEqual(len(self.ended(worker, name).errors), 1, name)
            self.assertEqual(worker.without_room, 0)
        renames = workers.Renames(self.work.path, 1, 50)
        self.assertEqual(len(self.ended(renames, "rename").errors), 1)

    def test_no_room_for_what_needs_some_is_counted(self):
        writes = workers.Writes(self.work.path, 1)
        self.assertEqual(self.ended(writes, "pwrite").errors, [])
        self.assertGreaterEqual(writes.without_room, 3)
        self.assertEqual(writes.too_early, writes.without_room if workers.used(self.work.path) < workers.Team.FULL else 0)

    def test_a_name_that_is_gone(self):
        renames = workers.Renames(self.work.path, 1, 50)
        self.noticed(renames, lambda: os.unlink(self.some_file(renames.root, 0)))
        trees = self.clones()
        self.noticed(trees, lambda: os.unlink(self.some_file(trees.root)))


if __name__ == "__main__":
    harness.main()
