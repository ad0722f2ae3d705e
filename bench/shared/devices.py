"""What the file systems lie on: a loop device, a loop device over a simulated disk, a real block device.

The cells of the aging harness use two of a kind, equal in size: one ages, the other is made anew for each unaged twin.
"""

import contextlib
import json
import os
import re
import shutil
import stat

import loop
import simdisk

from .commands import Problem, call, one_line, read, run

PROFILES = ("hdd", "ssd-sata", "cloud-volume", "none")
SECTOR = 512


def check_built(path):
    if not os.access(path, os.X_OK):
        raise Problem(f"{path}: not there; build it (cmake --preset release -DLSMFS_BENCH=ON && cmake --build --preset release)")


class Tools:
    """The project's own programs."""

    def __init__(self, lsmfs, simdisk):
        self.lsmfs = lsmfs
        self.simdisk = simdisk

    def check(self, devices):
        for path in [self.lsmfs] + ([self.simdisk] if any(device.startswith("simdisk") for device in devices) else []):
            check_built(path)

    def modelled(self, trace):
        """{profile: seconds that the simulated disk would take for the trace}."""
        if not os.access(self.simdisk, os.X_OK):
            return {}
        return {profile: json.loads(read(self.simdisk, "model", "--profile", profile, "--json", trace))["busy_seconds"]
                for profile in PROFILES if profile != "none"}


class BlockDevice:
    """A block device under test."""

    def __init__(self, tools, path):
        self._tools = tools
        self.path = path

    def close(self):
        pass

    # A scan can change what it reads, as when a file system tidies up meanwhile. Both while nothing of it is mounted.
    def keep(self):
        """Remembers what is on it, where that can be done: not on a real device."""

    def restore(self):
        """Makes it what it was at the last keep()."""

    def forget(self):
        """Nothing will be restored any more."""

    @contextlib.contextmanager
    def measured(self):
        """While it is entered, the device takes the time that it stands for."""
        yield

    def late_seconds(self):
        """By how much answers came later than they should, summed over all requests so far; None: nobody can tell."""
        return None

    def _counters(self):
        with open(f"/sys/class/block/{os.path.basename(os.path.realpath(self.path))}/stat", encoding="ascii") as file:
            return [int(field) for field in file.read().split()]

    def reads(self):
        """Requests to read since it came."""
        return self._counters()[0]

    def written(self):
        """Bytes written to it since it came."""
        return self._counters()[6] * SECTOR

    def traced(self, folder, *command):
        """Runs a command while the device's requests are traced. Returns (exit status, stderr, seconds, trace file)."""
        trace, output = os.path.join(folder, "trace"), os.path.join(folder, "layout.json")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(trace)
        status, _, err, _ = call(self._tools.lsmfs, "layout", "--device", self.path, "--trace", trace, "--output", output, "--json", "--", *command)
        if status != 0:
            raise Problem(f"lsmfs layout: exit status {status}: {one_line(err)}")
        with open(output, encoding="utf-8") as file:
            found = json.load(file)
        return found["exit_status"], err, found["seconds"], trace


class FileDevice(BlockDevice):
    """A block device over a file."""

    def __init__(self, tools, image):
        self._image, self._kept = image, image + ".kept"
        super().__init__(tools, self.open())

    def open(self):
        """Returns its path."""
        raise NotImplementedError

    def keep(self):
        self._copy(self._image, self._kept)

    def restore(self):
        self.close()
        self._copy(self._kept, self._image)
        self.path = self.open()

    def forget(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._kept)

    @staticmethod
    def _copy(source, target):
        os.sync()
        run("cp", "--reflink=auto", "--sparse=always", source, target)


class Loop(FileDevice):
    """Over a sparse file of its own, with direct I/O."""

    def __init__(self, tools, image, size):
        self._size = size
        super().__init__(tools, image)

    def open(self):
        if not os.path.exists(self._image):
            loop.make_sparse(self._image, self._size)
        return loop.attach(self._image)

    def close(self):
        if self.path is not None:
            path, self.path = self.path, None  # from then on somebody else's
            loop.detach(path)


class Simdisk(FileDevice):
    """A loop device over the one file that lsmfs-simdisk shows."""

    def __init__(self, tools, folder, size, profile):
        self._folder, self._size, self._profile, self._program = folder, size, profile, tools.simdisk
        super().__init__(tools, os.path.join(folder, "disk.img"))

    def open(self):
        try:
            self._disk = simdisk.Simdisk(self._program, self._folder, self._size, self._profile)
        except simdisk.SimdiskError as error:
            raise Problem(f"lsmfs-simdisk: {one_line(str(error))}") from None
        self._disk.set_profile("none")
        return self._disk.device

    def close(self):
        try:
            self._disk.close()
        except simdisk.SimdiskError as error:
            raise Problem(f"lsmfs-simdisk: {one_line(str(error))}") from None

    def late_seconds(self):
        return self._disk.stats()["late_seconds"]

    @contextlib.contextmanager
    def measured(self):
        self._disk.set_profile(self._profile)
        try:
            yield
        finally:
            self._disk.set_profile("none")

    def traced(self, folder, *command):
        self._disk.write("trace", "on")
        status, _, err, seconds = call(*command)
        self._disk.write("trace", "off")
        trace = os.path.join(folder, "trace")
        with open(self._disk.file("trace"), "rb") as source, open(trace, "wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        return status, err, seconds, trace


class Kind:
    """A word of --device: loop, simdisk:PROFILE, or DEVICE+DEVICE."""

    def __init__(self, text):
        self.name = text
        self._real = []
        if text == "loop":
            return
        if text.startswith("simdisk:"):
            if text.partition(":")[2] not in PROFILES:
                raise Problem(f"--device {text}: the profiles are {', '.join(PROFILES)}")
            return
        self._real = text.split("+")
        if len(self._real) != 2 or not text.startswith("/"):
            raise Problem(f"--device {text}: give loop, simdisk:PROFILE, or two equal block devices as /dev/sdb1+/dev/sdb2, of which all is lost")
        self.name = re.sub(r"[^A-Za-z0-9+-]", "-", text.replace("/dev/", ""))

    @property
    def profile(self):
        return self.name.partition(":")[2] or None

    @property
    def has_images(self):
        return not self._real

    def check(self, size):
        """Problem when a real device is none, is in use, is too small, or not equal to the other."""
        sizes, numbers = [], []
        for path in self._real:
            try:
                info = os.stat(path)
                if not stat.S_ISBLK(info.st_mode):
                    raise Problem(f"--device {path}: is not a block device")
                fd = os.open(path, os.O_RDONLY | os.O_EXCL)
            except FileNotFoundError:
                raise Problem(f"--device {path}: does not exist") from None
            except OSError as error:
                raise Problem(f"--device {path}: is in use ({error.strerror}); unmount it first") from None
            there = os.lseek(fd, 0, os.SEEK_END)
            os.close(fd)
            if there < size:
                raise Problem(f"--device {path}: has {there >> 20} MiB, and --size asks for {size >> 20} MiB")
            sizes.append(there)
            numbers.append(info.st_rdev)
        if self._real and (len(set(sizes)) > 1 or len(set(numbers)) < 2):
            raise Problem(f"--device {'+'.join(self._real)}: the two are not different devices of one size")

    def open(self, tools, role, folder, size):
        """The device of a role ("aged", "twin"), whose file is kept in `folder`."""
        if self.name == "loop":
            return Loop(tools, os.path.join(folder, role + ".img"), size)
        if self.profile:
            return Simdisk(tools, os.path.join(folder, role), size, self.profile)
        return BlockDevice(tools, self._real[0 if role == "aged" else 1])
