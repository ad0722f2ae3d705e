"""bench/compare, run as a user runs it, with every piece of work at a tiny size: all figures are there and fit together,
whatever the machine; the table says what budgets come to; and what it cannot do it says in one line."""

import contextlib
import glob
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

LUKEWARM = "LSMFS_BENCH_LUKEWARM"  # bench/shared/cold.py
os.environ[LUKEWARM] = "1"

from harness import LSMFS, WHOLE, MountCase, MiB, ROOT, call, lsmfs_only, main

BENCH = os.path.join(ROOT, "bench")
sys.path[:0] = [os.path.join(BENCH, "compare"), BENCH, os.path.join(BENCH, "aging", "simdisk")]

import costs  # noqa: E402
import inputs  # noqa: E402
import layer  # noqa: E402
import loop  # noqa: E402
import made_up  # noqa: E402
import projects  # noqa: E402
import report  # noqa: E402
import work  # noqa: E402
import workspace  # noqa: E402
from shared import commands  # noqa: E402
from shared.file_systems import FileSystem  # noqa: E402
from until import until  # noqa: E402
from work.data import percentiles  # noqa: E402
from work.parallel import shares  # noqa: E402
from work.piece import Conditions  # noqa: E402

PROGRAM = os.path.join(BENCH, "compare", "compare")
SIMDISK = os.environ.get("LSMFS_SIMDISK", os.path.join(ROOT, "build", "release", "lsmfs-simdisk"))
TINY = ("sequential=24m,random-file=8m,random-writes=16,fsyncs=20,appends=20,load=8m,huge=16m,created=300,renamed=300,"
        "objects=60,modules=60,mail=60,repo-commits=40,repo-files=40,random-reads=8,mixed-seconds=1,accounts=200,transactions=20,"
        "files=300,entries=300,removed=300,moves=5,idle=1,beside=8m,generations=4,npm=6,cargo=3,pip=3,layer=200")
MEMORY = {"memory peak", "memory anon"}
LINUX = {  # what make takes for the source of Linux
    "Kconfig": "",
    "Makefile": "allnoconfig:\n\ttouch .config\nkernel/ mm/ lib/: %/: %/built-in.a\n%/built-in.a: %/one.o\n\tar rcs $@ $^\nclean:\n\trm -f */one.o */built-in.a\n"
                ".PHONY: kernel/ mm/ lib/ clean\n",
    **{f"{part}/one.c": "int one(void) { return 1; }\n" for part in ("kernel", "mm", "lib")},
}


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def figures_of(*names):
    return [figure.name for piece in work.PIECES if piece.name in names for figure in piece.figures]


CLONES = figures_of("clones")
STATES = figures_of("diff", "send", "changes")
STREAMS = {name for name in STATES if name.startswith("stream ")}
SMALLER = {figure.name for piece in work.PIECES
           if piece.name in ("sequential", "random", "reads", "mixed", "rename", "huge", "directory", "removal", "shuffle", "beside") for figure in piece.figures}


class Case(MountCase):
    def setUp(self):
        super().setUp()
        self.tree = os.path.join(self.work.path, "some.tar")
        made_up.make("modules", self.tree, 150, 1)
        with tarfile.open(self.tree, "a") as tar:
            for name, text in LINUX.items():
                entry = tarfile.TarInfo("linux/" + name)
                entry.size, entry.mtime = len(text), 1_600_000_000
                tar.addfile(entry, io.BytesIO(text.encode()))
        self.json = os.path.join(self.work.path, "out.json")
        self.markdown = os.path.join(self.work.path, "out.md")

    def words(self, *more):
        return [sys.executable, "-B", PROGRAM, "--fs", "ext4,lsmfs", "--size", "400m", "--rounds", "1", "--set", TINY, "--dir", self.work.path,
                "--tree", self.tree, "--lsmfs", LSMFS, "--simdisk", SIMDISK, "--json", self.json, "--markdown", self.markdown, "--quiet", *more]

    def compare(self, *more, path=os.environ["PATH"], cold=False):
        """(what is in the JSON, {figure: cells of the table by the column's name})"""
        printed = self.must("env", *(["-u", LUKEWARM] if cold else []), "PATH=" + path, *self.words(*more), seconds=500)
        with open(self.markdown, encoding="utf-8") as file:
            tables = [self.table(text) for text in (printed, file.read())]
        self.assertEqual(*tables)
        return self.result(), tables[0]

    def result(self):
        with open(self.json, encoding="utf-8") as file:
            return json.load(file)

    @staticmethod
    def table(text):
        lines = [[word.strip() for word in line.strip("| ").split(" | ")] for line in text.splitlines() if line.startswith("| ")]
        return {line[0]: dict(zip(lines[0], line)) for line in lines[2:]}


@lsmfs_only
class Figures(Case):
    def test_every_piece_of_work_gives_all_of_its_figures(self):
        result, table = self.compare(cold=True)
        self.assertEqual(list(table), list(work.FIGURES), "the rows of the table")
        missing = {name: row["missing"] for name, row in result["summary"].items() if "missing" in row}
        for why in missing.values():
            self.assertRegex(why, "^(npm|cargo) (is not installed|does not run)$")
        for fs in ("ext4", "lsmfs"):
            with self.subTest(fs):
                self.check(fs, result["rounds"][0][fs], missing)
        for name, row in result["summary"].items():
            with self.subTest(name):
                self.check_verdict(name, row, table[name])
        self.assertEqual((result["incomplete"], result["facts"]["random-writes"]), ("", 16))
        self.assertFalse(result["summary"]["random 4 B"].get("budget"), "that budget is one for hard disks")
        self.assertEqual([system["name"] for system in result["file_systems"]], ["ext4", "lsmfs"])
        self.assertIn("lsmfs", result["file_systems"][1]["version"])
        self.assertEqual(result["device_bytes"]["tree"], 400 * MiB)

    def check(self, fs, figures, missing):
        self.assertEqual(set(figures), set(work.FIGURES) - set(missing) - (MEMORY | STREAMS if fs == "ext4" else set()))
        for name, value in figures.items():
            if name == "clone space":  # which may be less than what was merged meanwhile
                continue
            self.assertGreaterEqual(value, 0, name)
            if name != "space empty":
                self.assertGreater(value, 0, name)
        for name in figures:
            if name + "+umount" in figures:
                self.assertGreater(figures[name + "+umount"], figures[name], name)
        for names in (("new+fsync p50", "new+fsync p99"), ("fsync p50", "fsync p99"), ("fsync p50", "new+fsync p50"), ("append p50", "append p99"),
                      ("append+fsync p50", "append+fsync p99"), ("fsync by 16 p50", "fsync by 16 p99"), ("load p50", "load p99", "load p99.9", "load max")):
            values = [figures[name] for name in names]
            self.assertEqual(values, sorted(values), names)
        # What does not compress is on the device at least once.
        self.assertGreater(figures["written"], 0.99)
        self.assertLess(figures["written"], 20)
        for ratio, above, below in (("grep after/before", "grep after rename", "grep before rename"), ("find after/before", "find after removal", "find before removal"),
                                    ("grep after idling/before", "grep after idling", "grep before shuffle"), ("untar beside/alone", "untar beside", "untar alone"),
                                    ("fsync beside/alone p99", "fsync beside p99", "fsync alone p99"),
                                    ("read after/before random", "read after random", "read before random")):
            self.assertAlmostEqual(figures[ratio], figures[above] / figures[below])
        self.check_clones(figures)
        for call in ("unlink", "truncate"):
            self.assertGreaterEqual(figures[call + " freed"], figures[call])
        if fs == "ext4":
            self.assertGreater(figures["space"] - figures["space empty"], os.path.getsize(self.tree) // 2)
        else:
            self.assertGreaterEqual(figures["space"], figures["space empty"])
            self.assertTrue(8 * MiB < figures["memory peak"] < 1024 * MiB, figures["memory peak"])
            self.assertLessEqual(figures["memory anon"], figures["memory peak"])

    def test_clones_are_made_by_the_ways_of_each_file_system(self):
        systems = ["ext4", "xfs", "btrfs", "lsmfs"]
        result, table = self.compare("--fs", ",".join(systems), "--work", "clones")
        self.assertEqual(list(table), CLONES)
        for fs in systems:
            with self.subTest(fs):
                figures = result["rounds"][0][fs]
                self.assertEqual(set(figures) - MEMORY, set(CLONES))
                self.check_clones(figures)
        ways = [os.path.basename(system["clone"]).split()[:2] for system in result["file_systems"]]
        self.assertEqual(ways, [["cp", "-a"], ["cp", "-a"], ["btrfs", "subvolume"], ["lsmfs", "clone"]])
        space = {fs: result["rounds"][0][fs]["clone space"] for fs in systems}
        self.assertGreater(space["ext4"], os.path.getsize(self.tree) // 2, "it copies")
        for fs in ("xfs", "btrfs", "lsmfs"):
            self.assertLess(space[fs], space["ext4"], "it shares")

    def check_clones(self, figures):
        for name in set(CLONES) - {"clone space"}:
            self.assertGreater(figures[name], 0, name)
        for less, more in (("clone tree", "clone tree+umount"), ("clone changed", "clone changed+umount"), ("generation cloned", "generation")):
            self.assertGreater(figures[more], figures[less])
        self.assertGreaterEqual(figures["clone freed"], figures["clone removed"])
        for ratio, above, below in (("grep clone/source", "grep clone", "grep source"), ("grep generation/copy", "grep generation", "grep copy")):
            self.assertAlmostEqual(figures[ratio], figures[above] / figures[below])

    def test_a_clone_that_is_none_is_found_out(self):
        for where, clone in (("mnt/tree", ["cp", "-al", "{source}", "{target}"]),
                             ("mnt/clone", ["sh", "-c", "cp -a {source} {target} && find {target} -type f -size +0 | head -n 1 | xargs truncate -s 0"])):
            with self.subTest(where):
                self.refused(*self.words("--fs", self.ext4_with(clone=clone), "--work", "clones"), says=["clones on ext4-with: ", where + ": ", " is not what was written"])

    def ext4_with(self, **commands):
        """The description of an ext4 with such commands of its own."""
        path = os.path.join(self.work.path, "ext4-with.toml")
        with open(path, "w", encoding="ascii") as file:
            for name, command in {"mkfs": ["mkfs.ext4", "-q", "-F", "{device}"], "mount": ["mount", "{device}", "{point}"], "umount": ["umount", "{point}"], **commands}.items():
                file.write(f"{name} = {json.dumps(command)}\n")
        return path

    def test_what_has_changed_is_told_and_sent_by_the_ways_of_each_file_system(self):
        systems = ["ext4", "xfs", "btrfs", "lsmfs"]
        result, table = self.compare("--fs", ",".join(systems), "--work", "diff,send,changes")
        self.assertEqual(list(table), STATES)
        for fs in systems:
            with self.subTest(fs):
                figures = result["rounds"][0][fs]
                self.assertEqual(set(figures) - MEMORY, set(STATES) - (STREAMS if fs in ("ext4", "xfs") else set()))
                if fs in ("btrfs", "lsmfs"):
                    sizes = [figures["stream " + name] for name in ("10", "tenth", "full")]
                    self.assertEqual((sizes, len(set(sizes))), (sorted(sizes), 3), "as there are changes")
        for command, ways in (("differences", ["rsync", "rsync", "bash", "lsmfs"]), ("send", ["", "", "btrfs", "lsmfs"]), ("since", ["find", "find", "sh", "sh"])):
            self.assertEqual([os.path.basename(system[command].partition(" ")[0]) for system in result["file_systems"]], ways)

    def test_changes_that_are_told_or_sent_wrong_are_found_out(self):
        update = 'rsync -a --modify-window=-1 "$1/" "$2/" && mv "$2" "$3" && '
        for piece, commands, says in (("diff", {"differences": ["true"]}, "tells 0 of 10 changed files and 0 others"),
                                      ("changes", {"since": ["find", "{source}"]}, "tells 10 of 10 changed files and 290 others"),
                                      ("send", {"update": ["mv", "{received}", "{target}"]}, "one of 10 such files, is not what was sent"),
                                      ("send", {"update": ["sh", "-c", update + 'touch "$3/more"', "sh", "{source}", "{received}", "{target}"]}, "Only in")):
            with self.subTest(says):
                self.refused(*self.words("--fs", self.ext4_with(**commands), "--work", piece), says=[f"{piece} on ext4-with: ", says])

    def check_verdict(self, name, row, line):
        """The ratios and verdicts, from the figures by hand."""
        cells = row["fs"]
        if "missing" in row:
            self.assertEqual((cells, line["ext4"], line["lsmfs"]), ({}, row["missing"], "-"))
            return
        if name in MEMORY | STREAMS:
            self.assertEqual(line["ext4"], "-")
        elif cells["ext4"]["median"] > 0:
            ratio = cells["lsmfs"]["median"] / cells["ext4"]["median"]
            self.assertEqual((line["lsmfs / best peer"], line["lsmfs / ext4"]), (f"{ratio:.{2 if ratio < 100 else 0}f}x",) * 2)
        limit = re.fullmatch(r"at (most|least) ([0-9.]+) (x best peer|x ext4|x|s|ms|MiB)", row.get("budget", ""))
        if "budget" not in row:
            self.assertEqual((line["budget"], line["met"]), ("-", "-"))
            return
        self.assertTrue(limit, row["budget"])
        if limit[3] == "x best peer":
            self.assertEqual((row["met"], line["met"]), ({}, "-"), "xfs and btrfs are not there")
            return
        if name in SMALLER:
            self.assertEqual((row["met"], line["met"]), ({"lsmfs": None}, "(smaller)"))
            return
        value = ratio if limit[3].startswith("x ") else cells["lsmfs"]["median"] * {"x": 1, "s": 1, "ms": 1000, "MiB": 1 / MiB}[limit[3]]
        met = value >= float(limit[2]) if limit[1] == "least" else value <= float(limit[2])
        self.assertEqual((row["met"], line["met"]), ({"lsmfs": met}, "yes" if met else "NO"))

    def test_what_is_missing_is_told_in_its_rows_and_all_else_is_done(self):
        folder = self.work.sub("bin")
        for path in os.environ["PATH"].split(os.pathsep):
            for name in os.listdir(path) if os.path.isdir(path) else ():
                if name not in ("npm", "cargo", "bison") and not os.path.lexists(os.path.join(folder, name)):
                    os.symlink(os.path.join(path, name), os.path.join(folder, name))
        result, table = self.compare("--fs", "ext4", "--work", "make,npm,cargo,layer", path=folder)
        self.assertEqual(list(table), figures_of("make", "npm", "cargo", "layer"))
        for piece, why in (("make", "bison is not installed"), ("npm", "npm is not installed"), ("cargo", "cargo is not installed")):
            for name in figures_of(piece):
                self.assertEqual((table[name]["ext4"], result["summary"][name]["missing"]), (why, why))
        self.assertEqual(list(result["rounds"][0]["ext4"]), figures_of("layer"))
        _, table = self.compare("--fs", "ext4", "--work", "make", "--tree", self.not_linux())
        self.assertEqual({line["ext4"] for line in table.values()}, {"--tree is not the source of Linux"})

    def not_linux(self):
        path = os.path.join(self.work.path, "not-linux.tar")
        made_up.make("modules", path, 20, 1)
        return path

    def test_a_row_can_be_shown_alone(self):
        result, table = self.compare("--fs", "lsmfs", "--work", "append p50,unlink", "--rounds", "2")
        self.assertEqual(list(table), ["append p50", "unlink"])
        self.assertEqual(len(result["rounds"]), 2)
        done = {figure.name for piece in work.PIECES if piece.name in ("append", "huge") for figure in piece.figures} | MEMORY
        for figures in result["rounds"]:
            self.assertEqual(set(figures["lsmfs"]), done, "of each piece all")
        self.assertEqual(len(result["summary"]["unlink"]["fs"]["lsmfs"]["values"]), 2)

    def test_what_figures_cost_is_told_of_file_systems_with_a_daemon(self):
        files = 300
        printed = self.must(*self.words("--work", "create,fsync p50", "--set", f"created={files},fsyncs=20", "--costs"), seconds=500)
        ext4, lsmfs = (self.result()["costs"][0][fs] for fs in ("ext4", "lsmfs"))
        self.assertEqual(ext4, {})
        self.assertIn("create", lsmfs)
        self.assertNotIn("create+umount", lsmfs, "its daemon has gone")
        # To make a file and write to it: MKNOD and WRITE at least; a folder of the tree has 128 of them.
        self.assertTrue(2 * files <= lsmfs["create"]["requests"] <= 20 * files, lsmfs["create"])
        self.assertTrue(3 * 20 <= lsmfs["fsync p50"]["requests"] <= 20 * 20, lsmfs["fsync p50"])
        for cost in lsmfs.values():
            self.assertGreater(cost["program"], 0)
            self.assertGreater(max(cost["threads"].values()), 0)
        self.assertIn("lsmfs-commit", lsmfs["fsync p50"]["threads"])  # a thread has its name once it has run, which files alone do not wait for
        rows = [[word.strip() for word in line.strip("| ").split(" | ")] for line in printed.rpartition("\n\n")[2].splitlines()]
        self.assertEqual(rows[0], ["work", "file system", "requests", "took", "programs", "daemon, by threads"])
        self.assertEqual([row[:3] for row in rows[2:]], [[name, "lsmfs", f"{lsmfs[name]['requests']:.0f}"] for name in ("create", "fsync p50")])

    def test_a_simulated_disk_says_how_late_it_was_and_has_budgets_of_its_own(self):
        result, table = self.compare("--work", "random 4 B", "--device", "simdisk:hdd", "--set", "random-writes=64")
        self.assertEqual(list(table), ["random 4 B"])
        self.assertEqual(table["random 4 B"]["budget"], "at most 0.02 x ext4")
        self.assertEqual(table["random 4 B"]["met"], "(smaller)")
        for fs in ("ext4", "lsmfs"):
            self.assertGreaterEqual(result["rounds"][0][fs]["random: late seconds"], 0)

    def test_a_file_system_that_loses_files_is_found_out(self):
        lossy = os.path.join(self.work.path, "lossy.toml")
        with open(lossy, "w", encoding="ascii") as file:
            file.write("""mkfs = ["mkfs.ext4", "-q", "-F", "{device}"]
                          mount = ["mount", "{device}", "{point}"]
                          umount = ["sh", "-c", "find {point} -type f -not -path '*/.git/*' -delete; umount {point}"]""")
        for fs, row, says in ((f"ext4,{lossy}", "create", "something is lost"), (lossy, "clone", "git status finds other files")):
            with self.subTest(row):
                self.refused(*self.words("--fs", fs, "--work", row), says=[says])

    def test_a_file_system_that_loses_what_a_layer_has_is_found_out(self):
        self.refused(*self.words("--fs", "lsmfs:mount=noxattr", "--work", "layer"), says=["layer on lsmfs", "is not what was unpacked"])
        for command, says in (("find {point} -user 1000 -exec chown 0 {} +", "Uid differs"), ("find {point} -name file000 -exec chmod a+x {} +", "Mode differs")):
            with self.subTest(command):
                self.refused(*self.words("--fs", self.changing(command), "--work", "layer"), says=["layer on changing", says])

    def changing(self, command):
        """The description of a file system on which all is changed by this when it is unmounted."""
        path = os.path.join(self.work.path, "changing.toml")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"""mkfs = ["mkfs.ext4", "-q", "-F", "{{device}}"]
                           mount = ["mount", "{{device}}", "{{point}}"]
                           umount = ["sh", "-c", "{command}; umount {{point}}"]""")
        return path

    def test_what_was_measured_before_a_failure_is_kept(self):
        done = self.refused(*self.words("--fs", "ext4", "--work", "fsync,unlink", "--set", "huge=100m", "--size", "64m"), says=["huge on ext4", "No space left"])
        self.assertIn("INCOMPLETE: huge on ext4: ", done.stdout)
        self.assertEqual(list(self.table(done.stdout)), [figure.name for piece in work.PIECES if piece.name == "fsync" for figure in piece.figures])
        self.assertIn("No space left", self.result()["incomplete"])
        self.assertGreater(self.result()["rounds"][0]["ext4"]["fsync p50"], 0)

    def test_what_was_measured_is_kept_where_the_table_cannot_be_printed(self):
        done = call("sh", "-c", 'exec "$@" > /dev/full', "sh", *self.words("--fs", "ext4", "--work", "fsync"))
        self.assertEqual((done.returncode, done.stderr), (1, "compare: [Errno 28] No space left on device\n"))
        self.assertGreater(self.result()["rounds"][0]["ext4"]["fsync p50"], 0)


@lsmfs_only
class BadInput(Case):
    def test_gets_one_line(self):
        for more, says in ((["--work", "nonsense"], "nonsense"), (["--set", "colour=1"], "colour"), (["--set", "huge=0"], "huge=0"), (["--set", "huge=much"], "huge=much"),
                           (["--fs", "ext5"], "ext5"), (["--fs", "ext4,ext4"], "ext4"), (["--device", "floppy"], "floppy"), (["--device", "simdisk:mfm"], "mfm"),
                           (["--work", "untar", "--tree", "/no/such.tar"], "/no/such.tar"), (["--size", "100m"], "128 MiB"), (["--rounds", "0"], "--rounds"),
                           (["--work", "untar", "--tree", "/etc/passwd"], "/etc/passwd"), (["--work", "untar", "--tree", self.work.path], self.work.path),
                           (["--json", "/no/such/folder/out"], "/no/such/folder"), (["--json", self.work.path], self.work.path), (["--dir", "/no/such/folder"], "/no/such/folder"),
                           (["--dir", "/dev/shm"], "in memory"), (["--size", "0"], "--size"),
                           (["--lsmfs", "/no/such/program"], "/no/such/program"), (["--lsmfs-options", "cache=much"], "cache=much"),
                           (["--fs", "ext4", "--work", "clone", "--repo", "/no/such/repository"], "/no/such/repository")):
            with self.subTest(more):
                self.refused(*self.words(*more), says=["compare: ", says])

    def test_who_is_not_root_is_told_so(self):
        # Who may read everything, so that this tests the program and not where it lies.
        self.refused("setpriv", "--reuid", "65534", "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search", *self.words(), says=["needs root"])

    def test_a_tool_that_is_not_there_is_named_before_anything_is_done(self):
        folder = self.work.sub("bin")
        os.symlink(shutil.which("mkfs.ext4"), os.path.join(folder, "mkfs.ext4"))
        for more, says in ((["--fs", "ext4,xfs"], "mkfs.xfs"), (["--fs", "ext4", "--work", "clone"], "git"), (["--fs", "ext4", "--work", "untar"], "tar")):
            with self.subTest(says):
                self.refused("env", "PATH=" + folder, *self.words(*more), says=[says + ": not there"])

    def test_too_little_space_is_said_before_and_while_it_runs_out(self):
        self.refused(*self.words("--fs", "ext4", "--work", "unlink", "--set", "huge=100m", "--size", "64m"), says=["huge on ext4", "No space left", "64 MiB", "--size"])
        self.refused(*self.words("--fs", "ext4", "--work", "unlink", "--set", "huge=9000t", "--size", "9000t"), says=["MiB are free", "--set"])
        small = self.native(128 * MiB)
        self.refused(*self.words("--dir", small, "--work", "unlink", "--size", "400m"), says=["MiB are free", small])
        self.refused(*self.words("--dir", small, "--work", "objects", "--set", "objects=1m"), says=["MiB of inputs", small])
        free = shutil.disk_usage(small).free
        self.refused(*self.words("--dir", small, "--fs", "ext4", "--work", "unlink", "--size", str(free * 7 // 4), "--set", f"huge={free * 5 // 4}"), says=[small + ": is full"])
        self.assertEqual(os.listdir(small), ["lost+found"])


@lsmfs_only
class Stopped(Case):
    """^C goes to all that the terminal has in the foreground."""

    def writes_files(self):
        """Whether there is something on the lsmfs."""
        with contextlib.suppress(OSError):  # the mount has gone
            return any(set(os.listdir(point)) - {"lost+found"} for point in workspace.mounts_of("fuseblk.lsmfs", "fuse.lsmfs")
                       if point.startswith(self.work.path + "/"))
        return False

    def makes_a_repository(self):
        """Whether git writes a pack."""
        return any(name.startswith("tmp_pack") for _, _, names in os.walk(self.work.path) for name in names)

    def stop(self, marker, at_work, *more, number=signal.SIGINT):
        """Stops it when it has said `marker` and is at_work(); returns what it printed. `number`: SIGKILL kills the program alone, whose
        guard then cleans up."""
        words = [word for word in self.words("--fs", "lsmfs", *more) if word != "--quiet"]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        said = ""
        try:
            while marker not in said:
                line = process.stderr.readline()
                self.assertTrue(line, f"ended before it said {marker}: {said}")
                said += line
            until(lambda: process.poll() is not None or at_work(), "work to stop")
            if number == signal.SIGKILL:
                process.kill()
            else:
                os.killpg(process.pid, number)
            out, err = process.communicate(timeout=300)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        if number == signal.SIGKILL:
            until(lambda: os.listdir(self.work.path) == ["some.tar"], lambda: f"all taken down but the tree: {os.listdir(self.work.path)}")
            return ""
        self.assertEqual((process.returncode, err.splitlines()[-1:]), (130, ["compare: stopped by SIGINT; all is cleaned up"]), err)
        self.assertNotIn("Traceback", err)
        self.assertEqual(workspace.mounts_below(self.work.path) + workspace.loops_below(self.work.path) + workspace.processes_of(self.work.path), [])
        self.assertEqual(sorted(os.listdir(self.work.path)), ["out.json", "out.md", "some.tar"] if out else ["some.tar"])
        return out

    def test_leaves_nothing_but_figures_while_files_are_written(self):
        out = self.stop("load: lsmfs", self.writes_files, "--work", "fsync,load", "--set", "load=2g", "--size", "3g")
        self.assertTrue(out.startswith("INCOMPLETE: SIGINT\n"), out)
        self.assertIn("fsync p50", self.table(out))

    def test_leaves_nothing_on_a_simulated_disk(self):
        # A device of a size that nobody else's has: what lay on a mount that is gone has no path by which to know it.
        size = 3072 * MiB + os.getpid() % 100_000 * 4096
        for number in (signal.SIGINT, signal.SIGKILL):
            self.stop("load: lsmfs", self.writes_files, "--work", "load", "--set", "load=2g", "--size", str(size), "--device", "simdisk:hdd", number=number)
            left = []
            for path in glob.glob("/sys/block/loop*/size"):
                with open(path, encoding="ascii") as file:
                    left += [path] if int(file.read()) * 512 == size else []
            self.assertEqual(left, [], signal.Signals(number).name)

    def test_leaves_nothing_while_inputs_are_made_up(self):
        self.assertEqual(self.stop("making up a repository", self.makes_a_repository, "--work", "clone", "--set", "repo-commits=100k,repo-files=10k"), "")

    def test_ends_all_commands_that_run_at_the_same_time(self):
        length = f"3600.{os.getpid()}"  # of a sleep that nobody else has
        when_all_run = f"""
def stop():
    until(lambda: len(workspace.processes_of("{length}", "{shutil.which("sleep")}")) == 3, "three that sleep")
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=stop).start()
"""
        while_one_begins = """
class Popen(subprocess.Popen):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        os.kill(os.getpid(), signal.SIGINT)
subprocess.Popen = Popen
"""
        for when in (when_all_run, while_one_begins):
            program = f"""
import os, signal, subprocess, sys, threading
sys.path[:0] = {sys.path!r}
import workspace
from shared.commands import run_at_once
from until import until
workspace.stop_on_signals()
{when}
try:
    run_at_once([["sleep", "{length}"]] * 3)
except workspace.Interrupted:
    print("stopped")
"""
            done = call(sys.executable, "-B", "-c", program)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "stopped\n", ""))
            self.assertEqual(workspace.processes_of(length), [])


class Repositories(MountCase):
    def setUp(self):
        super().setUp()
        self.repository = self.work.sub("repository")
        self.git = ("git", "-C", self.repository)
        self.must(*self.git, "init", "-q")
        for text in ("one", "two"):
            self.must(*self.git, "commit", "-q", "--allow-empty", "-m", text)

    def test_one_of_another_user_is_cloned(self):
        self.must("chown", "-R", "65534:65534", self.repository)
        inputs.check_repository(self.repository)
        commands.run("git", "clone", "-q", "file://" + self.repository, os.path.join(self.work.path, "clone"))

    def test_the_files_of_one_are_read_also_from_a_worktree(self):
        tree = os.path.join(self.work.path, "worktree")
        self.must(*self.git, "worktree", "add", "-q", tree)
        os.mkfifo(os.path.join(self.repository, ".git", "fifo"))
        os.symlink("nowhere", os.path.join(self.repository, ".git", "dangling"))
        with unittest.mock.patch.object(inputs, "warm_file") as warm:
            inputs.warm_repository(tree)
        files = {given.args[0] for given in warm.call_args_list}
        self.assertIn(os.path.join(self.repository, ".git", "HEAD"), files)
        self.assertTrue(all(os.path.isfile(file) for file in files), files)


@lsmfs_only
class Mounts(MountCase):
    def test_unmount_waits_for_the_daemon_of_its_mount_whatever_was_mounted_after_it(self):
        system = FileSystem("lsmfs", LSMFS)
        images, points = [], []
        for name in ("first", "second"):
            images.append(os.path.join(self.work.path, name + ".img"))
            with open(images[-1], "wb") as file:
                file.truncate(256 * MiB)
            points.append(self.work.sub(name))
            system.make(images[-1])
            system.mount(images[-1], points[-1])
        self.must("dd", "if=/dev/urandom", f"of={points[0]}/file", "bs=1M", "count=64", "status=none")  # what takes a while to write out
        for point in points:
            self.assertGreater(system.memory(point)[0], MiB)
        self.assertEqual(len({system.memory(point) for point in points}), 2, "each has its own daemon")
        system.unmount(points[1])
        system.unmount(points[0])
        self.assertEqual(workspace.processes_of(points[0], WHOLE), [])


class Folders(MountCase):
    def test_of_work_wait_for_whoever_looks_at_a_loop_device(self):
        with workspace.Workspace("looked-at") as work:
            image = os.path.join(work.path, "image")
            loop.make_sparse(image, 64 * MiB)
            device = loop.attach(image)
            with open(device, "rb") as looking:
                look = subprocess.Popen(["sleep", "5"], stdin=looking)
        self.assertEqual(workspace.loops_below(work.path), [])
        self.assertFalse(os.path.exists(work.path))
        look.wait()

    def test_of_work_are_unmounted_whatever_a_signal_has_left_open(self):
        with workspace.Workspace("left-open") as work:
            image, point = os.path.join(work.path, "image"), work.sub("mnt")
            loop.make_sparse(image, 64 * MiB)
            device = loop.attach(image)
            self.must("mkfs.ext4", "-q", device)
            self.must("mount", device, point)
            left = os.open(os.path.join(point, "file"), os.O_WRONLY | os.O_CREAT)
            self.assertEqual(workspace.clean(work.path, patience=3), [f"mount at {point}", f"loop device {device}"])
        self.assertEqual(workspace.mounts_below(work.path) + workspace.loops_below(work.path), [])
        with self.assertRaises(OSError):
            os.close(left)


@lsmfs_only
class Meter(MountCase):
    def setUp(self):
        super().setUp()
        self.tracing = self.work.sub("trace")
        self.must("mount", "-t", "tracefs", "none", self.tracing)
        self.addCleanup(self.must, "umount", self.tracing)

    def instance(self, pid):
        return os.path.join(self.tracing, "instances", f"lsmfs-compare-{pid}")

    def nothing_is_left(self):
        self.assertFalse(os.path.exists(self.instance(os.getpid())))
        self.assertEqual(os.listdir(self.work.path), ["trace"])

    def test_leaves_nothing_and_removes_what_killed_runs_have_left(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        os.mkdir(self.instance(gone.pid))
        with costs.metered(self.work.path):
            self.assertTrue(os.path.exists(self.instance(os.getpid())))
            self.assertFalse(os.path.exists(self.instance(gone.pid)))
        self.nothing_is_left()

    def test_a_kernel_that_counts_no_requests_is_one_line_and_leaves_nothing(self):
        with unittest.mock.patch.object(costs, "EVENT", "events/fuse/no_such_event"), self.assertRaisesRegex(commands.Problem, "--costs: .*no_such_event"):
            costs.Meter(self.work.path)
        self.nothing_is_left()


class Parts(unittest.TestCase):
    """What needs no file system."""

    def test_what_goes_on_beside_work_is_gone_after_it_and_has_not_ended_before(self):
        with commands.going_on("sh", "-c", "sleep 1000; true") as process:
            pass
        self.assertEqual(process.returncode, -signal.SIGKILL)
        with self.assertRaisesRegex(commands.Problem, "has ended: no more"), commands.going_on("sh", "-c", "echo no more >&2") as process:
            process.wait()

    def test_a_thread_has_the_name_that_it_has_at_the_end(self):
        before = costs.Reading(10.0, 100, 1.0, {1: ("lsmfs", 2.0), 2: ("lsmfs", 0.5)})
        after = costs.Reading(14.0, 150, 3.0, {1: ("lsmfs", 3.0), 2: ("lsmfs-flush", 0.75), 3: ("lsmfs-flush", 0.25)})
        self.assertEqual(after.since(before), costs.Costs(4.0, 50, 2.0, {"lsmfs": 1.0, "lsmfs-flush": 0.5}))

    def test_costs_are_medians_and_small_threads_are_left_out(self):
        several = [costs.Costs(10.0 + n, 100 * n, 2.0, {"lsmfs": 4.0, "lsmfs-log": 0.05 * n}) for n in (1, 2, 3)]
        summary = self.summary({"rm": 1.0}, {"rm": 3.0})
        found = report.costs(summary, [{"ext4": {}, "lsmfs": {"rm": cost}} for cost in several])
        self.assertEqual(found[1:], [["rm", "lsmfs", "200", "12.00 s", "2.00 s", "lsmfs 4.00 s"]])

    def test_what_was_left_out_says_why(self):
        summary = report.summarize([{"ext4": {"rm": 1.0}, "lsmfs": {"rm": 1.0}}], {"ext4": "ext4", "lsmfs": "lsmfs"}, {}, {"pip": "it is not there"})
        self.assertEqual(list(summary), ["rm", *figures_of("pip")])
        self.assertEqual(report.rows(summary, {"ext4": "ext4", "lsmfs": "lsmfs"})[2], ["pip cold", "s", "it is not there", "-", "-", "-", "-", "-"])

    def test_what_is_made_up_is_the_same_for_the_same_seed(self):
        made = []
        for number in range(2):
            with tempfile.TemporaryDirectory() as folder:
                layer.make(folder + "/layer.tar", 200, 1)
                with unittest.mock.patch("projects.pip.run"), unittest.mock.patch("projects.npm.run"), unittest.mock.patch("projects.cargo.run"):
                    for kind in projects.KINDS:
                        projects.make(kind, os.path.join(folder, kind), 5, 1)
                made.append({os.path.relpath(path, folder): contents(path) for path in glob.glob(folder + "/**", recursive=True) if os.path.isfile(path)})
        self.assertEqual(*made)

    def summary(self, ext4, lsmfs, device="loop", latency0=False, cache=256 * MiB, smaller=(), peers=("xfs", "btrfs")):
        rounds = [{"ext4": ext4, **{peer: ext4 for peer in peers}, "lsmfs": lsmfs}]
        return report.summarize(rounds, {name: name for name in rounds[0]}, {"lsmfs": Conditions(device, latency0, cache, frozenset(smaller))}, {})

    def met(self, name, ext4, lsmfs, **more):
        return self.summary({name: ext4}, {name: lsmfs}, **more)[name].get("met")

    def test_a_budget_is_met_up_to_its_limit(self):
        self.assertEqual(self.met("grep warm", 1.0, 1.2), {"lsmfs": True})
        self.assertEqual(self.met("grep warm", 1.0, 1.21), {"lsmfs": False})
        self.assertEqual(self.met("write", 100.0, 90.0), {"lsmfs": True}, "of what more is better, at least that much")
        self.assertEqual(self.met("write", 100.0, 89.0), {"lsmfs": False})
        self.assertEqual(self.met("unlink", 1.0, 0.0011), {"lsmfs": False}, "an absolute one")

    def test_a_budget_goes_by_what_was_asked_for(self):
        self.assertEqual(self.met("grep cold", 1.0, 0.43), {"lsmfs": False})
        self.assertEqual(self.met("grep cold", 1.0, 0.43, latency0=True), {"lsmfs": True})
        self.assertIsNone(self.met("grep cold", 1.0, 0.43, device="simdisk:hdd"), "it is none for other devices")
        self.assertEqual(self.met("memory peak", 0, 200 * MiB), {"lsmfs": True})
        self.assertEqual(self.met("memory peak", 0, 200 * MiB, cache=64 * MiB), {"lsmfs": False})

    def test_a_budget_is_not_judged_by_less_work_or_fewer_peers_than_it_says(self):
        self.assertEqual(self.met("unlink", 1.0, 0.0005, smaller=["unlink"]), {"lsmfs": None})
        self.assertEqual(self.met("grep cold", 1.0, 0.1), {"lsmfs": True})
        self.assertEqual(self.met("grep cold", 1.0, 0.1, peers=["xfs"]), {})

    def test_ext4_is_known_by_its_kind(self):
        rounds = [{"plain": {"grep warm": 1.0}, "ext4": {"grep warm": 9.0}, "lsmfs": {"grep warm": 1.5}}]
        summary = report.summarize(rounds, {"plain": "ext4", "ext4": "xfs", "lsmfs": "lsmfs"}, {"lsmfs": Conditions("loop", False, 256 * MiB)}, {})
        self.assertEqual(summary["grep warm"]["met"], {"lsmfs": False})

    def test_without_a_peer_there_is_no_verdict(self):
        rounds = [{"lsmfs": {"grep warm": 1.0, "unlink": 0.0005}}]
        summary = report.summarize(rounds, {"lsmfs": "lsmfs"}, {"lsmfs": Conditions("loop", False, 256 * MiB)}, {})
        self.assertEqual((summary["grep warm"]["met"], summary["unlink"]["met"]), ({}, {"lsmfs": True}))

    def test_a_missed_row_is_shown_all_the_same(self):
        rows = report.rows(self.summary({"rm": 1.0}, {"rm": 3.0}), {"ext4": "ext4", "lsmfs": "lsmfs"})
        self.assertEqual(rows[1], ["rm", "s", "1.00 1.00x", "3.00", "3.00x", "3.00x", "at most 1 x ext4", "NO"])

    def test_each_lsmfs_is_held_to_the_budget_of_its_options(self):
        systems = {"ext4": "ext4", "lsmfs": "lsmfs", "small": "lsmfs"}
        conditions = {"lsmfs": Conditions("loop", False, 256 * MiB), "small": Conditions("loop", False, 64 * MiB)}
        summary = report.summarize([{name: {"memory peak": 200 * MiB} for name in ("lsmfs", "small")}], systems, conditions, {})
        self.assertEqual(report.rows(summary, systems)[1][-3:], ["at most 384 MiB, at most 192 MiB", "yes", "NO"])

    def test_of_options_given_twice_the_later_ones_hold(self):
        system = FileSystem("lsmfs:mount=cache=64m:mount=noatime+cache=1g", LSMFS)
        self.assertEqual((system.mount_option("cache"), system.mount_option("noatime")), ("1g", None))
        self.assertIn("rw,cache=64m,noatime,cache=1g", system.facts()["mount"])

    def test_the_head_has_sizes_as_they_are_given(self):
        facts = {"fs": ["ext4", "lsmfs"], "rounds": 3, "latency0": True, "size": None, "tree": "", "repo-files": 5000, "load": 2 << 30, "appends": 1024}
        self.assertEqual(report.head(facts), "fs ext4 lsmfs, rounds 3, latency0, repo-files 5000, load 2g, appends 1k")
        self.assertEqual(report.head({"latency0": False, "seed": 0}), "seed 0")

    def test_percentiles_are_values_that_there_were(self):
        self.assertEqual(percentiles([3, 1, 2], 50, 99, 100), [2e-9, 3e-9, 3e-9])
        self.assertEqual(percentiles(range(1, 1001), 50, 99, 99.9, 100), [500e-9, 990e-9, 999e-9, 1000e-9])


@lsmfs_only
class Trees(Case):
    def test_made_up_trees_are_the_same_for_the_same_seed(self):
        for kind in made_up.KINDS:
            found = []
            for name, seed in (("one", 1), ("same", 1), ("other", 2)):
                path = os.path.join(self.work.path, name)
                made_up.make(kind, path, 50, seed)
                with open(path, "rb") as file:
                    found.append(file.read())
            self.assertEqual(found[0], found[1])
            self.assertNotEqual(found[0], found[2])

    def test_shares_are_the_whole_tree_once(self):
        tree = self.work.sub("tree")
        self.must("tar", "-xf", self.tree, "-C", tree)
        os.symlink(tree, os.path.join(tree, "link"))
        os.mkfifo(os.path.join(tree, "fifo"))
        files = {os.path.join(folder, name) for folder, _, names in os.walk(tree) for name in names} - {os.path.join(tree, "link"), os.path.join(tree, "fifo")}
        for count in (1, 3, 8):
            parts = shares(tree, count)
            self.assertEqual(len(parts), count)
            found = [file for part in parts for path in part
                     for file in ([path] if os.path.isfile(path) else [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names])]
            self.assertEqual(len(found), len(set(found)))
            self.assertEqual(set(found) - {os.path.join(tree, "link"), os.path.join(tree, "fifo")}, files)


if __name__ == "__main__":
    main()
