"""lsmfs clone: a directory is copied with all that lies below it, at once."""

import base64
import errno
import mmap
import os
import random
import stat
import threading

import harness
import trees
from harness import LSMFS, MiB, call, outcome
from trees import NOBODY, names
from until import until


class Clone(trees.TreeCase):
    def fill(self, name, files=200, seed=1):
        """Directories, files of many sizes, and one of each other kind."""
        draw = random.Random(seed)
        for number in range(files):
            self.make(f"{name}/d{number % 7}/e{number % 5}/f{number}", draw.randbytes(draw.choice((0, 10, 4096, 70_000))))
        self.make(f"{name}/large", draw.randbytes(5 * MiB))
        os.truncate(self.make(f"{name}/d0/sparse", b"begin"), 30 * MiB)
        os.makedirs(self.path(name, "empty"))
        os.symlink("../large", self.path(name, "d1/link"))
        os.mkfifo(self.path(name, "d1/fifo"))
        os.mknod(self.path(name, "d1/null"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.link(self.path(name, "d1/e1/f1"), self.path(name, "d2/of f1"))
        os.setxattr(self.path(name, "d3"), "user.small", b"value")
        os.setxattr(self.path(name, "d3/e3/f3"), "user.large", b"v" * 3000)
        os.chmod(self.path(name, "d3/e3/f3"), 0o4751)
        os.chown(self.path(name, "d4"), 7, 8)
        os.chmod(self.path(name, "d4"), 0o2750)
        os.utime(self.path(name, "d5/e0/f5"), ns=(10 ** 18, 10 ** 18 + 1))
        self.must("setfacl", "-m", "u:7:rwx,d:u:9:r-x", self.path(name, "d6"))

    def clone(self, source, target):
        self.assertEqual(self.must(LSMFS, "clone", self.path(source), self.path(target)), "")

    def facts(self, top):
        """{path below: what a copy has in common with it}. Files that are one have the first one's path."""
        files, found = {}, {}
        for folder, folders, names in os.walk(self.path(top)):
            for name in [".", *sorted(folders + names)]:
                path = os.path.normpath(os.path.join(folder, name))
                below = os.path.relpath(path, self.path(top))
                if below in found:
                    continue
                facts = os.lstat(path)
                xattrs = {key: os.getxattr(path, key, follow_symlinks=False) for key in os.listxattr(path, follow_symlinks=False)}
                found[below] = (files.setdefault(facts.st_ino, below), facts.st_mode, facts.st_nlink, facts.st_uid, facts.st_gid, facts.st_rdev, facts.st_size,
                                facts.st_mtime_ns, facts.st_blocks if stat.S_ISREG(facts.st_mode) else 0, xattrs)
        return found

    def same(self, source, target):
        self.assertEqual(self.facts(source), self.facts(target))
        self.must("diff", "-r", "--no-dereference", "--exclude", "fifo", "--exclude", "null", self.path(source), self.path(target))

    def not_cloned(self, source, target, *says):
        """It is refused, with one line that says so, and nothing has changed."""
        before = names(self.lsmfs.point)
        self.refused(LSMFS, "clone", source, target, says=says, codes=[1])
        self.assertEqual(names(self.lsmfs.point), before)


class Copies(Clone):
    def test_a_clone_is_a_copy(self):
        self.fill("d")
        for cached in (True, False):  # what has just been made, and what the daemon has to read
            with self.subTest(cached):
                if not cached:
                    self.lsmfs.remount()
                target = f"place{cached}/copy"
                os.mkdir(self.path(f"place{cached}"))
                self.clone("d", target)
                self.same("d", target)
                both = [os.lstat(self.path(name, "large")).st_ino for name in ("d", target)]
                self.assertNotEqual(*both)
        self.check()
        for name in ("placeTrue/copy", "placeFalse/copy"):
            self.same("d", name)

    def test_each_side_changes_by_itself(self):
        self.fill("d")
        self.clone("d", "copy")
        kept = self.facts("copy")
        before = self.read("copy/large")
        with open(self.path("d/large"), "r+b") as file:
            file.seek(MiB + 5)
            file.write(b"changed")
        os.unlink(self.path("d/d0/e0/f0"))
        self.make("d/d0/new")
        os.rename(self.path("d/d1"), self.path("moved"))
        os.chmod(self.path("d/d2"), 0o700)
        self.assertEqual(self.facts("copy"), kept)
        self.assertEqual(self.read("copy/large"), before)
        self.check()
        self.assertEqual(self.facts("copy"), kept)
        kept = self.facts("d")
        self.must("rm", "-rf", self.path("copy/d3"))
        self.make("copy/d4/e4/new")
        os.setxattr(self.path("copy/d5"), "user.new", b"1")
        os.truncate(self.path("copy/large"), 7)
        self.assertEqual(self.facts("d"), kept)
        self.check()
        self.assertEqual(self.facts("d"), kept)
        self.assertEqual(self.read("copy/large"), before[:7])
        self.assertEqual(self.read("d/large")[MiB + 5:MiB + 12], b"changed")

    def test_clones_of_clones_and_the_end_of_their_source(self):
        self.fill("d", 50)
        kept = self.facts("d")
        last = "d"
        for number in range(10):
            self.clone(last, f"c{number}")
            last = f"c{number}"
            self.make(f"{last}/d0/only {number}")
        self.must(LSMFS, "rm", "-r", self.path("d"), *(self.path(f"c{number}") for number in range(9)))
        self.check()
        for number in range(10):
            os.unlink(self.path(f"c9/d0/only {number}"))
        os.utime(self.path("c9/d0"), ns=(0, kept["d0"][7]))
        self.assertEqual(self.facts("c9"), kept)
        self.must("rm", "-rf", self.path("c9"))
        self.assertEqual(os.listdir(self.lsmfs.point), [])
        self.check()

    def test_what_the_kernel_has_cached_of_the_place_is_right(self):
        self.make("d/a/file")
        os.mkdir(self.path("place"))
        self.assertEqual(outcome(os.stat, self.path("place/copy/a/file")), "ENOENT")
        self.assertEqual(os.listdir(self.path("place")), [])
        links = os.stat(self.path("place")).st_nlink
        place = os.open(self.path("place"), os.O_RDONLY)
        self.clone("d", "place/copy")
        self.assertEqual(self.read("place/copy/a/file"), b"data")
        self.assertEqual(os.listdir(self.path("place")), ["copy"])
        self.assertEqual(os.listdir(place), ["copy"])
        self.assertEqual(os.stat(self.path("place")).st_nlink, links + 1)
        os.close(place)

    def test_what_programs_have_just_written_is_in_it(self):
        self.make("d/mapped", b"old" * 5000)
        with open(self.path("d/mapped"), "r+b") as file, mmap.mmap(file.fileno(), 0) as at, open(self.path("d/open"), "wb", buffering=0) as other:
            at[0:3] = b"new"
            at.flush()
            other.write(b"written")
            self.clone("d", "copy")
            at[3:6] = b"NOT"
            other.write(b", and more")
            self.assertEqual(self.read("copy/mapped")[:9], b"newoldold")
            self.assertEqual(self.read("copy/open"), b"written")
        self.assertEqual(self.read("d/mapped")[:9], b"newNOTold")
        self.assertEqual(self.read("d/open"), b"written, and more")

    def test_links_hold_below_it(self):
        self.make("d/a/one")
        os.link(self.path("d/a/one"), self.path("d/two"))
        os.link(self.path("d/a/one"), self.path("outside"))
        self.clone("d", "copy")
        self.assertEqual(os.stat(self.path("copy/two")).st_ino, os.stat(self.path("copy/a/one")).st_ino)
        self.assertEqual([os.stat(self.path(name)).st_nlink for name in ("d/two", "outside", "copy/two")], [3, 3, 2])
        self.make("copy/two", b"other")
        self.assertEqual([self.read(name) for name in ("copy/a/one", "d/two", "outside")], [b"other", b"data", b"data"])
        self.check()
        self.assertEqual([os.stat(self.path(name)).st_nlink for name in ("d/two", "outside", "copy/two")], [3, 3, 2])

    def test_paths_are_taken_as_they_are_given(self):
        self.make("d/file")
        os.mkdir(self.path("place"))
        for source, target, cwd, made in (("d", "1", "", "1"), ("d/", "2/", "", "2"), (".", "../3", "d", "3"), ("../d//", "./4//", "place", "place/4"),
                                          (self.path("d"), "place//5", "", "place/5"), ("d", "place/../6", "", "6")):
            with self.subTest(source=source, target=target):
                done = call(LSMFS, "clone", source, target, cwd=self.path(cwd))
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
                self.assertEqual(self.read(made + "/file"), b"data")

    def test_it_stays_beside_much_that_goes_on(self):
        """Whoever writes meanwhile has it in the clone or not: names of one moment, as long as nobody removes what was there."""
        end = threading.Event()
        written = []

        def write():
            while not end.is_set():
                self.make(f"d/{len(written)}", b"x" * 1000)
                written.append(len(written))

        os.mkdir(self.path("d"))
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(8):
                begun = len(written)
                until(lambda at=begun: len(written) > at + 20, "files")
                before = len(written)
                self.clone("d", f"c{number}")
                found = {int(name) for name in os.listdir(self.path(f"c{number}"))}
                self.assertEqual(found, set(range(len(found))))
                self.assertGreaterEqual(len(found), before)
        finally:
            end.set()
            writer.join()
        self.check()


class Refusals(Clone):
    def test_what_cannot_be_cloned_is_told(self):
        self.make("d/a/file")
        os.symlink("d", self.path("link"))
        os.symlink("nowhere", self.path("dangling"))
        elsewhere = self.work.sub("elsewhere")
        d, new = self.path("d"), self.path("new")
        self.not_cloned(self.path("missing"), new, "missing: does not exist")
        self.not_cloned(self.path("d/a/file"), new, "d/a/file: is not a directory")
        self.not_cloned(self.path("link"), new, "link: is a symbolic link")
        self.not_cloned(self.path("link/"), new, "link: is a symbolic link")
        self.not_cloned(elsewhere, new, elsewhere, "not in an lsmfs", "cp -a")
        for there in ("d/a", "d", "link", "dangling", "d/a/file", ".", "d/.."):
            self.not_cloned(d, self.path(there), "exists already")
            self.not_cloned(d, self.path(there) + "/", "exists already")
        self.not_cloned(d, self.path("missing/new"), "missing: does not exist")
        self.not_cloned(d, self.path("d/a/file/new"), "is not a directory")
        self.not_cloned(d, "", "target has no name")
        self.not_cloned("", new, "source has no name")
        self.not_cloned(d, self.path("d/new"), "d/new", "in itself")
        self.not_cloned(d, self.path("d/a/new"), "d/a/new", "in itself")
        self.not_cloned(d, self.path("link/new"), "in itself")
        self.not_cloned(self.lsmfs.point, new, "in itself")
        self.not_cloned(d, os.path.join(elsewhere, "new"), elsewhere, "another file system", "cp -a")
        self.not_cloned(d, self.path("x" * 256), "too long")
        self.refused(LSMFS, "clone", d, says=["target", "--help"], codes=[1])
        self.refused(LSMFS, "clone", d, new, new, says=["--help"], codes=[1])
        self.assertEqual(os.listdir(elsewhere), [])
        other = self.volume(400 * MiB)
        other.mount()
        self.not_cloned(d, other.path("new"), "another file system")
        self.lsmfs.umount()
        self.lsmfs.mount("ro")
        self.not_cloned(d, new, "read-only")

    def test_a_place_that_is_fixed_is_told(self):
        self.make("d/file")
        os.mkdir(self.path("place"))
        self.must("chattr", "+i", self.path("place"))
        self.not_cloned(self.path("d"), self.path("place/copy"), "place: is immutable")
        self.must("chattr", "-i", self.path("place"))
        self.clone("d", "place/copy")

    def test_a_source_that_is_fixed_is_cloned_as_it_is(self):
        self.make("d/file")
        for name in ("d/file", "d"):
            self.must("chattr", "+i", self.path(name))
        self.clone("d", "copy")
        self.assertEqual(outcome(os.unlink, self.path("copy/file")), "EPERM")
        for name in ("d", "copy"):
            self.must("chattr", "-i", self.path(name), self.path(name, "file"))
            os.unlink(self.path(name, "file"))

    def test_a_full_file_system_is_told(self):
        """Names have more room than data: this is filled with names that are large, as often as merging makes room."""
        self.lsmfs.umount()
        self.lsmfs = self.volume(200 * MiB)
        self.lsmfs.mount()
        self.make("d/file")
        os.mkdir(self.path("full"))
        number = 0
        for _ in range(50):
            with self.assertRaises(OSError) as full:
                while True:
                    number += 1
                    os.symlink(base64.b64encode(os.urandom(2900)), os.fsencode(self.path(f"full/{number}")))
            self.assertEqual(full.exception.errno, errno.ENOSPC)
            done = call(LSMFS, "clone", self.path("d"), self.path(f"copy{number}"))
            if done.returncode != 0:
                break
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertIn("no space", done.stderr)
        self.assertFalse(os.path.lexists(self.path(f"copy{number}")))


class Others(Clone):
    def as_user(self, source, target, uid=NOBODY, groups="--clear-groups"):
        return call("setpriv", f"--reuid={uid}", f"--regid={uid}", groups, LSMFS, "clone", self.path(source), self.path(target))

    def refuses(self, source, target, *says, **more):
        done = self.as_user(source, target, **more)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)
        self.assertFalse(os.path.lexists(self.path(target)))

    def allows(self, source, target, **more):
        done = self.as_user(source, target, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.same(source, target)
        self.must("rm", "-rf", self.path(target))

    def test_owners_may_where_they_may_make_directories(self):
        self.make("own/below/of root")
        os.chown(self.path("own"), NOBODY, NOBODY)
        self.make("of root/file")
        os.mkdir(self.path("place"))
        for mode, owner, allowed in ((0o755, 0, False), (0o757, 0, True), (0o773, 0, True), (0o772, 0, False), (0o300, NOBODY, True), (0o577, NOBODY, False), (0o1777, 0, True)):
            with self.subTest(oct(mode)):
                os.chmod(self.path("place"), mode)
                os.chown(self.path("place"), owner, owner)
                if allowed:
                    self.allows("own", "place/copy")
                else:
                    self.refuses("own", "place/copy", "place: no permission")
        self.refuses("of root", "place/copy", "of root: only root")
        os.chown(self.path("place"), 0, 5)
        os.chmod(self.path("place"), 0o775)
        self.refuses("own", "place/copy", "no permission")
        self.allows("own", "place/copy", groups="--groups=5")
        self.must("setfacl", "-m", f"u:{NOBODY}:rwx", self.path("place"))
        self.allows("own", "place/copy")
        self.must("setfacl", "-m", f"u:{NOBODY}:rwx,m::rx", self.path("place"))
        self.refuses("own", "place/copy", "no permission")

    def test_what_somebody_cannot_read_is_not_cloned(self):
        self.make("own/file")
        os.chown(self.path("own"), NOBODY, NOBODY)
        os.mkdir(self.path("place"))
        os.chmod(self.path("place"), 0o777)
        os.chmod(self.path("own"), 0o300)
        self.refuses("own", "place/copy", "own: ", "no permission")
        os.chmod(self.path("own"), 0o700)
        os.mkdir(self.path("hidden"), 0o700)
        os.rename(self.path("own"), self.path("hidden/own"))
        self.refuses("hidden/own", "place/copy", "no permission")
        self.clone("hidden/own", "place/copy")

    def test_a_process_namespace_is_seen_from_above(self):
        self.make("d/file")
        self.must("unshare", "--pid", "--fork", LSMFS, "clone", self.path("d"), self.path("copy"))
        self.same("d", "copy")

    def test_a_mount_that_is_read_only_takes_none(self):
        self.make("d/file")
        shown = self.work.sub("shown")
        os.mkdir(self.path("place"))
        self.must("mount", "--bind", self.path("place"), shown)
        self.addCleanup(self.must, "umount", shown)
        self.must("mount", "-o", "remount,bind,ro", shown)
        self.not_cloned(self.path("d"), os.path.join(shown, "copy"), "read-only")
        self.must("mount", "-o", "remount,bind,rw", shown)
        self.must(LSMFS, "clone", self.path("d"), os.path.join(shown, "copy"))
        self.same("d", "place/copy")


if __name__ == "__main__":
    harness.main()
