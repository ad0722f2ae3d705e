"""The promise of a crash, judged with somebody else's recorder: programs run on a mounted loop device whose requests qemu writes
down, and the power is cut after each of them. Each time: the check finds nothing, it mounts, and what is there is what the program
may find: a moment of the past, no older than what had been synced. See programs.py.

Needs root. A sample of cuts; LSMFS_LONG=1: all. LSMFS_JUDGE=Git,Make: only those programs."""

import contextlib
import dataclasses
import os
import random
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "integration"))

import harness  # noqa: E402
import loop  # noqa: E402
import power_log  # noqa: E402
import qemu_disk  # noqa: E402
import workspace  # noqa: E402
from harness import LSMFS, SEED, MiB  # noqa: E402
from programs import PROGRAMS, Appends  # noqa: E402
from story import tree  # noqa: E402

LONG = bool(os.environ.get("LSMFS_LONG"))
SIZE = 160 * MiB
WHOLE, LOST, DRAWN = 3, 1, 1  # cuts of each kind in a sample
PLANTED = 1
THOROUGH = 4                  # every so many cuts are also mounted read-only, and checked again after the mount


def memory_folder():
    """A tmpfs with room and direct I/O, where flushes take no time; None: there is none."""
    place = "/dev/shm"
    try:
        facts = os.statvfs(place)
        fd = os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT)
    except OSError:
        return None
    os.close(fd)
    return place if facts.f_bavail * facts.f_frsize > 1 << 30 else None


@dataclasses.dataclass
class Trace:
    """What a program did to a disk."""
    program: object
    base: str       # the disk before it
    log: power_log.PowerLog
    marks: list     # (number of requests done, what had to survive from then on)

    def facts(self, upto):
        return [fact for at, fact in self.marks if at <= upto]


def spread(numbers, count):
    numbers = list(numbers)
    return [numbers[(2 * i + 1) * len(numbers) // (2 * count)] for i in range(count)] if len(numbers) > count else numbers


def cuts(log, rng):
    """Those to judge, in the order in which a replay makes them."""
    count = len(log.entries)
    # After a flush: as before it, but that more has to be there.
    after = [upto for upto in range(count + 1) if upto == count or not log.entries[upto].flags & power_log.FLUSH]
    # Just before a flush, the most can be lost.
    before = [flush for flush in log.flushes if flush > log.safe(flush)]
    drawn = [flush for flush in before for _ in range(3)]
    if not LONG:
        after, before, drawn = spread(after[:-1], WHOLE) + after[-1:], spread(before, LOST), rng.sample(drawn, DRAWN)
    found = [log.whole(upto) for upto in after] + [log.lost(upto) for upto in before] + [log.drawn(upto, rng) for upto in drawn]
    return sorted(set(found), key=lambda cut: (cut.safe, cut.upto))


@harness.lsmfs_only
class Judge(harness.MountCase):
    def setUp(self):
        super().setUp()
        os.umask(0o022)
        self.place = workspace.Workspace("judge", parent=memory_folder())
        harness._open.append(self.place)
        self.addCleanup(self._close_place)

    def _close_place(self):
        left = [line for line in self.place.close() if line]
        harness._open.remove(self.place)
        self.assertEqual(left, [], "left behind after the test")

    @contextlib.contextmanager
    def recorded(self, kind):
        """A program at work on a recorded disk. Leaves the volume in self.disk, to be mounted from other devices."""
        folder = self.place.sub(kind.__name__)
        program = kind(self.place.sub(kind.__name__ + "/inputs"))
        base, log, end = (os.path.join(folder, name) for name in ("base", "log", "end"))
        self.disk = harness.Volume(os.path.join(folder, "volume"), SIZE, image=True)
        with self.mounted(self.disk.image):
            program.prepare(self.disk.point)
        power_log.copy_sparse(self.disk.image, base)
        loop.make_sparse(log, 8 << 30)
        marks = []
        with contextlib.closing(qemu_disk.QemuDisk(folder, qemu_disk.recording(self.disk.image, log))) as disk:
            with self.mounted(disk.device, "sync_interval=1"):
                program.run(self.disk.point, lambda fact: marks.append((power_log.count(log) if marks else 0, fact)))
        with contextlib.closing(power_log.PowerLog(log)) as requests:
            # What is judged is only as true as the recorder, and the reader of what it wrote.
            with contextlib.closing(power_log.Replay(requests, base, os.path.join(folder, "replayed"))) as replay:
                replay.make(requests.whole(len(requests.entries)), end)
            self.assertTrue(power_log.same(end, self.disk.image), "all requests replayed give another disk than the recorded one")
            yield Trace(program, base, requests, marks)
        shutil.rmtree(folder)

    @contextlib.contextmanager
    def mounted(self, device, options=""):
        self.disk.device = device
        self.disk.mount(options)
        try:
            yield
        finally:
            self.disk.umount()

    def judge(self, trace, chosen, thorough=THOROUGH):
        """What is wrong with each of the cuts, in words; "": nothing."""
        folder = os.path.dirname(trace.base)
        image = os.path.join(folder, "state")
        words = []
        with contextlib.closing(power_log.Replay(trace.log, trace.base, os.path.join(folder, "replayed"))) as replay:
            for number, cut in enumerate(chosen):
                replay.make(cut, image)
                try:
                    words.append(self.problem(trace.program, image, trace.facts(cut.upto), number % thorough == thorough - 1))
                except Exception as error:  # whatever a program makes of it, as sqlite3.DatabaseError
                    words.append(str(error) or repr(error))
        return words

    def problem(self, program, image, facts, thorough):
        self.must(LSMFS, "fsck", image)
        shown = None
        if thorough:
            with self.mounted(image, "ro"):
                shown = tree(self.disk.point)
        with self.mounted(image, "sync_interval=0,noatime"):  # to look at it changes nothing
            found = tree(self.disk.point)
            if shown is not None and found != shown:
                return "a read-only mount shows another tree"
            problem = program.judge(self.disk.point, found, facts)
            folders = [path for path, what in found.items() if what[0] == "folder"] if getattr(program, "TAKES_NAMES", True) else []
            for folder in folders if not problem else ():
                os.mkdir(self.disk.path(folder, "probe"))
                os.rmdir(self.disk.path(folder, "probe"))
        if thorough:
            self.must(LSMFS, "fsck", image)
        return problem

    def planted(self, trace):
        """Cuts of a disk that had forgotten what it was told to flush: what was synced at a mark is not there."""
        pairs = [(old, new) for old, new in zip(trace.marks, trace.marks[1:]) if old[1] != new[1]]
        return [power_log.Cut(new[0], old[0]) for old, new in spread(pairs, PLANTED)]

    def test_programs_find_a_moment_of_the_past_after_each_cut(self):
        harness.print_seed(self)
        only = os.environ.get("LSMFS_JUDGE", "").split(",")
        self.done = dict.fromkeys(("programs", "requests", "flushes", "cuts judged"), 0)
        begin = time.monotonic()
        for kind in PROGRAMS:
            if kind.__name__ in only or only == [""]:
                with self.subTest(kind.__name__), self.recorded(kind) as trace:
                    self.judge_program(trace)
        print(", ".join(f"{number} {what}" for what, number in self.done.items()) + f" in {time.monotonic() - begin:.0f} s")

    def judge_program(self, trace):
        name = type(trace.program).__name__
        begin = time.monotonic()
        chosen = cuts(trace.log, random.Random(f"{SEED} {name}"))
        words = self.judge(trace, chosen)
        planted = self.judge(trace, self.planted(trace), thorough=sys.maxsize)
        entries, flushes = len(trace.log.entries), len(trace.log.flushes)
        print(f"{name}: {entries} requests, {flushes} flushes, {len(trace.marks)} syncs; "
              f"{len(chosen)} cuts judged in {time.monotonic() - begin:.1f} s")
        wrong = [(cut.upto, cut.safe, len(cut.kept), word) for cut, word in zip(chosen, words) if word]
        for what in wrong[:5]:
            print(f"{name}: (upto, safe, kept, what is wrong): {what}", flush=True)
        self.assertEqual(wrong[:5], [], f"{len(wrong)} of {len(chosen)} cuts, with seed {SEED}")
        self.assertGreater(flushes, 3)
        self.assertGreater(len(planted), 0)
        for word in planted:
            self.assertTrue(word.startswith("lost: "), f"a disk whose flushes do nothing was not noticed: {word!r}")
        for what, number in zip(self.done, (1, entries, flushes, len(chosen))):
            self.done[what] += number

    def test_a_flushed_write_that_went_missing_is_noticed(self):
        with self.recorded(Appends) as trace:
            chosen = []
            for at, _ in spread(trace.marks[1:], 20 if LONG else 4):
                flush = trace.log.safe(at) - 1
                chosen.append(trace.log.without(at, max(number for number in range(flush) if trace.log.entries[number].size > 0)))
            words = self.judge(trace, chosen, thorough=sys.maxsize)
        print(words)
        self.assertEqual([cut for cut, word in zip(chosen, words) if not word], [])


if __name__ == "__main__":
    harness.main()
