#!/usr/bin/env python3
"""Did the tests leave something behind? A mount, a loop device, a process, a trace of the kernel, a control group or a file.

    leftovers.py --remember FILE               before: what is there already
    leftovers.py --since FILE --folder DIR...  after: names all that is new and ours, takes it down, exits with 1

Ours is: mounts, and loop devices of files, below the folders; processes that run a program below the folders and have
the first of them in their environment; traces and control groups of our programs that are gone; and everything in the first folder,
which is the tests' place for temporary files.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import workspace


def processes_below(folders):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            exe = os.readlink(f"/proc/{name}/exe")
            with open(f"/proc/{name}/environ", "rb") as file:
                is_ours = os.fsencode(folders[0]) in file.read()
        except OSError:
            continue
        start = workspace.start_time(name)
        if start is not None and is_ours and any(exe.startswith(folder + "/") for folder in folders):
            found.append((int(name), start))
    return found


def beside_tracefs(*command):
    """What a command prints that runs with tracefs mounted, which it need not be otherwise."""
    script = 'mount -t tracefs none /sys/kernel/tracing; "$@"'
    return subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False).stdout


def orphans():
    """Folders that stand for traces of lsmfs layout and bench/compare and for control groups of lsmfs-aging, and name a process that is gone."""
    traces = beside_tracefs("find", "/sys/kernel/tracing/instances", "-maxdepth", "1", "-name", "lsmfs-*").split()
    groups = glob.glob("/sys/fs/cgroup/memory/lsmfs-aging-*") + glob.glob("/sys/fs/cgroup/lsmfs-aging-*")
    return [path for path in traces + groups if not os.path.exists(f"/proc/{re.search('[0-9]+', os.path.basename(path)).group()}")]


def state(folders):
    return {"mounts": [point for folder in folders for point in workspace.mounts_below(folder)],
            "loops": [loop for folder in folders for loop in workspace.loops_below(folder)],
            "processes": [list(process) for process in processes_below(folders)],
            "orphans": orphans()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--remember", metavar="FILE")
    parser.add_argument("--since", metavar="FILE")
    parser.add_argument("--folder", nargs="+", required=True, metavar="DIR")
    given = parser.parse_args()
    folders = [os.path.realpath(folder) for folder in given.folder]
    now = state(folders)
    if given.remember:
        with open(given.remember, "w", encoding="utf-8") as file:
            json.dump(now, file)
        return 0
    with open(given.since, encoding="utf-8") as file:
        before = json.load(file)
    new = {kind: [item for item in now[kind] if item not in before[kind]] for kind in now}
    for point in dict.fromkeys(reversed(new["mounts"])):
        print(f"left behind: mount at {point}")
        subprocess.run(["umount", "-l", point], check=False)
    for pid, _ in new["processes"]:
        print(f"left behind: process {pid}")
    workspace.end_processes([tuple(process) for process in new["processes"]])
    for loop in new["loops"]:
        print(f"left behind: loop device {loop}")
        subprocess.run(["losetup", "-d", loop], check=False)
    for path in new["orphans"]:
        print(f"left behind: {path}")
        beside_tracefs("rmdir", path)
    files = os.listdir(folders[0])
    for name in files:
        print(f"left behind: file {os.path.join(folders[0], name)}")
        path = os.path.join(folders[0], name)
        if os.path.isdir(path) and not os.path.islink(path) and not workspace.mounts_below(path):
            shutil.rmtree(path, ignore_errors=True)
        elif not os.path.isdir(path):
            os.unlink(path)
    return 1 if files or any(new.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
