"""lsmfs changes: what it tells, whom, and that git says the same with it as without."""

import json
import mmap
import os
import random
import shutil
import subprocess

import harness
import trees
from harness import LSMFS, call
from trees import NOBODY


class Changes(trees.TreeCase):
    def changes(self, folder, *words):
        """The token, and the paths."""
        token, *paths = self.must(LSMFS, "changes", *words, self.path(folder)).splitlines()
        self.assertRegex(token, "^[a-z0-9-]+$")
        return token, paths

    def token(self, folder):
        token, paths = self.changes(folder)
        self.assertEqual(paths, [])
        return token

    def since(self, token, folder):
        return self.changes(folder, "--since", token)[1]


class Told(Changes):
    def test_what_has_changed(self):
        self.make_tree("d")
        token = self.token("d")
        self.assertEqual(self.since(token, "d"), [])
        os.chmod(self.path("d/a1/b1/f1"), 0o600)
        os.rename(self.path("d/a2"), self.path("d/a3"))
        self.make("d/new/deep/file")
        os.unlink(self.path("d/link"))
        shutil.rmtree(self.path("d/empty"))
        self.make("e/elsewhere")
        expected = ["a1/b1/f1", "a2/", "a3/", "empty", "link", "new", "new/deep", "new/deep/file"]
        self.assertEqual(self.since(token, "d"), expected)
        self.assertEqual(self.since(token, "d/a3"), ["/"])
        self.assertEqual(self.since(token, "d/a0"), [])
        found = json.loads(self.must(LSMFS, "changes", "--json", "--since", token, self.path("d")))
        self.assertEqual((found["everything"], found["paths"]), (False, expected))
        self.assertEqual(self.since(found["token"], "d"), [])
        self.check()
        self.assertEqual(self.since(token, "d"), expected, "after another mount")
        self.assertEqual(self.since(found["token"], "d"), [])

    def test_what_is_no_token_means_everything(self):
        self.make("d/file")
        self.token("d")
        for text in ("", "x", "lsmfs1-0-0-0", "/", "1700000000000000000"):
            self.assertEqual(self.since(text, "d"), ["/"], text)
        found = json.loads(self.must(LSMFS, "changes", "--json", "--since", "x", self.path("d")))
        self.assertEqual((found["everything"], found["paths"]), (True, []))

    def test_names_that_lines_do_not_hold(self):
        os.mkdir(self.path("d"))
        token = self.token("d")
        for name in (b"a\nb", b"u\xff", "ü".encode()):
            with open(os.path.join(os.fsencode(self.path("d")), name), "wb"):
                pass
        os.chmod(self.path("d"), 0o700)
        self.assertEqual(self.since(token, "d"), [".", '"a\\nb"', '"u\\377"', "ü"])
        done = subprocess.run([LSMFS, "changes", "-0", "--since", token, self.path("d")], capture_output=True, check=True)
        self.assertEqual(done.stdout.split(b"\0")[1:], [b".", b"a\nb", b"u\xff", "ü".encode(), b""])

    def test_what_the_kernel_still_has_is_told(self):
        path = self.make("d/mapped", bytes(8192))
        self.make("d/written", bytes(8192))
        token = self.token("d")
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[5] = 1
            self.assertEqual(self.since(token, "d"), ["mapped"])
        with open(self.path("d/written"), "r+b", buffering=0) as file:
            file.write(b"x")
            self.assertIn("written", self.since(token, "d"))

    def test_much(self):
        os.mkdir(self.path("d"))
        token = self.token("d")
        names = [f"{number:05} {'x' * 100}" for number in range(3000)]
        for name in names:
            os.close(os.open(self.path("d", name), os.O_CREAT))
        self.assertEqual(self.since(token, "d"), names)

    def test_clones_and_rollbacks(self):
        self.make_tree("d")
        token = self.token("d")
        self.must(LSMFS, "snapshot", self.path("d"), "s")
        self.must(LSMFS, "clone", self.path("d"), self.path("c"))
        self.assertEqual(self.since(token, "c"), ["/"])
        self.assertEqual(self.since(token, "d"), [])
        self.assertEqual(self.since(token, ".snapshots/s"), ["/"])
        token = self.token("c")
        self.make("c/a0/b0/new")
        self.assertEqual(self.since(token, "c"), ["a0/b0/new"])
        self.assertEqual(self.since(token, ".snapshots/s"), [])
        self.must(LSMFS, "rollback", "--discard", self.path(".snapshots/s"))
        self.assertEqual(self.since(token, "d"), ["/"])
        self.assertEqual(self.since(token, "."), ["c/a0/b0/new", "d/"])
        self.must(LSMFS, "rm", "-r", self.path("c"))
        self.assertEqual(self.since(token, "."), ["c/", "d/"])

    def test_after_a_kill(self):
        self.make_tree("d")
        token = self.token("d")
        self.make("d/synced")
        os.sync()
        self.lsmfs.kill()
        self.lsmfs.mount(self.options)
        self.assertEqual(self.since(token, "d"), ["synced"])

    def test_a_check_changes_nothing(self):
        self.make("d/file")
        token = self.token("d")
        self.lsmfs.umount()
        self.lsmfs.wait_for_end()
        self.must(LSMFS, "fsck", self.lsmfs.device)
        self.lsmfs.mount(self.options)
        self.assertEqual(self.since(token, "d"), [])


class Refused(Changes):
    def test_who_may_ask(self):
        self.make("own/file")
        for name in ("own", "own/file"):
            os.chown(self.path(name), NOBODY, NOBODY)
        self.make("others/file")
        as_nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS, "changes")
        self.must(*as_nobody, self.path("own"))
        self.refused(*as_nobody, self.path("others"), says=("only root", "owner"), codes=[1])
        os.chmod(self.path("others"), 0o700)
        self.refused(*as_nobody, self.path("others"), says=("permission",), codes=[1])

    def test_what_is_wrong(self):
        self.make("d/file")
        os.symlink("d", self.path("link"))
        self.refused(LSMFS, "changes", says=("directory",), codes=[1])
        self.refused(LSMFS, "changes", self.path("none"), says=("none", "does not exist"), codes=[1])
        self.refused(LSMFS, "changes", self.path("d/file"), says=("not a directory",), codes=[1])
        self.refused(LSMFS, "changes", self.path("link"), says=("symbolic link",), codes=[1])
        self.refused(LSMFS, "changes", self.work.path, says=("not in an lsmfs",), codes=[1])
        self.refused(LSMFS, "changes", "--json", "-0", self.path("d"), says=("--help",), codes=[1])
        self.refused(LSMFS, "changes", "--git", "1", "x", says=("version 1",), codes=[1])
        self.lsmfs.umount()
        self.lsmfs.wait_for_end()
        self.lsmfs.mount("ro")
        self.refused(LSMFS, "changes", self.path("d"), says=("read-only",), codes=[1])
        done = subprocess.run([LSMFS, "changes", "--git", "2", "x"], cwd=self.work.path, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, b"", b""), "git does without it elsewhere")


class Git(Changes):
    def git(self, where, *words):
        return self.must("git", "-C", where, "-c", "safe.directory=*", "-c", "user.name=x", "-c", "user.email=x", *words)

    def use_hook(self, where, program=LSMFS):
        self.git(where, "config", "core.fsmonitor", f"'{program}' changes --git")
        self.git(where, "config", "core.untrackedCache", "true")
        self.git(where, "config", "core.fsmonitorHookVersion", "2")

    def status(self, where, *words):
        return self.git(where, *words, "status", "--porcelain", "-z", "--untracked-files=all")

    def agree(self, where, what):
        """Without the hook git looks at each file; it is asked first, and writes no index of its own."""
        plain = self.status(where, "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")
        self.assertEqual(self.status(where), plain, what)
        return plain

    def make_repository(self, folder):
        where = self.path(folder)
        for number in range(200):
            self.make(f"{folder}/a{number % 4}/b{number % 3}/f{number}", b"%d\n" % number)
        self.git(self.work.path, "init", "-q", "-b", "main", where)
        self.make(f"{folder}/.gitignore", b"*.o\n/build/\n")
        self.git(where, "add", "-A")
        self.git(where, "commit", "-q", "-m", "first")
        self.use_hook(where)
        return where

    def test_status_looks_at_what_has_changed(self):
        where = self.make_repository("repository")
        self.status(where)
        self.status(where)
        log = os.path.join(self.work.path, "asked")
        program = os.path.join(self.work.path, "hook")
        with open(program, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n'{LSMFS}' \"$@\" | tee '{log}'\n")
        os.chmod(program, 0o755)
        self.use_hook(where, program)
        self.make("repository/a1/b1/f1", b"changed\n")
        self.make("repository/a0/new", b"new\n")
        self.assertEqual(sorted(self.status(where).split("\0")), ["", " M a1/b1/f1", "?? a0/new"])
        with open(log, "rb") as file:
            self.assertEqual(file.read().split(b"\0")[1:], [b"a0/new", b"a1/b1/f1", b""])
        self.assertEqual(self.git(where, "ls-files", "-f").count("h a"), 199, "all others are known to be as they were")

    def change(self, draw, where):
        files, folders = [], [where]
        for at, below, names in os.walk(where):
            if ".git" in below:
                below.remove(".git")
            folders += [os.path.join(at, name) for name in below]
            files += [os.path.join(at, name) for name in names]
        folder, file = draw.choice(folders), draw.choice(files) if files else None
        fresh = os.path.join(draw.choice(folders), draw.choice(["n", "m", "o", "x.o", "build"]) + draw.choice(["", "1", "2"]))
        what = draw.randrange(15)
        if what in (0, 1) or not file:
            if not os.path.lexists(fresh):
                with open(fresh, "wb") as new:
                    new.write(draw.randbytes(draw.randrange(50)))
        elif what == 2:
            if not os.path.lexists(fresh):
                os.makedirs(os.path.join(fresh, "sub"))
        elif what in (3, 4):
            if os.path.isfile(file):
                with open(file, "ab") as old:
                    old.write(draw.randbytes(draw.randrange(1, 50)))
        elif what == 5:
            os.unlink(file)
        elif what == 6 and os.path.isfile(file):
            os.chmod(file, draw.choice([0o644, 0o755]))
        elif what == 7 and not os.path.lexists(fresh):
            os.rename(file, fresh)
        elif what == 8 and folder != where and not os.path.lexists(fresh) and not fresh.startswith(folder + "/"):
            os.rename(folder, fresh)
        elif what == 9 and folder != where:
            shutil.rmtree(folder)
        elif what == 10 and folder != where and not os.path.lexists(fresh) and not fresh.startswith(folder + "/"):
            self.must(LSMFS, "clone", folder, fresh)
        elif what == 11 and folder != where:
            self.must(LSMFS, "rm", "-r", folder)
        elif what == 12 and not os.path.lexists(fresh) and os.path.isfile(file):
            os.link(file, fresh)
        elif what == 13 and not os.path.lexists(fresh):
            os.symlink(draw.choice(["a", "b"]), fresh)
        elif what == 14 and not os.path.lexists(fresh) and os.path.isfile(file):
            shutil.copy(file, fresh)

    def act(self, draw, where):
        """Something of git itself, which may find nothing to do."""
        words = draw.choice([("add", "-A"), ("commit", "-q", "-a", "-m", "x"), ("reset", "-q", "--hard"), ("stash", "-q", "-u"), ("clean", "-q", "-fd"),
                             ("checkout", "-q", "-f", "HEAD~1"), ("checkout", "-q", "-f", "main"), ("checkout", "-q", "--", ".")])
        call("git", "-C", where, "-c", "safe.directory=*", "-c", "user.name=x", "-c", "user.email=x", *words)

    def test_random_operations(self):
        harness.print_seed(self)
        draw = random.Random(harness.SEED)
        where = self.make_repository("some/where/repository")
        copies = 0
        for turn in range(120):
            for _ in range(draw.randrange(5)):
                self.change(draw, where)
            what = draw.randrange(14)
            if what in (0, 1, 2):
                self.act(draw, where)
            elif what == 3:
                self.lsmfs.remount(self.options)
            elif what == 4:
                self.must(LSMFS, "snapshot", os.path.dirname(where), f"s{turn}")
                self.change(draw, where)
                self.must(LSMFS, "rollback", "--discard", self.path(".snapshots", f"s{turn}"))
            elif what == 5:  # goes on in a clone
                copies += 1
                parent = self.path("some", f"copy{copies}")
                self.must(LSMFS, "clone", os.path.dirname(where), parent)
                where = os.path.join(parent, "repository")
            elif what == 6:
                os.sync()
                self.lsmfs.kill()
                self.lsmfs.mount(self.options)
            self.agree(where, f"turn {turn}")
        self.check()

    def test_in_a_file_system_that_is_none(self):
        where = self.work.sub("plain")
        self.git(self.work.path, "init", "-q", "-b", "main", where)
        with open(os.path.join(where, "file"), "wb"):
            pass
        self.use_hook(where)
        done = call("git", "-C", where, "-c", "safe.directory=*", "status", "--porcelain")
        self.assertEqual((done.returncode, done.stdout), (0, "?? file\n"))


if __name__ == "__main__":
    harness.main()
