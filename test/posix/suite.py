"""What the drivers of other people's suites share: where the programs are, short or long, and that the file system is in
order after a suite has worked on it."""

import json
import os
import stat
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

import exclusions  # noqa: E402
import harness  # noqa: E402
import source_tree  # noqa: E402
import workspace  # noqa: E402
from until import until  # noqa: E402

LONG = os.environ.get("LSMFS_LONG", "0") != "0"
TOOLS = os.path.join(harness.ROOT, "build", "tools", "bin")
PASSED, FAILED, SKIPPED = exclusions.PASSED, exclusions.FAILED, exclusions.SKIPPED
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
    """A suite on a fresh file system, in a folder of its own there."""

    def program(self, name):
        path = os.path.join(TOOLS, name)
        if not os.access(path, os.X_OK):
            self.skipTest(f"{path}: not there: run scripts/support/install-suites, which builds it")
        return path

    def fresh(self, size=4 * harness.GiB, kept=False, point=None, clone=False):
        """A mounted file system with an empty folder "suite". `kept`: and with a tree that the suite has to leave alone. `clone`: of which the
        folder is a clone."""
        volume = self.volume(size)
        volume.point = point or volume.point
        volume.mount()
        if kept or clone:
            os.mkdir(volume.path("kept"))
            source_tree.make(volume.path("kept"), KEPT, files=500)
        if clone:
            self.must(harness.LSMFS, "clone", volume.path("kept"), volume.path("suite"))
        else:
            os.mkdir(volume.path("suite"))
        self.kept = source_tree.facts(volume.path("kept"))
        self.daemons = volume.daemons()
        return volume

    def check_outcomes(self, suite, outcomes, output, version=None):
        """Fails when the outcomes are not those that exclusions.toml says."""
        left_out = exclusions.excluded(suite, harness.FS)
        passed = list(outcomes.values()).count(PASSED)
        print(f"{suite}: {passed} of {len(outcomes)} passed; excluded: {', '.join(sorted(left_out)) or 'none'}")
        wrong = exclusions.unexpected(suite, harness.FS, outcomes, version)
        if wrong:
            self.fail(f"{suite}: not as exclusions.toml says:\n  " + "\n  ".join(wrong) + "\n" + output[-20000:])

    def check_in_order(self, volume, clones=False):
        """The daemon is the one it was, says that all is well, counts what is there, and after a remount the tree is the
        same; what was to be kept is as it was at the beginning. With clones it counts what they have in common once."""
        if harness.FS == "lsmfs":
            self.assertNotEqual(self.daemons, [])
            self.assertEqual(volume.daemons(), self.daemons, "the daemon is not the one that was mounted")
            self._check_info(volume, clones)
        before = source_tree.facts(volume.point)
        volume.remount()
        self.assertEqual(source_tree.differences(before, source_tree.facts(volume.point)), [])
        self.assertEqual(source_tree.differences(self.kept, source_tree.facts(volume.path("kept"))), [])
        self.daemons = volume.daemons()
        if harness.FS == "lsmfs":
            self._check_info(volume, clones)

    def _check_info(self, volume, clones):
        there = counts(volume.point)

        def asked():
            return json.loads(self.must(harness.LSMFS, "info", volume.point, "--json"))
        # The kernel may yet have to forget files that were deleted.
        until(lambda: clones or asked()["files"] == there, lambda: f"lsmfs info counts {asked()['files']}, and there are {there}")
        info = asked()
        self.assertFalse(info["read_only"])
        self.assertNotIn("stopped_by", info)
        space = info["space"]
        self.assertEqual(space["used_bytes"] + space["free_bytes"], space["total_bytes"])
        self.assertLess(space["total_bytes"], info["device_bytes"])
        self.assertGreater(space["used_bytes"], 0)
