"""A read-only mount after a crash shows what the log holds and writes nothing, whoever forbids the writing."""

import os
import subprocess

import harness
import loop
from harness import LSMFS, MiB


def written(device):
    """How often, and how much, has been written to a device, discarded from it, flushed in it."""
    with open(f"/sys/block/{os.path.basename(device)}/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.read().split()]
    # Documentation/block/stat.rst: writes and their sectors, discards and their sectors, flushes.
    return fields[4], fields[6], fields[11], fields[13], fields[15]


@harness.lsmfs_only
class ReadOnly(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.crashed = self.volume(400 * MiB, image=True)
        self.expected = self.crash(self.crashed)
        self.before = self.crashed.digest()

    def crash(self, volume):
        """Leaves an image whose newest contents are in the log only. Returns what was synced: {name: contents}."""
        volume.mount("sync_interval=3600")
        synced = {}
        os.mkdir(volume.path("folder"))
        for number in range(300):
            name = f"folder/{number}" if number % 2 else f"{number}"
            synced[name] = os.urandom(40_000)
            with open(volume.path(name), "wb") as file:
                file.write(synced[name])
        os.unlink(volume.path("0"))
        del synced["0"]
        os.rename(volume.path("2"), volume.path("renamed"))
        synced["renamed"] = synced.pop("2")
        with open(volume.path("open"), "wb") as unnamed:
            unnamed.write(os.urandom(MiB))
            os.unlink(volume.path("open"))
            os.fsync(unnamed.fileno())
            for number in range(8):  # of which some frames are on the device, and no sync
                with open(volume.path(f"unsynced{number}"), "wb") as file:
                    file.write(os.urandom(MiB))
            volume.kill()
        return synced

    def tree(self, volume):
        found = {}
        for place, _, names in os.walk(volume.point):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    found[os.path.relpath(os.path.join(place, name), volume.point)] = file.read()
        return found

    def check(self, source, options):
        """Mounts `source` and looks at all that is in it."""
        volume = self.crashed
        self.must(LSMFS, "mount", source, volume.point, "-o", options, "--log", volume.log)
        found = self.tree(volume)
        self.assertEqual({name: found.get(name) for name in self.expected}, self.expected)
        self.assertLessEqual({name for name in found if not name.startswith("unsynced")}, set(self.expected))
        for change in (lambda: os.unlink(volume.path("renamed")), lambda: os.mkdir(volume.path("new")),
                       lambda: os.utime(volume.path("renamed")), lambda: os.truncate(volume.path("renamed"), 0),
                       lambda: os.setxattr(volume.path("renamed"), "user.a", b"b")):
            with self.assertRaises(OSError):
                change()
        descriptor = os.open(volume.point, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        self.must("sync", "-f", volume.point)
        self.assertIn("read-only", self.must(LSMFS, "info", volume.point))
        volume.umount()
        return found

    def test_nothing_is_written_and_all_is_seen(self):
        seen = [self.check(self.crashed.image, "ro")]
        self.assertEqual(self.crashed.digest(), self.before, "an image")

        device = loop.attach(self.crashed.image)
        self.addCleanup(loop.detach, device)
        count = written(device)
        seen.append(self.check(device, "ro"))
        seen.append(self.check(device, "ro,strictatime,sync_interval=1,writeback"))
        self.assertEqual(written(device), count, "a device that could be written")
        self.must("blockdev", "--setro", device)
        self.refused(LSMFS, "mount", device, self.crashed.point, says=[device, "read-only", "-o ro"])
        seen.append(self.check(device, "ro"))
        self.must("blockdev", "--setrw", device)
        self.assertEqual(written(device), count)
        self.assertEqual(self.crashed.digest(), self.before, "a device")

        # What a mount that may write does is seen by both.
        self.must(LSMFS, "mount", device, self.crashed.point, "--log", self.crashed.log)
        seen.append(self.tree(self.crashed))
        self.crashed.umount()
        self.assertNotEqual(written(device), count)
        self.assertNotEqual(self.crashed.digest(), self.before)
        seen.append(self.check(device, "ro"))
        for other in seen[1:]:
            self.assertEqual(other.keys(), seen[0].keys())
            self.assertTrue(other == seen[0])

    def test_a_read_only_loop_device(self):
        device = subprocess.run(["losetup", "--find", "--show", "--read-only", self.crashed.image], capture_output=True,
                                text=True, check=True).stdout.strip()
        self.addCleanup(loop.detach, device)
        self.refused(LSMFS, "mount", device, self.crashed.point, says=[device, "read-only", "-o ro"])
        self.check(device, "ro")
        self.must(LSMFS, "info", device)
        self.assertIn("clean", self.must(LSMFS, "fsck", device))
        self.assertEqual(self.crashed.digest(), self.before)

    def test_an_image_on_a_read_only_file_system(self):
        place = self.work.sub("read-only")
        self.must("mount", "--bind", self.crashed.folder, place)
        self.must("mount", "-o", "remount,bind,ro", place)
        self.addCleanup(self.must, "umount", place)
        image = os.path.join(place, os.path.basename(self.crashed.image))
        self.refused(LSMFS, "mount", image, self.crashed.point, says=[image, "read-only", "-o ro"])
        self.check(image, "ro")
        self.assertEqual(self.crashed.digest(), self.before)


if __name__ == "__main__":
    harness.main()
