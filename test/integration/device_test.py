"""A device that is in use is left alone, and umount returns when all is on it."""

import contextlib
import os
import subprocess

import harness
from harness import LSMFS, MiB
from until import until


@harness.lsmfs_only
class Device(harness.MountCase):
    def test_a_device_that_is_mounted_is_neither_mounted_nor_made_again(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        with open(volume.path("file"), "wb") as file:
            file.write(b"contents")
        other = self.work.sub("other")
        self.refused(LSMFS, "mount", volume.device, other, says=[volume.device])
        self.refused(LSMFS, "mount", volume.device, volume.point, says=[volume.point])
        self.refused(LSMFS, "mkfs", volume.device, says=[volume.device])
        self.refused(LSMFS, "mkfs", "-f", volume.device, says=[volume.device])
        self.assertFalse(os.path.ismount(other))
        volume.remount()
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents")

    def test_a_mounted_image_is_neither_mounted_nor_made_again(self):
        volume = self.volume(200 * MiB, image=True)
        volume.mount()
        with open(volume.path("file"), "wb") as file:
            file.write(b"contents")
        self.refused(LSMFS, "mount", volume.device, self.work.sub("other"), says=[volume.device])
        self.refused(LSMFS, "mkfs", "-f", volume.device, says=[volume.device])
        volume.remount()
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents")

    def test_a_device_in_use_by_something_else_is_left_alone(self):
        volume = self.volume(200 * MiB)
        self.must("mkfs.ext4", "-q", "-F", volume.device)
        self.must("mount", "-t", "ext4", volume.device, volume.point)
        other = self.work.sub("other")
        self.refused(LSMFS, "mkfs", "-f", volume.device, says=[volume.device])
        self.refused(LSMFS, "mount", volume.device, other, says=[volume.device])
        self.must("umount", volume.point)
        before = volume.digest()
        self.refused(LSMFS, "mkfs", volume.device, says=[volume.device, "ext4", "-f"])
        self.refused(LSMFS, "mount", volume.device, other, says=[volume.device])
        held = os.open(volume.device, os.O_RDWR | os.O_EXCL)
        self.refused(LSMFS, "mkfs", "-f", volume.device, says=[volume.device])
        self.refused(LSMFS, "mount", volume.device, other, says=[volume.device])
        os.close(held)
        self.assertEqual(volume.digest(), before, "a refused mkfs or mount has written")
        self.must(LSMFS, "mkfs", "-f", volume.device)
        volume.mount()
        self.assertEqual(os.listdir(volume.point), [])

    def test_a_claim_that_soon_goes_is_waited_for(self):
        """As the kernel's on a device whose mount has gone, which outlives the daemon for a moment."""
        volume = self.volume(200 * MiB)
        for command in (("fsck", volume.device), ("mkfs", "-f", volume.device), ("mount", volume.device, volume.point)):
            held = os.open(volume.device, os.O_RDONLY | os.O_EXCL)
            with subprocess.Popen([LSMFS, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
                until(lambda: process.poll() is not None or self.all_sleep(volume.device), f"{command[0]} that waits")
                self.assertIsNone(process.poll(), f"{command[0]} took no notice of the claim")
                os.close(held)
                said = process.communicate()[0]
            self.assertEqual(process.returncode, 0, said)

    @staticmethod
    def all_sleep(device):
        """Whether all processes of ours that name the device wait for something, and there are some."""
        states = []
        for pid, _ in harness.workspace.processes_of(device, harness.WHOLE):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                states.append(file.read().rpartition(") ")[2][:1])
        return set(states) == {"S"}

    def test_a_read_only_device_is_not_made_and_mounts_only_to_read(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        with open(volume.path("file"), "wb") as file:
            file.write(b"contents")
        volume.umount()
        self.must("blockdev", "--setro", volume.device)
        before = volume.digest()
        self.refused(LSMFS, "mkfs", "-f", volume.device, says=[volume.device])
        volume.mount("ro")
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        with self.assertRaises(OSError):
            os.unlink(volume.path("file"))
        volume.umount()
        self.assertEqual(volume.digest(), before)
        self.must("blockdev", "--setrw", volume.device)

    def check_umount_waits(self, image, umount):
        volume = self.volume(400 * MiB, image=image)
        for number in range(8):
            volume.mount()
            self.assertEqual(sorted(os.listdir(volume.point)), [str(old) for old in range(number)])
            contents = os.urandom(MiB) * 16
            with open(volume.path(str(number)), "wb") as file:
                file.write(contents)
            if umount == "umount":
                self.must("umount", volume.point)
            else:
                self.must(LSMFS, "umount", volume.point)
            if not image:
                # Nobody has the device any more, or will write to it.
                os.close(os.open(volume.device, os.O_RDWR | os.O_EXCL))
            # At once: neither "in use" nor a file that is not there yet.
            volume.mount()
            with open(volume.path(str(number)), "rb") as file:
                self.assertEqual(file.read(), contents)
            volume.umount()

    def test_umount_of_util_linux_returns_when_all_is_on_a_device(self):
        self.check_umount_waits(image=False, umount="umount")

    def test_lsmfs_umount_returns_when_all_is_on_a_device(self):
        self.check_umount_waits(image=False, umount="lsmfs")

    def test_lsmfs_umount_returns_when_all_is_in_an_image(self):
        self.check_umount_waits(image=True, umount="lsmfs")

    def test_the_mount_table_names_the_device(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        source, kind = self.must("findmnt", "-n", "-o", "SOURCE,FSTYPE", volume.point).split()
        self.assertEqual(source, volume.device)
        self.assertIn("lsmfs", kind)
        self.assertIn(volume.point, self.must("lsblk", "-n", "-o", "MOUNTPOINTS", volume.device))

    def test_a_busy_mount_is_not_unmounted(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        with open(volume.path("file"), "wb") as file:
            self.refused(LSMFS, "umount", volume.point, says=[volume.point])
            file.write(b"still here")
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"still here")
        self.refused(LSMFS, "umount", self.work.sub("not-mounted"), says=["not-mounted"])


if __name__ == "__main__":
    harness.main()
