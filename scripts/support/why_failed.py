#!/usr/bin/env python3
"""Says of each test that failed what it was that failed, in a few lines: the end of a long log is what people see of it first.

    why_failed.py JUNIT
"""

import re
import sys
import xml.etree.ElementTree

TESTS = 5  # at most so many
LINES = 10  # of each
WIDTH = 300
# How gtest, unittest, the sanitizers and our own scripts begin what they complain of.
COMPLAINT = re.compile(r"^(FAIL|ERROR): |: Failure$|^\w*(Error|Exception)\b.*: |^(WARNING|SUMMARY|==\d+==ERROR): .*Sanitizer|: error: |^lsmfs\S*: ")


def complaints(output):
    """The lines that complain, with the line that follows each; the last ones of an output in which none does."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    chosen = sorted({at + more for at, line in enumerate(lines) if COMPLAINT.search(line) for more in (0, 1) if at + more < len(lines)})
    return [lines[at] for at in chosen[:LINES]] or lines[-LINES:]


def main():
    report, = sys.argv[1:]
    failed = [case for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase") if case.get("status") == "fail"]
    for case in failed[:TESTS]:
        print(f"{case.get('name')}:")
        for line in complaints(case.findtext("system-out", "")):
            print(f"  {line[:WIDTH]}")
    if len(failed) > TESTS:
        print(f"and {len(failed) - TESTS} more")


if __name__ == "__main__":
    main()
