"""lsmfs diff: what is told of two directories is what a walk over both finds, and who may not ask is told so."""

import json
import os
import random
import shutil
import stat

import harness
import trees
from harness import LSMFS, MiB, call
from trees import NOBODY


class Diff(trees.TreeCase):
    def diff(self, *words):
        """What it prints, as bytes; the exit code is that of the answer."""
        done = call(LSMFS, "diff", *words)
        self.assertEqual(done.stderr, "")
        self.assertIn(done.returncode, (0, 1))
        empty = "[]\n" if "--json" in words else ""
        self.assertEqual(done.returncode, 0 if done.stdout == empty else 1)
        return done.stdout

    def lines(self, a, b, *words):
        return self.diff(*words, self.path(a), self.path(b)).splitlines()

    def snapshot(self, source, name):
        self.must(LSMFS, "snapshot", self.path(source), name)
        return f".snapshots/{name}"


class Told(Diff):
    def test_what_has_changed_since_a_snapshot(self):
        self.make_tree("d")
        kept = self.snapshot("d", "s")
        self.assertEqual(self.lines(kept, "d"), [])
        with open(self.path("d/large"), "r+b") as file:
            file.seek(MiB)
            file.write(b"x")
        os.chmod(self.path("d/a1/b1/f1"), 0o600)
        os.setxattr(self.path("d/a0"), "user.name", b"value")
        os.rename(self.path("d/a2"), self.path("d/a3"))
        os.unlink(self.path("d/a3/b0/f2"))
        self.make("d/new/deep/file")
        os.unlink(self.path("d/link"))
        os.mkdir(self.path("d/link"))
        shutil.rmtree(self.path("d/empty"))
        os.utime(self.path("d/a0/b0/f0"), (1, 1))
        expected = ["m a0/", "m a0/b0/f0", "m a1/b1/f1", "- a2/b0/f2", "R a2/ -> a3/", "- empty/", "M large", "M link/", "+ new/"]
        self.assertEqual(self.lines(kept, "d"), expected)
        self.assertEqual(self.lines(kept, "d", "--all"), expected + ["+ new/deep/", "+ new/deep/file"])
        found = json.loads(self.diff("--json", self.path(kept), self.path("d")))
        self.assertEqual(found[4], {"change": "renamed", "path": "a3", "old": "a2", "directory": True})
        self.assertEqual([each["change"] for each in found], ["attributes"] * 3 + ["removed", "renamed", "removed", "contents", "contents", "added"])
        self.check()
        self.assertEqual(self.lines(kept, "d"), expected, "after another mount")
        self.must(LSMFS, "rollback", "--discard", self.path(kept))
        self.assertEqual(self.lines(kept, "d"), [])

    def test_names_that_lines_do_not_hold(self):
        os.mkdir(self.path("d"))
        kept = self.snapshot("d", "s")
        odd = [b"a\nb", b'q"', b"u\xff", "ü".encode(), b"x -> y"]
        for name in odd:
            with open(os.path.join(os.fsencode(self.path("d")), name), "wb"):
                pass
        self.assertEqual(self.lines(kept, "d"), ['+ "a\\nb"', '+ "q\\""', '+ "u\\377"', '+ "x -> y"', "+ ü"])
        self.must("sh", "-c", f"'{LSMFS}' diff -0 '{self.path(kept)}' '{self.path('d')}' > '{self.work.path}/out'; test $? = 1")
        with open(os.path.join(self.work.path, "out"), "rb") as file:
            self.assertEqual(file.read().split(b"\0"), [b"+ " + name for name in sorted(odd)] + [b""])
        os.rename(self.path("d/ü"), self.path("d/v"))
        later = self.snapshot("d", "t")
        os.rename(self.path("d/v"), self.path("d/w"))
        self.assertEqual(self.diff("-0", self.path(later), self.path("d")), "R v\0w\0")

    def test_unrelated_trees(self):
        self.make_tree("d")
        self.make("e/a0/b0/f0", b"other")
        found = self.lines("d", "e")
        self.assertEqual(found, ["M a0/b0/f0", *sorted(f"- a0/b0/f{n}" for n in range(6, 40, 6)), "- a0/b1/", "- a1/", "- a2/", "- empty/", "- large", "- link"])

    def test_many_differences_take_many_requests(self):
        os.mkdir(self.path("d"))
        kept = self.snapshot("d", "s")
        wanted = sorted(f"{n:05} {'x' * 60}" for n in range(3000))
        for name in wanted:
            os.mkdir(self.path("d", name))
        self.assertEqual(self.lines(kept, "d"), [f"+ {name}/" for name in wanted])
        self.assertEqual(self.lines("d", kept), [f"- {name}/" for name in wanted])

    def test_what_is_written_and_not_yet_sent_counts(self):
        self.make("d/file", b"x" * 100000)
        kept = self.snapshot("d", "s")
        with open(self.path("d/file"), "r+b", buffering=0) as file:
            file.write(b"y")
            self.assertEqual(self.lines(kept, "d"), ["M file"])

    def test_a_snapshot_that_is_mounted_alone(self):
        self.make_tree("d")
        self.snapshot("d", "s")
        self.make("d/new")
        point = self.work.sub("alone")
        os.makedirs(point, exist_ok=True)
        self.must(LSMFS, "mount", self.lsmfs.device, point, "-o", "snapshot=s")
        try:
            self.assertEqual(self.diff(point, self.path("d")), "+ new\n")
        finally:
            self.must("umount", point)


    def test_an_output_that_is_full(self):
        os.mkdir(self.path("d"))
        kept = self.snapshot("d", "s")
        for first, last in ((0, 1), (1, 3000)):  # less than is kept back before it is written, and more
            for number in range(first, last):
                os.mkdir(self.path("d", f"{number} {'x' * 60}"))
            done = call("sh", "-c", f"'{LSMFS}' diff '{self.path(kept)}' '{self.path('d')}' > /dev/full")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertRegex(done.stderr, "disk full|No space left on device")


class Random(Diff):
    def facts(self, folder):
        """{path: what counts as its contents, and what as its attributes}"""
        found = {}
        for at, folders, files in os.walk(folder):
            for name in [".", *folders, *files] if at == folder else [*folders, *files]:
                path = os.path.normpath(os.path.join(at, name))
                facts = os.lstat(path)
                data = b""
                if stat.S_ISREG(facts.st_mode):
                    with open(path, "rb") as file:
                        data = file.read()
                if stat.S_ISLNK(facts.st_mode):
                    data = os.readlink(path)
                is_folder = stat.S_ISDIR(facts.st_mode)
                attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)}
                found[os.path.relpath(path, folder)] = ((stat.S_IFMT(facts.st_mode), data),
                                                        (facts.st_mode, facts.st_uid, facts.st_gid, None if is_folder else facts.st_mtime_ns, attributes))
        return found

    def expected(self, a, b):
        """Without renames."""
        before, after = self.facts(self.path(a)), self.facts(self.path(b))
        found = {f"- {path}" for path in before.keys() - after.keys()} | {f"+ {path}" for path in after.keys() - before.keys()}
        for path in before.keys() & after.keys():
            if before[path][0] != after[path][0]:
                found.add(f"M {path}")
            elif before[path][1] != after[path][1]:
                found.add(f"m {path}")
        return found

    def change(self, draw, folder):
        files, folders = [], [self.path(folder)]
        for at, below, names in os.walk(self.path(folder)):
            folders += [os.path.join(at, name) for name in below]
            files += [os.path.join(at, name) for name in names if not os.path.islink(os.path.join(at, name))]
        fresh = os.path.join(draw.choice(folders), f"new{draw.randrange(10 ** 6)}")
        file = draw.choice(files) if files else None
        what = draw.randrange(8)
        if what == 0 or not file:
            with open(fresh, "wb") as new:
                new.write(draw.randbytes(draw.randrange(1, 300000)))
        elif what == 1:
            os.mkdir(fresh)
        elif what in (2, 3):
            with open(file, "r+b") as old:
                old.seek(draw.randrange(100000))
                old.write(draw.randbytes(draw.randrange(1, 50000)))
        elif what == 4:
            os.unlink(file)
        elif what == 5:
            os.chmod(file, draw.choice([0o600, 0o640, 0o755]))
        elif what == 6:
            os.symlink(f"to {draw.random()}", fresh)
        elif len(folders) > 4:
            shutil.rmtree(folders[-1])

    def test_what_a_walk_finds(self):
        seed = random.SystemRandom().randrange(2 ** 32)
        draw = random.Random(seed)
        self.make_tree("d")
        places = ["d", self.snapshot("d", "first")]
        with self.subTest(seed=seed):
            for turn in range(25):
                for _ in range(draw.randrange(6)):
                    self.change(draw, draw.choice([place for place in places if not place.startswith(".")]))
                what = draw.randrange(4)
                if what == 0:
                    places.append(self.snapshot(draw.choice(places), f"s{turn}"))
                elif what == 1:
                    self.must(LSMFS, "clone", self.path(draw.choice(places)), self.path(f"c{turn}"))
                    places.append(f"c{turn}")
                a, b = draw.choice(places), draw.choice(places)
                found = [line.rstrip("/") for line in self.lines(a, b, "--all")]
                self.assertEqual(set(found), self.expected(a, b), (a, b))
                self.assertEqual(len(found), len(set(found)))


class Refused(Diff):
    def not_told(self, *words, says):
        done = self.refused(LSMFS, "diff", *words, says=says, codes=[2])
        self.assertEqual(done.stdout, "")

    def test_what_cannot_be_compared(self):
        self.make("d/file")
        os.symlink("d", self.path("link"))
        other = self.work.sub("other")
        os.makedirs(other, exist_ok=True)
        d = self.path("d")
        self.not_told(d, self.path("d/file"), says=["d/file: is not a directory"])
        self.not_told(self.path("link"), d, says=["link: is a symbolic link"])
        self.not_told(d, self.path("missing"), says=["missing: does not exist"])
        self.not_told(d, other, says=[f"{other}: is not in an lsmfs that is mounted; use diff -r"])
        second = self.volume(200 * MiB)
        second.mount("")
        self.not_told(d, second.point, says=[second.point, "is in another file system", "diff -r"])

    def test_who_may_not(self):
        self.make("own/file")
        os.mkdir(self.path("own/secret"), 0o700)
        self.make("own/secret/hidden")
        self.make("other/file")
        os.chown(self.path("own"), NOBODY, NOBODY)
        kept = self.snapshot("own", "s")
        self.make("own/secret/new")
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS, "diff"]
        done = call(*as_nobody, self.path(kept), self.path("own"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "+ secret/new\n", ""))
        done = call(*as_nobody, self.path("own"), self.path("other"))
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
        self.assertIn("other: only root, who mounted it and the owner of both directories may compare it", done.stderr)
        os.chmod(self.path(".snapshots"), 0o700)
        done = call(*as_nobody, self.path(kept), self.path("own"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no permission", done.stderr)


if __name__ == "__main__":
    harness.main()
