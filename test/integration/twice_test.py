"""One volume is never mounted twice, nor made or repaired while it is mounted, by whatever names its bytes are reached."""

import os
import shutil
import subprocess

import harness
import loop
import namespace
from harness import LSMFS, MiB
from until import until


@harness.lsmfs_only
class Twice(harness.MountCase):
    def attach(self, image, *options):
        device = self.must("losetup", "-f", "--show", *options, image).strip()
        self.addCleanup(loop.detach, device)
        return device

    def refused_everywhere(self, device, *says):
        """None of what writes to a device may have this one."""
        other = self.work.sub("other")
        self.refused(LSMFS, "mount", device, other, says=[device, *says], codes=[32])
        self.refused(LSMFS, "mount", "-o", "ro", device, other, says=[device, *says], codes=[32])
        self.refused(LSMFS, "mkfs", "-f", device, says=[device, *says], codes=[1])
        self.refused(LSMFS, "fsck", "-y", device, says=[device, *says], codes=[8])
        self.assertFalse(os.path.ismount(other))

    def check(self, volume):
        """After what was refused it is what it was."""
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents")

    def mounted(self, image=False, **more):
        volume = self.volume(200 * MiB, image=image, **more)
        volume.mount()
        with open(volume.path("file"), "wb") as file:
            file.write(b"contents")
        return volume

    def test_an_image_on_two_loop_devices(self):
        volume = self.mounted()
        self.refused_everywhere(self.attach(volume.image), volume.point, volume.device)
        self.check(volume)
        volume.remount()
        self.check(volume)

    def test_an_image_that_is_mounted_and_a_loop_device_on_it(self):
        volume = self.mounted(image=True)
        device = self.attach(volume.image)
        self.refused_everywhere(device, volume.point)
        self.refused_everywhere(volume.image, volume.point)
        self.check(volume)

    def test_a_link_of_an_image(self):
        volume = self.mounted(image=True)
        link = os.path.join(volume.folder, "link.img")
        os.link(volume.image, link)
        self.refused_everywhere(link, volume.point, volume.image)
        self.refused_everywhere(self.attach(link), volume.point)
        self.check(volume)

    def test_an_image_that_has_another_name_by_now(self):
        volume = self.mounted(image=True)
        moved = os.path.join(volume.folder, "moved.img")
        os.rename(volume.image, moved)
        self.refused(LSMFS, "mount", moved, self.work.sub("other"), says=[moved, volume.point], codes=[32])
        device = self.attach(moved)
        self.refused(LSMFS, "mount", device, self.work.sub("other"), says=[device, volume.point], codes=[32])
        self.check(volume)
        volume.umount()
        os.rename(moved, volume.image)

    def test_a_copy_of_a_mounted_image(self):
        volume = self.volume(200 * MiB, image=True)
        copy = os.path.join(volume.folder, "copy.img")
        shutil.copyfile(volume.image, copy)
        volume.mount()
        facts = self.must(LSMFS, "info", copy)
        uuid = [line.split()[1] for line in facts.splitlines() if line.startswith("uuid:")][0]
        self.refused(LSMFS, "mount", copy, self.work.sub("other"), says=[copy, uuid], codes=[32])
        volume.umount()
        self.must(LSMFS, "mount", copy, volume.point)
        self.must(LSMFS, "umount", volume.point)

    def test_parts_of_one_file_are_no_matter(self):
        """As those of a disk's image with partitions are."""
        first = self.mounted()
        size = os.path.getsize(first.image)
        os.truncate(first.image, 2 * size)
        second = self.attach(first.image, "--offset", str(size))
        self.must("losetup", "--set-capacity", first.device)  # it still shows all of it
        other = self.work.sub("other")
        self.refused(LSMFS, "mkfs", second, says=[second, first.point])
        first.umount()
        loop.detach(first.device)
        first.device = self.must("losetup", "-f", "--show", "--sizelimit", str(size), first.image).strip()
        first.mount()
        self.must(LSMFS, "mkfs", second)
        self.must(LSMFS, "mount", second, other)
        self.must(LSMFS, "umount", other)
        self.check(first)

    def test_a_mount_in_another_namespace(self):
        volume = self.volume(200 * MiB, image=True)
        ready = os.path.join(volume.folder, "ready")
        script = f'"{LSMFS}" mount "{volume.image}" "{volume.point}" && touch "{ready}" && read -r line && "{LSMFS}" umount "{volume.point}"'
        with subprocess.Popen(namespace.alone("sh", "-c", script), stdin=subprocess.PIPE) as process:
            until(lambda: os.path.exists(ready) or process.poll() is not None, "a mount in a namespace of its own")
            self.assertFalse(os.path.ismount(volume.point))
            self.refused(LSMFS, "mount", volume.image, volume.point, says=["namespace"], codes=[32])
            process.communicate(b"\n")
        self.assertEqual(process.returncode, 0)
        volume.mount()


if __name__ == "__main__":
    harness.main()
