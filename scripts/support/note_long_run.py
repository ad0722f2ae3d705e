#!/usr/bin/env python3
"""Notes in docs/measurements/long-runs.md what a run of `scripts/test --long` was, and how it ended.

    note_long_run.py JUNIT SECONDS PART...
"""

import datetime
import os
import subprocess
import sys
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LIST = os.path.join(ROOT, "docs", "measurements", "long-runs.md")
HEAD = """\
# Long runs

What `scripts/test --long` has run, and on which commit; it adds a line here each time. A commit with `+` had changes that were not committed.

| date | commit | parts | passed | failed | left out | minutes | machine |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def said(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()


def first_line(path, otherwise):
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip() or otherwise
    except OSError:
        return otherwise


def main():
    report, seconds, *parts = sys.argv[1:]
    suite = xml.etree.ElementTree.parse(report).getroot()
    total, failed = int(suite.get("tests", 0)), int(suite.get("failures", 0))
    left_out = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
    changed = "+" if said("git", "status", "--porcelain", "--untracked-files=no") else ""
    driver = first_line("/sys/devices/system/cpu/cpuidle/current_driver", "none")
    machine = f"{os.cpu_count()} processors, idle driver {driver}, Linux {os.uname().release.split('-')[0]}"
    row = [datetime.date.today().isoformat(), (said("git", "rev-parse", "--short", "HEAD") or "unknown") + changed, " ".join(parts),
           total - failed - left_out, failed, left_out, f"{int(seconds) / 60:.0f}", machine]
    os.makedirs(os.path.dirname(LIST), exist_ok=True)
    with open(LIST, "a", encoding="utf-8") as file:
        if file.tell() == 0:
            file.write(HEAD)
        file.write(f"| {' | '.join(map(str, row))} |\n")


if __name__ == "__main__":
    main()
