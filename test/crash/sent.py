"""What the tests of receives send: two snapshots with all that an inode can be, and with each kind of change between them."""

import os
import random
import shutil
import stat

import harness
import inodes
from harness import LSMFS, MiB
from inodes import APPEND, IMMUTABLE, NODUMP, set_flags

CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000")


def must(*command):
    done = harness.call(*command)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Sent:
    """On a volume that is mounted. `data`, `trees`: of each of the streams "whole" and "changes" the bytes, and what has to come of them.
    `owner`: whose all of it is, without what only root may give others."""

    NAMES = {"whole": "first", "changes": "second"}  # of the snapshots

    def __init__(self, volume, owner=0):
        self.volume, self._owner = volume, owner
        self._draw = random.Random(f"sent by {owner}")
        os.mkdir(volume.path("d"))
        self._begin()
        self._take("first")
        self._change()
        self._take("second")
        inodes.unlock(volume.path("d"))
        self.data = {kind: self.send(kind) for kind in self.NAMES}
        self.trees = {kind: inodes.tree(volume.path(".snapshots", name)) for kind, name in self.NAMES.items()}

    def command(self, kind):
        """What sends it."""
        first, second = (self.volume.path(".snapshots", name) for name in ("first", "second"))
        return [LSMFS, "send", *([first] if kind == "whole" else ["-i", first, second])]

    def send(self, kind, *words):
        path = os.path.join(self.volume.folder, "stream")
        must("sh", "-c", '"$@" > "$0"', path, *self.command(kind), *words)
        with open(path, "rb") as file:
            return file.read()

    def _at(self, path):
        return self.volume.path("d", path)

    def _make(self, path, size):
        at = self._at(path)
        os.makedirs(os.path.dirname(at), exist_ok=True)
        with open(at, "wb") as file:
            file.write(self._draw.randbytes(size))
        return at

    def _capable(self, path):
        if self._owner == 0:
            os.setxattr(self._at(path), "security.capability", CAPABILITY)

    def _take(self, name):
        if self._owner != 0:
            must("chown", "-hR", f"{self._owner}:{self._owner}", self._at(""))
        must(LSMFS, "snapshot", self._at(""), name)

    def _begin(self):
        for name, size in (("swapped a", 3000), ("swapped b", 9000), ("goes", 10), ("shrinks", 9000), ("grows", 9000), ("becomes a folder", 5), ("of two names", 5000),
                           ("in/f", 100), ("in/deep/f", 4096), ("in/deep/g", 70_000), ("out/of/it", 10), ("gone/below/f", 5000), ("gone/g", 0), ("locked/f", 3000), ("appended", 700),
                           ("inherits/f", 10), ("same", 8000)):
            self._make(name, size)
        self._make("large", MiB + 300_000)
        os.truncate(self._make("sparse", 5000), 3 * MiB)
        os.link(self._at("of two names"), self._at("in/another name"))
        os.symlink("../large", self._at("in/link"))
        os.mkfifo(self._at("fifo"))
        if self._owner == 0:
            os.mknod(self._at("null"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
            os.chown(self._at("in/f"), 7, 8)
            os.setxattr(self._at("in/link"), "trusted.of a link", b"1", follow_symlinks=False)
        for path in ("shrinks", "grows"):
            self._capable(path)
        os.setxattr(self._at("same"), "user.small", b"value")
        os.setxattr(self._at("in/deep"), "user.large", self._draw.randbytes(9000))
        must("setfacl", "-m", "u:7:rwx,d:u:9:r-x", self._at("in"))
        os.chmod(self._at("in/deep/f"), 0o4751)
        os.chmod(self._at("out"), 0o500)
        os.utime(self._at("in/deep/g"), ns=(10 ** 18, 10 ** 18 + 1))
        if self._owner == 0:
            set_flags(self._at("inherits"), NODUMP)
            set_flags(self._at("locked/f"), IMMUTABLE)
            set_flags(self._at("locked"), IMMUTABLE)
            set_flags(self._at("appended"), APPEND)

    def _change(self):
        at = self._at
        for path in ("locked", "locked/f", "appended"):
            if self._owner == 0:
                set_flags(at(path), 0)
        for one, other in (("swapped a", "swapped b"), ("in/deep", "out/of")):
            os.rename(at(one), at("between"))
            os.rename(at(other), at(one))
            os.rename(at("between"), at(other))
        os.rename(at("in"), at("renamed in"))
        os.rename(at("locked/f"), at("renamed in/was locked"))
        os.rename(at("appended"), at("appended too"))
        shutil.rmtree(at("gone"))
        for path in ("goes", "becomes a folder"):
            os.unlink(at(path))
        self._make("becomes a folder/f", 300)
        self._make("new/deep/f", 50_000)
        self._make("inherits/new", 10)
        os.unlink(at("of two names"))
        os.link(at("renamed in/another name"), at("new/second"))
        for path, size in (("shrinks", 10), ("grows", 300_000)):
            os.truncate(at(path), size)
            self._capable(path)
        with open(at("large"), "r+b") as file:
            for place in (5, MiB - 3, MiB + 200_000):
                file.seek(place)
                file.write(b"changed")
        with open(at("sparse"), "r+b") as file:
            file.seek(2 * MiB)
            file.write(b"in a hole")
        must("fallocate", "-p", "-o", 0, "-l", 4096, at("sparse"))
        os.removexattr(at("same"), "user.small")
        os.setxattr(at("same"), "user.new", b"v" * 3000)
        os.utime(at("fifo"), ns=(5, 6))
        if self._owner == 0:
            os.mknod(at("new/device"), stat.S_IFBLK | 0o640, os.makedev(7, 3))
            set_flags(at("inherits/new"), 0)
            for path, flags in (("renamed in/was locked", IMMUTABLE), ("new", IMMUTABLE), ("appended too", APPEND | NODUMP)):
                set_flags(at(path), flags)
