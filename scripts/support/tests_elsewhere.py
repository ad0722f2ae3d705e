#!/usr/bin/env python3
"""Tests of ctest that run in another root folder: reads what `ctest --show-only=json-v1` says there, from a file, and
writes a CTestTestfile.cmake in which each test's command is preceded by one that goes there.

    tests_elsewhere.py FILE COMMAND...
"""

import json
import sys


def quoted(text):
    """As an argument of CMake, whatever is in it."""
    equals = "="
    while f"]{equals}]" in text:
        equals += "="
    return f"[{equals}[{text}]{equals}]"


def value(given):
    if isinstance(given, list):
        return ";".join(value(item) for item in given)
    return str(given)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    by = sys.argv[2:]
    with open(sys.argv[1], encoding="utf-8") as file:
        tests = json.load(file)["tests"]
    for test in tests:
        if "command" not in test:
            sys.exit(f"tests_elsewhere: {test['name']}: its program was not built")
        properties = {item["name"]: item["value"] for item in test.get("properties", [])}
        folder = properties.pop("WORKING_DIRECTORY", "/")
        command = by + ["env", "-C", folder] + test["command"]
        print(f"add_test({quoted(test['name'])} {' '.join(map(quoted, command))})")
        pairs = " ".join(f"{key} {quoted(value(item))}" for key, item in properties.items())
        if pairs:
            print(f"set_tests_properties({quoted(test['name'])} PROPERTIES {pairs})")


if __name__ == "__main__":
    main()
