"""The daemon takes little more memory than its cache, however much goes through it."""

import os

import harness
import source_tree
from harness import MiB

CACHE = 32 * MiB
BESIDE = 128 * MiB  # what docs/limits.md says
SEED = 20251122


@harness.lsmfs_only
class Memory(harness.MountCase):
    def peak(self, volume):
        [(pid, _)] = volume.daemons()
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            status = dict(line.split(":", 1) for line in file)
        return int(status["VmHWM"].split()[0]) * 1024

    def test_many_times_the_cache_is_written_read_copied_and_removed_within_the_cache_and_128_mib(self):
        volume = self.volume()
        volume.mount(f"cache={CACHE}")
        source = volume.path("0")
        os.mkdir(source)
        entries = source_tree.make(source, SEED, files=4000)
        with open(volume.path("large"), "wb") as file:
            for _ in range(64):
                file.write(os.urandom(MiB // 2) + bytes(MiB // 2))
        written = self.peak(volume)
        for number in range(2):
            self.must("cp", "-a", volume.path(str(number)), volume.path(str(number + 1)))
        self.must("cp", volume.path("large"), volume.path("copy"))
        harness.caches.drop()
        self.must("sh", "-c", "tar -cf - --exclude=sparse . | cat > /dev/null", cwd=volume.point)
        self.must("rm", "-rf", volume.path("1"), volume.path("large"))
        peak = self.peak(volume)
        print(f"{3 * entries} entries: {written / MiB:.0f} MiB after the first of them were written, {peak / MiB:.0f} MiB at most")
        self.assertLess(peak, CACHE + BESIDE)


if __name__ == "__main__":
    harness.main()
