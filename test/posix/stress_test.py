"""stress-ng's file system class: each stressor on its own, two processes of it, then all of them at the same time.

Some of them work on every mount of the machine, so they run where there are only this test's."""

import re
import time

import exclusions
import suite
from suite import FAILED, PASSED, SKIPPED

SECONDS = 20 if suite.LONG else 1
SECONDS_TOGETHER = 300 if suite.LONG else 10
EXIT_NO_RESOURCE, EXIT_NOT_IMPLEMENTED = 3, 4


class Stress(suite.SuiteCase):
    def setUp(self):
        super().setUp()
        _, _, names = self.must("stress-ng", "--class", "filesystem?").partition("stressors:")
        self.alone = exclusions.alone("stress-ng")
        self.stressors = sorted(names.split(), key=lambda name: name in self.alone)
        self.version = re.search(r"version ([0-9.]+)", self.must("stress-ng", "--version")).group(1)

    def stress(self, volume, seconds, *what):
        """Returns (outcome, output)."""
        begin = time.monotonic()
        done = suite.harness.call("stress-ng", *what, "--timeout", seconds, "--verify", "--temp-path", volume.path("suite"),
                                  seconds=seconds * 10 + 600)
        output = f"{' '.join(map(str, what))}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        if done.returncode in (EXIT_NO_RESOURCE, EXIT_NOT_IMPLEMENTED):
            return SKIPPED, output
        if done.returncode != 0 or " fail: " in output:
            return FAILED, output
        # What is not supported ends at once, says so, and succeeds.
        if time.monotonic() - begin < seconds or "skipping stress" in output:
            return SKIPPED, output
        return PASSED, output

    def test_each_stressor_of_the_class_runs_and_finds_nothing_wrong(self):
        volume = self.fresh(8 * suite.harness.GiB, kept=True)
        outcomes, outputs = {}, ""
        for stressor in self.stressors:
            if stressor in exclusions.never_run("stress-ng"):
                outcomes[stressor] = SKIPPED
                continue
            outcomes[stressor], output = self.stress(volume, SECONDS, f"--{stressor}", 2)
            if outcomes[stressor] != PASSED:
                outputs += output
        print(f"stress-ng {self.version}")
        self.check_outcomes("stress-ng", outcomes, outputs, self.version)
        self.check_in_order(volume)

    def test_all_stressors_of_the_class_at_the_same_time_find_nothing_wrong(self):
        self.check_all(self.fresh(8 * suite.harness.GiB, kept=True))

    def test_all_stressors_in_a_clone_find_nothing_wrong(self):
        if suite.harness.FS != "lsmfs":
            self.skipTest("has no clones")
        self.check_all(self.fresh(8 * suite.harness.GiB, clone=True), clones=True)

    def check_all(self, volume, clones=False):
        leave_out = exclusions.excluded("stress-ng", suite.harness.FS) | self.alone
        options = [word for stressor in self.stressors if stressor not in leave_out for word in (f"--{stressor}", 1)]
        outcome, output = self.stress(volume, SECONDS_TOGETHER, *options)
        self.assertEqual(outcome, PASSED, output)
        self.check_in_order(volume, clones)


if __name__ == "__main__":
    suite.harness.main()
