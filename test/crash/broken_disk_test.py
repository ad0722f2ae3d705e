"""A disk that fails once, below a mounted file system: fsync says so, nothing is acknowledged afterwards, what was synced stays.

Needs root."""

import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "integration"))

import harness  # noqa: E402
import qemu_disk  # noqa: E402
from harness import MiB, outcome  # noqa: E402
from story import tree  # noqa: E402


@harness.lsmfs_only
class BrokenDisk(harness.MountCase):
    @contextlib.contextmanager
    def on(self, kind, once):
        """A volume mounted on a disk of which requests of a kind can be made to fail."""
        volume = self.volume(160 * MiB, image=True)
        with qemu_disk.breaking_below(volume, kind, once) as disk:
            yield volume, disk

    def write(self, path, data):
        with open(path, "wb", buffering=0) as file:
            file.write(data)

    def sync(self, path):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def fails_once(self, kind):
        with self.on(kind, once=True) as (volume, disk):
            folder, old, new = volume.path("folder"), volume.path("folder", "old"), volume.path("folder", "new")
            os.mkdir(folder)
            self.write(old, b"old" * 100_000)
            self.sync(old)
            synced = tree(volume.point)
            disk.use("broken")
            self.write(new, b"new" * 100_000)
            self.assertEqual(outcome(self.sync, new), "EIO")
            # The disk is well again, and the failure is not forgotten.
            for path in (new, old, folder):
                self.assertEqual(outcome(self.sync, path), "EIO", path)
            for change in (lambda: os.mkdir(volume.path("another")), lambda: os.unlink(old), lambda: os.rename(old, new),
                           lambda: os.truncate(old, 1), lambda: os.chmod(old, 0o600), lambda: self.write(old, b"x"),
                           lambda: os.setxattr(old, "user.a", b"b")):
                self.assertEqual(outcome(change), "EROFS")
            shown = tree(volume.point)
            self.assertEqual({path: shown[path] for path in synced}, synced)
            self.assertEqual(shown["folder/new"][2], b"new" * 100_000, "what was acknowledged is read as it was written")
            self.assertIn("read-only", self.must(harness.LSMFS, "info", volume.point))
            with open(volume.log, encoding="utf-8") as log:
                self.assertIn("read-only from now on", log.read())
        self.must(harness.LSMFS, "fsck", volume.image)
        volume.mount()
        shown = tree(volume.point)
        self.assertEqual({path: shown.get(path) for path in synced}, synced)
        self.assertLessEqual(set(shown), set(synced) | {"folder/new"})
        os.mkdir(volume.path("another"))
        self.sync(volume.path("another"))

    def test_a_flush(self):
        self.fails_once("flush")

    def test_a_write(self):
        self.fails_once("write")

    def test_reads(self):
        """Not once, since the kernel tries a failed read of its own again."""
        with self.on("read", once=False) as (volume, disk):
            self.write(volume.path("large"), os.urandom(20 * MiB))
            self.sync(volume.path("large"))
            self.write(volume.path("small"), b"small")
            synced = tree(volume.point)
            volume.remount("sync_interval=0")
            disk.use("broken")
            self.assertEqual(outcome(tree, volume.point), "EIO")
            disk.use("disk")
            shown = tree(volume.point)
            self.assertTrue(shown == synced, "other contents after a failure than before it")
            # A merge of tables in the background may have met the failure, and then nothing more is written.
            synced_again = outcome(self.write, volume.path("new"), b"new") is None and outcome(self.sync, volume.path("new")) is None
        self.must(harness.LSMFS, "fsck", volume.image)
        volume.mount()
        shown = tree(volume.point)
        new = shown.pop("new", None)
        self.assertTrue(shown == synced)
        self.assertIn(new, [("file", 0o644, b"new", 1)] if synced_again else [None, ("file", 0o644, b"", 1), ("file", 0o644, b"new", 1)])


if __name__ == "__main__":
    harness.main()
