"""A mount namespace for a program alone: what it mounts nobody else sees, and what others mount it does not see.

Every test runs in one. A namespace that another program makes for itself would else have copies of the test's mounts for a moment,
and they keep a device busy that the test has just unmounted, and the settings of its file system.

Others' mounts are let go of in it at once, before the program begins. Those are the ones below the folder that all tests share,
of which copies would keep devices busy after their owners have unmounted them; and every lsmfs that the tests do not lie in, for
one whose process has ended, be it left over or a crash test's, answers ENOTCONN to programs that go through the machine's mounts."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
ENTERED = "LSMFS_TEST_NAMESPACE"
# The first two arguments: a folder that is needed, and the shared one. The rest: a command.
LET_GO = """
needed=$1 shared=$2
shift 2
findmnt -rno TARGET,FSTYPE | while read -r point type; do
  case $type in
    fuse.lsmfs|fuseblk.lsmfs) ;;
    *) case $point in "$shared"/*) ;; *) continue ;; esac ;;
  esac
  for path in "$needed" "$shared"; do
    case $path/ in "$point"/*) continue 2 ;; esac
  done
  umount -l "$point" 2> /dev/null
done
exec "$@"
"""


def alone(*command):
    """The words that run a command in a namespace of its own."""
    shared = os.path.realpath(os.environ.get("LSMFS_TMPDIR") or "/var/tmp")
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", LET_GO, "sh", ROOT, shared, *command]


def enter():
    """Starts this program again, in a mount namespace of its own."""
    if ENTERED not in os.environ:
        os.environ[ENTERED] = "1"
        words = alone(sys.executable, "-B", *sys.argv)
        os.execvp(words[0], words)
