"""fio: blocks that say where they belong and what they hold are written in many ways, and verified, also after a remount."""

import json
import os
import time

import suite

MiB = suite.harness.MiB
SIZE = 512 * MiB if suite.LONG else 16 * MiB
SYNCED = SIZE // 16  # what is synced at each write takes longer
# How the blocks are written: {name: (bytes, fio's options)}. Each has files of its own.
WAYS = {
    "sequential, direct": (SIZE, "rw=write bs=1M direct=1 ioengine=libaio iodepth=16 verify=xxhash"),
    "random, direct": (SIZE, "rw=randwrite bs=4k direct=1 ioengine=libaio iodepth=32 verify=crc32c"),
    "random, buffered": (SIZE, "rw=randwrite bs=4k ioengine=psync verify=crc64"),
    "random, of all sizes": (SIZE, "rw=randwrite bsrange=512-256k ioengine=psync verify=md5"),
    "at odd offsets": (SIZE, "rw=write bs=4095 ioengine=psync verify=crc32c"),
    "backwards": (SIZE, "rw=write:-64k bs=32k ioengine=psync verify=xxhash"),
    "by a mapping": (SIZE, "rw=randwrite bs=16k ioengine=mmap verify=sha1"),
    "by vectors": (SIZE, "rw=randwrite bs=64k ioengine=pvsync2 verify=crc32c"),
    "by splice": (SIZE, "rw=write bs=64k ioengine=splice verify=crc32c"),
    "with O_SYNC": (SYNCED, "rw=randwrite bs=4k sync=1 ioengine=psync verify=crc32c"),
    "with fdatasync": (SYNCED, "rw=randwrite bs=8k fdatasync=1 ioengine=psync verify=crc32c"),
    "direct with O_SYNC": (SYNCED, "rw=randwrite bs=4k sync=1 direct=1 ioengine=psync verify=crc32c"),
    "with sync_file_range": (SIZE, "rw=write bs=16k sync_file_range=write:8 ioengine=psync verify=crc32c"),
    "verified while writing": (SIZE, "rw=randwrite bs=4k ioengine=psync verify=crc32c verify_backlog=256"),
    "what compresses": (SIZE, 'rw=randwrite bs=8k ioengine=psync verify=pattern verify_pattern=%o"lsmfs"'),
    "many files": (SIZE, "rw=randwrite bs=4k nrfiles=500 ioengine=psync verify=crc32c"),
    "four processes": (SIZE // 4, "rw=randwrite bs=4k numjobs=4 ioengine=psync verify=crc32c"),
}


class Fio(suite.SuiteCase):
    def fio(self, folder, size, options):
        """Returns the number of bytes that were verified."""
        os.makedirs(folder, exist_ok=True)
        done = suite.harness.call("fio", "--name=blocks", f"--directory={folder}", f"--size={size}", "--verify_fatal=1",
                                  "--verify_dump=0", "--output-format=json", *("--" + option for option in options.split()),
                                  cwd=self.work.path, seconds=1800)
        self.assertEqual(done.returncode, 0, f"fio {options}:\n{done.stdout[-3000:]}\n{done.stderr}")
        jobs = json.loads(done.stdout[done.stdout.index("{"):])["jobs"]
        self.assertEqual([job["error"] for job in jobs], [0] * len(jobs))
        return sum(job["read"]["io_bytes"] for job in jobs)

    def test_blocks_written_in_many_ways_are_what_was_written_also_after_a_remount(self):
        volume = self.fresh(16 * suite.harness.GiB, kept=True)
        for phase, more in (("written", "end_fsync=1"), ("remounted", "verify_only=1")):
            for way, (size, written) in WAYS.items():
                with self.subTest(way, phase=phase):
                    total = size * (4 if "numjobs=4" in written else 1)
                    begin = time.monotonic()
                    verified = self.fio(volume.path("suite", way), size, f"{written} {more}")
                    print(f"fio: {way}, {phase}: {verified // MiB} MiB verified in {time.monotonic() - begin:.1f} s")
                    self.assertGreater(verified, total * 0.97, "fio verified less than it wrote")
            self.check_in_order(volume)


if __name__ == "__main__":
    suite.harness.main()
