"""fsx: random operations on one file, by system calls and by mappings; every read is compared with what was written."""

import concurrent.futures
import hashlib
import os
import shutil

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

    def run_fsx(self, seed, operations, lengths, path):
        length, most = lengths
        configuration = os.path.join(self.work.path, f"fsx{seed}.toml")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(length=length, most=most))
        self.assertTrue(os.path.exists(UNMAP), f"{UNMAP}: not there: build the target fsx_unmap")
        done = suite.harness.call("env", f"LD_PRELOAD={UNMAP}", self.program("fsx"), "-f", configuration, "-N", operations, "-S", seed,
                                  "-P", self.work.sub(f"artifacts{seed}"), path, seconds=3600)
        self.assertEqual((done.returncode, done.stdout), (0, "All operations completed A-OK!\n"),
                         f"seed {seed}, {operations} operations, lengths {lengths}:\n{done.stderr[-10000:]}")

    def exercise(self, seed, operations, lengths):
        volume = self.fresh(suite.harness.GiB)
        self.run_fsx(seed, operations, lengths, volume.path("suite", "file"))
        length, _ = lengths
        print(f"fsx: {operations} operations with seed {seed} on a file of at most {length // KiB} KiB", flush=True)
        before = self.digest(volume)
        self.check_in_order(volume)
        self.assertEqual(self.digest(volume), before, f"seed {seed}: after the remount the file has other contents")
        volume.umount()

    def test_a_file_holds_what_random_operations_put_there(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.exercise(seed, OPERATIONS, USUAL if seed % 2 else LARGE)

    def test_files_of_which_clones_are_made_and_written(self):
        """Two files, one in a clone of the other's folder, while both folders are cloned again and again. Clones stay as they were."""
        if suite.harness.FS != "lsmfs":
            self.skipTest("has no clones")
        volume = self.fresh(suite.harness.GiB)
        source, twin = volume.path("suite", "source"), volume.path("suite", "twin")
        os.mkdir(source)
        with open(os.path.join(source, "file"), "wb") as file:
            file.write(os.urandom(300 * KiB))
        self.must(suite.harness.LSMFS, "clone", source, twin)
        digests, made = {}, 0

        def digest(folder):
            with open(os.path.join(folder, "file"), "rb") as file:
                return hashlib.file_digest(file, "blake2b").hexdigest()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = [pool.submit(self.run_fsx, seed, OPERATIONS // 20, LARGE, os.path.join(folder, "file")) for seed, folder in ((3, source), (4, twin))]
            while not all(run.done() for run in runs) or made < 8:
                clone = volume.path("suite", f"clone{made}")
                self.must(suite.harness.LSMFS, "clone", [source, twin, volume.path("suite", f"clone{made - 1}")][made % 3 if made > 0 else 0], clone)
                if made % 4 == 1:
                    with open(os.path.join(clone, "file"), "r+b") as file:
                        file.write(b"changed")
                digests[clone] = digest(clone)
                made += 1
                for kept in list(digests)[:-6]:
                    self.assertEqual(digest(kept), digests.pop(kept), f"{kept} has changed")
                    if made % 5 != 0:
                        shutil.rmtree(kept)
            for run in runs:
                run.result()
        digests.update({folder: digest(folder) for folder in (source, twin)})
        volume.remount()
        self.daemons = volume.daemons()
        self.assertEqual({folder: digest(folder) for folder in digests}, digests)
        self.check_in_order(volume, clones=True)
        volume.umount()

    def test_a_larger_file_holds_what_random_operations_put_there(self):
        self.exercise(2, OPERATIONS // 10, LARGE)


if __name__ == "__main__":
    suite.harness.main()
