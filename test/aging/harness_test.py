"""The aging harness, run as a user runs it, on small cases of every workload: what it writes down has to fit together, it
goes on after an interruption, and it says in one line what it cannot do."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "scripts", "support"), os.path.join(ROOT, "test"), os.path.join(ROOT, "bench"), os.path.join(ROOT, "bench", "aging"),
                os.path.join(ROOT, "bench", "aging", "simdisk")]

import loop  # noqa: E402
import simdisk  # noqa: E402
import synthetic_repository  # noqa: E402
import workspace  # noqa: E402
from lsmfs_aging import cli, engine, figures, host, memory, results, scan, traces  # noqa: E402
from shared import cold, commands, file_systems  # noqa: E402
from until import until  # noqa: E402

PROGRAM = os.path.join(ROOT, "bench", "aging", "lsmfs-aging")
BUILT = os.path.join(ROOT, "build", "release")
LSMFS = os.environ.get("LSMFS", os.path.join(BUILT, "lsmfs"))
SIMDISK = os.environ.get("LSMFS_SIMDISK", os.path.join(BUILT, "lsmfs-simdisk"))
GIT = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull, GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.org",
           GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@example.org")


class Case(unittest.TestCase):
    maxDiff = None
    lukewarm = {cold.LUKEWARM: "1"}

    def setUp(self):
        self.enterContext(unittest.mock.patch.dict(os.environ, self.lukewarm))
        if os.geteuid() != 0:
            self.fail("the aging harness mounts, so its tests need root")
        self.work = workspace.Workspace("aging-test")
        self.addCleanup(self.finish)
        self.results = os.path.join(self.work.path, "results")

    def finish(self):
        self.assertEqual(self.work.close(), [], "left behind")

    def words(self, workload, *more, fs="ext4,lsmfs", device="loop", size="400m"):
        return [PROGRAM, "run", workload, "--fs", fs, "--device", device, "--size", size, "--results", self.results, "--work", self.work.path,
                "--stolen", "1000000%", "--lsmfs", LSMFS, "--simdisk", SIMDISK, *map(str, more)]

    def call(self, words, **more):
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200, check=False, **more)

    def run_to_the_end(self, *words, **more):
        done = self.call(self.words(*words, **more))
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return self.points()

    def points(self):
        return results.load(self.results)[1]

    def check(self, points, expected):
        """`expected`: {(tree, x): repetitions}, of each file system on each device. And what holds of any point."""
        cells = {(point.fs, point.device) for point in points}
        for cell in cells:
            counted = {}
            for point in points:
                if (point.fs, point.device) == cell:
                    counted[point.tree, point.x] = counted.get((point.tree, point.x), 0) + 1
            self.assertEqual(counted, expected, cell)
        for point in points:
            self.assertGreater(point.seconds, 0, point)
            self.assertGreater(point.tree_bytes, 0, point)
            self.assertGreater(point.reads, 0, point)
            self.assertGreaterEqual(point.read_bytes, point.reads * 512, point)
            self.assertLess(point.discontinuous, point.reads, point)
            self.assertTrue(0 <= point.layout_score <= 1, point)
            self.assertGreaterEqual(point.modelled_hdd, point.modelled_ssd, point)
            if point.repeat == 0:
                self.assertGreater(point.written_bytes, 0, point)
                self.assertGreater(point.used_bytes, 0, point)
        return cells

    def refused(self, words, *says, **more):
        done = self.call(words, **more)
        self.assertGreater(done.returncode, 0, words)
        lines = [line for line in done.stderr.strip().splitlines() if not re.match(r" *\d+ % ", line)]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in says:
            self.assertIn(word, lines[0])


class Cold(Case):
    lukewarm = {}

    def test_git_on_a_loop_device_and_a_simulated_disk(self):
        points = self.run_to_the_end("git", "--pulls", 12, "--every", 6, "--files", 60, "--repeat", 2, device="loop,simdisk:ssd-sata")
        cells = self.check(points, {("aged", 6): 1, ("unaged", 6): 1, ("aged", 12): 2, ("unaged", 12): 2})
        self.assertEqual(len(cells), 4)
        # The same commits at the same point, and trees of the same size, wherever they lie.
        for x in (6, 12):
            self.assertEqual(len({json.loads(point.more)["head"] for point in points if point.tree == "aged" and point.x == x}), 1)
            self.assertEqual(len({point.tree_bytes for point in points if point.x == x}), 1)
        heads = {json.loads(point.more)["head"] for point in points if point.tree == "aged"}
        self.assertEqual(len(heads), 2, "HEAD has moved")
        self.check_report(points)
        again = self.call(self.words("git", "--pulls", 12, "--every", 6, "--files", 60, "--repeat", 2, device="loop,simdisk:ssd-sata"))
        self.assertEqual((again.returncode, self.points()), (0, points), "a finished run is left alone")
        self.refused(self.words("git", "--pulls", 13, "--every", 6, "--files", 60), self.results, "pulls")

    def check_report(self, points):
        done = self.call([PROGRAM, "report", self.results])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(done.stdout.strip(), encoding="utf-8") as file:
            page = file.read()
        folder = os.path.dirname(done.stdout.strip())
        for name in ("cost.png", "layout-score.png", "written.png"):
            with open(os.path.join(folder, name), "rb") as file:
                self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
        self.assertIsNone(re.search(r'(src|href)="?(http|/)', page), "the page needs nothing from elsewhere")
        # A figure of the table, traced to its rows by hand.
        with open(os.path.join(folder, "points.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        ours = [row for row in rows if (row["fs"], row["device"], row["tree"], row["x"]) == ("lsmfs", "loop", "aged", "12")]
        self.assertEqual(len(ours), 2)
        middle = sum(float(row["seconds"]) for row in ours) / 2 / (int(ours[0]["tree_bytes"]) / (1 << 30))
        self.assertTrue(f">{middle:.3g}<" in page if middle < 1000 else f">{middle:,.0f}<" in page, middle)
        numbers = [line for line, row in enumerate(rows, 2) if (row["fs"], row["device"], row["x"]) == ("lsmfs", "loop", "12")]
        self.assertTrue(f"<td>{numbers[0]}-{numbers[-1]}</td>" in page, numbers)
        both = self.call([PROGRAM, "report", self.results, self.results, "--output", os.path.join(self.work.path, "both")])
        self.assertEqual(both.returncode, 0, both.stderr)
        with open(both.stdout.strip(), encoding="utf-8") as file:
            self.assertTrue("<td>1.00</td>" in file.read())
        self.assertEqual(len(points), len(rows))


class Workloads(Case):
    def test_git_on_two_block_devices(self):
        pair = []
        for name in ("one", "other"):
            image = os.path.join(self.work.path, name)
            loop.make_sparse(image, 200 << 20)
            pair.append(loop.attach(image))
            self.addCleanup(loop.detach, pair[-1])
        points = self.run_to_the_end("git", "--pulls", 3, "--every", 3, "--files", 20, "--repeat", 1, device="+".join(pair), size="200m")
        self.check(points, {("aged", 3): 1, ("unaged", 3): 1})

    def test_scans_that_the_host_disturbs_do_not_count(self):
        # As if all were.
        points = self.run_to_the_end("intrafile", "--every", 100, "--repeat", 2, "--stolen", "0%", fs="ext4")
        self.check_repeated(points, [1, 1, 1, 1], counted=4)
        self.assertEqual([point.disturbed for point in points if point.x == 0], [1, 1], "the others are made again as well")
        path, counting = os.path.join(self.results, "points.csv"), ("1", "3")
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row["x"] == "100" and row["repeat"] in counting:
                row["disturbed"] = "0"
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        self.check_repeated(self.points(), [1, 0, 1, 0], counted=2)

    def test_a_scan_waits_for_the_host_with_patience(self):
        def waited(patience, *stolen, stopped=False):
            """How many looks and how long a pause it took, where the host takes `stolen` of each two seconds, one after the other."""
            looks, clock = [], [0]

            def looked():
                clock[0] += 2
                looks.append(stolen[len(looks)])
                return looks[-1], 2

            def pause(seconds):
                clock[0] += seconds

            host.wait(0.02, patience, lambda: stopped, looked, pause, lambda: clock[0])
            return len(looks), clock[0]

        self.assertEqual(waited(0, 2), (0, 0))
        self.assertEqual(waited(60, 0.01), (1, 2))
        self.assertEqual(waited(60, 0.5, 0.04, 0.01), (3, 26))
        self.assertEqual(waited(20, 0.5, 0.5, 0.5), (2, 20), "it gives up")
        self.assertEqual(waited(60, 0.5, stopped=True), (1, 2))
        with unittest.mock.patch.object(host, "LOOK", 0.01):
            self.assertGreaterEqual(host.look()[1], host.LOOK)

    def check_repeated(self, points, disturbed, counted):
        """What `disturbed` says of the repetitions of the last point, and how many of them its figure is made of."""
        last = [point for point in points if point.x == 100]
        self.assertEqual([point.disturbed for point in last], disturbed)
        figure = figures.Run(self.results, results.load(self.results)[0], points).figure("ext4", "loop", "aged", 100)
        kept = [point.seconds for point in last if counted == len(last) or not point.disturbed]
        self.assertEqual((figure.all_seconds, figure.disturbed), (kept, counted if counted == len(last) else 0))
        # What is said of the scan is of one that counts; what is known once for all is of the first.
        self.assertEqual((figure.point.repeat, figure.facts.repeat), (0 if counted == len(last) else 1, 0))
        self.assertIn(figure.facts_line - 2, [at for at, point in enumerate(points) if point is figure.facts])

    def test_intrafile(self):
        self.check(self.run_to_the_end("intrafile", "--every", 100, "--repeat", 1), {("aged", 0): 1, ("aged", 100): 1})

    def test_interfile(self):
        self.check(self.run_to_the_end("interfile", "--files", 120, "--every", 100, "--repeat", 1), {("aged", 0): 1, ("aged", 100): 1})

    def test_filesize(self):
        points = self.run_to_the_end("filesize", "--total", 2, "--repeat", 1)
        self.check(points, {(tree, size): 1 for tree in ("aged", "unaged") for size in (4, 16, 64, 256, 1024)})
        self.assertEqual({point.tree_bytes for point in points}, {2 << 20})

    def test_mail(self):
        points = self.run_to_the_end("mail", "--users", 1, "--boxes", 3, "--messages", 10, "--operations", 20, "--days", 2, "--every", 2, "--repeat", 1)
        self.check(points, {("aged", 0): 1, ("unaged", 0): 1, ("aged", 2): 1, ("unaged", 2): 1})


    def check_variants(self, points, expected):
        """`expected`: how often each variant was measured, on each file system."""
        for fs in {point.fs for point in points}:
            counted = {}
            for point in points:
                if point.fs == fs:
                    counted[point.tree] = counted.get(point.tree, 0) + 1
            self.assertEqual(counted, expected, fs)
        done = self.call([PROGRAM, "report", self.results])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(done.stdout.strip(), encoding="utf-8") as file:
            page = file.read()
        for tree in expected:
            self.assertTrue(f"<td class=w>{tree}</td>" in page, tree)

    def test_git_warm(self):
        points = self.run_to_the_end("git-warm", "--pulls", 6, "--every", 3, "--files", 30, "--memory", "300m", "--repeat", 1)
        self.assertEqual(sorted((point.fs, point.x, point.tree) for point in points),
                         sorted((fs, x, tree) for fs in ("ext4", "lsmfs") for x in (3, 6) for tree in ("aged", "unaged")))
        self.assertEqual([name for name in os.listdir("/sys/fs/cgroup/memory") if name.startswith("lsmfs-aging-")]
                         if os.path.isdir("/sys/fs/cgroup/memory") else [], [])

    def test_xargs_cat(self):
        points = self.run_to_the_end("xargs-cat", "--files", 60, "--runs", 2)
        self.check_variants(points, {"flat-1": 2, "flat-2": 2, "gzip-1": 2, "gzip-2": 2})
        size = {point.tree: point.tree_bytes for point in points}
        self.assertEqual((size["flat-1"], size["gzip-1"]), (size["flat-2"], size["gzip-2"]))
        self.assertLess(size["gzip-1"], size["flat-1"])

    def test_gitignore(self):
        points = self.run_to_the_end("gitignore", "--files", 60, "--runs", 1)
        self.check_variants(points, {"list": 1, "list-and-open-missing": 1, "read-tree": 1, "read-tree-with-excludes": 1})

    def test_bigalloc(self):
        points = self.run_to_the_end("bigalloc", "--files", 2, "--megabytes", 4, "--seconds", 1)
        self.check_variants(points, {"fallocate": 1, "truncate": 1, "unlink": 1, "direct-read": 1, "direct-write": 1})
        for point in points:
            more = json.loads(point.more)
            self.assertGreaterEqual(more["max_seconds"], point.seconds * 0.999)
            self.assertTrue(0 <= more.get("share_slow", 0) <= 1)

    def test_svn(self):
        points = self.run_to_the_end("svn", "--revisions", 12, "--files", 10, "--churn", 40, "--runs", 1)
        self.check_variants(points, {f"{what}, {tree}": 1 for what in ("null-export", "null-log", "null-log -v") for tree in ("aged", "unaged")})


class Memory(Case):
    @staticmethod
    def groups(pid="self"):
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
            return file.read()

    def test_a_simulated_disk_has_no_part_in_a_limit_on_it(self):
        before, point = self.groups(), self.work.sub("point")
        with memory.limited(64 << 20):
            self.assertNotEqual(self.groups(), before)
            with simdisk.Simdisk(SIMDISK, self.work.sub("disk"), 512 << 20, "none") as disk:
                self.assertEqual(self.groups(disk.process.pid), before)
                # So much that what has been written has to go to the disk before more can be.
                commands.run("mkfs.ext4", "-q", disk.device)
                commands.run("mount", disk.device, point)
                try:
                    commands.run("dd", "if=/dev/zero", f"of={point}/file", "bs=1M", "count=256")
                finally:
                    commands.run("umount", point)
        self.assertEqual(self.groups(), before)


class Unmounting(Case):
    def test_who_has_it_open_for_a_moment_is_waited_for(self):
        image, point = os.path.join(self.work.path, "image"), self.work.sub("point")
        loop.make_sparse(image, 64 << 20)
        device = loop.attach(image)
        self.addCleanup(loop.detach, device)
        ext4 = file_systems.FileSystem("ext4", LSMFS)
        ext4.make(device)
        ext4.mount(device, point)
        held = os.open(point, os.O_RDONLY)
        with unittest.mock.patch.object(file_systems, "BUSY_PATIENCE", 0), self.assertRaisesRegex(commands.Problem, "busy"):
            ext4.unmount(point)
        self.assertTrue(os.path.ismount(point))
        # It is let go of during the first pause of the harness. Python itself sleeps, too, while it waits for a process.
        clock = unittest.mock.Mock(wraps=time, sleep=lambda _: os.close(held))
        with unittest.mock.patch.object(file_systems, "time", clock):
            ext4.unmount(point)
        self.assertFalse(os.path.ismount(point))


class Interruptions(Case):
    CELL = os.path.join("state", "git", "ext4-on-loop", "cell.json")

    def git_words(self, every):
        return ["git", "--pulls", 16, "--every", every, "--files", 40, "--repeat", 1]

    def begin(self, every=4, begun=None):
        """A run that has its first points, or for which `begun` is true, as a process."""
        begun = begun or (lambda: os.path.exists(os.path.join(self.results, "points.csv")) and len(self.points()) >= 2)
        process = subprocess.Popen(self.words(*self.git_words(every), fs="ext4"),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until(lambda: process.poll() is not None or begun(), "the first of a run")
        self.assertIsNone(process.poll(), "it ended by itself")
        return process

    def go_on(self, every=4):
        points = self.run_to_the_end(*self.git_words(every), fs="ext4")
        self.check(points, {(tree, x): 1 for tree in ("aged", "unaged") for x in range(every, 17, every)})
        self.assertFalse(os.path.exists(os.path.join(self.results, "state")))
        return points

    def nothing_is_left(self):
        self.assertEqual(workspace.loops_below(self.results), [])
        self.assertEqual(workspace.mounts_below(self.work.path), [])

    def test_stopped_before_its_first_point_it_goes_on_and_counts_all(self):
        process = self.begin(16, lambda: os.path.exists(os.path.join(self.results, self.CELL)))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
        self.assertEqual((process.returncode, self.points()), (130, []), said)
        with open(os.path.join(self.results, self.CELL), encoding="utf-8") as file:
            before = json.load(file)
        self.assertTrue(0 < before["done"] < 16, before)
        self.assertGreater(before["worked"], 0)
        self.assertGreater(before["written"], 0)
        aged = self.go_on(16)[0]
        self.assertEqual(len(self.facts()["sittings"]), 2, "it has not begun anew")
        self.assertGreater(aged.aging_seconds, before["worked"])
        self.assertGreater(aged.written_bytes, before["written"])
        self.results = os.path.join(self.work.path, "in one go")
        self.assertEqual(self.go_on(16)[0].more, aged.more, "the same commit")

    def test_another_run_in_the_same_folder_is_refused_and_leaves_the_first_alone(self):
        process = self.begin(16, lambda: os.path.exists(os.path.join(self.results, self.CELL)))
        process.send_signal(signal.SIGSTOP)
        try:
            with unittest.mock.patch.object(engine, "PATIENCE", 0), self.assertRaisesRegex(commands.Problem, f"{self.results}: another run"):
                engine.run(cli.arguments([str(word) for word in self.words(*self.git_words(16), fs="ext4")[1:]]), lambda: False)
        finally:
            process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(len(self.points()), 2)

    def test_a_signal_stops_after_the_step_and_the_run_goes_on_from_there_and_says_that_it_did_elsewhere(self):
        process = self.begin()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130, said)
        self.nothing_is_left()
        before = self.points()
        facts = self.facts()
        facts["sittings"][0]["machine"]["kernel"] = "another"
        with open(os.path.join(self.results, "run.json"), "w", encoding="utf-8") as file:
            json.dump(facts, file)
        self.assertEqual(self.go_on()[:len(before)], before, "what was measured is kept")
        self.assertEqual([sitting["machine"]["kernel"] for sitting in self.facts()["sittings"]], ["another", os.uname().release])
        done = self.call([PROGRAM, "report", self.results])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(done.stdout.strip(), encoding="utf-8") as file:
            page = file.read()
        for kernel in ("another", os.uname().release):
            self.assertIn(f"Linux {kernel}, git", page)

    def facts(self):
        with open(os.path.join(self.results, "run.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_after_a_kill_the_cell_begins_anew(self):
        process = self.begin()
        process.kill()
        process.communicate(timeout=600)
        self.go_on()  # waits until what was killed is taken down
        self.nothing_is_left()

    def test_two_runs_do_not_share_their_results(self):
        kept = self.work.sub("kept")
        with workspace.Workspace("aging-test", kept=kept):
            with self.assertRaises(workspace.Taken):
                workspace.Workspace("aging-test", kept=kept, patience=0)
        workspace.Workspace("aging-test", kept=kept).close()


class BadInput(Case):
    def repository(self, name, commits=0):
        path = os.path.join(self.work.path, name)
        if commits:
            synthetic_repository.make(path, commits=commits, files=20, seed=3)
        else:
            self.git("init", "-q", path)
        return path

    def git(self, *words):
        done = self.call(["git", *words], env=GIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_gets_one_line(self):
        self.refused(self.words("git", "--repo", "/no/such/place"), "/no/such/place", "no git repository")
        self.refused(self.words("git", "--repo", self.repository("empty")), "empty", "no commit")
        full = self.repository("full", 10)
        self.git("clone", "-q", "--depth", "2", "file://" + full, os.path.join(self.work.path, "shallow"))
        self.refused(self.words("git", "--repo", os.path.join(self.work.path, "shallow")), "shallow", "unshallow")
        self.refused(self.words("git", "--repo", full, "--pulls", 11), "10 commits", "11")
        self.refused(self.words("git", "--pulls", 0), "--pulls")
        self.refused(self.words("git", fs="ext5"), "ext5", "unknown", "ext4")
        self.refused(self.words("git", fs="ext4,ext4"), "ext4", ":as=")
        self.refused(self.words("git", fs="ext4:colour=red"), "colour=red")
        self.refused(self.words("git", fs='ext4:mkfs=-L "x'), "mkfs=", "quot")
        self.assertIn("names none", self.call(self.words("git", fs=",")).stderr)
        self.refused(self.words("git", fs="ext4:mkfs=--no-such-option"), "mkfs.ext4")
        self.refused(self.words("git", fs="lsmfs", size="100m"), "lsmfs", "128 MiB")
        self.refused(self.words("git", size="900t"), "free", "--size")
        self.refused(self.words("git", device="simdisk:floppy"), "floppy", "hdd")
        self.refused(self.words("git", device="floppy"), "floppy", "loop")
        self.refused(self.words("git", device="/dev/null+/dev/null"), "/dev/null", "block device")
        missing = os.path.join(self.work.path, "missing.toml")
        with open(missing, "w", encoding="utf-8") as file:
            file.write('needs = ["mkfs.no-such"]\nmkfs = ["mkfs.no-such"]\nmount = ["mount"]\numount = ["umount"]\n')
        self.refused(self.words("git", fs=missing), "mkfs.no-such", "not there")
        self.refused([PROGRAM, "report", self.work.path], self.work.path, "no results directory")

    def test_a_device_in_use_is_left_alone(self):
        image = os.path.join(self.work.path, "image")
        loop.make_sparse(image, 64 << 20)
        device = loop.attach(image)
        self.addCleanup(loop.detach, device)
        self.assertEqual(self.call(["mkfs.ext4", "-q", device]).returncode, 0)
        point = self.work.sub("point")
        self.assertEqual(self.call(["mount", device, point]).returncode, 0)
        try:
            self.refused(self.words("git", fs="ext4", device=f"{device}+{device}", size="64m"), device, "in use")
        finally:
            self.assertEqual(self.call(["umount", point]).returncode, 0)
        self.refused(self.words("git", fs="ext4", device=f"{device}+{device}", size="64m"), device, "different devices")

    def test_whoever_is_not_root_is_told_so(self):
        self.refused(["setpriv", "--reuid", "65534", "--clear-groups", *self.words("git")], "root")

    def conflict(self):
        """A repository in which one side removes what the other changes, merged by hand; four commits."""
        path = os.path.join(self.work.path, "conflict")
        self.git("init", "-q", "-b", "main", path)

        def commit(text):
            self.git("-C", path, "add", "-A")
            self.git("-C", path, "commit", "-q", "-m", text)

        for name in ("kept", "lost"):
            with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                file.write(name * 100)
        commit("both")
        self.git("-C", path, "checkout", "-q", "-b", "other")
        os.unlink(os.path.join(path, "lost"))
        commit("one is removed")
        self.git("-C", path, "checkout", "-q", "main")
        with open(os.path.join(path, "lost"), "a", encoding="utf-8") as file:
            file.write("changed")
        commit("the other side changes it")
        self.call(["git", "-C", path, "merge", "-q", "other"], env=GIT)
        commit("merged by hand")
        return path

    def test_histories_that_begin_apart_are_joined(self):
        path = os.path.join(self.work.path, "joined")
        self.git("init", "-q", "-b", "main", path)
        for branch in ("main", "other"):
            if branch == "other":
                self.git("-C", path, "checkout", "-q", "--orphan", "other")
            with open(os.path.join(path, branch), "w", encoding="utf-8") as file:
                file.write(branch)
            self.git("-C", path, "add", "-A")
            self.git("-C", path, "commit", "-q", "-m", branch)
        self.git("-C", path, "merge", "-q", "--no-edit", "--allow-unrelated-histories", "main")
        self.check(self.run_to_the_end("git", "--repo", path, "--pulls", 3, "--every", 3, "--repeat", 1, fs="ext4"), {("aged", 3): 1, ("unaged", 3): 1})

    def test_a_conflict_is_decided_for_what_is_pulled(self):
        points = self.run_to_the_end("git", "--repo", self.conflict(), "--pulls", 4, "--every", 4, "--repeat", 1, fs="ext4")
        self.check(points, {("aged", 4): 1, ("unaged", 4): 1})

    def test_a_failed_pull_ends_the_run_and_leaves_nothing_mounted(self):
        path = os.path.join(self.work.path, "large")
        self.git("init", "-q", path)
        with open(os.path.join(path, "large"), "wb") as file:
            file.write(os.urandom(64 << 20))
        self.git("-C", path, "add", "large")
        self.git("-C", path, "commit", "-q", "-m", "more than the device holds")
        self.refused(self.words("git", "--repo", path, "--pulls", 1, fs="ext4", size="48m"), "git pull", "No space left")


class Contents(unittest.TestCase):
    def test_tell_trees_apart_that_differ_in_anything_but_data(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = set()

            def changed(what):
                what()
                found = scan.contents(folder)
                self.assertNotIn(found.digest, seen)
                seen.add(found.digest)
                return found.bytes

            def path(name):
                return os.path.join(folder, name)

            def write(name, size):
                with open(path(name), "wb") as file:
                    file.write(b"x" * size)

            self.assertEqual(changed(lambda: None), 0)
            self.assertEqual(changed(lambda: write("a", 1)), 4096)
            self.assertEqual(changed(lambda: write("a", 2)), 4096)
            self.assertEqual(changed(lambda: os.rename(path("a"), path("b"))), 4096)
            self.assertEqual(changed(lambda: os.chmod(path("b"), 0o600)), 4096)
            self.assertEqual(changed(lambda: os.mkdir(path("d"))), 4096)
            self.assertEqual(changed(lambda: os.symlink("b", path("l"))), 8192)
            os.mkdir(path("lost+found"))
            self.assertIn(scan.contents(folder).digest, seen)


class Score(unittest.TestCase):
    def test_is_that_of_the_study(self):
        def score(*reads):
            return traces.reads(("R", start * 4096, blocks * 4096) for start, blocks in reads)

        self.assertEqual(score((7, 4), (11, 4)).score, 1)
        self.assertEqual(score((0, 4), (8, 4)).score, 1 - 1 / 8)
        self.assertEqual(score((9, 1), (3, 1), (6, 1), (0, 1)).score, 1 - 3 / 4)
        self.assertIsNone(score().score)
        self.assertEqual(traces.reads([("R", 0, 4096), ("W", 0, 4096), ("F", 0, 0), ("R", 4096, 4096)]).discontinuous, 0)

    def test_published_curves_are_the_studys(self):
        curves = figures.published("hdd", "off")
        aged = {fs: dict((row[0], row[1]) for row in curve) for fs, curve in curves.items()}
        unaged = {fs: dict((row[0], row[2]) for row in curve) for fs, curve in curves.items()}
        self.assertAlmostEqual(aged["ext4"][10000], 768, delta=1)
        self.assertAlmostEqual(unaged["ext4"][10000], 87, delta=1)
        self.assertAlmostEqual(aged["betrfs"][10000], 12.9, delta=0.1)


if __name__ == "__main__":
    unittest.main()
