"""A simulated disk as a loop device, for programs that compare file systems on it.

    with Simdisk(program, folder, size, "hdd") as disk:
        ... disk.device ...
        disk.set_profile("none")

What it makes lies below `folder`, so that a Workspace of scripts/support takes it down if this program dies.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "support"))

import loop  # noqa: E402


# The folder of the control group that disks are started in; None: in that of who starts them. Hardware has no part in a limit
# on the memory of those who use it.
control_group = None


class SimdiskError(Exception):
    pass


class Simdisk:
    def __init__(self, program, folder, size, profile, *options, attach=True):
        """`options`: more arguments of lsmfs-simdisk. Returns when the device, or without it the file, is there."""
        self.folder = folder
        self.backing = os.path.join(folder, "disk.img")
        self.point = os.path.join(folder, "simdisk")
        self.device = None
        os.makedirs(self.point, exist_ok=True)
        command = [program, self.backing, self.point, "--size", str(size), "--profile", profile, *options]
        if control_group is not None:
            command = ["sh", "-c", 'echo 0 > "$0" && exec "$@"', os.path.join(control_group, "cgroup.procs"), *command]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)  # a ^C is for who uses it, who has to detach first
        if not select.select([self.process.stdout], [], [], 30)[0] or self.process.stdout.readline() != "ready\n":
            self.process.kill()
            raise SimdiskError(self.process.communicate()[1].strip() or "not ready after 30 seconds")
        if attach:
            try:
                self.device = loop.attach(self.file("disk"))
                self._set_up_queue(profile)
            except BaseException:
                self.close()
                raise

    def _set_up_queue(self, profile):
        """A loop device over a FUSE file says that it is no hard disk, and btrfs goes by that."""
        rotational = "1" if profile == "hdd" else "0"
        with open(f"/sys/block/{os.path.basename(self.device)}/queue/rotational", "w", encoding="ascii") as file:
            file.write(rotational)
        if shutil.which("udevadm"):  # udev looks at new devices; its reads are not to be counted as somebody's
            subprocess.run(["udevadm", "settle", "--timeout=10"], stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def file(self, name):
        return os.path.join(self.point, name)

    def read(self, name):
        with open(self.file(name), encoding="ascii") as file:
            return file.read()

    def write(self, name, word):
        with open(self.file(name), "w", encoding="ascii") as file:
            file.write(word + "\n")

    def set_profile(self, name):
        self.write("profile", name)

    def stats(self):
        return json.loads(self.read("stats"))

    def close(self):
        """Detaches, ends the program and waits for it; what it said on stderr."""
        device, self.device = self.device, None  # from then on somebody else's
        try:
            if device is not None:
                loop.detach(device)
        finally:
            said = self._end()
        return said

    def _end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            said = self.process.communicate(timeout=60)[1].strip()
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = self.process.communicate()[1].strip() + " killed: did not end within 60 seconds"
        if self.process.returncode != 0:
            raise SimdiskError(f"exit status {self.process.returncode}: {said}")
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
