"""What tests of commands on whole directories share: an lsmfs that is mounted, and files in it by their paths there."""

import os

import harness

NOBODY = 65534


def names(folder):
    """The paths of all that lies below it."""
    return sorted(os.path.join(at, name) for at, folders, files in os.walk(folder) for name in folders + files)


class TreeCase(harness.MountCase):
    options = ""

    def setUp(self):
        super().setUp()
        self.lsmfs = self.volume(1 * harness.GiB)
        self.lsmfs.mount(self.options)
        self.must("chmod", "755", self.lsmfs.point)

    def path(self, *parts):
        return self.lsmfs.path(*parts)

    def make(self, name, contents=b"data"):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(contents)
        return path

    def make_tree(self, folder):
        """Directories in it, small files, a large one and a link to that."""
        for number in range(40):
            self.make(f"{folder}/a{number % 3}/b{number % 2}/f{number}", b"%d " % number * (number ** 3 % 5000))
        self.make(f"{folder}/large", os.urandom(6 * harness.MiB))
        os.symlink("large", self.path(folder, "link"))
        os.mkdir(self.path(folder, "empty"))

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def check(self):
        """All is sound, now and after another mount."""
        self.lsmfs.umount()
        self.lsmfs.wait_for_end()
        self.must(harness.LSMFS, "fsck", self.lsmfs.device)
        self.lsmfs.mount(self.options)
