"""fsx: random operations on one file, by system calls and by mappings; every read is compared with what was written."""

import hashlib
import os

import suite

# All of its operations. None of 0 bytes: posix_fallocate would refuse it with EINVAL, as it must, which fsx takes for a
# file system without posix_fallocate.
CONFIGURATION = """\
flen = {length}

[opsize]
min = 1
max = {most}

[weights]
close_open = 1
invalidate = 1
mapread = 5
mapwrite = 5
read = 5
write = 5
truncate = 2
fsync = 1
fdatasync = 1
posix_fallocate = 3
punch_hole = 3
sendfile = 5
posix_fadvise = 3
copy_file_range = 5
"""
KiB = 1 << 10
# (greatest length of the file, greatest length of an operation): as fsx has it by default, and a file in which more stays.
USUAL = (256 * KiB, 64 * KiB)
LARGE = (4096 * KiB, 64 * KiB)
OPERATIONS = 1_000_000 if suite.LONG else 100_000
SEEDS = [int(seed) for seed in os.environ.get("LSMFS_FSX_SEEDS", "1").split(",")]

UNMAP = os.environ.get("LSMFS_FSX_UNMAP", os.path.join(suite.harness.ROOT, "build", "release", "test", "posix", "fsx_unmap.so"))


class Fsx(suite.SuiteCase):
    def digest(self, volume):
        with open(volume.path("suite", "file"), "rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()

    def exercise(self, seed, operations, lengths):
        volume = self.fresh(suite.harness.GiB)
        length, most = lengths
        configuration = os.path.join(self.work.path, "fsx.toml")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(length=length, most=most))
        self.assertTrue(os.path.exists(UNMAP), f"{UNMAP}: not there: build the target fsx_unmap")
        done = suite.harness.call("env", f"LD_PRELOAD={UNMAP}", self.program("fsx"), "-f", configuration, "-N", operations, "-S", seed,
                                  "-P", self.work.sub("artifacts"), volume.path("suite", "file"), seconds=3600)
        self.assertEqual((done.returncode, done.stdout), (0, "All operations completed A-OK!\n"),
                         f"seed {seed}, {operations} operations, lengths {lengths}:\n{done.stderr[-10000:]}")
        print(f"fsx: {operations} operations with seed {seed} on a file of at most {length // KiB} KiB", flush=True)
        before = self.digest(volume)
        self.check_in_order(volume)
        self.assertEqual(self.digest(volume), before, f"seed {seed}: after the remount the file has other contents")
        volume.umount()

    def test_a_file_holds_what_random_operations_put_there(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.exercise(seed, OPERATIONS, USUAL if seed % 2 else LARGE)

    def test_a_larger_file_holds_what_random_operations_put_there(self):
        self.exercise(2, OPERATIONS // 10, LARGE)


if __name__ == "__main__":
    suite.harness.main()
