"""Reads exclusions.toml: which cases of a suite are left out, and whether what came out is what it says."""

import os
import tomllib

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "exclusions.toml"), "rb") as _file:
    SUITES = tomllib.load(_file)


def excluded(suite, fs):
    """The cases that cannot pass on this file system."""
    entries = SUITES[suite].get("excluded", {})
    return {case for case, entry in entries.items() if fs in entry.get("on", [fs])}


def never_run(suite):
    """The cases that are not even tried."""
    return {case for case, entry in SUITES[suite].get("excluded", {}).items() if not entry.get("run", True)}


def alone(suite):
    """The cases that others must not run beside, nor after."""
    return set(SUITES[suite].get("alone", {}))


def unexpected(suite, fs, outcomes, version=None):
    """One line for each thing that is not as it should be. `outcomes`: {case: passed, failed or skipped}. `version`: of the
    suite, where it may be another than the one whose cases were counted."""
    left_out = excluded(suite, fs)
    wrong = [f"{case}: {outcome}, though it is excluded" for case, outcome in sorted(outcomes.items())
             if case in left_out and outcome == PASSED]
    wrong += [f"{case}: {outcome}" for case, outcome in sorted(outcomes.items())
              if case not in left_out and outcome != PASSED]
    if SUITES[suite].get("version", version) == version:
        wrong += [f"{case}: excluded, but there is no such case" for case in sorted(left_out - outcomes.keys())]
        if len(outcomes) != SUITES[suite]["cases"]:
            wrong.append(f"{len(outcomes)} cases instead of {SUITES[suite]['cases']}")
    return wrong
