"""Real programs carry a tree with everything that a tree can have from ext4 to the mount and back, and nothing changes."""

import itertools
import os
import random
import socket
import stat

import harness
import source_tree
from harness import GiB, MiB

SEED = 41
FILES = 700
RSYNC = ["rsync", "--modify-window=-1"]  # times are equal to the nanosecond
CAPABILITY = bytes.fromhex("0100000202040000000000000000000000000000")  # cap_dac_override, effective
XATTR_VALUES = [b"", b"x", b"text", bytes(range(256)), b"\0" * 100, b"v" * 700]


def adorn(test, root):
    """Gives the tree what source_tree leaves out: extended attributes, ACLs, a socket. ext4 keeps all attributes of a file
    in one block, so there are not too many of them."""
    rng = random.Random(SEED)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(os.path.join(root, "socket"))
    files, folders, links = [], [], []
    for place, dirs, names in os.walk(os.fsencode(root)):
        for name in sorted(dirs + names):
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            of_kind = folders if stat.S_ISDIR(mode) else links if stat.S_ISLNK(mode) else files if stat.S_ISREG(mode) else None
            if of_kind is not None:
                of_kind.append(path)
    files, folders, links = sorted(files), sorted(folders), sorted(links)
    for path in rng.sample(files, 150) + rng.sample(folders, 30):
        for number in range(rng.choice([1, 1, 2, 10])):
            os.setxattr(path, f"user.name {number}" if number else "user.\u00fc", rng.choice(XATTR_VALUES[:5]))
        if rng.random() < 0.3:
            os.setxattr(path, "trusted.overlay.opaque", b"y")
    for path in rng.sample(links, 20):
        os.setxattr(path, "trusted.link", b"of a symbolic link", follow_symlinks=False)
    for path in rng.sample(files, 20):
        os.setxattr(path, "security.capability", CAPABILITY)
        os.setxattr(path, "security.other", rng.choice(XATTR_VALUES))
    # rsync forgets the group's own entry in the ACL of a sticky directory when it equals the mask.
    folders = [path for path in folders if not os.lstat(path).st_mode & stat.S_ISVTX]
    acls = ["u:1000:rwx", "u:4000000000:---,g:5:r-x", "u:1:r,g::---,m::r", "g:65534:w,o::---", "m::rwx,u:0:r"]
    for path in rng.sample(files, 60) + rng.sample(folders, 40):
        test.must("setfacl", "-m", rng.choice(acls), "--", os.fsdecode(path))
    for path in rng.sample(folders, 30):
        test.must("setfacl", "-d", "-m", rng.choice(acls), "--", os.fsdecode(path))


class Programs(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.native = self.volume(size=GiB, fs="ext4")
        self.native.mount()
        self.tree = self.native.path("tree")
        os.mkdir(self.tree)
        source_tree.make(self.tree, SEED, files=FILES)
        adorn(self, self.tree)
        self.facts = source_tree.facts(self.tree)
        for name in ("user.\u00fc", "trusted.link", "security.capability", "system.posix_acl_access", "system.posix_acl_default"):
            self.assertTrue(any(name in entry.get("xattrs", {}) for entry in self.facts.values()), name)
        self.mounted = self.volume()
        self.mounted.mount()

    def listed(self, script, place):
        """What a program says about all below `place`, which find gives to it sorted."""
        return self.must("sh", "-c", script, cwd=place).splitlines()

    def check(self, place, without=lambda path, entry: None):
        """All at `place` is as in the tree, but for what `without` takes out of either's facts."""
        sides = []
        for facts in ({path: dict(entry) for path, entry in self.facts.items()}, source_tree.facts(place)):
            for path, entry in list(facts.items()):
                if without(path, entry) == "all":
                    del facts[path]
            sides.append(facts)
        self.assertEqual(source_tree.differences(*sides), [])

    def check_with_programs(self, place):
        self.check(place)
        for script in (
                "find . -printf '%p %y %m %U %G %n %T@ %l\\n' | LC_ALL=C sort",
                "find . ! -type d -printf '%p %s\\n' | LC_ALL=C sort",
                "find . ! -type l -print0 | LC_ALL=C sort -z | xargs -0 getfacl --numeric --",
                "find . -print0 | LC_ALL=C sort -z | xargs -0 getfattr -d -m - -h --encoding=hex --"):
            said, expected = self.listed(script, place), self.listed(script, self.tree)
            self.assertGreater(len(said), 20, script)
            self.assertEqual([pair for pair in itertools.zip_longest(said, expected) if pair[0] != pair[1]][:10], [], script)
        for one, other in ((self.tree, place), (place, self.tree)):
            self.assertEqual(self.must(*RSYNC, "-aHAXnci", "--delete", one + "/", other + "/"), "")

    def sparse_is_sparse(self, place):
        self.assertLess(os.stat(os.path.join(place, "sparse")).st_blocks * 512, MiB)

    def test_rsync_carries_all_there_and_back(self):
        place = self.mounted.path("copy")
        self.must(*RSYNC, "-aHAXS", self.tree + "/", place + "/")
        self.check_with_programs(place)
        self.sparse_is_sparse(place)
        self.mounted.remount()
        self.check_with_programs(place)
        back = self.native.path("back")
        self.must(*RSYNC, "-aHAXS", place + "/", back + "/")
        self.check_with_programs(back)
        # Again, when some of it has changed: only that is carried, and what is gone goes.
        changed = [os.path.join(self.tree, name) for name in ("changed", "odd")]
        with open(changed[0], "wb") as file:
            file.write(b"new")
        os.chmod(changed[1], 0o711)
        os.unlink(os.path.join(self.tree, "fifo"))
        self.facts = source_tree.facts(self.tree)
        said = self.must(*RSYNC, "-aHAXSi", "--delete", self.tree + "/", place + "/").splitlines()
        self.assertEqual(sorted(line.split()[-1] for line in said), ["./", "changed", "fifo", "odd/"])
        self.check_with_programs(place)

    def test_tar_carries_all_there_and_back(self):
        options = ["--xattrs", "--xattrs-include=*", "--acls", "--numeric-owner"]
        archives = [self.mounted.path("first.tar"), self.native.path("second.tar")]
        place, back = self.mounted.path("copy"), self.native.path("back")
        for archive, source, target in ((archives[0], self.tree, place), (archives[1], place, back)):
            # Sockets are not archived, about which it says a line and succeeds.
            self.must("tar", "--format=pax", "--sparse", *options, "-cf", archive, "-C", source, ".")
            os.mkdir(target)
            self.must("tar", *options, "-xpf", archive, "-C", target)
            self.check(target, without=lambda path, _: "all" if path == b"socket" else None)
            self.must("tar", *options, "--compare", "-f", archive, "-C", target)
            self.mounted.remount()
            self.check(place, without=lambda path, _: "all" if path == b"socket" else None)
        self.sparse_is_sparse(place)

    def test_cp_carries_all_there_and_back(self):
        first, second, third = self.mounted.path("first"), self.mounted.path("second"), self.native.path("third")
        self.must("cp", "-a", self.tree, first)
        self.check_with_programs(first)
        self.must("cp", "-R", "--preserve=all", "--reflink=auto", "--sparse=always", first, second)
        self.check_with_programs(second)
        self.must("cp", "-a", "--sparse=auto", second, third)
        self.check_with_programs(third)
        self.mounted.remount()
        self.check_with_programs(first)
        self.check_with_programs(second)
        for place in (first, second):
            self.sparse_is_sparse(place)
        # Zeros become a hole when they are asked to, and are kept when they are not.
        with open(self.mounted.path("zeros"), "wb") as file:
            file.write(b"\0" * (8 * MiB) + b"the end")
        self.must("cp", "--sparse=always", self.mounted.path("zeros"), self.mounted.path("holes"))
        self.must("cp", "--sparse=never", self.mounted.path("holes"), self.mounted.path("none"))
        self.must("cmp", self.mounted.path("zeros"), self.mounted.path("holes"))
        self.must("cmp", self.mounted.path("zeros"), self.mounted.path("none"))
        blocks = [os.stat(self.mounted.path(name)).st_blocks * 512 for name in ("zeros", "holes", "none")]
        self.assertGreaterEqual(blocks[0], 8 * MiB)
        self.assertLess(blocks[1], 64 * 1024)
        self.assertGreaterEqual(blocks[2], 8 * MiB)
        # What cannot be shared is not copied instead.
        self.refused("cp", "--reflink=always", self.mounted.path("zeros"), self.mounted.path("shared"), says=["clone"])

    def test_mv_install_and_find_work_across_file_systems(self):
        place, back = self.mounted.path("moved"), self.native.path("tree")
        reference = self.native.path("reference")
        self.must("cp", "-a", self.tree, reference)
        self.must("mv", self.tree, place)
        self.assertFalse(os.path.lexists(self.tree))
        self.tree = reference
        self.check_with_programs(place)
        self.mounted.remount()
        self.must("mv", place, back)
        self.assertEqual(set(os.listdir(self.mounted.point)) - {"lost+found"}, set())
        self.check_with_programs(back)

        target = self.mounted.path("a", "b", "program")
        self.must("install", "-D", "-m", "4755", "-o", "7", "-g", "8", "-p", "/bin/true", target)
        info, source = os.stat(target), os.stat("/bin/true")
        self.assertEqual((info.st_mode, info.st_uid, info.st_gid, info.st_size, info.st_mtime_ns),
                         (stat.S_IFREG | 0o4755, 7, 8, source.st_size, source.st_mtime_ns))
        self.must("cp", "-a", reference, self.mounted.path("a", "tree"))
        counted = len(self.listed("find . -mindepth 1 -printf x\\\\n", self.mounted.path("a", "tree")))
        self.assertEqual(counted, len(self.facts))
        self.must("find", self.mounted.path("a"), "-type", "f", "-delete")
        self.assertEqual(self.must("find", self.mounted.path("a"), "-type", "f"), "")
        self.assertNotEqual(self.must("find", self.mounted.path("a"), "-type", "l"), "")
        self.must("find", self.mounted.path("a"), "-delete")
        self.assertFalse(os.path.lexists(self.mounted.path("a")))

    def test_cpio_and_dpkg_unpack_what_they_packed(self):
        def kept(path, entry):  # cpio knows seconds, and no extended attributes
            entry.pop("xattrs", None)
            entry.pop("mtime")
            if os.path.basename(path) == b"socket":
                return "all"
            return None

        place = self.mounted.path("passed")
        os.mkdir(place)
        self.must("sh", "-c", 'find . -depth -print0 | cpio --null --quiet -pdm "$0"', place, cwd=self.tree)
        self.check(place, without=kept)
        archive, unpacked = self.mounted.path("tree.cpio"), self.mounted.path("unpacked")
        os.mkdir(unpacked)
        self.must("sh", "-c", 'find . -depth -print0 | cpio --null --quiet -o -H newc > "$0"', archive, cwd=place)
        self.must("sh", "-c", 'cpio --quiet -idm --no-absolute-filenames < "$0"', archive, cwd=unpacked)
        self.check(unpacked, without=kept)

        package = self.mounted.path("package")
        os.makedirs(os.path.join(package, "DEBIAN"))
        with open(os.path.join(package, "DEBIAN", "control"), "w", encoding="ascii") as file:
            file.write("Package: tree\nVersion: 1\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: a tree\n")
        self.must("cp", "-a", os.path.join(self.tree, "deep0"), package)
        self.must("dpkg-deb", "--build", "-Zgzip", package, self.mounted.path("tree.deb"))
        self.must("dpkg-deb", "-x", self.mounted.path("tree.deb"), self.mounted.path("root"))
        self.must("diff", "-r", "--no-dereference", os.path.join(package, "deep0"), self.mounted.path("root", "deep0"))


if __name__ == "__main__":
    harness.main()
