"""The pieces of work, in the order in which one file system does them in one round.

"cold" is: sync, umount, drop the page cache, mount. Inputs (the tar file, the repository to clone) are read into
the page cache before, so that only the file system under test is measured.
"""

import os
import random

import loop
from shared.cold import drop_caches, grep_command, used_bytes
from shared.commands import run

MiB = 1 << 20

# name -> (unit, what is measured). The table has them in this order.
WORK = {
    "untar": ("s", "tar -xf of the tree, until tar returns"),
    "untar+umount": ("s", "the same, until umount has returned: all is on the device"),
    "grep cold": ("s", "grep -r of a random string that is nowhere, after a cold mount"),
    "grep warm": ("s", "the same again"),
    "find cold": ("s", "find, after a cold mount"),
    "du cold": ("s", "du -s, after a cold mount"),
    "rm": ("s", "rm -rf of the tree, with its attributes in memory, until rm returns"),
    "rm+umount": ("s", "the same, until umount has returned"),
    "clone": ("s", "git clone from a file:// URL, until git returns"),
    "status cold": ("s", "git status in the clone, after a cold mount"),
    "status warm": ("s", "the same again"),
    "space": ("MiB", "used space by df with the untarred tree, after umount and mount"),
    "memory peak": ("MiB", "the daemon's largest VmHWM of the round (file systems in the kernel have no daemon)"),
    "memory anon": ("MiB", "the daemon's largest RssAnon at the end of a piece of work"),
}


def warm_file(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(4 * MiB):
            pass


def warm_tree(path):
    for folder, _, names in os.walk(path):
        for name in names:
            warm_file(os.path.join(folder, name))


class Session:
    """One file system doing its work once, on a device of its own."""

    def __init__(self, fs, folder, size, tree, repository, seed, wanted, say):
        self._fs = fs
        self._folder = folder
        self._size = size
        self._tree = tree
        self._repository = repository
        self._rng = random.Random(seed)
        self._wanted = wanted
        self._say = say
        self._point = os.path.join(folder, "mnt")
        self._device = None
        self.figures = {}

    def run(self):
        os.makedirs(self._point, exist_ok=True)
        image = os.path.join(self._folder, self._fs.name + ".img")
        loop.make_sparse(image, self._size)
        self._device = loop.attach(image)
        try:
            self._fs.make(self._device)
            self._fs.mount(self._device, self._point)
            self._note("space empty", used_bytes(self._point))
            if self._wants("untar", "untar+umount", "grep cold", "grep warm", "find cold", "du cold", "rm", "rm+umount", "space"):
                self._tree_work()
            if self._wants("clone", "status cold", "status warm"):
                self._git_work()
            self._fs.unmount(self._point)
        finally:
            # What is still mounted after an error is for the workspace to take down.
            if not os.path.ismount(self._point):
                loop.detach(self._device)
                os.unlink(image)
        return self.figures

    def _wants(self, *names):
        return any(name in self._wanted for name in names)

    def _note(self, name, value):
        self.figures[name] = value
        unit = WORK.get(name, ("MiB",))[0]
        self._say(f"{self._fs.name} {name}: {value / MiB:.1f} MiB" if unit == "MiB" else f"{self._fs.name} {name}: {value:.3f} s")
        if unit == "s":
            memory = self._fs.memory() if os.path.ismount(self._point) else None
            if memory:
                for key, now in zip(("memory peak", "memory anon"), memory):
                    self.figures[key] = max(self.figures.get(key, 0), now)

    def _unmount(self):
        return self._fs.unmount(self._point)

    def _cold_mount(self):
        drop_caches()
        self._fs.mount(self._device, self._point)

    def _cold(self):
        self._unmount()
        self._cold_mount()

    def _tree_work(self):
        self._cold()
        warm_file(self._tree)
        tree = os.path.join(self._point, "tree")
        os.mkdir(tree)
        taken = run("tar", "-xf", self._tree, "-C", tree)
        self._note("untar", taken)
        self._note("untar+umount", taken + self._unmount())
        self._cold_mount()
        self._note("space", used_bytes(self._point))
        if self._wants("grep cold", "grep warm"):
            self._cold()
            for name in ("grep cold", "grep warm"):
                self._note(name, run(*grep_command(tree, self._rng), ok=(0, 1)))
        if self._wants("find cold"):
            self._cold()
            self._note("find cold", run("find", tree))
        if self._wants("du cold", "rm", "rm+umount"):
            self._cold()
            self._note("du cold", run("du", "-s", tree))
        if self._wants("rm", "rm+umount"):
            taken = run("rm", "-rf", tree)
            self._note("rm", taken)
            self._note("rm+umount", taken + self._unmount())
            self._cold_mount()

    def _git_work(self):
        self._cold()
        warm_tree(self._repository)
        clone = os.path.join(self._point, "clone")
        # protocol.file.allow: a plain copy of a repository that may belong to another user.
        self._note("clone", run("git", "-c", "protocol.file.allow=always", "-c", "safe.directory=*", "clone", "-q",
                                "file://" + os.path.realpath(self._repository), clone))
        if self._wants("status cold", "status warm"):
            self._cold()
            for name in ("status cold", "status warm"):
                self._note(name, run("git", "-C", clone, "-c", "safe.directory=*", "status", "--short"))


def describe():
    return "\n".join(f"  {name:14} {what}" for name, (_, what) in WORK.items())
