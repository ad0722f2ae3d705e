"""A file system that is given another size keeps all it has: grown while it is used, shrunk while processes are killed."""

import hashlib
import os
import random
import subprocess
import threading

import harness
from harness import LSMFS, MiB


def contents(top):
    """{path: digest} of all files below."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)] = hashlib.blake2b(file.read()).hexdigest()
    return found


@harness.lsmfs_only
class Resize(harness.MountCase):
    def mounted(self, size, image=True):
        volume = self.volume(size, image=image)
        volume.mount()
        return volume

    def fill(self, volume, files, size, seed):
        generator = random.Random(seed)
        for i in range(files):
            folder = volume.path(f"folder{i % 7}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"file{i}"), "wb") as file:
                file.write(generator.randbytes(generator.randrange(2 * size)))

    def test_grows_while_files_are_written_and_read(self):
        volume = self.mounted(600 * MiB)
        self.fill(volume, 60, 2 * MiB, 1)
        before = os.statvfs(volume.point)
        ended = threading.Event()
        failures = []

        def work(number):
            generator = random.Random(number)
            name = volume.path(f"worker{number}")
            while not ended.is_set():
                contents = generator.randbytes(generator.randrange(1, MiB))
                with open(name, "wb") as file:
                    file.write(contents)
                    os.fsync(file.fileno())
                with open(name, "rb") as file:
                    if file.read() != contents:
                        failures.append(name)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for worker in workers:
            worker.start()
        try:
            for size in (700, 900, 1200):
                self.must(LSMFS, "resize", volume.point, f"{size}M")
        finally:
            ended.set()
            for worker in workers:
                worker.join()
        self.assertEqual(failures, [])
        after = os.statvfs(volume.point)
        self.assertGreater(after.f_blocks * after.f_frsize - before.f_blocks * before.f_frsize, 400 * MiB)
        self.assertGreater(after.f_bavail, before.f_bavail)
        self.fill(volume, 60, 6 * MiB, 2)  # more than there was room for
        digest = contents(volume.point)
        free = os.statvfs(volume.point)
        volume.umount()
        volume.mount()
        self.assertEqual(contents(volume.point), digest)
        again = os.statvfs(volume.point)
        self.assertLess(abs(again.f_bavail - free.f_bavail) * free.f_frsize, 32 * MiB)

    def test_shrinks_although_it_is_killed_again_and_again(self):
        volume = self.mounted(1200 * MiB)
        self.fill(volume, 100, 4 * MiB, 3)
        for i in range(0, 100, 3):
            os.unlink(volume.path(f"folder{i % 7}", f"file{i}"))
        digest = contents(volume.point)
        volume.umount()
        killed = 0
        for attempt in range(200):  # each lives a little longer
            resizing = subprocess.Popen([LSMFS, "resize", volume.image, "700M"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            try:
                resizing.wait(0.002 * attempt)
                break
            except subprocess.TimeoutExpired:
                resizing.kill()
                resizing.wait()
                killed += 1
            if attempt % 10 == 0:
                self.must(LSMFS, "fsck", volume.image)
        self.assertEqual(resizing.returncode, 0)
        self.assertGreater(killed, 0)
        self.assertEqual(os.path.getsize(volume.image), 700 * MiB)
        self.must(LSMFS, "fsck", volume.image)
        volume.mount()
        self.assertEqual(contents(volume.point), digest)

    def test_refuses_what_does_not_fit(self):
        volume = self.mounted(600 * MiB)
        self.fill(volume, 50, 4 * MiB, 4)
        digest = contents(volume.point)
        self.refused(LSMFS, "resize", volume.point, "300M", says=["unmount it first"])
        volume.umount()
        self.refused(LSMFS, "resize", volume.image, "200M", says=["or more"])
        self.assertEqual(os.path.getsize(volume.image), 600 * MiB)
        volume.mount()
        self.assertEqual(contents(volume.point), digest)

    def test_a_block_device_that_has_grown_is_taken(self):
        volume = self.mounted(300 * MiB, image=False)
        self.fill(volume, 20, MiB, 5)
        digest = contents(volume.point)
        self.refused(LSMFS, "resize", volume.point, "500M", says=["fewer bytes"])
        backing = self.must("losetup", "-nO", "BACK-FILE", volume.device).strip()
        os.truncate(backing, 500 * MiB)
        self.must("losetup", "-c", volume.device)
        self.assertIn("500 MiB", self.must(LSMFS, "resize", volume.point))
        self.assertEqual(contents(volume.point), digest)
        volume.umount()
        self.assertIn("250 MiB", self.must(LSMFS, "resize", volume.device, "250M"))
        os.truncate(backing, 250 * MiB)
        self.must("losetup", "-c", volume.device)
        volume.mount()
        self.assertEqual(contents(volume.point), digest)


if __name__ == "__main__":
    harness.main()
