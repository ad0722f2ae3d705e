"""The daemon takes little more memory than its cache, however much goes through it."""

import os
import unittest

import harness
import source_tree
from harness import MiB

CACHE = 32 * MiB
BESIDE = 128 * MiB  # what docs/limits.md says
SEED = 20251122
LETS_GO = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 18)


def status(volume, field):
    """Bytes of the daemon, of a field of proc(5)'s status."""
    [(pid, _)] = volume.daemons()
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields[field].split()[0]) * 1024


@harness.lsmfs_only
class Memory(harness.MountCase):
    def test_many_times_the_cache_is_written_read_copied_and_removed_within_the_cache_and_128_mib(self):
        volume = self.volume()
        volume.mount(f"cache={CACHE}")
        source = volume.path("0")
        os.mkdir(source)
        entries = source_tree.make(source, SEED, files=4000)
        with open(volume.path("large"), "wb") as file:
            for _ in range(64):
                file.write(os.urandom(MiB // 2) + bytes(MiB // 2))
        written = status(volume, "VmHWM")
        for number in range(2):
            self.must("cp", "-a", volume.path(str(number)), volume.path(str(number + 1)))
        self.must("cp", volume.path("large"), volume.path("copy"))
        harness.caches.drop()
        self.must("sh", "-c", "tar -cf - --exclude=sparse . | cat > /dev/null", cwd=volume.point)
        self.must("rm", "-rf", volume.path("1"), volume.path("large"))
        peak = status(volume, "VmHWM")
        print(f"{3 * entries} entries: {written / MiB:.0f} MiB after the first of them were written, {peak / MiB:.0f} MiB at most")
        self.assertLess(peak, CACHE + BESIDE)

    @unittest.skipUnless(LETS_GO, "before Linux 6.18 the kernel lets go of inodes by itself only, and each takes memory until then")
    def test_a_walk_over_many_files_takes_no_more_memory_than_one_over_few(self):
        volume = self.volume()
        volume.mount(f"cache={16 * MiB}")
        for folder in range(60):
            place = volume.path(f"{folder:02}")
            os.mkdir(place)
            directory = os.open(place, os.O_RDONLY)
            for number in range(1000):
                os.mknod(f"{number:03}", 0o100644, dir_fd=directory)
            os.close(directory)
        volume.remount(f"cache={16 * MiB}")
        few = self.walk(volume, 8)
        many = max(self.walk(volume, folders) for folders in range(8, 61, 4))
        print(f"{few / MiB:.1f} MiB after a walk over 8,000 files, {many / MiB:.1f} MiB at most over up to 60,000")
        self.assertLess(many, few + 10 * MiB)  # 52,000 inodes are 23 MiB

    def walk(self, volume, folders):
        """Looks at all files in so many folders; the memory that the daemon takes then."""
        seen = 0
        for folder in range(folders):
            with os.scandir(volume.path(f"{folder:02}")) as entries:
                seen += sum(entry.stat(follow_symlinks=False).st_nlink for entry in entries)
        self.assertEqual(seen, 1000 * folders)
        return status(volume, "RssAnon")


if __name__ == "__main__":
    harness.main()
