"""A scan of a file system, traced and timed; trees and their copies."""

import dataclasses
import hashlib
import os
import stat

from shared.cold import drop_caches
from shared.commands import Problem, call, one_line

from . import host, traces

LOST = "lost+found"  # some file systems have one from the start


@dataclasses.dataclass
class Scan:
    seconds: float
    reads: traces.Reads
    modelled: dict  # seconds by profile
    # What else took time, or may have:
    stolen_seconds: float       # the host had the processors, summed over them
    late_seconds: float | None  # a simulated disk answered later than its model says, summed over the requests


def cold(tools, device, fs, point, work, command, found=(0, 1)):
    """`command` on a file system that is not mounted yet, and is afterwards: without the kernel's caches."""
    with device.measured():
        drop_caches()
        fs.mount(device.path, point)
        return mounted(tools, device, fs, work, command, found)


def mounted(tools, device, fs, work, command, found=(0, 1)):
    """The same with whatever is in memory."""
    stolen, late = host.stolen_seconds(), device.late_seconds()
    status, err, seconds, trace = device.traced(work, *command)
    stolen = round(host.stolen_seconds() - stolen, 2)
    late = None if late is None else round(device.late_seconds() - late, 6)
    if status not in found:
        raise Problem(f"{command[0]} on {fs.name}: exit status {status}: {one_line(err)}")
    with open(trace, encoding="ascii") as lines:
        reads = traces.reads(traces.parse(lines))
    return Scan(seconds, reads, tools.modelled(trace), stolen, late)


@dataclasses.dataclass(frozen=True)
class Contents:
    """What is compared of two trees without reading their files."""

    bytes: int    # what the files come to in whole blocks of 4 KiB, the same on every file system
    digest: str   # of each path with its mode, its size unless it is a directory, and where a link leads


def contents(point):
    total, digest = 0, hashlib.sha256()
    for folder, folders, names in os.walk(point):
        if folder == point:
            folders[:] = [name for name in folders if name != LOST]
        folders.sort()
        for name in sorted(folders + names):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            is_folder = stat.S_ISDIR(info.st_mode)
            target = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""
            digest.update(repr((os.path.relpath(path, point), info.st_mode, -1 if is_folder else info.st_size, target)).encode("utf-8", "surrogateescape"))
            total += 0 if is_folder else -(-info.st_size // traces.BLOCK) * traces.BLOCK
    return Contents(total, digest.hexdigest())


def copy_to_twin(fs, device, source, point):
    """Makes the twin's file system anew, mounts it, and copies all there is."""
    fs.make(device.path)
    fs.mount(device.path, point)
    for entry in sorted(os.listdir(source)):
        if entry == LOST:
            continue
        status, _, err, _ = call("cp", "-a", os.path.join(source, entry), point)
        if status != 0:
            raise Problem(f"cp to the twin on {fs.name}: {one_line(err)}")
