"""Loop devices over files, with direct I/O unless told otherwise, so that nothing is cached twice."""

import os
import subprocess
import time


class LoopError(Exception):
    pass


def make_sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def attach(path, seconds=120.0, direct=True):
    """A loop device over `path`. Others may take the same free device first, so it tries for a while."""
    deadline = time.monotonic() + seconds
    while True:
        done = subprocess.run(["losetup", "--find", "--show", f"--direct-io={'on' if direct else 'off'}", path], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            device = done.stdout.strip()
            break
        if time.monotonic() > deadline:
            raise LoopError(f"no loop device for {path}: {done.stderr.strip()}")
        time.sleep(0.2)
    with open(f"/sys/block/{os.path.basename(device)}/loop/dio", encoding="ascii") as file:
        is_direct = file.read().strip() == "1"
    if direct and not is_direct:
        detach(device)
        raise LoopError(f"{path}: its file system does no direct I/O; choose a folder on a disk, not a tmpfs")
    return device


def detach(device, seconds=60.0):
    """Returns when the device is free again: whoever has it open for a look (udev, a search for labels) delays that.
    LoopError: somebody keeps it open."""
    backing = f"/sys/block/{os.path.basename(device)}/loop/backing_file"
    try:
        with open(backing, encoding="utf-8", errors="surrogateescape") as file:
            before = file.read()
    except OSError:
        before = None
    subprocess.run(["losetup", "-d", device], stdin=subprocess.DEVNULL, check=True)
    deadline = time.monotonic() + seconds
    while before is not None:
        try:
            with open(backing, encoding="utf-8", errors="surrogateescape") as file:
                if file.read() != before:
                    return  # somebody else's by now
        except OSError:
            return
        if time.monotonic() > deadline:
            raise LoopError(f"{device}: is still in use {seconds:g} seconds after it was to be detached")
        time.sleep(0.02)
