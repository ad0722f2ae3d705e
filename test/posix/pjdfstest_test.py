"""pjdfstest: what each system call does and with which error it fails, for each kind of file."""

import os
import re

import suite
from suite import FAILED, PASSED, SKIPPED

# Times on lsmfs and ext4 advance at least every 10 ms. Two users besides root, as Debian and Ubuntu have them.
CONFIGURATION = """\
[features]
posix_fallocate = {{}}
utime_now = {{}}
utimensat = {{}}
rename_ctime = {{}}

[settings]
naptime = 0.01
allow_remount = {remount}

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
WORDS = {"ok": PASSED, "FAILED": FAILED, "skipped": SKIPPED}
LINE = re.compile(r"^(\S+::\S+) +(ok|FAILED|skipped)$", re.MULTILINE)
TOTAL = re.compile(r"^Summary: .* (\d+) total$", re.MULTILINE)
LINK_MAX = os.environ.get("LSMFS_LINK_MAX",
                          os.path.join(suite.harness.ROOT, "build", "release", "test", "posix", "link_max.so"))


class Pjdfstest(suite.SuiteCase):
    def setUp(self):
        # The path of a socket may have 107 bytes, and pjdfstest takes most of them for random names.
        short = suite.workspace.Workspace("p", parent="/tmp")
        self.addCleanup(short.close)
        self.point = short.sub("m")
        super().setUp()

    def run_suite(self, volume, remount, *patterns):
        """Returns ({case: outcome}, output)."""
        configuration = os.path.join(self.work.path, "pjdfstest.toml")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(remount="true" if remount else "false"))
        self.assertTrue(os.path.exists(LINK_MAX), f"{LINK_MAX}: not there: build the target link_max")
        # It remounts by mount(8), without the helper: from util-linux 2.39 on that asks the kernel in a way that FUSE refuses.
        done = suite.harness.call("env", f"LD_PRELOAD={LINK_MAX}", "LIBMOUNT_FORCE_MOUNT2=always", self.program("pjdfstest"), "-c", configuration,
                                  "-p", volume.path("suite"), "-s", self.work.sub("another file system"), *patterns)
        output = done.stdout + done.stderr
        outcomes = {case: WORDS[word] for case, word in LINE.findall(output)}
        total = TOTAL.search(output)
        self.assertIsNotNone(total, f"no summary, exit status {done.returncode}:\n{output}")
        self.assertEqual(len(outcomes), int(total.group(1)), output)
        self.assertEqual(done.returncode, 1 if FAILED in outcomes.values() else 0, output)
        return outcomes, output

    def test_every_system_call_does_what_it_should_on_each_kind_of_file(self):
        self.check_system_calls(self.fresh(point=self.point))

    def test_they_do_the_same_in_a_clone(self):
        if suite.harness.FS != "lsmfs":
            self.skipTest("has no clones")
        self.check_system_calls(self.fresh(point=self.point, clone=True), clones=True)

    def check_system_calls(self, volume, clones=False):
        outcomes, output = self.run_suite(volume, False)
        read_only = {case for case in outcomes if "::erofs_" in case}  # they are a run of their own, below
        self.assertEqual({outcomes.pop(case) for case in read_only}, {SKIPPED})
        self.check_outcomes("pjdfstest", outcomes, output)
        self.check_in_order(volume, clones)

    def test_on_a_file_system_remounted_read_only_every_change_is_refused(self):
        volume = self.fresh(point=self.point)
        outcomes, output = self.run_suite(volume, True, "::erofs_")
        self.check_outcomes("pjdfstest-read-only", outcomes, output)
        self.check_in_order(volume)


if __name__ == "__main__":
    suite.harness.main()
