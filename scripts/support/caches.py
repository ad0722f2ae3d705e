"""The kernel's caches, which everybody on a machine shares: who counts on them, or on their being empty, holds a lock."""

import contextlib
import fcntl
import os


@contextlib.contextmanager
def alone():
    """While it lasts nobody else drops them who asks here. Gives the function that does. Not reentrant."""
    with open("/proc/sys/vm/drop_caches", "wb", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield lambda: os.pwrite(file.fileno(), b"3", 0)  # the kernel ignores what is written further on


def drop():
    with alone() as drop_them:
        drop_them()
