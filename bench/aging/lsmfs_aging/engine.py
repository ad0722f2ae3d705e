"""A run: every file system on every kind of device, one cell after the other."""

import os
import shutil
import sys

import workspace

from shared import devices, file_systems
from shared.commands import Problem

from . import progress, results, stage, workloads

PATIENCE = 30  # seconds, with what a killed run has left and its guard is taking down


def run(given, stop):
    """Returns the exit status."""
    if os.geteuid() != 0:
        raise Problem("needs root, to make file systems, mount them and drop caches: run it with sudo")
    tools = devices.Tools(given.lsmfs, given.simdisk)
    kinds = [devices.Kind(word) for word in given.device]
    systems = [file_systems.FileSystem(word, given.lsmfs) for word in given.fs]
    _check(given, kinds, systems)
    tools.check([kind.name for kind in kinds])
    workload = workloads.ALL[given.workload](given)

    folder = given.results or os.path.join("results", given.workload)
    asked = {"workload": given.workload, "fs": given.fs, "device": given.device, "size": given.size, "seed": given.seed,
             "repeat": given.repeat, "stolen": given.stolen, **workload.asked()}
    facts = {"command": " ".join(sys.argv), "file_systems": [system.facts() for system in systems]}
    with _workspace(given, folder) as work:
        found = results.Results(folder, asked, facts)
        if found.run["finished"]:
            print(f"{found.folder}: was finished {found.run['finished']}; lsmfs-aging report {folder} writes it up", file=sys.stderr)
            return 0
        with progress.Progress(len(kinds) * len(systems) * workload.steps()) as shown:
            context = stage.Context(tools, found, work, given.size, given.seed, given.repeat, given.stolen, 60 * given.patience, stop, shown.tell, shown.advance, shown.skip)
            try:
                workload.prepare(context)
                for kind in kinds:
                    for system in systems:
                        if stop():
                            raise stage.Stopped
                        shown.cell(f"{system.name} on {kind.name}")
                        _run_cell(context, workload, given.workload, system, kind)
            except stage.Stopped:
                print(f"lsmfs-aging: stopped; the same command goes on from here ({found.folder})", file=sys.stderr)
                return 130
        found.finish()
        print(f"{found.folder}: finished; lsmfs-aging report {folder} writes it up", file=sys.stderr)
        return 0


def _workspace(given, folder):
    """Nobody else works in the results' folder while it is there: a run that was killed may still be being taken down."""
    os.makedirs(folder, exist_ok=True)
    try:
        return workspace.Workspace("aging", given.work, kept=folder, patience=PATIENCE)
    except workspace.Taken:
        raise Problem(f"{os.path.abspath(folder)}: another run is at work in it; wait for its end, or give another folder with --results") from None


def _run_cell(context, workload, name, system, kind):
    cell = stage.Stage(context, name, system, kind)
    if cell.cell.state.over:
        context.skip(workload.steps())
        return
    with workload.around(), cell.taken_down_on_errors():
        workload.run(cell)


def _check(given, kinds, systems):
    file_systems.check_all(systems, given.size)
    for kind in kinds:
        kind.check(given.size)
    if not os.path.isdir(given.work):
        raise Problem(f"--work {given.work}: is not a directory")
    where = os.path.abspath(given.results or ".")
    while not os.path.exists(where):
        where = os.path.dirname(where)
    free = shutil.disk_usage(where).free
    if any(kind.has_images for kind in kinds) and free < given.size // 2:
        raise Problem(f"{where}: {free >> 20} MiB are free there, which will not hold two devices of {given.size >> 20} MiB that fill up; choose another "
                      "--results folder or a smaller --size")
