"""A device that does not answer for a long time: the log says who waits for what, nothing is lost, and all ends when it answers.
The device is an image on an ext4 that is frozen for a while."""

import contextlib
import glob
import os
import subprocess
import threading

import harness
from harness import LSMFS, MiB
from until import PATIENCE, until


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

    def daemon_waits_for_the_disk(self):
        for path in [path for pid, _ in harness.workspace.processes_of(self.point, harness.WHOLE) for path in glob.glob(f"/proc/{pid}/task/*/stat")]:
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(") ")[2].startswith("D"):
                    return True
        return False

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
        request = f"FSYNC of inode {inode} (request "
        told = until(lambda: self.lines(request, "has waited"), "word of the request that waits")
        self.thaw()
        syncing.join(PATIENCE)
        self.assertFalse(syncing.is_alive())
        self.assertIn(" of the device (", told[0])
        self.assertEqual(len(until(lambda: self.lines(request, "is over after"), "word of its end")), 1)
        self.must(LSMFS, "umount", self.point)
        self.mount()
        with open(os.path.join(self.point, "before"), "rb") as file:
            self.assertEqual(file.read(), b"other contents")

    def test_umount_waits_for_a_device_that_does_not_answer(self):
        with open(os.path.join(self.point, "file"), "wb") as file:
            file.write(b"contents" * 100_000)
        self.freeze()
        umount = subprocess.Popen([LSMFS, "umount", self.point], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until(lambda: not os.path.ismount(self.point) and self.daemon_waits_for_the_disk(), "a daemon without its mount that waits for the disk")
        self.assertIsNone(umount.poll())
        self.thaw()
        self.assertEqual((umount.wait(PATIENCE), umount.stderr.read()), (0, b""))
        umount.stderr.close()
        self.mount()
        with open(os.path.join(self.point, "file"), "rb") as file:
            self.assertEqual(file.read(), b"contents" * 100_000)


if __name__ == "__main__":
    harness.main()
