#!/usr/bin/env python3
"""Random reads of five sizes from a simulated disk, through a loop device: as published, by the model, by the disk's own
account of how long it was busy, and by the clock.

    sudo bench/aging/simdisk/bandwidth.py [--program build/release/lsmfs-simdisk] [--awake] [--written] [--path-us N] [--seconds N]

The clock includes the way through the loop device and FUSE, and how long idle processors take to wake up.
"""

import argparse
import json
import mmap
import os
import random
import subprocess
import sys
import time

from simdisk import ROOT, Simdisk

sys.path.insert(0, os.path.join(ROOT, "scripts", "support"))

import workspace  # noqa: E402

DISK = 500_000_000_000 // 4096 * 4096
KiB = 1 << 10
MiB = 1 << 20
# MB/s of random reads by size, from "File Systems Fated for Senescence? Nonsense, Says Science!" (FAST'17).
PUBLISHED = {"hdd": {4 * KiB: 0.3, 64 * KiB: 5.6, MiB: 48, 4 * MiB: 88, 16 * MiB: 112},
             "ssd-sata": {4 * KiB: 40, 64 * KiB: 154, MiB: 284, 4 * MiB: 415, 16 * MiB: 519}}


def places(size, count, seed):
    chooser = random.Random(seed)
    return [chooser.randrange(DISK // size) * size for _ in range(count)]


def write(disk, size, offsets):
    """So that what is read there is no hole of the file, for which its own disk need not be asked."""
    profile = disk.read("profile").strip()
    disk.set_profile("none")
    fd = os.open(disk.device, os.O_WRONLY | os.O_DIRECT)
    with mmap.mmap(-1, size) as buffer:
        buffer.write(random.Random(size).randbytes(size))
        for offset in offsets:
            os.pwritev(fd, [buffer], offset)
    os.close(fd)
    disk.set_profile(profile)


def modelled(program, profile, size, offsets):
    """MB/s that the model alone gives for the same reads."""
    trace = "".join(f"0 R {offset} {size}\n" for offset in offsets)
    done = subprocess.run([program, "model", "--profile", profile, "--json"], input=trace, capture_output=True, text=True, check=True)
    return size * len(offsets) / json.loads(done.stdout)["busy_seconds"] / 1e6


class Disturbed(RuntimeError):
    """Somebody else used the device."""


def measured(disk, size, offsets):
    """(MB/s by the time that the disk was busy, MB/s by the clock). Errors: Disturbed."""
    before = disk.stats()
    fd = os.open(disk.device, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, size) as buffer:
        begin = time.monotonic()
        for offset in offsets:
            if os.preadv(fd, [buffer], offset) != size:
                raise OSError(f"short read of {size} bytes at {offset}")
        taken = time.monotonic() - begin
    os.close(fd)
    after = disk.stats()
    amount = after["read_bytes"] - before["read_bytes"]
    if amount != size * len(offsets):
        raise Disturbed(f"{amount} bytes were read, not {size * len(offsets)}: does somebody else use the device?")
    return amount / (after["busy_seconds"] - before["busy_seconds"]) / 1e6, amount / taken / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "lsmfs-simdisk"))
    parser.add_argument("--path-us", type=int, default=0, help="as lsmfs-simdisk")
    parser.add_argument("--awake", action="store_true", help="keep idle processors from sleeping, by /dev/cpu_dma_latency")
    parser.add_argument("--written", action="store_true", help="write first what is read, so that it is no hole")
    parser.add_argument("--seconds", type=float, default=4, help="for each line of the table (default 4)")
    parser.add_argument("--profile", choices=PUBLISHED, action="append", help="only this one")
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bandwidth.py: needs root, to mount and to make loop devices: run it with sudo")
    workspace.stop_on_signals()
    if given.awake:
        hold = open("/dev/cpu_dma_latency", "wb", buffering=0)  # for as long as it is open
        hold.write(bytes(4))
    print(f"{'profile':<10}{'read of':>10}{'published':>11}{'model':>9}{'disk':>9}{'clock':>9}  MB/s (times each; "
          "clock beyond disk, us a read)")
    for profile in given.profile or PUBLISHED:
        with workspace.Workspace("simdisk") as work, \
                Simdisk(given.program, work.path, DISK, profile, "--path-us", str(given.path_us)) as disk:
            for size, published in PUBLISHED[profile].items():
                count = max(20, int(given.seconds * published * 1e6 / size))
                offsets = places(size, count, seed=size)
                if given.written:
                    write(disk, size, offsets)
                model = modelled(given.program, profile, size, offsets)
                account, clock = measured(disk, size, offsets)
                beyond = size / clock - size / account
                print(f"{profile:<10}{size // KiB:>6} KiB{published:>11.1f}{model:>9.2f}{account:>9.2f}{clock:>9.2f}"
                      f"  ({count}; {beyond:.0f})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
