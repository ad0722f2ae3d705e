"""What the drivers of the suites conclude from the outcomes of the cases."""

import unittest

import exclusions
from exclusions import FAILED, PASSED, SKIPPED


class Exclusions(unittest.TestCase):
    def setUp(self):
        real = exclusions.SUITES
        self.addCleanup(setattr, exclusions, "SUITES", real)
        exclusions.SUITES = {"suite": {"cases": 3, "excluded": {
            "c": {"why": "this cannot be"}, "a": {"why": "only there", "on": ["ext4"]}}, "alone": {"b": "breaks what is beside it"}}}

    def test_all_pass_but_the_excluded_ones(self):
        for outcome in (FAILED, SKIPPED):
            self.assertEqual(exclusions.unexpected("suite", "lsmfs", {"a": PASSED, "b": PASSED, "c": outcome}), [])

    def test_a_case_that_fails_or_is_skipped_is_told(self):
        found = exclusions.unexpected("suite", "lsmfs", {"a": FAILED, "b": SKIPPED, "c": FAILED})
        self.assertEqual(found, ["a: failed", "b: skipped"])

    def test_an_excluded_case_that_passes_is_told(self):
        found = exclusions.unexpected("suite", "lsmfs", {"a": PASSED, "b": PASSED, "c": PASSED})
        self.assertEqual(found, ["c: passed, though it is excluded"])

    def test_an_exclusion_may_be_of_one_file_system_only(self):
        outcomes = {"a": SKIPPED, "b": PASSED, "c": FAILED}
        self.assertEqual(exclusions.unexpected("suite", "ext4", outcomes), [])
        self.assertEqual(exclusions.unexpected("suite", "lsmfs", outcomes), ["a: skipped"])

    def test_cases_that_are_missing_or_more_are_told(self):
        self.assertEqual(exclusions.unexpected("suite", "lsmfs", {"a": PASSED, "c": FAILED}), ["2 cases instead of 3"])
        self.assertEqual(exclusions.unexpected("suite", "lsmfs", {"a": PASSED, "b": PASSED, "c": FAILED, "d": PASSED}),
                         ["4 cases instead of 3"])
        self.assertEqual(exclusions.unexpected("suite", "lsmfs", {"a": PASSED, "b": PASSED, "d": PASSED}),
                         ["c: excluded, but there is no such case"])

    def test_those_that_run_alone_are_told(self):
        self.assertEqual(exclusions.alone("suite"), {"b"})

    def test_the_cases_of_another_version_are_not_counted(self):
        exclusions.SUITES["suite"]["version"] = "1"
        outcomes = {"a": PASSED, "b": FAILED}
        self.assertEqual(exclusions.unexpected("suite", "lsmfs", outcomes, "2"), ["b: failed"])
        self.assertIn("2 cases instead of 3", exclusions.unexpected("suite", "lsmfs", outcomes, "1"))


class File(unittest.TestCase):
    def test_every_exclusion_has_a_reason_and_no_word_that_nobody_reads(self):
        for suite, about in exclusions.SUITES.items():
            self.assertLessEqual(about.keys(), {"cases", "version", "excluded", "alone"}, suite)
            self.assertIn("cases", about, suite)
            for case, entry in about.get("excluded", {}).items():
                self.assertGreater(len(entry["why"]), 10, case)
                self.assertLessEqual(entry.keys(), {"why", "on", "run"}, case)
            for case, why in about.get("alone", {}).items():
                self.assertGreater(len(why), 10, case)


if __name__ == "__main__":
    unittest.main()
