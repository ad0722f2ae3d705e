"""The command line."""

import argparse
import math
import os
import signal
import subprocess
import sys

import loop
import workspace

from shared import built, devices, file_systems
from shared.commands import Problem

from . import engine, workloads

EPILOG = """examples:
  lsmfs-aging run git --repo ~/src/git --pulls 2000 --every 200 --fs ext4,xfs,btrfs,lsmfs --device simdisk:hdd,loop
  lsmfs-aging run intrafile --fs ext4,btrfs:mkfs=-n65536:as=btrfs-64k --device simdisk:ssd-sata
  lsmfs-aging report results/git"""


def _size(text):
    try:
        return file_systems.parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _share(text):
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1
    if not 0 <= percent < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: a number of percent, 0 or more")
    return percent / 100


def _list(text):
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise argparse.ArgumentTypeError(f"'{text}': names none")
    return words


def arguments(words):
    parser = argparse.ArgumentParser(prog="lsmfs-aging", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
                                     description="Ages file systems and measures what a cold scan of the aged tree costs, beside one of an unaged copy of it.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="age and measure; the same command again goes on where it was stopped")
    kinds = run.add_subparsers(dest="workload", required=True, metavar="WORKLOAD")
    for name, workload in workloads.ALL.items():
        one = kinds.add_parser(name, help=workload.help, formatter_class=argparse.RawDescriptionHelpFormatter)
        workload.add_arguments(one)
        one.add_argument("--fs", type=_list, default=["ext4", "xfs", "btrfs", "lsmfs"], metavar="A,B",
                         help=f"NAME[:mkfs=WORDS][:mount=OPTIONS][:as=NAME], with + for a comma; NAME is one of {', '.join(file_systems.known())}, "
                              "or a description file (.toml); default: ext4,xfs,btrfs,lsmfs")
        one.add_argument("--device", type=_list, default=["loop"], metavar="A,B",
                         help=f"loop, simdisk:PROFILE ({', '.join(devices.PROFILES)}), or /dev/X+/dev/Y, two equal devices of which all is lost; default: loop")
        one.add_argument("--size", type=_size, default="8g", help="of each device; default: 8g")
        one.add_argument("--results", metavar="FOLDER", help="default: results/WORKLOAD")
        one.add_argument("--seed", type=int, default=1, help="default: 1")
        one.add_argument("--repeat", type=int, default=3, metavar="N", help="how often the last point is measured, for the spread; default: 3")
        one.add_argument("--stolen", type=_share, default="2%", metavar="PERCENT",
                         help="a scan during which the host of a virtual machine had the processors for so much of the time or more does not count "
                              "and is made again, as often as there are to be repetitions; default: 2%%")
        one.add_argument("--patience", type=float, default=0, metavar="MINUTES",
                         help="for which a scan waits until the host has the processors for less than that; default: 0")
        one.add_argument("--work", default="/var/tmp", metavar="FOLDER", help="for mount points and inputs; default: /var/tmp")
        one.add_argument("--lsmfs", default=built.path("lsmfs"), metavar="PROGRAM", help=built.wanted("lsmfs"))
        one.add_argument("--simdisk", default=built.path("lsmfs-simdisk"), metavar="PROGRAM", help=built.wanted("lsmfs-simdisk"))

    report = commands.add_parser("report", help="draw and write up one run, or compare two")
    report.add_argument("results", nargs="+", metavar="RESULTS")
    report.add_argument("--output", metavar="FOLDER", help="default: RESULTS/report")
    given = parser.parse_args(words)
    if given.command == "report" and len(given.results) > 2:
        parser.error("report: give one results folder, or two to compare")
    if given.command == "run" and given.repeat < 1:
        parser.error("--repeat: at least 1")
    if given.command == "run" and not 0 <= given.patience < math.inf:
        parser.error("--patience: a number of minutes, 0 or more")
    return given


class Stop:
    """The first signal asks the run to end at the next step, which is soon but not now; the second ends it at once."""

    def __init__(self):
        self._asked = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)

    def _ask(self, number, _frame):
        if self._asked:
            for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(other, signal.SIG_IGN)
            raise workspace.Interrupted(signal.Signals(number).name)
        self._asked = True
        print("\nlsmfs-aging: stopping after this step; once more stops at once, and loses what the step's cell has done", file=sys.stderr, flush=True)

    def __call__(self):
        return self._asked


def main(words=None):
    given = arguments(sys.argv[1:] if words is None else words)
    try:
        if given.command == "report":
            try:
                from . import report  # matplotlib takes a second to load
            except ModuleNotFoundError as error:
                raise Problem(f"{error.name} is not installed: install the package python3-{error.name}, or run scripts/install-deps --bench") from None
            report.write(given.results, given.output)
            return 0
        return engine.run(given, Stop())
    except (Problem, loop.LoopError, RuntimeError, subprocess.CalledProcessError) as error:  # the last two of making repositories
        print(f"lsmfs-aging: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"lsmfs-aging: {error.filename or ''}: {error.strerror or error}".replace(": : ", ": "), file=sys.stderr)
        return 1
    except workspace.Interrupted as name:
        print(f"lsmfs-aging: stopped by {name}; all is unmounted", file=sys.stderr)
        return 130
