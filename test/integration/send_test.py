"""lsmfs send and lsmfs receive: what is received is what was sent, also from one snapshot to the next, in parts, and after what went wrong."""

import ctypes
import json
import os
import random
import shutil
import signal
import stat
import subprocess

import clone_test
import harness
import inodes
import transfers
from harness import LSMFS, MiB, call
from inodes import APPEND, IMMUTABLE, NODUMP, SEES_HOLES, get_flags, set_flags
from trees import NOBODY
from until import until


class Send(clone_test.Clone):
    def setUp(self):
        super().setUp()
        self.other = self.volume(harness.GiB)
        self.other.mount("")
        os.mkdir(self.other.path("in"))
        self.must("chmod", "755", self.other.point)
        self.files = 0

    def snapshot(self, name, of="d"):
        self.must(LSMFS, "snapshot", self.path(of), name)
        return self.path(".snapshots", name)

    def stream(self, *words):
        """What send writes; the path of a file with it."""
        self.files += 1
        path = os.path.join(self.work.path, f"stream{self.files}")
        with open(path, "wb") as out:
            done = subprocess.run([LSMFS, "send", *words], stdout=out, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, timeout=900)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return path

    def receive(self, stream, *words, into=None):
        """Of bytes, or of a file: the exit code, and what it says."""
        data = stream
        if isinstance(stream, str):
            with open(stream, "rb") as file:
                data = file.read()
        done = subprocess.run([LSMFS, "receive", into or self.other.path("in"), *words], input=data, capture_output=True, check=False, timeout=900)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def received(self, stream, *words, into=None):
        code, out, err = self.receive(stream, *words, into=into)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(transfers.parts_in(into or self.other.path("in")), [])
        return out.rstrip("\n")

    def alike(self, sent, received):
        self.assertEqual(inodes.difference(inodes.tree(sent), inodes.tree(received)), "")


class Whole(Send):
    def test_all_that_an_inode_can_be(self):
        self.fill("d")
        os.symlink("x" * 4000, self.path("d/long link"))
        os.setxattr(self.path("d"), "trusted.of the root", b"1")
        os.setxattr(self.path("d/d1/link"), "trusted.of a link", b"2", follow_symlinks=False)
        os.setxattr(self.path("d/large"), "user.large", os.urandom(65536))
        os.setxattr(self.path("d/large"), "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
        for path, size in (("d/capable", 300_000), ("d/small capable", 5)):
            os.truncate(self.make(path, b"begin"), size)
            os.setxattr(self.path(path), "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
        os.chmod(self.path("d"), 0o1751)
        os.utime(self.path("d/d1/link"), ns=(-5, 7), follow_symlinks=False)
        os.utime(self.path("d/empty"), ns=(10 ** 18 + 3, 10 ** 18 + 5))
        set_flags(self.path("d/d0"), APPEND)
        set_flags(self.path("d/large"), IMMUTABLE | NODUMP)
        self.addCleanup(inodes.unlock, self.path("d"))
        sent = self.snapshot("s")
        received = self.received(self.stream(sent))
        self.assertEqual(received, self.other.path(".snapshots", "s"))
        self.alike(sent, received)
        self.must("diff", "-r", "--no-dereference", "--exclude", "fifo", "--exclude", "null", sent, received)
        self.assertEqual(os.listdir(self.other.path("in")), [])
        self.other.umount()
        self.other.wait_for_end()
        self.must(LSMFS, "fsck", self.other.device)
        self.other.mount("")
        self.alike(sent, received)

    def test_an_immutable_root(self):
        self.make("d/file", b"data")
        set_flags(self.path("d"), IMMUTABLE)
        self.addCleanup(inodes.unlock, self.path("d"))
        sent = self.snapshot("s")
        received = self.received(self.stream(sent))
        self.alike(sent, received)
        self.assertEqual(get_flags(received), IMMUTABLE)

    def test_a_deep_tree(self):
        top = self.path("d")
        os.mkdir(top)
        here = os.open(top, os.O_RDONLY)
        for number in range(150):
            name = f"{number} " + "n" * 60
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)
        sent = self.snapshot("s")
        received = self.received(self.stream(sent))
        self.assertEqual(call(LSMFS, "diff", sent, self.snapshot("again")).returncode, 0)
        counts = [call("find", place, "-printf", "%P %m %T@\\n").stdout for place in (sent, received)]
        self.assertEqual(counts[0], counts[1])
        self.assertEqual(counts[0].count("\n"), 152)

    def test_the_root_of_a_file_system_under_another_name(self):
        self.make_tree("a")
        sent = self.snapshot("whole", of="")
        received = self.received(self.stream(sent), "other name")
        self.assertEqual(received, self.other.path(".snapshots", "other name"))
        self.alike(sent, received)

    def test_into_the_same_file_system(self):
        self.fill("d", files=20)
        os.mkdir(self.path("in"))
        sent = self.snapshot("s")
        self.alike(sent, self.received(self.stream(sent), "t", into=self.path("in")))


    def test_what_a_directory_hands_down_is_not_received(self):
        """Its flags, its default access control list, its group and the umask are for what is made in it, and not for what is received."""
        self.fill("d", files=60)
        for number, mode in enumerate((0o644, 0o664, 0o644, 0o777, 0, 0o400, 0o2755, 0o4711, 0o600)):
            os.chmod(self.make(f"d/modes/f{number}", b"data"), mode)
        os.setxattr(self.path("d/modes/f1"), "user.name", b"value")
        self.must("setfacl", "-m", "u:7:rwx", self.path("d/modes/f2"))
        set_flags(self.path("d/modes/f3"), NODUMP)
        sent = self.snapshot("s")
        stream = self.stream(sent)
        into = self.other.path("in")
        os.chown(into, -1, 12)
        os.chmod(into, 0o2755)
        for acl in (None, "d:u:9:rwx", "d:u::r-x,d:g::-w-,d:o::--x"):
            if acl:
                self.must("setfacl", "-k", into)
                self.must("setfacl", "-m", acl, into)
            for flags in (0, NODUMP):
                set_flags(into, flags)
                name = f"{acl} {flags}".replace(":", ".")
                with open(stream, "rb") as file:
                    done = subprocess.run([LSMFS, "receive", into, name], stdin=file, capture_output=True, check=False, timeout=900, umask=0o077)
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.alike(sent, self.other.path(".snapshots", name))

    def test_a_small_file_takes_few_requests(self):
        """What the kernel asks before it makes, writes or changes something, and that: no look at what is new."""
        if "writeback" in harness.MOUNT_OPTIONS:
            self.skipTest("counts are of other requests then")
        count = 200
        sent, received = {}, {}
        for turn, files in enumerate((10, 10 + count)):
            for number in range(files):
                self.make(f"d{turn}/sub/f{number:03}", b"data" * 100)
                os.symlink("target", self.path(f"d{turn}/sub/l{number:03}"))
            for number in range(files):
                os.chmod(self.path(f"d{turn}/sub/f{number:03}"), 0o640)
            path = self.snapshot(f"s{turn}", f"d{turn}")
            before = self.requests(self.lsmfs.point), self.requests(self.other.point)
            self.received(self.stream(path))
            after = self.requests(self.lsmfs.point), self.requests(self.other.point)
            sent[turn], received[turn] = ({kind: after[side].get(kind, 0) - before[side].get(kind, 0) for kind in after[side]} for side in (0, 1))

        def each(by):
            """Requests for one file and one symbolic link more: the kernel hears of the last answers before they are counted."""
            more = {kind: round((by[1].get(kind, 0) - by[0].get(kind, 0)) / count) for kind in {**by[0], **by[1]}}
            return {kind: number for kind, number in more.items() if number > 0 and "FORGET" not in kind}

        self.assertEqual(each(sent), {"READ": 1, "IOCTL": 1, "LISTXATTR": 2, "READLINK": 1})
        made = each(received)
        self.assertLessEqual(made.pop("GETATTR", 0), 2, "of the directory, which has changed; Linux 7.2 asks no more for that")
        self.assertLessEqual(made.pop("GETXATTR", 0), 1, "of capabilities, before the data")
        self.assertEqual(made, {"LOOKUP": 2, "MKNOD": 1, "WRITE": 1, "SYMLINK": 1, "SETATTR": 2})

    def requests(self, point):
        return {kind: of["count"] for kind, of in json.loads(self.must(LSMFS, "stats", point, "--json"))["requests"].items()}


class Changed(Send):
    def test_each_kind_of_change(self):
        self.fill("d")
        os.link(self.path("d/d3/e3/f3"), self.path("d/d3/second"))
        os.link(self.path("d/d2/e0/f30"), self.path("d/a name of f30"))
        set_flags(self.path("d/d1"), NODUMP)
        first = self.snapshot("first")
        there = self.received(self.stream(first))
        self.alike(first, there)
        d = self.path("d")
        os.rename(f"{d}/d6", f"{d}/renamed d6")
        os.rename(f"{d}/renamed d6/e1", f"{d}/e1 out of d6")
        os.rename(f"{d}/d5/e0", f"{d}/renamed d6/e0 of d5")
        shutil.rmtree(f"{d}/d4")
        os.mkdir(f"{d}/d6")
        self.make("d/d6/new", b"new")
        set_flags(self.make("d/d1/new"), 0)  # which inherits a flag
        os.rename(f"{d}/d3/e3/f38", f"{d}/d3/e3/f73")  # one that is there goes
        os.unlink(f"{d}/d1/link")
        os.mkdir(f"{d}/d1/link")
        os.mkdir(f"{d}/to be a file")
        os.rmdir(f"{d}/to be a file")
        with open(f"{d}/large", "r+b") as file:
            file.seek(2 * MiB + 5)
            file.write(b"changed")
        os.truncate(f"{d}/d0/sparse", 10 * MiB + 1)
        os.chmod(f"{d}/d3/e3/f3", 0o600)
        os.unlink(f"{d}/d3/second")
        os.link(f"{d}/d3/e3/f3", f"{d}/third")
        os.removexattr(f"{d}/d3", "user.small")
        os.setxattr(f"{d}/d1", "user.new", b"value")
        os.utime(f"{d}/empty", ns=(5, 6))
        set_flags(f"{d}/d2", IMMUTABLE)
        self.addCleanup(inodes.unlock, d)
        second = self.snapshot("second")
        stream = self.stream("-i", first, second)
        self.alike(second, self.received(stream))
        self.alike(first, there)
        set_flags(f"{d}/d2", 0)
        self.make("d/d2/in what was immutable")
        os.unlink(f"{d}/d2/of f1")
        set_flags(f"{d}/d2", IMMUTABLE)
        third = self.snapshot("third")
        self.alike(third, self.received(self.stream("-i", second, third)))

    def test_a_swap_of_names(self):
        for name in "abc":
            self.make(f"d/{name}", name.encode() * 100000)
            os.mkdir(self.path(f"d/folder {name}"))
            self.make(f"d/folder {name}/x", name.encode())
        first = self.snapshot("first")
        self.received(self.stream(first))
        for before in ("", "folder "):
            os.rename(self.path(f"d/{before}a"), self.path("d/t"))
            os.rename(self.path(f"d/{before}b"), self.path(f"d/{before}a"))
            os.rename(self.path(f"d/{before}c"), self.path(f"d/{before}b"))
            os.rename(self.path("d/t"), self.path(f"d/{before}c"))
        second = self.snapshot("second")
        self.alike(second, self.received(self.stream("-i", first, second)))

    def test_files_with_capabilities_get_another_size(self):
        sizes = {"shrinks": 10, "grows": 500_000}
        def capable(name):
            os.setxattr(self.path("d", name), "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
        for name in sizes:
            self.make(f"d/{name}", name.encode() * 10000)
            capable(name)
        first = self.snapshot("first")
        self.received(self.stream(first))
        for name, size in sizes.items():
            os.truncate(self.path("d", name), size)
            capable(name)
        second = self.snapshot("second")
        received = self.received(self.stream("-i", first, second))
        self.alike(second, received)
        self.assertEqual(os.listxattr(os.path.join(received, "grows")), ["security.capability"])

    def test_locked_files_that_are_moved(self):
        self.make("d/file", b"data")
        self.make("d/appended", b"data")
        self.make("d/folder/below", b"data")
        os.mkdir(self.path("d/other"))
        self.addCleanup(inodes.unlock, self.path("d"))
        names = {"file": ("other/file", IMMUTABLE), "appended": ("appended too", APPEND), "folder": ("other/folder", IMMUTABLE)}
        for name, (_, flags) in names.items():
            set_flags(self.path("d", name), flags)
        first = self.snapshot("first")
        self.received(self.stream(first))
        for name, (new, flags) in names.items():
            set_flags(self.path("d", name), 0)
            os.rename(self.path("d", name), self.path("d", new))
            set_flags(self.path("d", new), flags)
        second = self.snapshot("second")
        received = self.received(self.stream("-i", first, second))
        self.alike(second, received)
        self.assertEqual(get_flags(os.path.join(received, "other/file")), IMMUTABLE)

    def test_names_that_change_partners(self):
        for name in ("a", "c"):
            self.make(f"d/{name}", b"the same")
        os.link(self.path("d/a"), self.path("d/b"))
        os.link(self.path("d/c"), self.path("d/d"))
        for name in ("a", "c"):
            os.utime(self.path("d", name), ns=(5, 5))
        first = self.snapshot("first")
        self.received(self.stream(first))
        os.unlink(self.path("d/b"))
        os.unlink(self.path("d/d"))
        os.link(self.path("d/a"), self.path("d/d"))
        os.link(self.path("d/c"), self.path("d/b"))
        second = self.snapshot("second")
        self.alike(second, self.received(self.stream("-i", first, second)))
        os.unlink(self.path("d/b"))
        os.unlink(self.path("d/d"))
        third = self.snapshot("third")
        self.alike(third, self.received(self.stream("-i", second, third)))

    def test_costs_what_differs(self):
        self.make_tree("d")
        first = self.snapshot("first")
        self.received(self.stream(first))
        self.make("d/new", b"x" * 1000)
        second = self.snapshot("second")
        self.assertLess(os.path.getsize(self.stream("-i", first, second)), 4000)
        self.assertLess(os.path.getsize(self.stream("-i", second, self.snapshot("same"))), 500)

    def test_a_large_file_costs_what_differs_in_it(self):
        data = os.urandom(20 * MiB)
        self.make("d/large", data)
        os.truncate(self.make("d/sparse", b"begin" * 100000), 40 * MiB)
        first = self.snapshot("first")
        self.received(self.stream(first))
        with open(self.path("d/large"), "r+b") as file:
            for at in (0, 5 * MiB + 77, 20 * MiB - 3):
                file.seek(at)
                file.write(b"changed")
        with open(self.path("d/sparse"), "r+b") as file:
            file.seek(30 * MiB)
            file.write(b"in a hole")
        os.rename(self.path("d/large"), self.path("d/larger"))
        second = self.snapshot("second")
        stream = self.stream("-i", first, second)
        if SEES_HOLES:
            self.assertLess(os.path.getsize(stream), 100_000)
        self.alike(second, self.received(stream))
        self.must("fallocate", "-p", "-o", 8192, "-l", MiB, self.path("d/larger"))
        os.truncate(self.path("d/sparse"), 300_001)
        os.truncate(self.path("d/sparse"), 50 * MiB)
        third = self.snapshot("third")
        stream = self.stream("-i", second, third)
        if SEES_HOLES:
            self.assertLess(os.path.getsize(stream), 100_000)
        self.alike(third, self.received(stream))

    def test_a_hole_at_the_end_of_what_was_longer(self):
        path = self.make("d/file", bytes(range(1, 251)) * 1200)
        os.mkdir(self.path("d", "e"))
        last = self.snapshot("a")
        self.received(self.stream(last))
        os.truncate(path, 73_728)
        os.truncate(path, 121_484)
        now = self.snapshot("b")
        self.alike(now, self.received(self.stream("-i", last, now)))

    def test_there_and_back_again(self):
        self.fill("d", files=50)
        first = self.snapshot("first")
        there = self.received(self.stream(first))
        self.must(LSMFS, "clone", there, self.other.path("work"))
        with open(self.other.path("work/new"), "wb") as file:
            file.write(b"made there")
        self.must(LSMFS, "snapshot", self.other.path("work"), "made there")
        os.mkdir(self.path("in"))
        back = self.received(self.stream("-i", there, self.other.path(".snapshots/made there")), into=self.path("in"))
        self.alike(self.other.path(".snapshots/made there"), back)
        # A changed clone of what was received is not what was received.
        made = self.stream("-i", self.other.path(".snapshots/made there"), there)
        self.must(LSMFS, "rm", "-r", back)
        code, _, said = self.receive(made, "x", into=self.path("in"))
        self.assertEqual((code, said.count("\n")), (6, 1), said)
        self.assertRegex(said, "goes on from the snapshot made there, made 20.* UTC, which is not here")

    def change(self, draw, folder):
        """Some random change."""
        files, folders = [], [folder]
        for at, below, names in os.walk(folder):
            folders += [os.path.join(at, name) for name in below]
            files += [os.path.join(at, name) for name in names]
        plain = [path for path in files if os.path.isfile(path) and not os.path.islink(path)]
        fresh = os.path.join(draw.choice(folders), f"new{draw.randrange(10 ** 6)}")
        what = draw.randrange(16)
        if what == 0 or not plain or len(folders) < 3:
            with open(fresh, "wb") as new:
                new.write(draw.randbytes(draw.randrange(1, 300000)))
        elif what == 1:
            os.mkdir(fresh)
        elif what == 2:
            with open(draw.choice(plain), "r+b") as old:
                old.seek(draw.randrange(400000))
                old.write(draw.randbytes(draw.randrange(1, 50000)))
        elif what == 3:
            os.unlink(draw.choice(files))
        elif what == 4:
            os.chmod(draw.choice(plain + folders), draw.choice([0o600, 0o640, 0o755, 0o4755]))
        elif what == 5:
            os.symlink(f"to {draw.random()}", fresh)
        elif what == 6 and len(folders) > 6:
            shutil.rmtree(draw.choice(folders[1:]))
        elif what in (7, 8):
            os.link(draw.choice(files), fresh)
        elif what in (9, 10):
            old = draw.choice(files + folders[1:])
            if not (fresh + "/").startswith(old + "/"):
                os.rename(old, fresh)
        elif what == 11:
            os.rename(*draw.sample(files, 2) if len(files) > 1 else (files[0], fresh))
        elif what == 12:
            os.setxattr(draw.choice(plain + folders), f"user.{draw.randrange(3)}", draw.randbytes(draw.choice((1, 30, 3000))))
        elif what == 13:
            os.truncate(draw.choice(plain), draw.randrange(500000))
        elif what == 14:
            path = draw.choice(files)
            os.unlink(path)
            draw.choice((os.mkdir, os.mkfifo))(path)
        elif what == 15:
            os.utime(draw.choice(files + folders), ns=(draw.randrange(10 ** 18), draw.randrange(10 ** 18)), follow_symlinks=False)

    def test_a_chain_of_random_changes(self):
        draw = random.Random(harness.SEED)
        harness.print_seed(self)
        self.fill("d", files=40)
        last = self.snapshot("s0")
        self.received(self.stream(last))
        for turn in range(1, 25):
            for _ in range(draw.choice((1, 5, 20))):
                self.change(draw, self.path("d"))
            now = self.snapshot(f"s{turn}")
            there = self.received(self.stream("-i", last, now))
            self.alike(now, there)
            if draw.randrange(3) == 0:
                whole = self.received(self.stream(now), f"whole{turn}")
                self.alike(now, whole)
                self.must(LSMFS, "rm", "-r", whole)  # only one of them can be a base
            last = now


class Interrupted(Send):
    def frames(self, stream):
        """Where each record of a stream ends; the first is that which says what it is."""
        with open(stream, "rb") as file:
            data = file.read()
        return data, transfers.ends_of_frames(data)

    def small(self):
        """Two snapshots with a few changes of each kind between them, and that the first one has been received."""
        for name in ("a", "b", "c/x", "c/y", "gone/below"):
            self.make(f"d/{name}", name.encode() * 3000)
        os.link(self.path("d/a"), self.path("d/c/of a"))
        first = self.snapshot("first")
        self.received(self.stream(first))
        shutil.rmtree(self.path("d/gone"))
        os.rename(self.path("d/c"), self.path("d/e"))
        os.rename(self.path("d/b"), self.path("d/e/z"))
        os.unlink(self.path("d/a"))
        os.link(self.path("d/e/x"), self.path("d/a"))
        self.make("d/new/file", b"new" * 1000)
        os.setxattr(self.path("d/e"), "user.x", b"value")
        os.chmod(self.path("d/e/y"), 0o600)
        set_flags(self.path("d/new"), IMMUTABLE)
        self.addCleanup(inodes.unlock, self.path("d"))
        return first, self.snapshot("second")

    def tokens(self):
        done = call(LSMFS, "receive", "-t", self.other.path("in"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def remove(self, received):
        self.must(LSMFS, "rm", "-r", received)
        self.assertEqual(os.listdir(self.other.path("in")), [])

    def test_at_each_record(self):
        first, second = self.small()
        stream = self.stream("-i", first, second)
        data, ends = self.frames(stream)
        self.assertGreater(len(ends), 20)
        for number, end in enumerate(ends[:-1]):
            code, out, said = self.receive(data[:end + number % 20])  # not all cuts are between records
            self.assertEqual((code, out, said.count("\n")), (5, "", 1), said)
            self.assertIn("ends too early; what came before", said)
            self.assertNotIn("second", os.listdir(self.other.path(".snapshots")))
            if number % 3 == 0:
                received = self.received(stream)  # the same from its beginning
            else:
                received = self.received(self.stream("-i", first, second, "--resume", *self.tokens()))
            self.alike(second, received)
            self.remove(received)

    def test_at_the_end(self):
        """Nothing of the end record is kept: what fails there can be done again, and is asked again."""
        first, second = self.small()
        stream = self.stream("-i", first, second)
        data, ends = self.frames(stream)
        with subprocess.Popen([LSMFS, "receive", self.other.path("in")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdin.write(data[:ends[-2]])
            process.stdin.flush()
            until(lambda: any(os.path.exists(self.other.path("in", name)) for name in os.listdir(self.other.path("in"))), "the receiver")
            self.must(LSMFS, "snapshot", self.other.path("in"), "second")
            process.stdin.write(data[ends[-2]:])
            process.stdin.close()
            said = process.stderr.read().decode()
            self.assertEqual((process.wait(), said.count("\n")), (1, 1), said)
        self.assertIn("second: exists already; give another name; what came before", said)
        self.must(LSMFS, "rm", "-r", self.other.path(".snapshots/second"))
        self.alike(second, self.received(self.stream("-i", first, second, "--resume", *self.tokens()), "by another name"))

    def test_an_end_that_says_something_else(self):
        try:
            library = ctypes.CDLL("libxxhash.so.0")
        except OSError:
            self.skipTest("there is no xxHash to make streams with")
        xxh3 = library.XXH3_64bits_withSeed
        xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
        first, second = self.small()
        data, ends = self.frames(self.stream("-i", first, second))

        def ended(records, size):
            """The stream with so many records and another end. Both numbers are small varints."""
            def varint(number):
                return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])
            before = data[:ends[records]]
            payload = varint(records) + varint(size)
            header = len(payload).to_bytes(4, "little") + b"\x0d\0\0\0"
            at = ends[records - 1]
            chain = int.from_bytes(before[at + 8:at + 16], "little")
            check = xxh3(payload, len(payload), xxh3(header, 8, chain))
            return before + header + check.to_bytes(8, "little") + payload
        last = len(ends) - 2
        for _ in range(3):
            code, out, said = self.receive(ended(last, 5))
            self.assertEqual((code, out, said.count("\n")), (2, "", 1), said)
            self.assertIn("has not as much data as it says", said)
        for records in (last - 3, last - 1):
            code, out, said = self.receive(ended(records, 3000))
            self.assertEqual((code, out, said.count("\n")), (1, "", 1), said)
            self.assertIn("keeps a part of another stream", said)
        self.assertNotIn("second", os.listdir(self.other.path(".snapshots")))
        self.alike(second, self.received(data))

    def test_by_a_change_of_any_byte_nothing_wrong_is_received(self):
        first, second = self.small()
        stream = self.stream("-i", first, second)
        data, _ = self.frames(stream)
        draw = random.Random(harness.SEED)
        harness.print_seed(self)
        for at in [0, 8, 12, 16, 20, 24, *draw.sample(range(len(data)), 40)]:
            changed = bytearray(data)
            changed[at] ^= 1 << draw.randrange(8)
            code, out, said = self.receive(bytes(changed))
            self.assertIn(code, (2, 3, 4, 5))
            self.assertEqual((out, said.count("\n")), ("", 1), said)
            self.assertNotIn("second", os.listdir(self.other.path(".snapshots")))
        self.alike(second, self.received(stream))

    def test_by_a_signal(self):
        self.make("d/large", os.urandom(5 * MiB))
        sent = self.snapshot("s")
        stream = self.stream(sent)
        with open(stream, "rb") as file:
            data = file.read()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            process = subprocess.Popen([LSMFS, "receive", self.other.path("in")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            with process:
                process.stdin.write(data[:3 * MiB])
                process.stdin.flush()
                until(lambda: any(os.path.exists(self.other.path("in", name, "part/tree/large")) for name in os.listdir(self.other.path("in"))), "the file")
                process.send_signal(number)
                self.assertEqual(process.wait(), -number)
                said = process.stderr.read().decode()
            self.assertEqual("kept in" in said, number != signal.SIGKILL, said)
        self.alike(sent, self.received(stream))

    def test_by_a_crash(self):
        first, second = self.small()
        self.make("d/large", os.urandom(100 * MiB))
        third = self.snapshot("third")
        self.received(self.stream("-i", first, second))
        stream = self.stream("-i", second, third)
        with open(stream, "rb") as file:
            data = file.read()
        for part in (10_000, 40 * MiB, 80 * MiB):
            process = subprocess.Popen([LSMFS, "receive", self.other.path("in")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            with process:
                process.stdin.write(data[:part])
                process.stdin.flush()
                self.other.kill()
                process.stdin.close()
                self.assertNotEqual(process.wait(), 0)
            self.other.mount("")
        self.alike(third, self.received(stream))

    def test_by_a_disk_that_is_full(self):
        self.make("d/large", os.urandom(100 * MiB))
        sent = self.snapshot("s")
        small = self.volume(256 * MiB)
        small.mount("")
        os.mkdir(small.path("in"))
        with open(small.path("filler"), "wb") as file:
            file.write(os.urandom(100 * MiB))
        stream = self.stream(sent)
        code, out, said = self.receive(stream, into=small.path("in"))
        self.assertEqual((code, out, said.count("\n")), (1, "", 1), said)
        self.assertRegex(said, ": no space left on the device; what came before, .* of data, is kept in .*/in/.receiving")
        os.unlink(small.path("filler"))
        done = call(LSMFS, "receive", "-t", small.path("in"))
        self.assertEqual(done.returncode, 0)
        rest = self.stream("--resume", done.stdout.strip(), sent)
        if SEES_HOLES:  # with writeback the kernel tells later that there is no space, and of less it is known that it is there
            self.assertLess(os.path.getsize(rest), os.path.getsize(stream) - 20 * MiB)
        code, out, said = self.receive(rest, into=small.path("in"))
        self.assertEqual((code, said), (0, ""))
        self.alike(sent, out.rstrip("\n"))

    def test_from_a_mount_that_tells_of_other_holes(self):
        os.truncate(self.make("d/sparse", b"begin"), 5 * MiB)
        sent = self.snapshot("s")
        stream = self.stream(sent)
        data, ends = self.frames(stream)
        self.assertEqual(self.receive(data[:ends[4]])[0], 5)
        self.lsmfs.remount("writeback" if SEES_HOLES else "")
        if not SEES_HOLES:
            return
        done = call(LSMFS, "send", "--resume", *self.tokens(), sent)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
        self.assertIn("sent from a mount without -o writeback", done.stderr)
        code, _, said = self.receive(self.stream(sent))
        self.assertEqual((code, said.count("\n")), (1, 1))
        self.assertIn("keeps a part of another stream of this snapshot", said)
        self.received(stream)

    def test_given_up(self):
        first, second = self.small()
        data, ends = self.frames(self.stream("-i", first, second))
        self.assertEqual(self.receive(data[:ends[9]])[0], 5)
        [left] = os.listdir(self.other.path("in"))
        self.must(LSMFS, "rm", "-r", self.other.path("in", left))
        self.refused(LSMFS, "receive", "-t", self.other.path("in"), says=["nothing is received there in part"], codes=[1])
        code, _, said = self.receive(self.stream("-i", first, second, "--resume", self.token_after(data, ends)))
        self.assertEqual(code, 1)
        self.assertIn("has less than what the stream goes on from", said)

    def token_after(self, data, ends):
        """Of a part that is received elsewhere."""
        os.mkdir(self.other.path("elsewhere"))
        self.assertEqual(self.receive(data[:ends[5]], into=self.other.path("elsewhere"))[0], 5)
        done = call(LSMFS, "receive", "-t", self.other.path("elsewhere"))
        self.must(LSMFS, "rm", "-r", self.other.path("elsewhere"))
        return done.stdout.strip()

    def test_through_a_socket(self):
        self.fill("d", files=100)
        sent = self.snapshot("s")
        place = os.path.join(self.work.path, "socket")
        listen = ("import socket,subprocess,sys\ns=socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\nc,_=s.accept()\n"
                  "sys.exit(subprocess.call(sys.argv[2:],stdin=c))")
        connect = "import socket,subprocess,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nsys.exit(subprocess.call(sys.argv[2:],stdout=s))"
        with subprocess.Popen(["/usr/bin/python3", "-c", listen, place, LSMFS, "receive", self.other.path("in")], stdout=subprocess.PIPE) as there:
            until(lambda: os.path.exists(place), "the socket")
            self.must("/usr/bin/python3", "-c", connect, place, LSMFS, "send", sent)
            self.assertEqual(there.stdout.read().decode().strip(), self.other.path(".snapshots/s"))
            self.assertEqual(there.wait(), 0)
        self.alike(sent, self.other.path(".snapshots/s"))


class Refused(Send):
    def test_what_is_no_snapshot(self):
        self.make("d/file")
        sent = self.snapshot("s")
        out = os.path.join(self.work.path, "out")
        for path, says in ((self.path("d"), "take a snapshot of it first: lsmfs snapshot"), (os.path.join(sent, "file"), "is not a directory"), (self.path("none"), "does not exist"),
                           (self.work.path, "is not in an lsmfs that is mounted")):
            done = call("sh", "-c", f"'{LSMFS}' send '{path}' > '{out}'")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn(says, done.stderr)
            self.assertEqual(os.path.getsize(out), 0)
        for words, says in ((("-i", sent, sent), "is the snapshot that is to be its base"), (("--resume", "x", sent), "is no token")):
            done = call(LSMFS, "send", *words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
            self.assertIn(says, done.stderr)
        done = call("sh", "-c", f"'{LSMFS}' send '{sent}' > /dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("stdout: No space left on device", done.stderr)
        done = call("script", "-qec", f"{LSMFS} send {sent}", "/dev/null")
        self.assertIn("stdout: is a terminal", done.stdout)

    def test_what_is_no_stream(self):
        for data, code, says in ((b"", 5, "no stream comes"), (b"hello", 3, "is no stream of lsmfs send"), (b"\x89lsmfs\r\n\2\0\0\0\0\0\0\0", 4, "newer version"), (b"\x89lsm", 5, "ends too early")):
            found, out, said = self.receive(data)
            self.assertEqual((found, out, said.count("\n")), (code, "", 1), said)
            self.assertIn(says, said)
        self.assertEqual(os.listdir(self.other.path("in")), [])

    def test_places(self):
        self.make("d/file")
        stream = self.stream(self.snapshot("s"))
        elsewhere = self.work.sub("elsewhere")
        os.makedirs(elsewhere, exist_ok=True)
        received = self.received(stream)
        for words, into, says in (((), None, "has been received already"), (("a/b",), None, "is a path"), ((), elsewhere, "is not in an lsmfs that is mounted"), ((), received, "snapshot"),
                                  ((), os.path.join(received, "file"), "is not a directory")):
            name = words or (() if into is None or into == elsewhere else ("t",))
            code, out, said = self.receive(stream, *name, into=into)
            self.assertEqual((code, out, said.count("\n")), (1, "", 1), said)
            self.assertIn(says, said)
        os.mkdir(self.other.path("other"))
        self.must(LSMFS, "snapshot", self.other.path("other"), "taken")
        code, _, said = self.receive(stream, "taken")
        self.assertEqual(code, 1)
        self.assertIn("taken: exists already; give another name", said)
        self.assertEqual(os.listdir(self.other.path("in")), [])
        self.other.remount("ro")
        code, _, said = self.receive(stream, "t")
        self.assertEqual((code, said.count("\n")), (1, 1))
        self.assertIn("read-only", said)

    def test_without_the_base(self):
        self.make("d/file")
        first = self.snapshot("first")
        second = self.snapshot("second")
        code, _, said = self.receive(self.stream("-i", first, second))
        self.assertEqual((code, said.count("\n")), (6, 1), said)
        self.assertRegex(said, r"goes on from the snapshot first, made 20\d\d-.* UTC, which is not here; receive that first")
        self.assertEqual(os.listdir(self.other.path("in")), [])

    def test_of_bases_only_one_is_taken(self):
        self.make("d/file", b"first")
        first = self.snapshot("first")
        self.make("d/file", b"second")
        second = self.snapshot("second")
        changes = self.stream("-i", first, second)
        whole = self.stream(first)
        with open(whole, "rb") as file:
            self.assertEqual(self.receive(file.read()[:-10])[0], 5)
        [name] = os.listdir(self.other.path("in"))
        # A part is none, whoever makes a snapshot of it.
        self.must(LSMFS, "snapshot", self.other.path("in", name, "part/tree"), "half")
        there = self.received(whole)
        self.must(LSMFS, "rm", "-r", self.received(changes))
        os.makedirs(self.other.path("elsewhere", name, "whole/tree"))
        self.must(LSMFS, "snapshot", self.other.path("elsewhere", name, "whole/tree"), "forged")
        code, out, said = self.receive(changes)
        self.assertEqual((code, out, said.count("\n")), (6, "", 1), said)
        for part in (f"{there}: is received as the snapshot first, made 20", "forged; remove one of them: lsmfs rm -r"):
            self.assertIn(part, said)
        self.must(LSMFS, "rm", "-r", self.other.path(".snapshots/forged"))
        self.alike(second, self.received(changes))
        # What is sent itself is known for sure.
        os.mkdir(self.path("in"))
        self.received(whole, "copy", into=self.path("in"))
        self.alike(second, self.received(changes, "changed", into=self.path("in")))

    def test_two_at_once(self):
        self.make("d/large", os.urandom(5 * MiB))
        stream = self.stream(self.snapshot("s"))
        with open(stream, "rb") as file:
            data = file.read()
        with subprocess.Popen([LSMFS, "receive", self.other.path("in")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
            first.stdin.write(data[:3 * MiB])
            first.stdin.flush()
            until(lambda: any(os.path.exists(self.other.path("in", name, "part/tree/large")) for name in os.listdir(self.other.path("in"))), "the file")
            code, _, said = self.receive(stream, "other")
            self.assertEqual(code, 1)
            self.assertIn("is being received there by another process", said)
            first.stdin.write(data[3 * MiB:])
            first.stdin.close()
            self.assertEqual(first.wait(), 0)

    def test_users(self):
        def as_nobody(*words, data=b""):
            done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", LSMFS, *words], input=data, capture_output=True, check=False)
            return done.returncode, done.stderr.decode()
        self.make("mine/file")
        for number, mode in enumerate((0, 0o400, 0o200, 0o644)):
            os.chmod(self.make(f"mine/file {number}", b"data"), mode)
        for path in ("mine", *(f"mine/{name}" for name in os.listdir(self.path("mine")))):
            os.chown(self.path(path), NOBODY, NOBODY)
        self.make("others/file")
        streams = {}
        for name in ("mine", "others"):
            with open(self.stream(self.snapshot(name, of=name)), "rb") as file:
                streams[name] = file.read()
        os.chown(self.other.path("in"), NOBODY, NOBODY)
        code, said = as_nobody("receive", self.other.path("in"), data=streams["mine"])
        self.assertEqual((code, said.count("\n")), (1, 1))
        self.assertIn("no permission to make a snapshot there", said)
        os.chmod(self.other.path(".snapshots"), 0o1777)
        self.assertEqual(as_nobody("receive", self.other.path("in"), data=streams["mine"]), (0, ""))
        self.alike(self.path(".snapshots/mine"), self.other.path(".snapshots/mine"))
        code, said = as_nobody("receive", self.other.path("in"), data=streams["others"])
        self.assertEqual((code, said.count("\n")), (1, 1), said)
        self.assertIn("belongs to user 0 and group 0, and only root may receive what belongs to others; nothing is kept", said)
        self.assertEqual(os.listdir(self.other.path("in")), [])
        # What differs is told to the owner of both, whom a directory below may still keep out.
        self.make("mine/secret/below/file")
        snapshots = []
        for name in ("m1", "m2"):
            os.chmod(self.path("mine/secret/below/file"), 0o600 if name == "m1" else 0o640)
            os.chmod(self.path("mine/secret"), 0o700)
            snapshots.append(self.snapshot(name, of="mine"))
        done = call("sh", "-c", f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups '{LSMFS}' send -i '{snapshots[0]}' '{snapshots[1]}' > /dev/null")
        self.assertEqual((done.returncode, done.stderr), (1, f"lsmfs: {snapshots[1]}/secret/below: no permission to read it\n"))
        os.chmod(self.path("others/file"), 0o600)
        kept = self.snapshot("secret", of="others")
        done = call("sh", "-c", f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups '{LSMFS}' send '{kept}' > /dev/null")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertIn("file: no permission to read it", done.stderr)


if __name__ == "__main__":
    harness.main()
