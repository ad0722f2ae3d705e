"""A damaged part of a table of a file system in use: its files give errors, and everything else goes on."""

import errno
import os
import random
import re
import threading
import time

import harness
import scrub_test
from harness import LSMFS, MiB
from until import until

DAMAGED = 4
SECONDS = 600 if os.environ.get("LSMFS_LONG") else 5  # of load
FILES = 24


@harness.lsmfs_only
class Damage(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(11)

    def filled(self):
        """A mounted image with files that do not compress, all in tables, each with large attributes; and what is in them."""
        volume = self.volume(1024 * MiB, image=True)
        volume.mount()
        contents = {}
        for number in range(FILES):
            folder = f"d{number:02}"
            os.mkdir(volume.path(folder))
            data, before, value = self.rng.randbytes(MiB), self.rng.randbytes(40_000), self.rng.randbytes(40_000)
            with open(volume.path(folder, "file"), "wb") as file:
                file.write(data)
            os.setxattr(volume.path(folder, "file"), "user.a", before)
            os.setxattr(volume.path(folder, "file"), "user.b", value)
            contents[folder] = (data, value)
        volume.remount()
        return volume, contents

    @staticmethod
    def log(volume):
        with open(volume.log, encoding="utf-8") as log:
            return log.read()

    def await_line(self, volume, pattern):
        """Who meets damage gets an error at once; that it is set aside comes later."""
        until(lambda: re.search(pattern, self.log(volume)), lambda: f"{pattern} in the log:\n{self.log(volume)}")

    def damage(self, volume, piece):
        """Where it is in a table, which is behind the logs."""
        places = scrub_test.Scrub.places(volume, piece)
        self.assertNotEqual(places, [])
        scrub_test.Scrub.flip(volume, places[-1:])

    def load(self, volume, stop, failures):
        """Writes, overwrites, reads and removes in a directory of its own, so that compactions go on."""
        rng, written, number = random.Random(5), {}, 0
        os.mkdir(volume.path("load"))
        while not stop.is_set():
            number += 1
            path = volume.path("load", str(rng.randrange(40)))
            try:
                if path in written and rng.randrange(4) == 0:
                    os.unlink(path)
                    del written[path]
                    continue
                written[path] = rng.randbytes(rng.randrange(1, MiB))
                with open(path, "wb") as file:
                    file.write(written[path])
                    if number % 8 == 0:
                        os.fsync(file.fileno())
                some = rng.choice(list(written))
                with open(some, "rb") as file:
                    if file.read() != written[some]:
                        failures.append(f"{some}: other contents")
            except OSError as error:
                failures.append(f"{path}: {error}")

    def read(self, path):
        """What a file holds, 4 KiB after 4 KiB; None for what cannot be read."""
        pieces = []
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for at in range(0, os.fstat(file.fileno()).st_size, 4096):
                try:
                    pieces.append(os.pread(file.fileno(), 4096, at))
                except OSError as error:
                    self.assertEqual(error.errno, errno.EIO)
                    pieces.append(None)
        return pieces

    def scrub(self, volume):
        return harness.call(LSMFS, "scrub", volume.point, "--rate", "0")

    def test_all_else_goes_on_and_what_is_written_anew_or_removed_heals(self):
        volume, contents = self.filled()
        for folder, at in (("d07", 300_000), ("d11", 500_000), ("d15", 700_000)):
            self.damage(volume, contents[folder][0][at:at + 60])
        self.damage(volume, contents["d19"][1][20_000:20_060])
        stop, failures = threading.Event(), []
        thread = threading.Thread(target=self.load, args=(volume, stop, failures))
        thread.start()
        try:
            end = time.monotonic() + SECONDS
            lost = {}
            while time.monotonic() < end or len(lost) < 3:
                for folder, (data, value) in contents.items():
                    path = volume.path(folder, "file")
                    pieces = self.read(path)
                    for index, piece in enumerate(pieces):
                        if piece is None:
                            lost.setdefault(folder, set()).add(index)
                        else:
                            self.assertEqual(piece, data[index * 4096:(index + 1) * 4096], f"{folder}, {index}")
                    try:
                        self.assertEqual(os.getxattr(path, "user.b"), value)
                    except OSError as error:
                        self.assertEqual((folder, error.errno), ("d19", errno.EIO))
            self.assertEqual(sorted(lost), ["d07", "d11", "d15"])
            for blocks in lost.values():
                self.assertLess(len(blocks), 40)
            with self.assertRaises(OSError) as failed:
                os.getxattr(volume.path("d19", "file"), "user.b")
            self.assertEqual(failed.exception.errno, errno.EIO)
            for folder in lost:
                self.await_line(volume, rf"table \d+\.sst is damaged: file data between .* of /{folder}/file .* cannot be read until")
            self.await_line(volume, r"table \d+\.sst is damaged: names and attributes between .*/d19/file")
            done = self.scrub(volume)
            self.assertEqual(done.returncode, DAMAGED, done.stdout)
            for folder in lost:
                self.assertIn(f"of /{folder}/file", done.stdout)

            # In part, as a whole, in place, and away.
            with open(volume.path("d07", "file"), "r+b") as file:
                with self.assertRaises(OSError):
                    os.pwrite(file.fileno(), b"x", min(lost["d07"]) * 4096 + 5)
                for index in lost["d07"]:
                    os.pwrite(file.fileno(), contents["d07"][0][index * 4096:(index + 1) * 4096], index * 4096)
            self.assertEqual(b"".join(self.read(volume.path("d07", "file"))), contents["d07"][0])
            with open(volume.path("d11", "file"), "wb") as file:
                file.write(b"new")
            os.unlink(volume.path("d15", "file"))
            os.unlink(volume.path("d19", "file"))
        finally:
            stop.set()
            thread.join()
        self.assertEqual(failures, [])
        os.sync()
        until(lambda: self.scrub(volume).returncode == 0, "a scrub that finds nothing")
        self.assertNotIn("writing has stopped", self.log(volume))
        volume.umount()
        self.must(LSMFS, "fsck", "-n", volume.image)

    def test_a_repair_gives_up_what_is_lost(self):
        volume, contents = self.filled()
        self.damage(volume, contents["d11"][0][500_000:500_060])
        lost = [index for index, piece in enumerate(self.read(volume.path("d11", "file"))) if piece is None]
        self.assertNotEqual(lost, [])
        self.await_line(volume, "is damaged: file data")
        volume.remount()
        self.assertEqual([index for index, piece in enumerate(self.read(volume.path("d11", "file"))) if piece is None], lost)
        volume.umount()
        self.assertEqual(harness.call(LSMFS, "fsck", "-n", volume.image).returncode, 4)
        self.assertEqual(harness.call(LSMFS, "fsck", "-p", volume.image).returncode, 4)
        done = harness.call(LSMFS, "fsck", "-y", volume.image)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("/d11/file", done.stdout)
        self.must(LSMFS, "fsck", "-n", volume.image)
        volume.mount()
        for index, piece in enumerate(self.read(volume.path("d11", "file"))):
            whole = contents["d11"][0][index * 4096:(index + 1) * 4096]
            self.assertEqual(piece, bytes(len(whole)) if index in lost else whole)
        self.assertEqual(self.scrub(volume).returncode, 0)


if __name__ == "__main__":
    harness.main()
