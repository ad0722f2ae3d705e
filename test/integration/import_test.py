"""lsmfs import and mkfs -d: what is made is what tar makes of the same archive, as a whole or not at all."""

import io
import os
import random
import shutil
import signal
import stat
import subprocess
import tarfile

import harness
import trees
from harness import LSMFS, MiB, call, in_child, outcome, until
from trees import NOBODY


class Import(trees.TreeCase):
    def setUp(self):
        super().setUp()
        self.native_point = self.native(512 * MiB)
        self.must("chmod", "755", self.native_point)

    def fill(self, top):
        """Directories, files of many sizes, and what else there is."""
        draw = random.Random(1)
        os.makedirs(top)
        for number in range(120):
            path = os.path.join(top, f"d{number % 7}/e{number % 5}/f{number}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(draw.randbytes(draw.choice((0, 10, 511, 512, 4096, 70_000))))
        with open(os.path.join(top, "large"), "wb") as file:
            file.write(draw.randbytes(9 * MiB + 5))
        with open(os.path.join(top, "sparse"), "wb") as file:
            file.seek(3 * MiB)
            file.write(b"middle")
            file.truncate(40 * MiB)
        deep = os.path.join(top, *["a name of forty characters or some more"] * 8)
        os.makedirs(deep)
        for name in ("ünïcödé 日本", "n" * 255, " spaces  and\ttab\nand newline", "-dash", "."*3):
            with open(os.path.join(deep, name), "w", encoding="utf-8") as file:
                file.write(name)
        with open(os.fsencode(top) + b"/no\xffutf8", "w", encoding="utf-8"):
            pass
        os.makedirs(os.path.join(top, "empty"))
        os.symlink("../large", os.path.join(top, "d1/link"))
        os.symlink("/" + "t" * 300, os.path.join(top, "d1/long link"))
        os.mkfifo(os.path.join(top, "d1/fifo"))
        os.mknod(os.path.join(top, "d1/null"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.mknod(os.path.join(top, "d1/block"), stat.S_IFBLK | 0o600, os.makedev(7, 300))
        os.link(os.path.join(top, "d1/e1/f1"), os.path.join(top, "d2/of f1"))
        os.link(os.path.join(top, "d1/e1/f1"), os.path.join(top, "d3/of f1 too"))
        os.chmod(os.path.join(top, "d3/e3/f3"), 0o4751)
        os.chmod(os.path.join(top, "d4"), 0o2750)
        os.chmod(os.path.join(top, "d5"), 0o1777)
        os.chown(os.path.join(top, "d4/e4/f4"), 3_000_000, 4_000_000)
        os.utime(os.path.join(top, "d5/e0/f5"), ns=(10 ** 18, 10 ** 18 + 1))
        os.utime(os.path.join(top, "d6/e1/f6"), ns=(-5 * 10 ** 9, -5 * 10 ** 9))
        os.chmod(os.path.join(top, "d6"), 0o555)

    def attribute(self, top):
        os.setxattr(os.path.join(top, "d3"), "user.small", b"value")
        os.setxattr(os.path.join(top, "d3/e3/f3"), "user.large", b"v" * 3000)
        os.setxattr(os.path.join(top, "d3/e3/f3"), "trusted.root", b"\0\1\2")
        self.must("setfacl", "-m", "u:7:rwx,g:8:r,d:u:9:r-x", os.path.join(top, "d0"))
        self.must("setfacl", "-m", "u:7:r", os.path.join(top, "d0/e0/f0"))

    def facts(self, top, directory_times=True):
        """{path below: all that a copy has in common with it}. Files that are one have the first one's path."""
        files, found = {}, {}
        for folder, folders, names in os.walk(os.fsencode(top)):
            folders.sort()
            for name in [b".", *sorted(folders + names)]:
                path = os.path.normpath(os.path.join(folder, name))
                below = os.path.relpath(path, os.fsencode(top))
                if below in found:
                    continue
                of = os.lstat(path)
                xattrs = {key: os.getxattr(path, key, follow_symlinks=False) for key in os.listxattr(path, follow_symlinks=False)}
                contents = None
                if stat.S_ISREG(of.st_mode):
                    with open(path, "rb") as file:
                        contents = hash(file.read())
                elif stat.S_ISLNK(of.st_mode):
                    contents = os.readlink(path)
                directory = stat.S_ISDIR(of.st_mode)
                found[below] = (files.setdefault(of.st_ino, below), of.st_mode, of.st_nlink, of.st_uid, of.st_gid, of.st_rdev, None if directory else of.st_size,
                                of.st_mtime_ns if directory_times or not directory else None, contents, xattrs)
        return found

    def same(self, top, other, directory_times=True):
        """`other`: a directory, or its facts."""
        a = self.facts(top, directory_times)
        b = other if isinstance(other, dict) else self.facts(other, directory_times)
        self.assertEqual({path: a.get(path) for path in {*a, *b} if a.get(path) != b.get(path)}, {path: b.get(path) for path in {*a, *b} if a.get(path) != b.get(path)})

    def tar(self, source, *options):
        archive = os.path.join(self.work.path, f"{len(os.listdir(self.work.path))}.tar")
        self.must("tar", "-cf", archive, *options, "-C", source, ".")
        return archive

    def extracted(self, archive, *options):
        """What tar makes of it, on a file system of the kernel's."""
        self.extractions = getattr(self, "extractions", 0) + 1
        where = os.path.join(self.native_point, f"extracted{self.extractions}")
        os.mkdir(where)
        self.must("tar", "-xpf", archive, "-C", where, *options)
        return where

    def imported(self, archive, name):
        done = call(LSMFS, "import", archive, self.path(name))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.path(name)

    def not_imported(self, archive, *says, target="refused"):
        """It is refused in one line, and nothing is there, or left over."""
        before = trees.names(self.lsmfs.point)
        self.refused(LSMFS, "import", archive, self.path(target), says=says, codes=[1])
        self.assertEqual(trees.names(self.lsmfs.point), before)

    def archive_of(self, *members):
        """[(TarInfo, data)] as an archive."""
        archive = os.path.join(self.work.path, f"made{len(os.listdir(self.work.path))}.tar")
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as out:
            for member, data in members:
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))
        return archive

    @staticmethod
    def member(name, kind=tarfile.REGTYPE, target=""):
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        return member


class Same(Import):
    def test_as_tar_makes_it(self):
        source = os.path.join(self.native_point, "source")
        self.fill(source)
        self.attribute(source)
        expected = None
        for number, options in enumerate((["--format=pax", "--xattrs", "--xattrs-include=*", "--acls"], ["--format=gnu"], ["--format=pax", "--sparse"],
                                          ["--format=gnu", "--sparse"], ["--format=pax", "--sort=name"], ["--format=gnu", "-z"], ["--format=gnu", "-J"],
                                          ["--format=gnu", "--zstd"], ["--format=gnu", "-j"])):
            with self.subTest(options):
                archive = self.tar(source, *options)
                rich = ["--xattrs", "--xattrs-include=*", "--acls"] if "--acls" in options else []
                extracted = self.extracted(archive, *rich)
                # tar makes symbolic links last, and leaves new times where they are.
                self.same(self.imported(archive, f"d{number}"), extracted, False)
                if rich:
                    expected = self.facts(source)
                    self.same(self.path(f"d{number}"), expected)
                self.must("rm", "-rf", extracted)
                os.unlink(archive)
        self.check()
        self.same(self.path("d0"), expected)
        self.assertLess(os.stat(self.path("d2/sparse")).st_blocks, 1000)

    def test_a_directory_is_copied(self):
        source = os.path.join(self.native_point, "source")
        self.fill(source)
        self.attribute(source)
        self.same(self.imported(source, "d"), source)
        self.same(self.imported(source + "/", "again"), source)
        self.assertLess(os.stat(self.path("d/sparse")).st_blocks, 1000)

    def test_a_directory_by_another_name(self):
        source = os.path.join(self.native_point, "source")
        os.makedirs(source + "/xyz")
        with open(source + "/xyz/file", "wb") as file:
            file.write(b"data")
        os.symlink("source", source + "-link")
        for number, name in enumerate((source + "//", source + "-link", source + "/./")):
            self.same(self.imported(name, f"d{number}"), source)

    def test_what_others_have_is_left_out(self):
        other = self.archive_of()
        with tarfile.open(other, "w", format=tarfile.PAX_FORMAT) as out:
            member = self.member("f")
            member.pax_headers = {"SCHILY.xattr.com.apple.provenance": "x", "SCHILY.xattr.user.kept": "value",
                                  "SCHILY.acl.access": "user::rw-,user:nobodyatall:rwx,group::r--,mask::rwx,other::r--"}
            out.addfile(member, io.BytesIO(b""))
        done = call(LSMFS, "import", other, self.path("d"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("left out attributes of other systems", done.stderr)
        self.assertEqual(os.listxattr(self.path("d/f")).count("user.kept"), 1)

    def test_old_formats_and_absolute_paths(self):
        self.make("v7/a/f", b"data")
        archive = os.path.join(self.work.path, "v7.tar")
        for kind in ("v7", "ustar", "oldgnu"):
            self.must("tar", "-cPf", archive, f"--format={kind}", self.path("v7"))
            done = call(LSMFS, "import", archive, self.path(kind + "-made"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn("begin with a slash", done.stderr)
            self.assertEqual(self.read(os.path.join(kind + "-made", self.path("v7").lstrip("/"), "a/f")), b"data")

    def test_by_standard_input(self):
        archive = self.archive_of((self.member("a/f"), b"data"))
        with open(archive, "rb") as file:
            done = subprocess.run([LSMFS, "import", "-", self.path("d")], stdin=file, capture_output=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"1 files", done.stdout)
        self.assertEqual(self.read("d/a/f"), b"data")

    def test_by_somebody_else(self):
        source = os.path.join(self.native_point, "source")
        self.fill(source)
        os.unlink(os.path.join(source, "d1/null"))
        os.unlink(os.path.join(source, "d1/block"))
        os.setxattr(os.path.join(source, "d3"), "user.small", b"value")
        archive = self.tar(source, "--format=pax", "--xattrs")
        os.chmod(archive, 0o644)
        os.mkdir(self.path("his"))
        os.chown(self.path("his"), NOBODY, NOBODY)
        his = os.path.join(self.native_point, "his")
        os.mkdir(his)
        os.chown(his, NOBODY, NOBODY)

        def as_nobody(*command):
            return in_child(lambda: call(*command).returncode, user=NOBODY)
        os.chmod(self.work.path, 0o755)
        self.assertEqual(as_nobody(LSMFS, "import", archive, self.path("his/d")), 0)
        os.mkdir(his + "/d")
        os.chown(his + "/d", NOBODY, NOBODY)
        self.assertEqual(as_nobody("tar", "-xf", archive, "--xattrs", "-C", his + "/d"), 0)
        self.same(self.path("his/d"), his + "/d", False)
        os.mkdir(self.path("roots"))
        self.assertEqual(as_nobody(LSMFS, "import", archive, self.path("roots/d")), 1)
        self.assertEqual(os.listdir(self.path("roots")), [])
        devices = self.archive_of((self.member("null", tarfile.CHRTYPE), b""))
        os.chmod(devices, 0o644)
        self.assertEqual(as_nobody(LSMFS, "import", devices, self.path("his/e")), 1)
        self.assertEqual(os.listdir(self.path("his")), ["d"])

    def test_a_new_file_system_with_files_in_it(self):
        source = os.path.join(self.native_point, "source")
        self.fill(source)
        self.attribute(source)
        archive = self.tar(source, "--format=pax", "--xattrs", "--xattrs-include=*", "--acls")
        self.lsmfs.umount()
        self.lsmfs.wait_for_end()
        for of in (archive, source):
            self.must(LSMFS, "mkfs", "-f", "-d", of, self.lsmfs.device)
            self.must(LSMFS, "fsck", self.lsmfs.device)
            self.lsmfs.mount()
            self.same(self.lsmfs.point, source)
            self.lsmfs.umount()
            self.lsmfs.wait_for_end()
        image = os.path.join(self.work.path, "image")
        self.refused(LSMFS, "mkfs", "-d", "/no/such", "--size", "128M", image, says=["/no/such", "does not exist"], codes=[1])
        self.assertFalse(os.path.exists(image))
        self.refused(LSMFS, "mkfs", "-d", self.archive_of((self.member("f"), random.Random(1).randbytes(160 * MiB))), "--size", "128M", image,
                     says=["no space left"], codes=[1])
        self.assertFalse(os.path.exists(image))
        self.lsmfs.mount()


class Refused(Import):
    def test_bad_archives(self):
        good = self.archive_of((self.member("a/f"), b"data" * 1000), (self.member("g"), b"data"))
        with open(good, "rb") as file:
            whole = file.read()

        def with_bytes(contents):
            path = os.path.join(self.work.path, "bad.tar")
            with open(path, "wb") as out:
                out.write(contents)
            return path
        self.not_imported(with_bytes(b"nothing of the kind " * 100), "is no tar archive")
        self.not_imported(with_bytes(b""), "is no tar archive")
        self.not_imported(with_bytes(whole[:1000]), "bad.tar")
        damaged = bytearray(whole)
        damaged[3 * 512 + 4096 + 150] ^= 0xff  # a header's checksum
        self.not_imported(with_bytes(bytes(damaged)), "bad.tar")
        self.not_imported("/no/such.tar", "does not exist")
        self.not_imported(self.archive_of((self.member("../f"), b"x")), "../f", "leads out")
        self.not_imported(self.archive_of((self.member("a/../../f"), b"x")), "leads out")
        self.not_imported(self.archive_of((self.member("f"), b"x"), (self.member("g", tarfile.LNKTYPE, "../../etc/passwd"), b"")), "leads out")
        self.not_imported(self.archive_of((self.member("g", tarfile.LNKTYPE, "f"), b"")), "f: is a link to what the archive does not have")
        self.not_imported(self.archive_of((self.member("l", tarfile.SYMTYPE, "/etc"), b""), (self.member("l/passwd"), b"x")), "l: is no directory")
        self.not_imported(self.archive_of((self.member("n" * 300), b"x")), "too long")
        self.assertFalse(os.path.exists("/etc/f"))

    def test_many_links_to_nothing(self):
        archive = os.path.join(self.work.path, "links.tar")
        with tarfile.open(archive, "w") as out:
            for number in range(5000):
                out.addfile(self.member(f"l{number}", tarfile.LNKTYPE, "nothing"))
        self.not_imported(archive, "nothing: is a link")

    def test_bad_places(self):
        good = self.archive_of((self.member("f"), b"data"))
        self.make("there/file")
        self.not_imported(good, "exists already", target="there")
        self.not_imported(good, "exists already", target="there/file")
        self.not_imported(good, "does not exist", target="no/such/place")
        self.not_imported(good, "is not a directory", target="there/file/below")
        self.not_imported(good, "too long", target="n" * 300)
        self.refused(LSMFS, "import", good, os.path.join(self.native_point, "d"), says=["is not in an lsmfs"], codes=[1])
        self.must(LSMFS, "snapshot", self.path("there"), "kept")
        self.not_imported(good, "snapshot", target=".snapshots/kept/d")
        self.lsmfs.remount("ro")
        self.not_imported(good, "read-only")

    def test_a_full_disk(self):
        archive = self.archive_of(*[(self.member(f"d/f{number}"), random.Random(number).randbytes(40 * MiB)) for number in range(25)])
        self.make("kept", b"kept")
        self.not_imported(archive, "no space left")
        self.check()
        self.assertEqual(self.read("kept"), b"kept")


class Ends(Import):
    """However an import ends early, nothing of it is there."""

    def begun(self):
        """A process that imports, and has sent some MiB but not all."""
        importing = subprocess.Popen([LSMFS, "import", "-", self.path("d")], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(importing.stderr.close)
        self.addCleanup(lambda: outcome(importing.stdin.close))
        member = self.member("a/f")
        member.size = 64 * MiB
        importing.stdin.write(member.tobuf())
        importing.stdin.write(random.Random(1).randbytes(16 * MiB))
        importing.stdin.flush()
        return importing

    def all_gone(self):
        until(lambda: "removed:" not in self.must(LSMFS, "info", self.lsmfs.point), "the end of what was imported")
        self.assertEqual(trees.names(self.lsmfs.point), [])

    def test_it_is_killed(self):
        for how in (signal.SIGKILL, signal.SIGINT):
            importing = self.begun()
            importing.send_signal(how)
            self.assertEqual(importing.wait(60), -how)
            importing.stdin.close()
            self.all_gone()
        self.check()

    def test_its_input_ends(self):
        importing = self.begun()
        importing.stdin.close()
        self.assertEqual(importing.wait(60), 1)
        self.assertIn(b"runcated", importing.stderr.read())
        self.all_gone()

    def test_the_daemon_is_killed(self):
        importing = self.begun()
        for pid, _ in self.lsmfs.daemons():
            if pid != importing.pid:
                os.kill(pid, signal.SIGKILL)
        until(lambda: [pid for pid, _ in self.lsmfs.processes()] in ([], [importing.pid]), "the end of the daemon")
        try:
            importing.stdin.write(bytes(48 * MiB + 10240))
        except BrokenPipeError:
            pass
        self.assertEqual(importing.wait(60), 1)
        said = importing.stderr.read().decode()
        self.assertEqual(said.count("\n"), 1, said)
        self.must("umount", "-l", self.lsmfs.point)
        self.must(LSMFS, "fsck", self.lsmfs.device)
        self.lsmfs.mount()
        self.all_gone()

    def test_it_is_unmounted(self):
        importing = self.begun()
        self.must("umount", "-l", self.lsmfs.point)
        importing.kill()
        importing.wait(60)
        importing.stdin.close()
        self.lsmfs.wait_for_end()
        self.must(LSMFS, "fsck", self.lsmfs.device)
        self.lsmfs.mount()
        self.all_gone()

    def test_others_go_on_meanwhile(self):
        importing = self.begun()
        self.make("beside/f", b"data")
        os.rename(self.path("beside"), self.path("d"))  # the place is taken
        self.must(LSMFS, "snapshot", self.lsmfs.point, "kept")
        importing.stdin.write(random.Random(2).randbytes(48 * MiB) + bytes(10240))
        importing.stdin.close()
        self.assertEqual(importing.wait(60), 1)
        self.assertIn(b"exists already", importing.stderr.read())
        self.assertEqual(trees.names(self.path("d")), [self.path("d/f")])
        self.assertEqual(os.listdir(self.path(".snapshots/kept")), ["d"])
        shutil.rmtree(self.path("d"))


if __name__ == "__main__":
    harness.main()
