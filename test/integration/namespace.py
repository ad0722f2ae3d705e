"""A mount namespace for a test program alone: what it mounts nobody else sees, and what others mount it does not see."""

import os
import subprocess
import sys

import harness
import workspace

ENTERED = "LSMFS_TEST_NAMESPACE"


def enter():
    """Starts this program again, in a mount namespace of its own, without the mounts that belong to others' tests.

    Those are the ones below the folder that all tests share, of which copies would keep devices busy after their owners
    have unmounted them; and every lsmfs that this program does not lie in, for one whose process has ended, be it left
    over or a crash test's, answers ENOTCONN to programs that go through the machine's mounts."""
    if ENTERED not in os.environ:
        os.environ[ENTERED] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv])
    folder = os.path.realpath(os.environ.get("LSMFS_TMPDIR") or "/var/tmp")
    needed = [harness.ROOT, folder]
    foreign = [point for point in workspace.mounts_of("fuse.lsmfs", "fuseblk.lsmfs")
               if not any((path + "/").startswith(point + "/") for path in needed)]
    for point in foreign + workspace.mounts_below(folder):
        subprocess.run(["umount", "-l", point], stdin=subprocess.DEVNULL, capture_output=True, check=False)
