"""Loop devices over sparse files, with direct I/O so that nothing is cached twice."""

import os
import subprocess
import time


class LoopError(Exception):
    pass


def make_sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def attach(path, seconds=30.0):
    """A loop device over `path`. Others may take the same free device first, so it tries for a while."""
    deadline = time.monotonic() + seconds
    while True:
        done = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", path], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            device = done.stdout.strip()
            break
        if time.monotonic() > deadline:
            raise LoopError(f"no loop device for {path}: {done.stderr.strip()}")
        time.sleep(0.2)
    with open(f"/sys/block/{os.path.basename(device)}/loop/dio", encoding="ascii") as file:
        direct = file.read().strip() == "1"
    if not direct:
        detach(device)
        raise LoopError(f"{path}: its file system does no direct I/O; choose a folder on a disk, not a tmpfs")
    return device


def detach(device):
    subprocess.run(["losetup", "-d", device], stdin=subprocess.DEVNULL, check=True)
