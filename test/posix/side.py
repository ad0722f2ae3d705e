"""One of the two sides that are compared: a folder of a mounted file system and the files that are open in it."""

import collections
import contextlib
import errno
import os
import shutil

import calls
import facts
import operations

Person = collections.namedtuple("Person", "name uid gid groups umask")


@contextlib.contextmanager
def acting_as(person):
    """Real and effective ids, as access(2) goes by the former and all others by the latter."""
    old_umask = os.umask(person.umask)
    if person.uid != 0:
        old_groups = os.getgroups()
        os.setgroups(person.groups)
        os.setresgid(person.gid, person.gid, 0)
        os.setresuid(person.uid, person.uid, 0)
    try:
        yield
    finally:
        if person.uid != 0:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
            os.setgroups(old_groups)
        os.umask(old_umask)


class Side:
    # An example lies so deep that its symbolic links, relative and with "..", hardly lead out of what is compared.
    INNER = ("up", "up", "up", "base")

    def __init__(self, name, mount, folder="examples", times_of_files=True):
        """`mount`: a harness.Volume that is mounted. `folder`: where in it. `times_of_files`: see facts.Facts."""
        self.name = name
        self.mount = mount
        self.place = os.path.join(mount.point, folder)
        os.makedirs(self.place, exist_ok=True)
        self.top = self.base = None  # of the example
        self.files = {}              # handle: descriptor
        self.walks = {}              # number: operations.Walk
        self.facts = None
        self.times_of_files = times_of_files

    def begin(self, number, clock):
        if not os.path.ismount(self.mount.point):  # after a remount that went wrong
            self.mount.mount("noatime")
        self.top = os.fsencode(os.path.join(self.place, f"{number:06}"))
        self.base = os.path.join(self.top, *map(os.fsencode, self.INNER))
        os.makedirs(self.base)
        os.chmod(self.base, 0o777)
        self.facts = facts.Facts(clock, self.times_of_files)

    def at(self, path):
        return os.path.join(self.base, path) if path else path

    def perform(self, person, operation, arguments):
        """("ok", what it returned) or ("error", name of the errno)."""
        try:
            with acting_as(person):
                return "ok", getattr(operations, operation)(self, *arguments)
        except OSError as error:
            return "error", errno.errorcode.get(error.errno, error.errno)

    def remount(self):
        self.mount.umount()
        self.mount.mount("noatime")

    def crash(self):
        """After a sync. Of lsmfs by ending its daemon; a native file system has none."""
        if self.mount.fs != "lsmfs":
            self.remount()
            return
        folder = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self.mount.kill()
        self.mount.mount("noatime")

    def forget_names(self):
        calls.forget_names(self.mount.point)

    def close_all(self):
        for fd in list(self.files.values()) + [walk.fd for walk in self.walks.values()]:
            os.close(fd)
        self.files.clear()
        self.walks.clear()

    def end(self):
        """Removes the example, which has to be possible whatever it has made."""
        self.close_all()
        if self.top is not None:
            self.facts.clear_flags(self.top)
            shutil.rmtree(self.top)
            self.top = None
