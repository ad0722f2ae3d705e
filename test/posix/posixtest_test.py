"""posixtest of go-fuse: seeks in directories, deleted files that are open, locks, races of open and rename, ..."""

import re

import suite
from suite import FAILED, PASSED, SKIPPED

WORDS = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
LINE = re.compile(r"^ +--- (PASS|FAIL|SKIP): Test/(\w+) \(", re.MULTILINE)


class Posixtest(suite.SuiteCase):
    def run_once(self):
        volume = self.fresh()
        done = suite.harness.call(self.program("posixtest"), "-test.v", "-folder", volume.path("suite"))
        output = done.stdout + done.stderr
        outcomes = {case: WORDS[word] for word, case in LINE.findall(output)}
        self.assertEqual(done.returncode, 1 if FAILED in outcomes.values() else 0, output)
        self.check_outcomes("posixtest", outcomes, output)
        self.check_in_order(volume)
        volume.umount()

    def test_the_cases_that_go_fuse_has_for_file_systems_pass(self):
        for attempt in range(20 if suite.LONG else 1):  # some of the cases are races
            with self.subTest(attempt=attempt):
                self.run_once()


if __name__ == "__main__":
    suite.harness.main()
