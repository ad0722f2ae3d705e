"""Rename of a directory that holds very much costs what a rename costs, and everything is still in it."""

import hashlib
import os
import time

import harness

FILES = 20000


class Rename(harness.MountCase):
    def fill(self, place):
        """FILES files in 100 folders, most of them empty, some with contents; one larger than what moves outright."""
        for folder in range(100):
            os.mkdir(os.path.join(place, f"d{folder}"))
            for number in range(FILES // 100):
                with open(os.path.join(place, f"d{folder}", f"f{number}"), "wb") as file:
                    if number % 20 == 0:
                        file.write(b"%d/%d " % (folder, number) * 400)
        with open(os.path.join(place, "large"), "wb") as file:
            for number in range(9 << 10):
                file.write(hashlib.blake2b(b"%d" % number).digest() * 16)

    def check(self, place):
        self.assertEqual(len(os.listdir(place)), 101)
        for folder in range(100):
            names = os.listdir(os.path.join(place, f"d{folder}"))
            self.assertEqual(sorted(names), sorted(f"f{number}" for number in range(FILES // 100)))
            for number in range(0, FILES // 100, 5):
                with open(os.path.join(place, f"d{folder}", f"f{number}"), "rb") as file:
                    self.assertEqual(file.read(), b"%d/%d " % (folder, number) * 400 if number % 20 == 0 else b"")
        with open(os.path.join(place, "large"), "rb") as file:
            for number in range(9 << 10):
                self.assertEqual(file.read(1024), hashlib.blake2b(b"%d" % number).digest() * 16)

    @staticmethod
    def rename(old, new):
        begin = time.perf_counter()
        os.rename(old, new)
        return f"{(time.perf_counter() - begin) * 1000:.2f} ms"

    def test_a_large_directory_is_renamed_and_whole_also_after_a_remount(self):
        volume = self.volume()
        volume.mount()
        os.makedirs(volume.path("a", "tree"))
        os.mkdir(volume.path("b"))
        self.fill(volume.path("a", "tree"))
        print("renamed, just written:", self.rename(volume.path("a", "tree"), volume.path("b", "moved")))
        self.check(volume.path("b", "moved"))
        volume.remount()
        self.check(volume.path("b", "moved"))
        # The first thing after a mount, then again: back to where another tree was made in between.
        volume.remount()
        print("renamed, cold:", self.rename(volume.path("b", "moved"), volume.path("b", "again")))
        os.makedirs(volume.path("b", "moved", "d1"))
        with open(volume.path("b", "moved", "d1", "f0"), "wb") as file:
            file.write(b"another")
        self.check(volume.path("b", "again"))
        print("renamed:", self.rename(volume.path("b", "again"), volume.path("a", "tree")))
        volume.remount()
        self.check(volume.path("a", "tree"))
        self.assertEqual(os.listdir(volume.path("b", "moved", "d1")), ["f0"])
        with open(volume.path("b", "moved", "d1", "f0"), "rb") as file:
            self.assertEqual(file.read(), b"another")
        # Into itself, and over what is not empty.
        with self.assertRaises(OSError):
            os.rename(volume.path("a"), volume.path("a", "tree", "d1", "x"))
        with self.assertRaises(OSError):
            os.rename(volume.path("a", "tree"), volume.path("b", "moved"))
        self.must("rm", "-rf", volume.path("a"))
        volume.remount()
        self.assertEqual(sorted(set(os.listdir(volume.point)) - {"lost+found"}), ["b"])


if __name__ == "__main__":
    harness.main()
