"""What makes a scan cold, and what is scanned with."""

import os
import random
import string

import caches

LUKEWARM = "LSMFS_BENCH_LUKEWARM"  # set where no figure matters: other tests run beside, and what they have in memory is dropped, too


def drop_caches():
    if LUKEWARM not in os.environ:
        os.sync()
        caches.drop()


def grep_command(point, rng):
    """What the study of aging runs: a search for 16 characters that are nowhere. Its exit status is 1, or by chance 0."""
    pattern = "".join(rng.choices(string.ascii_letters, k=16))
    return ["grep", "-r", "--binary-files=text", pattern, point]


def used_bytes(point):
    info = os.statvfs(point)
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def seeded(*words):
    return random.Random(" ".join(map(str, words)))
