"""What the drivers of other people's suites share: which cases are left out, where the programs are, short or long, and
that the file system is in order after a suite has worked on it."""

import json
import os
import stat
import sys
import time
import tomllib

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

import harness  # noqa: E402
import source_tree  # noqa: E402

LONG = os.environ.get("LSMFS_LONG", "0") != "0"
TOOLS = os.path.join(harness.ROOT, "build", "tools", "bin")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
KEPT = 20240607  # the seed of a tree that a suite has to leave alone


def counts(root):
    """How many files there are of each kind, as `lsmfs info` names them."""
    kinds = {}  # by inode, since a file may have several names
    for place, dirs, names in os.walk(root):
        for path in [place] + [os.path.join(place, name) for name in dirs + names]:
            info = os.lstat(path)
            kinds[info.st_ino] = {stat.S_IFREG: "regular", stat.S_IFDIR: "directories",
                                  stat.S_IFLNK: "symlinks"}.get(stat.S_IFMT(info.st_mode), "others")
    found = list(kinds.values())
    return {kind: found.count(kind) for kind in ("regular", "directories", "symlinks", "others")}


class SuiteCase(harness.MountCase):
    """A suite on a fresh file system, in a folder of its own beside a tree that it has to leave alone."""

    def program(self, name):
        path = os.path.join(TOOLS, name)
        if not os.access(path, os.X_OK):
            self.fail(f"{path}: not there: run scripts/support/install-suites, which builds it")
        return path

    def fresh(self, size=4 * harness.GiB, kept=False):
        """A mounted file system with an empty folder "suite". `kept`: with a tree of other files too."""
        volume = self.volume(size)
        volume.mount()
        os.mkdir(volume.path("suite"))
        if kept:
            os.mkdir(volume.path("kept"))
            source_tree.make(volume.path("kept"), KEPT, files=500)
        self.kept = source_tree.facts(volume.path("kept"))
        self.daemons = volume.daemons()
        return volume

    def check_outcomes(self, suite, outcomes, output):
        """`outcomes`: {case: passed, failed or skipped}. All must have passed but those that exclusions.toml names, none
        of which may, and there must be as many as it says."""
        with open(os.path.join(HERE, "exclusions.toml"), "rb") as file:
            known = tomllib.load(file)[suite]
        excluded = {case for case, entry in known.get("excluded", {}).items() if harness.FS in entry.get("on", [harness.FS])}
        wrong = [f"{case}: {outcome}" for case, outcome in sorted(outcomes.items())
                 if (outcome == PASSED) == (case in excluded)]
        wrong += [f"{case}: excluded, but there is no such case" for case in sorted(excluded - outcomes.keys())]
        if len(outcomes) != known["cases"]:
            wrong.append(f"{len(outcomes)} cases instead of {known['cases']}")
        passed = list(outcomes.values()).count(PASSED)
        print(f"{suite}: {passed} of {len(outcomes)} passed; excluded: {', '.join(sorted(excluded)) or 'none'}")
        if wrong:
            self.fail(f"{suite}: not as exclusions.toml says:\n  " + "\n  ".join(wrong) + "\n" + output[-20000:])

    def check_in_order(self, volume):
        """The daemon is the one it was, says that all is well, counts what is there, and after a remount the tree is the
        same, that of other files included."""
        if harness.FS == "lsmfs":
            self.assertNotEqual(self.daemons, [])
            self.assertEqual(volume.daemons(), self.daemons, "the daemon is not the one that was mounted")
            self._check_info(volume)
        before = source_tree.facts(volume.point)
        volume.remount()
        self.assertEqual(source_tree.differences(before, source_tree.facts(volume.point)), [])
        self.assertEqual(source_tree.differences(self.kept, source_tree.facts(volume.path("kept"))), [])
        if harness.FS == "lsmfs":
            self._check_info(volume)

    def _check_info(self, volume):
        there = counts(volume.point)
        deadline = time.monotonic() + 10  # the kernel may yet have to forget files that were deleted
        while True:
            info = json.loads(self.must(harness.LSMFS, "info", volume.point, "--json"))
            if info["files"] == there or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        self.assertEqual(info["files"], there, "lsmfs info counts other files than there are")
        self.assertFalse(info["read_only"])
        self.assertNotIn("stopped_by", info)
        space = info["space"]
        self.assertEqual(space["used_bytes"] + space["free_bytes"], space["total_bytes"])
        self.assertLess(space["total_bytes"], info["device_bytes"])
        self.assertGreater(space["used_bytes"], 0)
