"""A full file system says ENOSPC to the writer and to nobody else: deletes work, reads work, the daemon lives."""

import errno
import hashlib
import os
import random
import time

import harness
from harness import MiB

SIZE = 300 * MiB
SEED = 4


class Full(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        self.written = {}

    def fill(self, place, size):
        """Writes files of incompressible bytes until ENOSPC; remembers what was written whole. Returns their number."""
        count = 0
        while True:
            path = os.path.join(place, f"f{count:06}")
            contents = self.rng.randbytes(size)
            try:
                with open(path, "wb", buffering=0) as file:
                    done = 0
                    while done < size:
                        done += file.write(contents[done:done + MiB])
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC, f"{path}: {error}")
                return count
            self.written[path] = hashlib.blake2b(contents).digest()
            count += 1
            self.assertLess(count * size, 2 * SIZE, "wrote more than the device holds")

    def check(self):
        for path, expected in self.written.items():
            with open(path, "rb") as file:
                self.assertEqual(hashlib.blake2b(file.read()).digest(), expected, path)

    def free(self, volume):
        facts = os.statvfs(volume.point)
        return facts.f_bavail * facts.f_frsize

    def wait_for_free(self, volume, least):
        """Space may come back a little after the delete, when the tables have been merged."""
        deadline = time.monotonic() + 60
        while self.free(volume) < least and time.monotonic() < deadline:
            time.sleep(0.25)
        self.assertGreaterEqual(self.free(volume) / MiB, least / MiB, "MiB free")

    def alive(self, volume):
        if harness.FS == "lsmfs":
            self.assertEqual(len(volume.daemons()), 1, "the daemon has gone")

    def fill_and_empty(self, size, image):
        volume = self.volume(SIZE, image)
        volume.mount()
        fresh = self.free(volume)
        self.assertGreater(fresh, SIZE // 3)
        kept = volume.path("kept")
        with open(kept, "wb") as file:
            file.write(b"kept" * 1000)
        self.written[kept] = hashlib.blake2b(b"kept" * 1000).digest()
        for number in range(3):
            place = volume.path(f"fill{number}")
            os.mkdir(place)
            count = self.fill(place, size)
            print(f"fill {number}: {count} files of {size} bytes on {fresh / MiB:.0f} MiB")
            self.assertGreater(count * size, fresh // 2, "ENOSPC when half of it was still free")
            self.alive(volume)
            self.check()
            # Full, with names and attributes and deletes still at work.
            os.listdir(place)
            os.unlink(os.path.join(place, "f000000"))
            del self.written[os.path.join(place, "f000000")]
            if number == 1:
                volume.remount()
                self.check()
            for path in [path for path in self.written if path != kept]:
                os.unlink(path)
                del self.written[path]
            for name in os.listdir(place):  # the one that was cut short
                os.unlink(os.path.join(place, name))
            os.rmdir(place)
            self.alive(volume)
            self.wait_for_free(volume, fresh * 9 // 10)
        self.check()
        volume.remount()
        self.check()
        self.assertEqual([name for name in os.listdir(volume.point) if name != "lost+found"], ["kept"])
        self.wait_for_free(volume, fresh * 9 // 10)

    def test_filled_with_large_files_on_a_loop_device(self):
        self.fill_and_empty(8 * MiB, image=False)

    def test_filled_with_small_files_in_an_image(self):
        self.fill_and_empty(50000, image=True)

    def test_names_alone_fill_it_too_and_rm_empties_it(self):
        volume = self.volume(SIZE)
        volume.mount()
        self.fill(volume.point, 4 * MiB)
        count = 0
        os_error = None
        while os_error is None and count < 200000:
            try:
                os.symlink(self.rng.randbytes(500).hex(), volume.path(f"{count}-" + "n" * 200))
                count += 1
            except OSError as error:
                os_error = error.errno
        self.assertEqual(os_error, errno.ENOSPC)
        print(f"{count} names after ENOSPC for data")
        self.alive(volume)
        self.check()
        self.must("find", volume.point, "-mindepth", "1", "-delete")
        self.assertEqual(os.listdir(volume.point), [])
        self.alive(volume)
        volume.remount()
        with open(volume.path("again"), "wb") as file:
            file.write(b"again")


if __name__ == "__main__":
    harness.main()
