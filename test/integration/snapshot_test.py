"""lsmfs snapshot and snapshots: a directory is kept with all that lies below it as it was, and nothing changes in what is kept."""

import contextlib
import datetime
import json
import mmap
import os
import re
import stat

import harness
import trees
from harness import LSMFS, MOUNT_OPTIONS, MiB, call, outcome
from trees import NOBODY, names
from until import until

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
        for number in range(40):
            self.make(f"{folder}/a{number % 3}/b{number % 2}/f{number}", b"%d " % number * (number ** 3 % 5000))
        self.make(f"{folder}/large", os.urandom(6 * MiB))
        os.symlink("large", self.path(folder, "link"))
        os.mkdir(self.path(folder, "empty"))
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


if __name__ == "__main__":
    harness.main()
