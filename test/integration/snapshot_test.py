"""lsmfs snapshot and snapshots: a directory is kept with all that lies below it as it was, and nothing changes in what is kept."""

import contextlib
import datetime
import json
import mmap
import os
import re
import signal
import stat
import subprocess
import sys

import harness
import loop
import trees
import workspace
from harness import LSMFS, MOUNT_OPTIONS, MiB, call, outcome
from trees import NOBODY, names
from until import until

FS_IOC_SETFLAGS, APPEND_ONLY = 0x40086602, 0x20
TIME = r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d"


class Snapshots(trees.TreeCase):
    def kept(self, *parts):
        return self.path(".snapshots", *parts)

    def snapshot(self, source, *name):
        """The path that it prints."""
        line = self.must(LSMFS, "snapshot", self.path(source), *name)
        self.assertTrue(line.endswith("\n") and line.count("\n") == 1, line)
        path = line[:-1]
        self.assertEqual(os.path.dirname(path), os.path.join(os.path.realpath(self.lsmfs.point), ".snapshots"))
        if name:
            self.assertEqual(os.path.basename(path), *name)
        return path

    def listed(self, folder="."):
        """What JSON says, in its order."""
        return json.loads(self.must(LSMFS, "snapshots", "--json", self.path(folder)))

    def names_listed(self, folder="."):
        return [each["name"] for each in self.listed(folder)]

    def not_made(self, *words, says):
        """It is refused, with one line that says so, and nothing has changed."""
        before = names(self.lsmfs.point), os.listdir(self.kept())
        self.refused(LSMFS, "snapshot", *words, says=says, codes=[1])
        self.assertEqual((names(self.lsmfs.point), os.listdir(self.kept())), before)

    def contents(self, folder):
        """{path below: what a file holds, or which links, kind, owner and times it has}"""
        found = {}
        for at, folders, files in os.walk(folder):
            for name in [".", *folders, *files]:
                path = os.path.normpath(os.path.join(at, name))
                facts = os.lstat(path)
                data = b""
                if stat.S_ISREG(facts.st_mode):
                    with open(path, "rb") as file:
                        data = file.read()
                found[os.path.relpath(path, folder)] = (facts.st_mode, facts.st_uid, facts.st_gid, facts.st_size, facts.st_mtime_ns, data)
        return found

    def fill(self, folder):
        self.make_tree(folder)
        os.setxattr(self.path(folder, "large"), "user.name", b"value")


class Kept(Snapshots):
    def test_what_is_kept_stays_while_its_source_changes(self):
        self.fill("d")
        of_d, of_root = self.contents(self.path("d")), self.contents(self.lsmfs.point)
        paths = {self.snapshot("d", "of d"): of_d, self.snapshot(".", "of all"): of_root}
        for path, kept in paths.items():
            self.assertEqual(self.contents(path), kept)
        self.make("d/a0/b0/f0", b"changed")
        self.make("d/a1/new")
        with open(self.path("d/large"), "r+b") as file:
            file.seek(MiB)
            file.write(b"changed")
        os.chmod(self.path("d/a2"), 0o700)
        self.must("rm", "-rf", self.path("d/a1/b1"))
        os.rename(self.path("d/a2"), self.path("moved"))
        for path, kept in paths.items():
            self.assertEqual(self.contents(path), kept)
        self.check()
        for path, kept in paths.items():
            self.assertEqual(self.contents(path), kept)
        self.must(LSMFS, "rm", "-r", self.path("d"), self.path("moved"))
        self.check()
        for path, kept in paths.items():
            self.assertEqual(self.contents(path), kept)
        self.assertEqual(os.getxattr(self.kept("of d", "large"), "user.name"), b"value")

    def test_nothing_changes_in_one(self):
        self.fill("d")
        self.make("outside")
        self.snapshot("d", "s")
        for remounted in (False, True):
            if remounted:
                self.check()
            before = self.contents(self.kept("s"))
            file, folder, link = self.kept("s", "large"), self.kept("s", "a0"), self.kept("s", "link")
            changes = {
                "truncate": lambda: os.truncate(file, 5),
                "chmod": lambda: os.chmod(file, 0o777),
                "chmod of a directory": lambda: os.chmod(folder, 0o777),
                "chmod of it all": lambda: os.chmod(self.kept("s"), 0o777),
                "chown": lambda: os.chown(file, 1, 1),
                "chown of a link": lambda: os.lchown(link, 1, 1),
                "utimes": lambda: os.utime(file, (1, 1)),
                "touch": lambda: os.utime(file),
                "touch of a directory": lambda: os.utime(folder),
                "setxattr": lambda: os.setxattr(file, "user.other", b"1"),
                "removexattr": lambda: os.removexattr(file, "user.name"),
                "mkdir": lambda: os.mkdir(self.kept("s", "new")),
                "mkdir below": lambda: os.mkdir(os.path.join(folder, "new")),
                "create": lambda: os.close(os.open(os.path.join(folder, "new"), os.O_CREAT | os.O_WRONLY)),
                "a file without a name": lambda: os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR)),
                "unlink": lambda: os.unlink(file),
                "unlink of a link": lambda: os.unlink(link),
                "rmdir": lambda: os.rmdir(self.kept("s", "empty")),
                "rename within": lambda: os.rename(file, self.kept("s", "other")),
                "rename to it": lambda: os.rename(self.path("outside"), self.kept("s", "other")),
                "rename from it": lambda: os.rename(file, self.path("other")),
                "rename over": lambda: os.rename(self.path("outside"), file),
                "link in it": lambda: os.link(file, self.kept("s", "other")),
                "link to it": lambda: os.link(self.path("outside"), self.kept("s", "other")),
                "link from it": lambda: os.link(file, self.path("other")),
                "symlink": lambda: os.symlink("x", self.kept("s", "other")),
                "mknod": lambda: os.mknod(self.kept("s", "other"), stat.S_IFIFO | 0o600),
                "mkdir among snapshots": lambda: os.mkdir(self.kept("new")),
                "create among snapshots": lambda: os.close(os.open(self.kept("new"), os.O_CREAT | os.O_WRONLY)),
                "symlink among snapshots": lambda: os.symlink("x", self.kept("new")),
                "rename to snapshots": lambda: os.rename(self.path("d"), self.kept("new")),
                "rename from snapshots": lambda: os.rename(self.kept("s"), self.path("new")),
            }
            for name, change in changes.items():
                with self.subTest(name, remounted=remounted):
                    self.assertEqual(outcome(change), "EROFS")
            for path in (file, folder):
                with self.subTest("chattr", path=path, remounted=remounted):
                    done = call("chattr", "+i", path)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("Read-only file system", done.stderr)
            with self.subTest("clone", remounted=remounted):
                self.refused(LSMFS, "clone", self.path("d"), self.kept("s", "copy"), says=["s: lies in the snapshot s", "nothing changes"], codes=[1])
                self.refused(LSMFS, "rm", "-r", folder, says=["a0: lies in the snapshot s", "as a whole"], codes=[1])
            self.assertEqual(self.contents(self.kept("s")), before)
            self.assertEqual(sorted(os.listdir(self.lsmfs.point)), ["d", "outside"])
            self.assertEqual(os.listdir(self.kept()), ["s"])

    def test_a_write_is_refused_when_the_daemon_hears_of_it(self):
        self.make("d/file", b"data" * 2000)
        self.snapshot("d", "s")
        file = os.open(self.kept("s", "file"), os.O_RDWR)  # the kernel asks nobody
        told = [outcome(os.pwrite, file, b"DATA", 0), outcome(os.fsync, file)]
        self.assertIn(told, [[4, "EROFS"], [4, "EIO"]] if "writeback" in MOUNT_OPTIONS else [["EROFS", None]])
        self.assertEqual(outcome(os.posix_fallocate, file, 0, 20000), "EROFS")
        self.assertIn(outcome(os.close, file), (None, "EROFS", "EIO"))
        with open(self.kept("s", "file"), "r+b") as mapped, mmap.mmap(mapped.fileno(), 0) as at:
            at[0:4] = b"DATA"
            with contextlib.suppress(OSError):
                at.flush()
        call("sync", "-f", self.path("d"))  # which may tell of what was refused
        self.assertEqual(self.read("d/file"), b"data" * 2000)
        until(lambda: self.read(".snapshots/s/file") == b"data" * 2000, "what the kernel could not hand over to be forgotten")
        self.check()
        self.assertEqual(self.read(".snapshots/s/file"), b"data" * 2000)

    def test_the_root_does_not_show_them_and_does_not_lose_them(self):
        self.fill("d")
        kept = self.contents(self.path("d"))
        self.snapshot("d", "s")
        self.assertEqual(os.listdir(self.lsmfs.point), ["d"])
        self.assertEqual(self.must("ls", "-A", self.lsmfs.point), "d\n")
        self.assertNotIn("snapshots", self.must("find", self.lsmfs.point))
        self.assertEqual(os.stat(self.lsmfs.point).st_nlink, 3)
        facts = os.stat(self.kept())
        self.assertEqual((facts.st_mode, facts.st_uid, facts.st_dev), (stat.S_IFDIR | 0o755, 0, os.stat(self.lsmfs.point).st_dev))
        self.must("sh", "-c", 'rm -rf "$1"/* "$1"/.[!.]*', "sh", self.path("d"))
        self.must("find", self.lsmfs.point, "-mindepth", 1, "-delete")
        self.assertEqual(os.listdir(self.lsmfs.point), [])
        self.assertEqual(self.contents(self.kept("s")), kept)
        self.assertEqual(outcome(os.rmdir, self.kept()), "EBUSY")
        self.assertEqual(outcome(os.rename, self.kept(), self.path("other")), "EBUSY")
        self.assertEqual(outcome(os.mkdir, self.kept()), "EEXIST")
        self.refused(LSMFS, "rm", "-r", self.kept(), says=[".snapshots: holds the snapshots", "remove those in it"], codes=[1])
        self.check()
        self.assertEqual(self.contents(self.kept("s")), kept)

    def test_a_clone_of_one_can_be_changed(self):
        self.fill("d")
        self.snapshot("d", "s")
        before = self.contents(self.kept("s"))
        self.must(LSMFS, "clone", self.kept("s"), self.path("back"))
        self.assertEqual(self.contents(self.path("back")), before)
        self.make("back/a0/b0/f0", b"changed")
        os.unlink(self.path("back/large"))
        os.mkdir(self.path("back/empty/new"))
        self.must(LSMFS, "clone", self.kept("s", "a1"), self.path("part"))
        self.make("part/new")
        self.assertEqual(self.contents(self.kept("s")), before)
        self.check()
        self.assertEqual(self.contents(self.kept("s")), before)
        self.assertEqual(self.read("back/a0/b0/f0"), b"changed")

    def test_one_is_removed_as_a_whole_or_renamed(self):
        self.fill("d")
        for name in ("a", "b"):
            self.snapshot("d", name)
        before = self.contents(self.kept("a"))
        done = call("rm", "-rf", self.kept("a"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Read-only file system", done.stderr)
        self.assertEqual(self.contents(self.kept("a")), before)
        self.must("mv", self.kept("a"), self.kept("c"))
        self.assertEqual((sorted(os.listdir(self.kept())), self.names_listed()), (["b", "c"], ["c", "b"]))
        self.assertEqual(self.contents(self.kept("c")), before)
        self.must(LSMFS, "rm", "-r", self.kept("b"))
        self.assertEqual(outcome(os.stat, self.kept("b")), "ENOENT")
        self.assertEqual(self.names_listed(), ["c"])
        self.check()
        self.assertEqual(self.contents(self.kept("c")), before)
        self.must(LSMFS, "rm", "-r", self.kept("c"), self.path("d"))
        self.assertEqual((os.listdir(self.kept()), self.names_listed()), ([], []))
        self.check()

    def test_one_with_immutable_files_is_removed(self):
        self.make("d/file")
        self.must("chattr", "+i", self.path("d/file"))
        self.snapshot("d", "s")
        self.must("chattr", "-i", self.path("d/file"))
        self.must(LSMFS, "rm", "-r", self.kept("s"))
        self.assertEqual(os.listdir(self.kept()), [])


class Lists(Snapshots):
    def test_names_follow_the_time_unless_one_is_given(self):
        self.make("place/d/file")
        self.assertRegex(os.path.basename(self.snapshot(".")), f"^{TIME}(-\\d+)?$")
        self.assertRegex(os.path.basename(self.snapshot("place/d")), f"^d-{TIME}(-\\d+)?$")
        self.assertRegex(os.path.basename(self.snapshot("place/d/")), f"^d-{TIME}(-\\d+)?$")
        # So many that some are made within one second.
        paths = [os.path.basename(self.snapshot(".")) for _ in range(30)]
        self.assertEqual(len(set(paths)), 30)
        for path in paths:
            moment, number = re.fullmatch(f"({TIME})(?:-(\\d+))?", path).groups()
            if number:
                before = moment if number == "2" else f"{moment}-{int(number) - 1}"
                self.assertTrue(os.path.isdir(self.kept(before)), path)
        moment = datetime.datetime.strptime(re.match(TIME, paths[-1]).group(), "%Y-%m-%d_%H-%M-%S").replace(tzinfo=datetime.timezone.utc)
        made = self.listed()[-1]["made"]
        self.assertLessEqual(abs((datetime.datetime.fromisoformat(made[:19] + "+00:00") - moment).total_seconds()), 3600, "UTC, in both")

    def test_a_path_is_taken_as_it_is_given(self):
        self.make("place/d/file")
        for number, (source, cwd) in enumerate(((".", "place/d"), ("d/", "place"), ("../d", "place/d"), ("..", "place"), (".", ""))):
            with self.subTest(source=source, cwd=cwd):
                done = call(LSMFS, "snapshot", source, str(number), cwd=self.path(cwd))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout, os.path.join(os.path.realpath(self.lsmfs.point), ".snapshots", str(number)) + "\n")
        self.assertEqual([each["of"] for each in self.listed()], ["/place/d"] * 3 + ["/"] * 2)
        done = call(LSMFS, "snapshots", "--json", cwd=self.path("place/d"))
        self.assertEqual([each["name"] for each in json.loads(done.stdout)], ["0", "1", "2"])

    def test_lists_are_of_a_directory_or_of_all(self):
        self.make("d/file")
        self.make("e/f/file")
        self.assertEqual(self.must(LSMFS, "snapshots", self.lsmfs.point), "")
        self.assertEqual(self.must(LSMFS, "snapshots", "--json", self.lsmfs.point), "[]\n")
        for source, name in (("d", "z"), ("e/f", "one"), (".", "all"), ("d", "a")):
            self.snapshot(source, name)
        every = self.listed()
        self.assertEqual([(each["name"], each["of"]) for each in every], [("z", "/d"), ("one", "/e/f"), ("all", "/"), ("a", "/d")])
        self.assertEqual(every, self.listed(".snapshots"))
        self.assertEqual(self.names_listed("d"), ["z", "a"])
        self.assertEqual(self.names_listed("e/f"), ["one"])
        self.assertEqual(self.names_listed("e"), [])
        for each in every:
            self.assertEqual(list(each), ["name", "made", "of", "path"])
            self.assertRegex(each["made"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$")
            self.assertEqual(each["path"], os.path.join(os.path.realpath(self.lsmfs.point), ".snapshots", each["name"]))
        os.rename(self.path("d"), self.path("moved"))
        self.check()
        self.assertEqual(self.listed(), every)
        self.assertEqual(self.names_listed("moved"), [], "its path was another one")

    def test_the_table_has_local_times(self):
        self.make("d/file")
        self.snapshot("d", "s")
        self.snapshot(".", "longer name")
        moments = [datetime.datetime.fromisoformat(each["made"][:19] + "+00:00") for each in self.listed()]
        for zone, hours in (("UTC", 0), ("UTC-3", 3)):
            with self.subTest(zone):
                local = [(moment + datetime.timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M:%S") for moment in moments]
                self.assertEqual(self.must("env", "TZ=" + zone, LSMFS, "snapshots", self.lsmfs.point).splitlines(),
                                 ["NAME         MADE                 OF", f"s            {local[0]}  /d", f"longer name  {local[1]}  /"])

    def test_strange_names_are_kept_in_a_line_of_their_own(self):
        for name in ("new\nline", "\u00e9t\u00e9", "-x", " blank ", "x" * 255):
            self.make(f"{name}/file")
            call_of = ["--", self.path(name), name] if name.startswith("-") else [self.path(name), name]
            done = call(LSMFS, "snapshot", *call_of)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertEqual(done.stdout, os.path.join(os.path.realpath(self.lsmfs.point), ".snapshots", name) + "\n")
            self.assertEqual([(each["name"], each["of"]) for each in self.listed(name)], [(name, "/" + name)])
        self.assertEqual(len(self.must(LSMFS, "snapshots", self.lsmfs.point).splitlines()), 6)

    def test_a_long_path_is_told_as_a_whole(self):
        folder = "/".join(f"{number:0200}" for number in range(19))
        os.makedirs(self.path(folder))
        self.snapshot(folder, "deep")
        self.check()
        self.assertEqual(self.listed(), [dict(self.listed()[0], of="/" + folder)])


class Sizes(Snapshots):
    def sizes(self):
        """{name: (alone, refers)}"""
        found = json.loads(self.must(LSMFS, "snapshots", "--json", "--sizes", self.lsmfs.point))
        return {each["name"]: (each["alone"], each["refers"]) for each in found}

    def become(self, expected):
        """They are that as soon as the background has taken away what nobody uses any more."""
        until(lambda: self.sizes() == expected, lambda: f"{self.sizes()} is not {expected}")

    def du(self, *parts):
        return 1024 * int(self.must("du", "-sk", self.path(*parts)).split()[0])

    def test_they_are_what_du_says_and_what_comes_back(self):
        self.fill("d")
        self.snapshot("d", "first")
        all_of_it = self.du("d")
        self.assertEqual(self.sizes(), {"first": (0, all_of_it)})
        with open(self.path("d/large"), "r+b") as file:
            file.write(os.urandom(MiB))
        self.snapshot(".", "second")
        self.make("d/more", os.urandom(3 * MiB))
        self.become({"first": (MiB, all_of_it), "second": (0, all_of_it)})
        self.assertEqual(self.du(".snapshots", "first"), all_of_it)
        self.assertEqual(self.du(".snapshots", "second"), all_of_it)
        self.must(LSMFS, "rm", "-r", self.path("d"))
        self.become({"first": (MiB, all_of_it), "second": (MiB, all_of_it)})
        self.check()
        self.become({"first": (MiB, all_of_it), "second": (MiB, all_of_it)})
        self.must(LSMFS, "rm", "-r", self.kept("first"))
        self.become({"second": (all_of_it, all_of_it)})

    def test_the_table_has_them_before_the_path(self):
        self.make("d/file", b"x" * 8192)
        self.snapshot("d", "s")
        self.make("d/file", b"y")
        self.snapshot(".", "longer name")
        self.become({"s": (8192, 8192), "longer name": (0, 4096)})
        lines = self.must(LSMFS, "snapshots", "--sizes", self.lsmfs.point).splitlines()
        made = [line[13:32] for line in lines[1:]]
        self.assertEqual(lines, ["NAME         MADE                    ALONE    REFERS  OF",
                                 f"s            {made[0]}  8.00 KiB  8.00 KiB  /d",
                                 f"longer name  {made[1]}       0 B  4.00 KiB  /"])
        self.must(LSMFS, "rm", "-r", self.kept("s"), self.kept("longer name"))
        self.assertEqual(self.must(LSMFS, "snapshots", "--sizes", self.lsmfs.point), "")

    def test_whose_they_are_not_told_is_listed_without(self):
        self.make("own/file", b"x")
        self.make("of root/file", b"x")
        os.chown(self.path("own"), NOBODY, NOBODY)
        for name in ("own", "of root"):
            self.snapshot(name, name)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS, "snapshots", "--sizes"]
        done = call(*as_nobody, self.lsmfs.point)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn(f"{self.kept('of root')}: only root, who mounted it and the owner of the snapshot may ask for its sizes", done.stderr)
        self.assertEqual([line.split()[-2:] for line in done.stdout.splitlines()][1][0], "KiB")
        self.assertRegex(done.stdout.splitlines()[2], r" - +-  /of root$")
        done = call(*as_nobody, "--json", self.lsmfs.point)
        self.assertEqual([(each["alone"], each["refers"]) for each in json.loads(done.stdout)], [(0, 4096), (None, None)])
        self.assertEqual(done.returncode, 1)
        done = call(*as_nobody, self.path("own"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Pruned(Snapshots):
    """lsmfs prune. Which of many times a rule keeps is tried in test/cli/rotation_test.cc: here all are of this hour."""

    def unnamed(self, source, count):
        """Makes so many without a name; their names, the oldest first."""
        return [os.path.basename(self.snapshot(source)) for _ in range(count)]

    def prune(self, *words):
        """The names that it prints."""
        return self.must(LSMFS, "prune", *words).splitlines()

    def not_pruned(self, *words, says):
        """It is refused, with one line that says so, and nothing is removed."""
        before = os.listdir(self.kept())
        self.refused(LSMFS, "prune", *words, says=says, codes=[1])
        self.assertEqual(os.listdir(self.kept()), before)

    def test_what_no_rule_keeps_is_removed(self):
        self.fill("d")
        before = self.contents(self.path("d"))
        made = self.unnamed("d", 6)
        self.assertEqual(self.prune("--dry-run", self.path("d"), "latest=4"), made[:2])
        self.assertEqual(self.names_listed("d"), made)
        self.assertEqual(self.prune(self.path("d"), "latest=4"), made[:2])
        self.assertEqual(self.names_listed("d"), made[2:])
        self.assertEqual(self.prune(self.path("d"), "latest=4"), [])
        self.assertEqual(self.prune(self.path("d/"), "yearly=1", "hourly=0"), made[2:5])
        self.assertEqual(self.names_listed("d"), made[5:])
        self.assertEqual(self.contents(self.kept(made[5])), before)
        self.check()
        self.assertEqual(self.contents(self.kept(made[5])), before)

    def test_json_has_what_the_list_has(self):
        self.make("d/file")
        self.unnamed("d", 4)
        every = self.listed("d")
        self.assertEqual(json.loads(self.must(LSMFS, "prune", "--json", "-n", self.path("d"), "latest=1")), every[:3])
        self.assertEqual(json.loads(self.must(LSMFS, "prune", "--json", self.path("d"), "latest=1")), every[:3])
        self.assertEqual(self.must(LSMFS, "prune", "--json", self.path("d"), "latest=1"), "[]\n")
        self.assertEqual(self.listed("d"), every[3:])

    def test_those_with_a_name_stay_and_do_not_count(self):
        self.make("d/file")
        self.make("e/file")
        made = self.unnamed("d", 3)
        self.snapshot("d", "named")
        self.snapshot("d", "d-2026-11-29")
        of_root, of_e = self.unnamed(".", 2), self.unnamed("e", 2)
        # Nobody gave that name to one of d.
        self.snapshot("d", "e-2020-01-01_00-00-00")
        os.rename(self.kept(made[1]), self.kept("renamed"))
        self.assertEqual(self.prune(self.path("d"), "latest=1"), made[:1])
        self.assertEqual(self.names_listed("d"), ["renamed", made[2], "named", "d-2026-11-29", "e-2020-01-01_00-00-00"])
        self.assertEqual(self.prune(self.lsmfs.point, "latest=1"), of_root[:1])
        self.assertEqual(self.names_listed("e"), of_e)
        self.assertEqual(self.prune("--all", self.path("d"), "latest=2"), ["renamed", made[2], "named"])
        self.assertEqual(sorted(os.listdir(self.kept())), sorted(["d-2026-11-29", "e-2020-01-01_00-00-00", of_root[1], *of_e]))

    def test_no_name_is_given_that_looks_as_none(self):
        self.make("d/file")
        for source, name in (("d", "d-2026-11-29_14-05-03"), ("d", "d-2026-11-29_14-05-03-2"), (".", "2026-11-29_14-05-03"), (".", "2026-11-29_14-05-03-12")):
            self.not_made(self.path(source), name, says=[name + ": ", "lsmfs prune", "another one"])

    def test_what_cannot_be_meant_is_told(self):
        self.make("d/file")
        os.symlink("d", self.path("link"))
        self.unnamed("d", 2)
        d = self.path("d")
        for rules, says in ((["houry=1"], ["houry=1: ", "did you mean hourly=?"]), (["latest=1", "dayly=1"], ["did you mean daily=?"]), (["latest=0"], ["keep nothing"]),
                            (["latest"], ["give a number"]), (["latest=1", "latest=1"], ["each once"]), (["latest=1,daily=1"], ["give a number"]), ([], ["rules", "--help"])):
            self.not_pruned(d, *rules, says=says)
        self.not_pruned(self.path("missing"), "latest=1", says=["missing: does not exist"])
        self.not_pruned(self.path("d/file"), "latest=1", says=["file: is not a directory"])
        self.not_pruned(self.path("link"), "latest=1", says=["link: is a symbolic link"])
        self.not_pruned(self.kept(), "latest=1", says=[".snapshots: holds the snapshots"])
        self.not_pruned(self.work.sub("elsewhere"), "latest=1", says=["not in an lsmfs"])
        self.lsmfs.umount()
        self.lsmfs.mount("ro")
        self.not_pruned(d, "latest=1", says=["d: is mounted read-only"])
        self.assertEqual(len(self.prune("--dry-run", d, "latest=1")), 1)

    def test_one_that_cannot_be_removed_leaves_the_others_to_be(self):
        self.make("d/file")
        os.mkdir(self.path("d/point"))
        made = self.unnamed("d", 4)
        point = self.kept(made[1], "point")
        self.must("mount", "-t", "tmpfs", "tmpfs", point)
        done = call(LSMFS, "prune", self.path("d"), "latest=1")
        self.assertEqual((done.returncode, done.stdout.splitlines(), done.stderr.count("\n")), (1, [made[0], made[2]], 1))
        self.assertIn("something is mounted", done.stderr)
        self.must("umount", point)
        self.assertEqual(self.prune(self.path("d"), "latest=1"), [made[1]])

    def test_others_than_root_are_told(self):
        self.make("d/file")
        os.chown(self.path("d"), NOBODY, NOBODY)
        self.unnamed("d", 2)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS]
        before = self.names_listed()
        done = call(*as_nobody, "prune", self.path("d"), "latest=1")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
        self.assertIn("only root", done.stderr)
        self.assertEqual(self.names_listed(), before)
        self.assertEqual(self.must(*as_nobody, "prune", "-n", self.path("d"), "latest=1").splitlines(), before[:1])

    def test_the_unit_makes_one_and_removes_others(self):
        """The commands of lsmfs-snapshot@.service, as systemd divides them into words."""
        with open(os.path.join(harness.ROOT, "systemd", "lsmfs-snapshot@.service"), encoding="utf-8") as file:
            unit = file.read()
        rules = re.search(r'^Environment="LSMFS_KEEP=(.*)"$', unit, re.MULTILINE).group(1)
        commands = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        point = self.path("a directory")
        self.make("a directory/file")
        condition = re.search(r"^ExecCondition=/bin/sh -c '(.*)' sh %f$", unit, re.MULTILINE).group(1).replace("$$", "$").replace("@lsmfs@", LSMFS)
        self.assertEqual(self.must("sh", "-c", condition, "sh", point), "")
        self.assertEqual(call("sh", "-c", condition, "sh", "/proc").returncode, 1)
        for _ in range(3):
            for command in commands:
                self.must(*(part for word in command.split() for part in (rules.split() if word == "$LSMFS_KEEP" else [{"@lsmfs@": LSMFS, "%f": point}.get(word, word)])))
        self.assertIn(len(self.names_listed("a directory")), (1, 2), "all but one are of the same hour, or of two")


class Mounted(Snapshots):
    """-o snapshot=NAME: one is mounted alone, where its file system is mounted already and where it is not."""

    def setUp(self):
        super().setUp()
        self.fill("d")
        self.snapshot("d", "s")
        self.snapshot(".", "all")
        self.make("d/large", b"changed")
        self.points = []

    def point(self):
        point = self.work.sub(f"shown{len(self.points)}")
        self.points.append(point)
        self.addCleanup(lambda: os.path.ismount(point) and self.must("umount", "-l", point))
        return point

    def show(self, name, *options, source=None):
        """Where it is mounted then."""
        point = self.point()
        done = call(LSMFS, "mount", source or self.lsmfs.device, point, "-o", ",".join([f"snapshot={name}", *options]))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertTrue(os.path.ismount(point))
        return point

    def not_shown(self, *options, says, code=32, source=None):
        point = self.point()
        before = self.mounts()
        self.refused(LSMFS, "mount", source or self.lsmfs.device, point, "-o", ",".join(options), says=says, codes=[code])
        self.assertEqual(self.mounts(), before)

    def mounts(self):
        """[(part, where, options of the mount)] of what is mounted of the file system."""
        found = []
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            for line in file:
                words = line.split()
                if words[-2] in (self.lsmfs.device, self.lsmfs.image):
                    found.append((words[3], words[4], words[5].split(",")))
        return found

    def nothing_changes_in(self, point):
        for change in (lambda: os.mkdir(os.path.join(point, "new")), lambda: os.unlink(os.path.join(point, "large")), lambda: os.chmod(point, 0o700),
                       lambda: os.truncate(os.path.join(point, "large"), 0), lambda: os.open(os.path.join(point, "large"), os.O_WRONLY),
                       lambda: os.open(os.path.join(point, "new"), os.O_WRONLY | os.O_CREAT)):
            self.assertEqual(outcome(change), "EROFS")

    def ended(self, point):
        until(lambda: not workspace.processes_of(point, harness.WHOLE), "the end of the daemon")
        until(self.lsmfs.is_let_go, "the end of the lock")

    def test_beside_the_whole(self):
        kept = self.contents(self.kept("s"))
        daemons = self.lsmfs.processes()
        point = self.show("s")
        self.assertEqual([each[:2] for each in self.mounts()], [("/", self.lsmfs.point), ("/.snapshots/s", point)])
        self.assertIn("ro", self.mounts()[1][2])
        self.assertIn("rw", self.mounts()[0][2])
        self.assertEqual(self.contents(point), kept)
        self.nothing_changes_in(point)
        self.assertEqual(workspace.processes_of(point, harness.WHOLE), [], "no daemon of its own")
        self.assertEqual(self.lsmfs.processes(), daemons)
        self.make("d/other", b"more")
        self.assertEqual(self.contents(point), kept)
        other = self.show("all", "rw", "nosuid,noexec")
        self.assertLessEqual({"ro", "nosuid", "noexec"}, set(self.mounts()[2][2]))
        self.assertEqual(sorted(os.listdir(other)), ["d"])
        self.assertIn("[/.snapshots/all]", self.must("findmnt", "-n", "-o", "SOURCE", other))
        self.assertEqual(self.must("df", "--output=source", other).split()[-1], self.lsmfs.device)
        self.assertIn(self.lsmfs.device, self.must(LSMFS, "info", other))
        self.assertIn("mounted for", self.must(LSMFS, "stats", other))
        self.refused(LSMFS, "snapshots", other, says=["only a part"], codes=[1])
        for shown, command in ((point, [LSMFS, "umount", "--wait"]), (other, ["umount"])):
            done = call(*command, shown)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertFalse(os.path.ismount(shown))
        self.make("d/one more")
        self.assertEqual(self.lsmfs.processes(), daemons)

    def test_what_hides_it_is_not_shown_in_its_place(self):
        for part in ([], ["s"]):
            with self.subTest(part), self.hidden(self.kept(*part)):
                self.not_shown("snapshot=s", says=[f"{self.kept(*part)}", "is hidden by something else that is mounted there"])
        kept = self.contents(self.kept("s"))
        with self.hidden(self.kept("s", "a0")):
            self.assertEqual(self.contents(self.show("s")), kept, "what is mounted below does not come with it")

    @contextlib.contextmanager
    def hidden(self, place):
        self.must("mount", "--bind", self.work.sub("other"), place)
        try:
            yield
        finally:
            self.must("umount", place)

    def test_a_directory_in_it_that_is_mounted_elsewhere_is_told_of(self):
        self.lsmfs.umount()
        self.lsmfs.wait_for_end()
        point, elsewhere = self.show("s"), self.point()
        self.must("mount", "--bind", os.path.join(point, "a0"), elsewhere)
        done = call(LSMFS, "umount", point)
        self.assertEqual((done.returncode, done.stderr), (0, f"lsmfs: {self.lsmfs.device}: is not here any more, and still mounted at {elsewhere}\n"))
        self.must("umount", elsewhere)
        self.ended(point)

    def test_the_whole_may_go_before_it(self):
        kept = self.contents(self.kept("s"))
        point = self.show("s")
        done = call(LSMFS, "umount", self.lsmfs.point)
        self.assertEqual((done.returncode, done.stderr), (0, f"lsmfs: {self.lsmfs.device}: is not here any more, and still mounted at {point}\n"))
        self.assertEqual(self.contents(point), kept)
        self.must(LSMFS, "umount", point)
        self.lsmfs.wait_for_end()
        self.must(LSMFS, "fsck", self.lsmfs.device)

    def test_where_nothing_is_mounted(self):
        kept = self.contents(self.kept("s"))
        self.lsmfs.umount()
        self.lsmfs.wait_for_end()
        before = self.lsmfs.digest()
        for source in (self.lsmfs.device, self.lsmfs.image):
            if source == self.lsmfs.image:  # as the only one who has it
                loop.detach(self.lsmfs.device)
                self.lsmfs.device = self.lsmfs.image
            for command in ([LSMFS, "umount"], [LSMFS, "umount", "--wait"], ["umount"]):
                with self.subTest(source=source, command=command):
                    point = self.show("s", "noatime", source=source)
                    self.assertEqual([each[:2] for each in self.mounts()], [("/.snapshots/s", point)])
                    self.assertLessEqual({"ro", "noatime"}, set(self.mounts()[0][2]))
                    self.assertEqual(self.contents(point), kept)
                    self.nothing_changes_in(point)
                    self.assertEqual(len(workspace.processes_of(point, harness.WHOLE)), 2, "the daemon, and who mounts and unmounts for it")
                    facts = json.loads(self.must(LSMFS, "info", "--json", point))
                    self.assertEqual((facts["mount_point"], facts["read_only"], facts["options"]["snapshot"]), (point, True, "s"))
                    self.assertEqual(self.must("df", "--output=source", point).split()[-1], source)
                    done = call(*command, point)
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
                    self.assertFalse(os.path.ismount(point))
                    self.ended(point)
        self.assertEqual(self.lsmfs.digest(), before)

    def test_its_daemon_unmounts_on_a_signal(self):
        self.lsmfs.umount()
        for number in (signal.SIGTERM, signal.SIGINT):
            point = self.point()
            with subprocess.Popen([LSMFS, "mount", "-f", self.lsmfs.device, point, "-o", "snapshot=s"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True) as daemon:
                until(lambda: os.path.ismount(point) or daemon.poll() is not None, "the mount")  # pylint: disable=W0640
                until(lambda: [each[0] for each in self.mounts()] == ["/.snapshots/s"], "nothing but the snapshot")
                daemon.send_signal(number)
                said = daemon.communicate()[1]
            self.assertEqual(daemon.returncode, 0, said)
            self.assertFalse(os.path.ismount(point))
            self.ended(point)

    def test_a_daemon_that_is_killed_leaves_nothing_but_a_dead_mount(self):
        self.lsmfs.umount()
        point = self.show("s")
        for pid, _ in workspace.processes_of(point, harness.WHOLE):
            if harness.comm(pid) != harness.MOUNTER:
                os.kill(pid, signal.SIGKILL)
        self.ended(point)
        # A process that ends has its memory no more some time before its connection: what comes then is given up on, with ECONNABORTED.
        until(lambda: outcome(os.listdir, point) == "ENOTCONN", "the end of the connection")
        self.refused(LSMFS, "umount", point, says=["lost"], codes=[32])
        self.assertEqual(self.mounts(), [])
        self.lsmfs.mount()

    def test_one_that_is_mounted_alone_is_not_removed(self):
        point = self.show("s")
        self.refused(LSMFS, "rm", "-r", self.kept("s"), says=[f"s: is mounted at {point}", "unmount that"], codes=[1])
        self.snapshot("d", "t")
        done = call(LSMFS, "prune", "--all", self.path("d"), "latest=1")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"lsmfs: {self.kept('s')}: is mounted at {point}; unmount that first\n"))
        self.must("umount", point)
        self.assertEqual(self.must(LSMFS, "prune", "--all", self.path("d"), "latest=1"), "s\n")

    def test_what_cannot_be_mounted_is_told(self):
        for name in ("", "a/b", "/", ".", ".."):
            self.not_shown(f"snapshot={name}", says=[f"option snapshot={name}: ", "lsmfs snapshots lists"], code=1)
        self.not_shown("snapshot", says=["snapshot=NAME"], code=1)
        names_there = ["all", "s"]
        for mounted in (True, False):
            with self.subTest(mounted=mounted):
                self.not_shown("snapshot=none", says=[f"{self.lsmfs.device}: has no snapshot none; there are {', '.join(names_there)}"])
                self.not_shown("snapshot=d", says=["has no snapshot d"])
                if mounted:
                    for number in range(9):
                        self.snapshot("d", f"s{number}")
                    self.not_shown("snapshot=none", says=["has no snapshot none", "and others, which lsmfs snapshots lists"])
                    self.must(LSMFS, "rm", "-r", *(self.kept(f"s{number}") for number in range(9)))
                    self.lsmfs.umount()
                    self.lsmfs.wait_for_end()
        self.lsmfs.mount()
        self.must(LSMFS, "rm", "-r", self.kept("s"), self.kept("all"))
        self.not_shown("snapshot=s", says=["has no snapshot s; there is none at all"])
        self.lsmfs.umount()
        self.lsmfs.wait_for_end()
        self.not_shown("snapshot=s", says=["has no snapshot s; there is none at all"])

    def test_a_part_alone_does_not_lead_to_others(self):
        self.lsmfs.umount()
        point = self.show("s")
        self.not_shown("snapshot=all", says=[f"{self.lsmfs.device}: only its .snapshots/s is mounted, at {point}", "mount all of it"])
        self.refused(LSMFS, "mount", self.lsmfs.device, self.lsmfs.point, says=[f"mounted at {point}"], codes=[32])
        self.refused(LSMFS, "mount", self.lsmfs.device, point, "-o", "snapshot=s", says=["is mounted here already"], codes=[32])

    def test_nothing_else_of_it_can_be_changed(self):
        for mounted in (True, False):
            with self.subTest(mounted=mounted):
                point = self.show("s")
                for options in ("remount,ro", "remount,rw", "remount,ro,snapshot=s", "remount,snapshot=all"):
                    self.refused(LSMFS, "mount", self.lsmfs.device, point, "-o", options, says=[f"{point}: shows the snapshot s"], codes=[32])
                if mounted:
                    self.refused(LSMFS, "mount", self.lsmfs.device, self.lsmfs.point, "-o", "remount,snapshot=s", says=["option snapshot cannot change"], codes=[32])
                    self.make("d/is not read-only")
                self.must(LSMFS, "umount", point)
                if mounted:
                    self.lsmfs.umount()
                    self.lsmfs.wait_for_end()
        self.refused(LSMFS, "tune", "-o", "snapshot=s", self.lsmfs.device, says=["snapshot=s: is not kept"], codes=[1])

    def test_root_alone_may(self):
        os.chmod(self.work.path, 0o755)
        point = self.point()
        os.chown(point, NOBODY, NOBODY)
        os.chmod(self.lsmfs.image, 0o666)
        for source in (self.lsmfs.image, self.lsmfs.device):
            done = call("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS, "mount", source, point, "-o", "snapshot=s")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn("only root can mount a snapshot alone", done.stderr)

    def test_a_mount_by_a_user_is_not_taken_for_roots(self):
        """It could say that it is of any device."""
        folder, point = self.work.sub("own"), self.work.sub("point")
        os.chmod(self.work.path, 0o755)
        for each in (folder, point):
            os.chown(each, NOBODY, NOBODY)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS]
        image = os.path.join(folder, "image")
        self.must(*as_nobody, "mkfs", "--size", "200M", image)
        done = call(*as_nobody, "mount", image, point)
        if done.returncode != 0:
            self.skipTest(done.stderr)
        try:
            self.must(*as_nobody, "snapshot", point, "s")
            self.not_shown("snapshot=s", says=["is in use"], source=image)
        finally:
            self.must(*as_nobody, "umount", "--wait", point)

    def test_the_helper_of_mount(self):
        helper = os.path.join(self.work.path, "mount.lsmfs")
        os.symlink(LSMFS, helper)
        for mounted in (True, False):
            with self.subTest(mounted=mounted):
                point = self.point()
                self.must(helper, self.lsmfs.device, point, "-f", "-o", "rw,snapshot=s")
                self.assertFalse(os.path.ismount(point))
                self.must(helper, self.lsmfs.device, point, "-o", "rw,snapshot=s,nofail,x-systemd.automount", "-n")
                self.nothing_changes_in(point)
                self.must("umount", point)
                if mounted:
                    self.lsmfs.umount()
                    self.lsmfs.wait_for_end()

    def test_strange_names(self):
        for mounted in (True, False):
            if mounted:
                for name in ("a b", "a,b", "\u00e9", "new\nline", "x" * 255):
                    self.snapshot_of_a_line(name)
            for name in ("a b", '"a,b"', "\u00e9", "new\nline", "x" * 255):
                with self.subTest(name, mounted=mounted):
                    point = self.show(name)
                    self.assertEqual(len(os.listdir(point)), 6)
                    self.must(LSMFS, "umount", point)
                    if not mounted:
                        self.ended(point)
            if mounted:
                self.lsmfs.umount()
                self.lsmfs.wait_for_end()

    def snapshot_of_a_line(self, name):
        self.must(LSMFS, "snapshot", self.path("d"), name)


class Refusals(Snapshots):
    def test_what_cannot_be_kept_is_told(self):
        self.make("d/file")
        os.symlink("d", self.path("link"))
        elsewhere = self.work.sub("elsewhere")
        d = self.path("d")
        self.not_made(self.path("missing"), says=["missing: does not exist"])
        self.not_made(self.path("d/file"), says=["d/file: is not a directory"])
        self.not_made(self.path("link"), says=["link: is a symbolic link"])
        self.not_made(elsewhere, says=[elsewhere, "not in an lsmfs"])
        self.not_made("", says=["source has no name"])
        self.not_made(d, "", says=["has no name"])
        for name in ("a/b", "/", "a/", self.path("new")):
            self.not_made(d, name, says=[name, "is a path", "without a /"])
        for name in (".", ".."):
            self.not_made(d, name, says=[f" {name}: ", "another one"])
        self.not_made(d, "x" * 256, says=["too long", "255 bytes"])
        self.not_made(self.kept(), says=[".snapshots: holds the snapshots"])
        self.snapshot("d", "s")
        self.not_made(d, "s", says=[self.kept("s"), "exists already"])
        self.not_made(self.path("."), "s", says=["exists already"])
        os.mkdir(self.path("n" * 250))
        self.not_made(self.path("n" * 250), says=["too long"])
        for words, says in (((self.path("missing"),), "does not exist"), ((self.path("d/file"),), "is not a directory"), ((elsewhere,), "not in an lsmfs"), ((d, d), "--help")):
            self.refused(LSMFS, "snapshots", *words, says=[says], codes=[1])
        self.refused(LSMFS, "snapshot", says=["directory", "--help"], codes=[1])
        self.lsmfs.umount()
        self.lsmfs.mount("ro")
        self.not_made(d, "t", says=["is mounted read-only"])
        self.assertEqual(self.names_listed(), ["s"])
        self.refused(LSMFS, "rm", "-r", self.kept("s"), says=["is mounted read-only"], codes=[1])

    def test_a_mount_of_a_part_is_told(self):
        self.make("d/below/file")
        shown = self.work.sub("shown")
        self.must("mount", "--bind", self.path("d"), shown)
        self.addCleanup(self.must, "umount", shown)
        for command in ("snapshot", "snapshots"):
            for path in (shown, os.path.join(shown, "below")):
                self.refused(LSMFS, command, path, says=["only a part", "a mount of the whole"], codes=[1])
        self.assertEqual(os.listdir(self.kept()), [])

    def test_another_mount_of_the_whole_will_do(self):
        self.make("d/file")
        shown = self.work.sub("shown")
        self.must("mount", "--bind", self.lsmfs.point, shown)
        self.addCleanup(self.must, "umount", shown)
        self.assertEqual(self.must(LSMFS, "snapshot", os.path.join(shown, "d"), "s"), os.path.join(os.path.realpath(shown), ".snapshots", "s\n"))
        self.assertEqual(self.names_listed("d"), ["s"])
        self.must("mount", "-o", "remount,bind,ro", shown)
        self.not_made(os.path.join(shown, "d"), "t", says=["is mounted read-only"])
        self.snapshot("d", "t")

    def test_owners_may_where_they_may_write(self):
        self.make("own/below/of root")
        self.make("of root/file")
        os.chown(self.path("own"), NOBODY, NOBODY)

        def as_nobody(*words):
            return call("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS, *words)

        def refuses(*words, says):
            done = as_nobody(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
            self.assertIn(says, done.stderr)

        refuses("snapshot", self.path("own"), "s", says=".snapshots: no permission to make a snapshot there")
        os.chmod(self.kept(), 0o1777)
        self.check()
        refuses("snapshot", self.path("of root"), "s", says="of root: only root")
        refuses("snapshot", self.lsmfs.point, "s", says="only root")
        done = as_nobody("snapshot", self.path("own"), "s")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(os.stat(self.kept("s")).st_uid, NOBODY)
        self.assertEqual(as_nobody("snapshots", self.path("own")).stdout.count("\n"), 2)
        # What they may not read is named, and all else is listed.
        os.mkdir(self.path("secret"), 0o700)
        self.snapshot("secret", "t")
        done = as_nobody("snapshots", self.lsmfs.point)
        self.assertEqual((done.returncode, done.stdout.count("\n"), done.stderr.count("\n")), (1, 2, 1), done.stderr)
        self.assertIn("t: no permission to read it", done.stderr)
        os.chmod(self.kept(), 0o700)
        refuses("snapshots", self.lsmfs.point, says="no permission")
        refuses("snapshot", self.path("own"), "u", says="no permission")

    def test_who_makes_an_image_may_make_snapshots_in_it(self):
        folder, point = self.work.sub("own"), self.work.sub("point")
        os.chmod(self.work.path, 0o755)
        os.chown(folder, NOBODY, NOBODY)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS]
        image = os.path.join(folder, "image")
        self.must(*as_nobody, "mkfs", "--size", "200M", image)
        self.must(LSMFS, "mount", image, point)
        try:
            facts = os.stat(os.path.join(point, ".snapshots"))
            self.assertEqual((facts.st_mode, facts.st_uid, facts.st_gid), (stat.S_IFDIR | 0o755, NOBODY, NOBODY))
            self.must(*as_nobody, "snapshot", point, "s")
            self.assertEqual(self.must(*as_nobody, "snapshots", point).count("\n"), 2)
        finally:
            self.must(LSMFS, "umount", "--wait", point)
        self.must(LSMFS, "fsck", image)


class RollsBack(Snapshots):
    def roll_back(self, *words):
        """The path that it prints, of what was there before."""
        line = self.must(LSMFS, "rollback", *words)
        if "--discard" in words:
            self.assertEqual(line, "")
            return None
        self.assertTrue(line.endswith("\n") and line.count("\n") == 1, line)
        return line[:-1]

    def change(self, folder):
        self.make(f"{folder}/a0/b0/f0", b"changed")
        self.make(f"{folder}/new/file", b"new")
        os.unlink(self.path(folder, "large"))
        os.rename(self.path(folder, "a2"), self.path(folder, "moved"))
        self.must("rm", "-rf", self.path(folder, "a1/b1"))

    def not_done(self, *words, says):
        """It is refused, with one line that says so, and nothing has changed."""
        before = self.contents(self.lsmfs.point), os.listdir(self.kept())
        self.refused(LSMFS, "rollback", *words, says=says, codes=[1])
        self.assertEqual((self.contents(self.lsmfs.point), os.listdir(self.kept())), before)

    def differing(self, found, kept, times=True):
        """Paths that are in one of both, or differ."""
        def without(facts):
            return facts if times or facts is None else facts[:4] + facts[5:]
        return sorted(path for path in {*found, *kept} if without(found.get(path)) != without(kept.get(path)))

    def same(self, folder, kept, times=True):
        self.assertEqual(self.differing(self.contents(folder), kept, times), [])

    def test_flags_of_the_directory_can_be_changed_meanwhile(self):
        """The kernel holds the directory while it is asked for that, and while it is told that a name in it has gone. A rollback that finds it
        append-only is refused."""
        for number in range(5000):
            self.make(f"d/{number}")
        kept = self.snapshot("d", "s")
        program = (f"import fcntl, os\nfd = os.open({self.path('d')!r}, os.O_RDONLY)\n"
                   f"while True:\n for flags in ({APPEND_ONLY}, 0):\n  fcntl.ioctl(fd, {FS_IOC_SETFLAGS}, flags.to_bytes(8, 'little'))\n")
        with subprocess.Popen([sys.executable, "-c", program]) as changer:
            done = []
            while done.count(0) < 5:
                names(self.path("d"))
                done.append(call(LSMFS, "rollback", "--discard", kept).returncode)
                self.assertLess(len(done), 1000)
            self.assertIsNone(changer.poll())
            changer.kill()
        self.assertEqual(len(os.listdir(self.path("d"))), 5000)

    def test_a_directory_is_as_it_was_and_back_again(self):
        self.fill("d")
        kept = self.snapshot("d", "s")
        was, inode = self.contents(kept), os.stat(self.path("d")).st_ino
        self.change("d")
        changed = self.contents(self.path("d"))
        undo = self.roll_back(kept)
        self.assertRegex(os.path.basename(undo), f"^before-rollback-d-{TIME}(-\\d+)?$")
        self.same(self.path("d"), was)
        self.assertEqual(os.stat(self.path("d")).st_ino, inode)
        self.assertNotIn("new", os.listdir(self.path("d")))
        self.same(undo, changed, times=False)  # of which the kernel may tell some later
        self.check()
        self.same(self.path("d"), was)
        again = self.roll_back(undo)
        self.same(self.path("d"), changed, times=False)
        self.same(kept, was)
        self.roll_back("--discard", kept)
        self.same(self.path("d"), was)
        self.assertEqual(sorted(os.listdir(self.kept())), sorted(["s", os.path.basename(undo), os.path.basename(again)]))
        self.make("d/new", b"more")
        self.check()
        self.assertEqual(self.read("d/new"), b"more")
        self.must(LSMFS, "rm", "-r", kept, undo, again, self.path("d"))
        self.check()

    def test_what_the_kernel_has_cached_does_not_stay(self):
        for number in range(20):
            self.make(f"d/kept{number}", b"old")
            self.make(f"d/sub{number}/file", b"old")
        kept = self.snapshot("d", "s")
        for number in range(20):
            os.unlink(self.path(f"d/kept{number}"))
            self.assertEqual(outcome(os.stat, self.path(f"d/kept{number}")), "ENOENT")  # which the kernel keeps
            self.make(f"d/new{number}", b"new")
            self.make(f"d/sub{number}/file", b"newer")
            self.make(f"d/sub{number}/more")
        os.link(self.path("d/new0"), self.path("outside"))
        os.link(self.path("d/new0"), self.path("d/again"))
        self.assertEqual(len(names(self.path("d"))), 81)
        self.roll_back(kept)
        for number in range(20):
            self.assertEqual(self.read(f"d/kept{number}"), b"old")
            self.assertEqual(self.read(f"d/sub{number}/file"), b"old")
            for gone in (f"d/new{number}", f"d/sub{number}/more", "d/again"):
                self.assertEqual(outcome(os.stat, self.path(gone)), "ENOENT", gone)
        self.assertEqual(len(names(self.path("d"))), 60)
        self.assertEqual(self.read("outside"), b"new")
        until(lambda: os.stat(self.path("outside")).st_nlink == 1, "its other names to go")
        # A listing that the kernel has kept of a directory that is as it was has the numbers of before.
        os.listdir(self.path("d"))
        self.roll_back(kept)
        for entry in os.scandir(self.path("d")):
            self.assertEqual(entry.inode(), os.stat(entry.path).st_ino, entry.name)

    def test_who_is_in_use_goes_on(self):
        self.fill("d")
        kept = self.snapshot("d", "s")
        was = self.contents(kept)
        self.change("d")
        with open(self.path("d/new/file"), "r+b") as file, open(self.path("d/a0/b0/f0"), "rb") as other:
            folder, below = os.open(self.path("d"), os.O_RDONLY), os.open(self.path("d/new"), os.O_RDONLY)
            script = 'read line; /bin/pwd; cat large | wc -c; ls; echo made > made; read line'
            with subprocess.Popen(["sh", "-c", script], cwd=self.path("d"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
                self.roll_back(kept)
                out, _ = shell.communicate("\n\n")
            lines = out.splitlines()
            self.assertEqual(lines[:2], [os.path.realpath(self.path("d")), str(6 * MiB)])
            self.assertEqual(sorted(lines[2:]), sorted(os.listdir(kept)))
            self.assertEqual(self.read("d/made"), b"made\n")
            self.assertEqual((file.read(), other.read()), (b"new", b"changed"))
            file.seek(0)
            file.write(b"NEWER")
            file.flush()
            until(lambda: os.fstat(file.fileno()).st_nlink == 0, "its name to go")
            file.seek(0)
            self.assertEqual(file.read(), b"NEWER")
            self.assertEqual(sorted(os.listdir(folder)), sorted([*os.listdir(kept), "made"]))
            self.assertEqual(os.listdir(below), [])
            self.assertEqual(outcome(lambda: os.mkdir("x", dir_fd=below)), "ENOENT")
            self.assertEqual(outcome(lambda: os.stat("file", dir_fd=below)), "ENOENT")
            self.assertNotEqual(os.fstat(below).st_ino, os.stat(self.path("d/a0")).st_ino)
            os.close(folder)
            os.close(below)
        os.unlink(self.path("d/made"))
        self.check()
        self.assertEqual(self.differing(self.contents(self.path("d")), was), ["."], "whose time has changed")

    def test_the_root(self):
        self.fill("d")
        self.make("file", b"root")
        kept = self.snapshot(".", "s")
        was = self.contents(kept)
        for words in ((kept,), ("--discard", kept), (kept, self.lsmfs.point)):
            self.change("d")
            self.make("more", b"more")
            os.unlink(self.path("file"))
            self.roll_back(*words)
            self.same(self.lsmfs.point, was)
            self.assertEqual(os.stat(self.lsmfs.point).st_ino, 1)
            self.check()
            self.same(self.lsmfs.point, was)

    def test_the_root_with_files_of_several_names(self):
        self.fill("d")
        os.link(self.path("d/large"), self.path("link"))
        kept = self.snapshot(".", "s")
        was = self.contents(kept)
        for _ in range(2):
            self.change("d")
            self.make("link", b"changed")
            os.link(self.path("link"), self.path("third"))
            self.roll_back(kept)
            self.same(self.lsmfs.point, was)
            self.assertEqual(os.stat(self.path("link")).st_ino, os.stat(self.path("d/large")).st_ino)
            self.assertEqual(os.stat(self.path("link")).st_nlink, 2)
            self.check()
            self.same(self.lsmfs.point, was)

    def test_another_directory(self):
        self.fill("d")
        self.make("e/other", b"other")
        os.chmod(self.path("e"), 0o700)
        kept = self.snapshot("d", "s")
        done = call(LSMFS, "rollback", kept, ".", cwd=self.path("e"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(os.path.basename(done.stdout).startswith("before-rollback-e-"), done.stdout)
        self.same(self.path("e"), self.contents(kept))
        os.rename(self.path("d"), self.path("moved"))
        self.not_done(kept, says=["/d: is not there any more", "another directory"])
        self.make("moved/new")
        self.roll_back(kept, self.path("moved") + "/")
        self.same(self.path("moved"), self.contents(kept))
        os.symlink("moved", self.path("d"))
        self.not_done(kept, says=["/d: has become a symbolic link", "itself"])
        self.check()

    def test_after_a_crash_it_is_as_one_of_both(self):
        self.fill("d")
        kept = self.snapshot("d", "s")
        was = self.contents(kept)
        self.change("d")
        changed = self.contents(self.path("d"))
        self.must("sync", "-f", self.lsmfs.point)
        for synced in (False, True):
            self.roll_back("--discard", kept)
            if synced:
                self.must("sync", "-f", self.lsmfs.point)
            self.lsmfs.kill()
            self.lsmfs.mount(self.options)
            found = self.contents(self.path("d"))
            self.assertTrue(not self.differing(found, was) or (not synced and not self.differing(found, changed, times=False)), self.differing(found, was))
            self.check()
            self.same(self.path("d"), found)

    def test_bad_input_is_told(self):
        self.make("d/file")
        self.make("d/below/file")
        os.symlink("d", self.path("link"))
        kept = self.snapshot("d", "s")
        elsewhere = self.work.sub("elsewhere")
        d = self.path("d")
        self.refused(LSMFS, "rollback", says=["snapshot", "--help"], codes=[1])
        self.refused(LSMFS, "rollback", kept, d, d, says=["--help"], codes=[1])
        self.not_done(self.kept("missing"), says=["missing: does not exist"])
        self.not_done(d, says=["d: is not a snapshot"])
        self.not_done(self.lsmfs.point, says=["is not a snapshot"])
        self.not_done(self.kept(), says=[".snapshots: is not a snapshot"])
        self.not_done(self.kept("s/below"), says=["below: is not a snapshot"])
        self.not_done(self.path("d/file"), says=["d/file: is not a directory"])
        self.not_done(self.path("link"), says=["link: is a symbolic link"])
        self.not_done(elsewhere, says=[elsewhere, "not in an lsmfs"])
        self.not_done(kept, self.path("missing"), says=["missing: does not exist"])
        self.not_done(kept, self.path("d/file"), says=["d/file: is not a directory"])
        self.not_done(kept, self.path("link"), says=["link: is a symbolic link"])
        self.not_done(kept, elsewhere, says=[elsewhere, "not in an lsmfs"])
        self.not_done(kept, self.kept(), says=[".snapshots: holds the snapshots"])
        self.not_done(kept, self.kept("s/below"), says=["below: lies in the snapshot s"])
        self.not_done(kept, kept, says=["s: lies in the snapshot s"])
        for flag in "+i", "+a":
            self.must("chattr", flag, self.path("d/below/file"))
            self.not_done(kept, says=["d: it or something below it is immutable", "chattr"])
            self.must("chattr", "-ia", self.path("d/below/file"))
        self.lsmfs.umount()
        self.lsmfs.mount("ro")
        self.not_done(kept, says=["d: is mounted read-only"])

    def unbind(self, point):
        """Others who look at all mounts, as df(1), keep it busy for a moment."""
        until(lambda: call("umount", point).returncode == 0, f"the unmount of {point}")

    def test_what_is_mounted_below_is_in_the_way(self):
        self.make("d/below/file")
        kept, all_of_it = self.snapshot("d", "s"), self.snapshot(".", "all")
        shown = self.work.sub("shown")
        self.must("mount", "--bind", shown, self.path("d/below"))
        try:
            for words in ((kept,), (all_of_it,)):
                self.not_done(*words, says=["something is mounted at", "d/below", "unmount that first"])
        finally:
            self.unbind(self.path("d/below"))
        self.must("mount", "--bind", self.path("d"), shown)  # which is no hindrance
        self.addCleanup(self.unbind, shown)
        self.make("d/new")
        self.roll_back(kept)
        self.assertEqual(os.listdir(shown), ["below"])
        self.refused(LSMFS, "rollback", kept, self.work.path, says=["not in an lsmfs"], codes=[1])

    def test_owners_may_with_an_option(self):
        self.make("own/below/of root", b"kept")
        os.chown(self.path("own"), NOBODY, NOBODY)
        os.chmod(self.kept(), 0o1777)
        kept = self.snapshot("own", "s")

        def as_nobody(*words):
            return call("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS, "rollback", *words)

        def refuses(*words, says):
            before = os.listdir(self.kept())
            done = as_nobody(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
            self.assertIn(says, done.stderr)
            self.assertEqual(os.listdir(self.kept()), before)

        refuses(kept, says="own: only root")
        self.lsmfs.umount()
        self.lsmfs.wait_for_end()
        self.lsmfs.mount("user_rm")
        self.make("own/below/new")
        done = as_nobody(kept)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(os.listdir(self.path("own/below")), ["of root"])
        self.make("of root/file")
        refuses(kept, self.path("of root"), says="of root: only root")
        refuses(kept, self.lsmfs.point, says="only root")
        of_root = self.snapshot("of root", "t")
        refuses(of_root, self.path("own"), says="own: only root")
        os.chmod(self.path("of root"), 0o700)
        secret = self.snapshot("of root", "u")
        refuses(secret, self.path("own"), says="no permission")
        os.chmod(self.kept(), 0o755)
        refuses(kept, says="--discard")
        self.assertEqual(as_nobody("--discard", kept).returncode, 0)


if __name__ == "__main__":
    harness.main()
