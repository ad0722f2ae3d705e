"""Access times, by each mount option, are those of ext4: what updates them, and what the mount table says.

What the kernel answers from its caches never reaches a FUSE daemon. There lsmfs keeps the old time, and the test says so."""

import os
import re
import time

import harness
import loop
import syscalls
from harness import LSMFS, MiB, caches
from until import until, until_later

OPTIONS = ("defaults", "noatime", "strictatime", "nodiratime", "strictatime,nodiratime,lazytime", "noatime,atime,lazytime",
           "noatime,strictatime")
REMOUNTS = ("noatime", "sync", "strictatime", "relatime", "nodiratime")
# What mount(8) makes of these since util-linux 2.39; before, the kernel made something else of them.
NEW_OPTIONS = ("strictatime,relatime", "noatime,relatime", "strictatime,atime")
NEW_REMOUNTS = ("diratime", "strictatime", "nodiratime", "diratime", "atime")
# Steps whose answer is in the kernel's caches, or known to it: an empty file has nothing to read.
OF_THE_CACHES = {"read from the cache", "read from the cache what was just written", "read an empty file",
                 "list from the cache", "follow from the cache"}
DAY = 24 * 3600


def read(path):
    with open(path, "rb") as file:
        return file.read()


def append(path, text):
    with open(path, "a", encoding="ascii") as file:
        file.write(text)
    until_later()


def steps(folder, forget, of_the_caches):
    """Does one thing after another; {what: did the access time change?}. `forget`: what makes a read a cold one. `of_the_caches`: what the
    kernel can answer by itself changes nothing. It may need the memory meanwhile: then it is tried again."""
    file, empty, link = (os.path.join(folder, name) for name in ("file", "empty", "link"))
    directory, inside = os.path.join(folder, "directory"), os.path.join(folder, "directory", "inside")
    changed = {}

    def step(name, path, call, cold=True):
        if cold:
            forget()
        before = os.lstat(path).st_atime_ns
        until_later()
        call()
        after = os.lstat(path).st_atime_ns
        changed[name] = after != before
        if changed[name]:
            forget()
            if os.lstat(path).st_atime_ns != after:
                changed[name] = "does not last"

    def step_in_the_caches(name, path, prepare, call):
        def kept():
            with caches.alone():
                prepare()
                step(name, path, call, cold=False)
            return not changed[name]
        if of_the_caches:
            until(kept, f"{name}, and no other access time")
        else:
            kept()

    append(file, "x" * 5000)
    step("look at a file", file, lambda: os.stat(file))
    step("read a new file", file, lambda: read(file))
    step("read it again", file, lambda: read(file))
    step_in_the_caches("read from the cache", file, lambda: read(file), lambda: read(file))
    step_in_the_caches("read from the cache what was just written", file, lambda: (read(file), append(file, "more")), lambda: read(file))
    append(file, "more")
    step("read a changed file", file, lambda: read(file))
    os.utime(file, (time.time() - 2 * DAY, time.time() - 3 * DAY))
    step("read a file whose status changed", file, lambda: read(file))
    append(empty, "")
    step("read an empty file", empty, lambda: read(empty))
    os.mkdir(directory)
    append(inside, "x")
    step("list a new directory", directory, lambda: os.listdir(directory))
    step("list it again", directory, lambda: os.listdir(directory))
    step_in_the_caches("list from the cache", directory, lambda: os.listdir(directory), lambda: os.listdir(directory))
    append(os.path.join(directory, "other"), "x")
    step("list a changed directory", directory, lambda: os.listdir(directory), cold=False)
    step("look up a name", directory, lambda: os.stat(inside))
    os.symlink("file", link)
    until_later()
    step("read a new link", link, lambda: os.readlink(link))
    step("read the link again", link, lambda: os.readlink(link))
    step("follow a link", link, lambda: os.stat(link))
    step_in_the_caches("follow from the cache", link, lambda: os.stat(link), lambda: os.stat(link))
    return changed


@harness.lsmfs_only
class AccessTimes(harness.MountCase):
    def setUp(self):
        super().setUp()
        image = os.path.join(self.work.path, "ext4.img")
        loop.make_sparse(image, 200 * MiB)
        self.ext4 = loop.attach(image)
        self.addCleanup(loop.detach, self.ext4)
        self.must("mkfs.ext4", "-q", self.ext4)
        self.point = self.work.sub("ext4")

    def mount_is_new(self):
        version = re.search(r"util-linux (\d+)\.(\d+)", self.must("mount", "--version"))
        return tuple(map(int, version.groups())) >= (2, 39)

    def flags(self, point):
        """What the mount table says about access times."""
        return set(self.must("findmnt", "-n", "-o", "OPTIONS", "--mountpoint", point).strip().split(",")) & {
            "relatime", "noatime", "strictatime", "nodiratime", "lazytime"}

    def compare(self, volume, options, folder):
        for place in (volume.point, self.point):
            os.mkdir(os.path.join(place, folder))
        theirs = steps(os.path.join(self.point, folder), lambda: None, False)  # who answers from memory makes no difference there
        ours = steps(volume.path(folder), lambda: syscalls.forget(volume.point), True)
        self.assertEqual(self.flags(volume.point), self.flags(self.point), options)
        self.assertNotIn("does not last", [*theirs.values(), *ours.values()], options)
        expected = {step: changed and step not in OF_THE_CACHES for step, changed in theirs.items()}
        self.assertEqual(ours, expected, options)
        return theirs

    def test_each_option_is_as_on_ext4(self):
        volume = self.volume(200 * MiB)
        seen = []
        for options in OPTIONS + (NEW_OPTIONS if self.mount_is_new() else ()):
            self.must("mount", "-t", "ext4", "-o", options, self.ext4, self.point)
            try:
                volume.mount(options)
                seen.append(self.compare(volume, options, options))
                volume.umount()
            finally:
                self.must("umount", self.point)
        self.assertGreater(len({tuple(changes.values()) for changes in seen}), 3, "the options make no difference")

    def test_a_remount_changes_them_as_on_ext4(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        self.must("mount", "-t", "ext4", self.ext4, self.point)
        try:
            for number, options in enumerate(REMOUNTS + (NEW_REMOUNTS if self.mount_is_new() else ())):
                self.must("mount", "-o", "remount," + options, self.ext4, self.point)
                self.must(LSMFS, "mount", "-o", "remount," + options, volume.device, volume.point)
                self.compare(volume, "remount," + options, str(number))
        finally:
            self.must("umount", self.point)


if __name__ == "__main__":
    harness.main()
