"""Hosts that reach one device: processes in namespaces of their own, which know nothing of each other."""

import os
import signal
import subprocess

import harness
from harness import LSMFS
from until import until

# What makes another host of a process, as far as lsmfs can see: its name, its identity, and what is known of mounts on it.
ANOTHER_HOST = 'hostname "$1" && mount -t tmpfs none /run && mount -t tmpfs none /sys && mount --bind "$2" /etc/machine-id && echo ready && exec cat'


class Host:
    """Commands of one host."""

    def __init__(self, test, name, device):
        self.name, self.device, self.test = name, device, test
        folder = test.work.sub(name)
        self.point, identity = os.path.join(folder, "mnt"), os.path.join(folder, "machine-id")
        os.mkdir(self.point)
        with open(identity, "w", encoding="ascii") as file:
            file.write(f"{name.encode().hex():0<32.32}\n")
        self.process = subprocess.Popen(  # pylint: disable=R1732
            ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "sh", "-c", ANOTHER_HOST, "sh", name, identity],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end)
        test.assertEqual(self.process.stdout.readline(), "ready\n")
        self.first = int(test.must("pgrep", "--parent", self.process.pid))

    def words(self, *command):
        return ["nsenter", "--target", str(self.first), "--mount", "--uts", "--pid", "--", *command]

    def call(self, *command):
        return harness.call(*self.words(*command))

    def must(self, *command):
        return self.test.must(*self.words(*command))

    def mount(self):
        return self.call(LSMFS, "mount", "--log", self.point + ".log", self.device, self.point)

    def mounts(self):
        done = self.mount()
        self.test.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def umount(self):
        self.must(LSMFS, "umount", self.point)

    def write(self, text):
        return self.call("sh", "-c", f'echo {text} > "$1" && sync "$1"', "sh", os.path.join(self.point, "file"))

    def read(self):
        return self.must("cat", os.path.join(self.point, "file")).strip()

    def daemons(self):
        return [pid for pid, _ in harness.daemons_at(self.point)]

    def signal(self, number):
        daemons = self.daemons()
        self.test.assertTrue(daemons, "no daemon")
        for pid in daemons:
            os.kill(pid, number)

    def log(self):
        with open(self.point + ".log", encoding="utf-8") as file:
            return file.read()

    def end(self):
        for pid in self.daemons():
            os.kill(pid, signal.SIGCONT)
        self.call("umount", "-l", self.point)
        self.process.communicate()
        until(lambda: not self.daemons(), f"the end of the daemon of {self.name}")
