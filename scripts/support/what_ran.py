#!/usr/bin/env python3
"""Says how many cases ran, since ctest counts a suite of them as one test, and which were left out. Then of each test that failed
what it was that failed, in a few lines: the end of a long log is what people see of it first.

    what_ran.py JUNIT
"""

import re
import sys
import xml.etree.ElementTree

TESTS = 5  # at most so many
LINES = 10  # of each
WIDTH = 300
BEGUN = re.compile(r"\[ RUN      \] (\S+)")
ANNOUNCED = re.compile(r"^\[==========\] Running (\d+) tests? from", re.MULTILINE)
LEFT_OUT = re.compile(r"\[  SKIPPED \] (\S+) \(\d+ ms\)")
# How gtest, test/suite, unittest, the sanitizers and our own scripts begin what they complain of.
COMPLAINT = re.compile(r"^(FAIL|ERROR): |: Failure$|^suite: FAILED: |^\w*(Error|Exception)\b.*: |^(WARNING|SUMMARY|==\d+==ERROR): .*Sanitizer|: error: |^lsmfs\S*: ")


def complaints(output):
    """The lines that complain, with the line that follows each, below the name of gtest's case; the last ones of an output in which none does."""
    chosen, case, named, follows = [], None, None, False
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    for line in lines:
        begun = BEGUN.search(line)
        if begun:
            case = begun.group(1)
        complains = COMPLAINT.search(line)
        if complains and case != named:
            named = case
            chosen.append(f"in {case}:")
        if complains or follows:
            chosen.append(line)
        follows = complains
    return chosen[:LINES] or lines[-LINES:]


def main():
    report, = sys.argv[1:]
    tests = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
    outputs = {test: test.findtext("system-out", "") for test in tests}
    programs = [test for test in tests if ANNOUNCED.search(outputs[test])]
    cases = sum(len(BEGUN.findall(outputs[test])) for test in programs)
    print(f"test: {cases:,} cases ran in {len(programs):,} of these {len(tests):,} tests; with the others that makes {cases + len(tests) - len(programs):,}")
    for test in programs:
        hidden = int(ANNOUNCED.search(outputs[test]).group(1)) - len(BEGUN.findall(outputs[test]))
        if hidden > 0:
            print(f"{test.get('name')}: {hidden} of its cases did not begin")
        if test.get("status") != "notrun":  # those ctest names
            for case in LEFT_OUT.findall(outputs[test]):
                print(f"left out in {test.get('name')}: {case}")
    failed = [test for test in tests if test.get("status") == "fail"]
    for test in failed[:TESTS]:
        print(f"{test.get('name')}:")
        for line in complaints(outputs[test]):
            print(f"  {line[:WIDTH]}")
    if len(failed) > TESTS:
        print(f"and {len(failed) - TESTS} more")


if __name__ == "__main__":
    main()
