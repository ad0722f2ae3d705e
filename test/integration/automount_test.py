"""Automounters: the kernel tells one that somebody wants a directory, it mounts there, and answers. All wait for that but the processes of
its own group."""

import concurrent.futures
import ctypes
import fcntl
import os
import select
import struct
import subprocess

import harness
from harness import LSMFS, MiB
from until import PATIENCE, until

MESSAGE = 304  # bytes of a request, of which the number lies behind a header of 8
READY, FAIL, CATATONIC, EXPIRE_MULTI = 0x9360, 0x9361, 0x9362, 0x40049366  # ioctls of autofs
AT_ONCE = 1  # not when it has been idle for long


@harness.lsmfs_only
class Automount(harness.MountCase):
    def setUp(self):
        super().setUp()
        with open("/proc/filesystems", encoding="utf-8") as file:
            if "\tautofs\n" not in file.read():
                self.skipTest("this kernel has no autofs")
        # Of this program's group are those who may mount, as of an automounter's.
        if os.getpgrp() != os.getpid():
            os.setpgid(0, 0)

    def watch(self, place, kind):
        """Mounts an autofs there; gives the pipe of its requests, and its root."""
        requests, other = os.pipe2(os.O_DIRECT)
        self.addCleanup(os.close, requests)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={other},pgrp={os.getpgrp()},minproto=5,maxproto=5,{kind}"
        self.assertEqual(libc.mount(b"automount", place.encode(), b"autofs", 0, options.encode()), 0, os.strerror(ctypes.get_errno()))
        os.close(other)
        self.addCleanup(self.must, "umount", place)
        root = os.open(place, os.O_RDONLY)
        self.addCleanup(os.close, root)
        self.addCleanup(fcntl.ioctl, root, CATATONIC, 0)  # whoever waits still, does not any more
        return requests, root

    def check(self, volume, place, kind, target, snapshot=""):
        requests, root = self.watch(place, kind)
        with subprocess.Popen(["ls", target + "/."], start_new_session=True, stdout=subprocess.PIPE, encoding="utf-8") as client:
            ready, _, _ = select.select([requests], [], [], PATIENCE)
            self.assertTrue(ready, "no request came")
            number = struct.unpack_from("@iiI", os.read(requests, MESSAGE))[2]
            if not os.path.exists(target):
                os.mkdir(target)
            try:
                # In this group, as a daemon that automounts runs mount(8).
                done = subprocess.run([LSMFS, "mount", volume.device, target, "--log", volume.log, "-o", f"snapshot={snapshot}" if snapshot else "rw"],
                                      stderr=subprocess.PIPE, encoding="utf-8",
                                      timeout=PATIENCE, check=False)
            except subprocess.TimeoutExpired:
                fcntl.ioctl(root, FAIL, number)
                fcntl.ioctl(root, CATATONIC, 0)
                raise
            fcntl.ioctl(root, READY if done.returncode == 0 else FAIL, number)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(client.communicate(timeout=PATIENCE)[0], "file\n")
            self.assertEqual(client.returncode, 0)
        if not snapshot:
            with open(os.path.join(target, "other"), "wb") as file:
                file.write(b"contents")
        for pid, _ in harness.workspace.processes_of(target, harness.WHOLE):
            self.assertEqual(os.getsid(pid), os.getpgid(pid), "it has left the group")
            self.assertNotEqual(os.getpgid(pid), os.getpgrp())
        self.expire(requests, root, target)
        until(lambda: not harness.workspace.processes_of(target, harness.WHOLE), "the end of the daemon")

    def expire(self, requests, root, target):
        """As an automounter does some minutes later: the kernel names what nobody uses, and waits until that is unmounted."""
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            expiry = other.submit(fcntl.ioctl, root, EXPIRE_MULTI, struct.pack("i", AT_ONCE))
            until(lambda: select.select([requests], [], [], 0)[0] or expiry.done(), "a request to unmount it")
            if not expiry.done():
                number = struct.unpack_from("@iiI", os.read(requests, MESSAGE))[2]
                done = harness.call("umount", target)
                fcntl.ioctl(root, READY if done.returncode == 0 else FAIL, number)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            expiry.result()  # EAGAIN: somebody uses it
        self.assertFalse(self.shows_lsmfs(target))

    @staticmethod
    def shows_lsmfs(target):
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            return any(words[4] == target and words[-3].endswith(".lsmfs") for words in map(str.split, file))

    def prepared(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        with open(volume.path("file"), "wb") as file:
            file.write(b"contents")
        self.must(LSMFS, "snapshot", volume.point, "s")
        volume.umount()
        return volume

    def test_a_directory_below_an_autofs(self):
        place = self.work.sub("auto")
        self.check(self.prepared(), place, "indirect", os.path.join(place, "target"))

    def test_an_autofs_on_the_directory_itself_as_of_systemd(self):
        place = self.work.sub("auto")
        self.check(self.prepared(), place, "direct", place)

    def test_a_snapshot_alone(self):
        below, place = self.work.sub("auto"), self.work.sub("direct")
        volume = self.prepared()
        self.check(volume, below, "indirect", os.path.join(below, "target"), snapshot="s")
        volume.wait_for_end()
        self.check(volume, place, "direct", place, snapshot="s")


if __name__ == "__main__":
    harness.main()
