"""A device that does not answer for a long time: the log says who waits for what, nothing is lost, and all ends when it answers.
The device is an image on an ext4 that is frozen for a while."""

import os
import subprocess
import threading
import time

import harness
from harness import LSMFS, MiB


@harness.lsmfs_only
class Slow(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.disk = self.native(1024 * MiB)
        self.image = os.path.join(self.disk, "image")
        self.point = self.work.sub("slow")
        self.log = os.path.join(self.work.path, "slow.log")
        self.must(LSMFS, "mkfs", "--size", "256M", self.image)
        self.mount()
        self.frozen = False
        self.addCleanup(self.thaw)

    def mount(self):
        self.must(LSMFS, "mount", self.image, self.point, "--log", self.log)
        self.addCleanup(lambda: os.path.ismount(self.point) and self.must(LSMFS, "umount", self.point))

    def freeze(self):
        # What was on its way to the disk is not what is waited for later.
        self.must("sync", "-f", self.disk)
        self.must("fsfreeze", "--freeze", self.disk)
        self.frozen = True

    def thaw(self):
        if self.frozen:
            self.frozen = False
            self.must("fsfreeze", "--unfreeze", self.disk)

    def lines(self, *words):
        with open(self.log, encoding="utf-8") as file:
            return [line for line in file if all(word in line for word in words)]

    def write_and_sync(self, name, contents):
        with open(os.path.join(self.point, name), "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())

    def test_the_log_names_a_request_that_waits_for_30_s_and_its_end(self):
        self.write_and_sync("before", b"contents")
        inode = os.stat(os.path.join(self.point, "before")).st_ino
        self.freeze()
        syncing = threading.Thread(target=self.write_and_sync, args=("before", b"other contents"))
        syncing.start()
        begin = time.monotonic()
        request = f"FSYNC of inode {inode} (request "
        while not self.lines(request, "has waited") and time.monotonic() < begin + 120:
            time.sleep(0.5)
        self.thaw()
        syncing.join(60)
        self.assertFalse(syncing.is_alive())
        told = self.lines(request, "has waited")
        self.assertNotEqual(told, [])
        self.assertIn(" of the device (", told[0])
        while not self.lines(request, "is over after") and time.monotonic() < begin + 180:
            time.sleep(0.1)
        self.assertEqual(len(self.lines(request, "is over after")), 1)
        self.must(LSMFS, "umount", self.point)
        self.mount()
        with open(os.path.join(self.point, "before"), "rb") as file:
            self.assertEqual(file.read(), b"other contents")

    def test_umount_waits_for_a_device_that_takes_10_s(self):
        with open(os.path.join(self.point, "file"), "wb") as file:
            file.write(b"contents" * 100_000)
        self.freeze()
        umount = subprocess.Popen([LSMFS, "umount", self.point], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with self.assertRaises(subprocess.TimeoutExpired):
            umount.wait(10)
        self.thaw()
        self.assertEqual((umount.wait(60), umount.stderr.read()), (0, b""))
        umount.stderr.close()
        self.mount()
        with open(os.path.join(self.point, "file"), "rb") as file:
            self.assertEqual(file.read(), b"contents" * 100_000)


if __name__ == "__main__":
    harness.main()
