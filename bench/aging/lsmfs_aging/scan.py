"""A scan of a file system, traced and timed; trees and their copies."""

import dataclasses
import os

from shared.cold import drop_caches
from shared.commands import Problem, call, one_line

from . import traces


@dataclasses.dataclass
class Scan:
    seconds: float
    reads: traces.Reads
    modelled: dict  # seconds by profile


def cold(tools, device, fs, point, work, command, found=(0, 1)):
    """`command` on a file system that is not mounted yet, and is afterwards: without the kernel's caches."""
    with device.measured():
        drop_caches()
        fs.mount(device.path, point)
        return mounted(tools, device, fs, work, command, found)


def mounted(tools, device, fs, work, command, found=(0, 1)):
    """The same with whatever is in memory."""
    status, err, seconds, trace = device.traced(work, *command)
    if status not in found:
        raise Problem(f"{command[0]} on {fs.name}: exit status {status}: {one_line(err)}")
    with open(trace, encoding="ascii") as lines:
        reads = traces.reads(traces.parse(lines))
    return Scan(seconds, reads, tools.modelled(trace))


def tree_bytes(point):
    """What a tree's files come to in whole blocks of 4 KiB, the same on every file system."""
    total = 0
    for folder, _, names in os.walk(point):
        for name in names:
            info = os.lstat(os.path.join(folder, name))
            total += -(-info.st_size // traces.BLOCK) * traces.BLOCK
    return total


def copy_to_twin(fs, device, source, point):
    """Makes the twin's file system anew, mounts it, and copies all there is."""
    fs.make(device.path)
    fs.mount(device.path, point)
    for entry in sorted(os.listdir(source)):
        if entry == "lost+found":
            continue
        status, _, err, _ = call("cp", "-a", os.path.join(source, entry), point)
        if status != 0:
            raise Problem(f"cp to the twin on {fs.name}: {one_line(err)}")
