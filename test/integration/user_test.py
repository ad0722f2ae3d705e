"""An ordinary user makes, mounts and uses an image file, by way of fusermount3."""

import os
import pwd
import shutil
import stat

import harness
import namespace
from harness import LSMFS
from until import until

# $1: the program, $2: a folder of the user's. fusermount3 returns before the daemon is done.
STEPS = """\
set -e
cd "$2"
"$1" mkfs --size 256M image
mkdir mnt
"$1" mount image mnt
grep -q "$2/mnt .*default_permissions" /proc/self/mountinfo
echo hello > mnt/file
mkdir mnt/folder
"$1" info mnt > /dev/null
"$1" trim mnt > /dev/null
"$1" scrub mnt > /dev/null
test "$(stat -c %U mnt/file)" = "$(id -un)"
# Whoever starts it may ignore the end of children.
code=0
(cd mnt; exec env --ignore-signal=CHLD "$1" umount ../mnt) || code=$?
test $code = 32
"$1" umount mnt
test ! -e mnt/file
"$1" mount image mnt
test "$(cat mnt/file)" = hello
rmdir mnt/folder
fusermount3 -u mnt
echo done
"""
LATER_STEPS = """\
set -e
cd "$2"
"$1" mount image mnt
test "$(ls mnt)" = file
"$1" umount mnt
# What fusermount3 does not know is the daemon's matter, or the default.
"$1" mount image mnt -o strictatime,nodiratime,lazytime,relatime,nosuid
if "$1" mount -o remount,ro image mnt; then exit 1; fi
"$1" umount mnt
"$1" fsck image
echo done
"""
# $1: a folder to mount a tmpfs at, $2: user, $3: group, then a command. In a mount namespace of its own /dev/fuse is
# one that everybody may open, as udev makes it on ordinary systems.
IN_NAMESPACE = """\
set -e
mount -t tmpfs -o mode=755 tmpfs "$1"
mknod "$1/fuse" c {major} {minor}
chmod 666 "$1/fuse"
mount --bind "$1/fuse" /dev/fuse
user=$2 group=$3
shift 3
exec setpriv --reuid "$user" --regid "$group" --clear-groups "$@"
"""


@harness.lsmfs_only
class User(harness.MountCase):
    def setUp(self):
        super().setUp()
        fusermount = shutil.which("fusermount3")
        self.assertIsNotNone(fusermount, "no fusermount3: install the package fuse3")
        self.assertTrue(os.stat(fusermount).st_mode & stat.S_ISUID, f"{fusermount} is not set-user-id: users cannot mount")
        # The folder of the checkout may be closed to others.
        self.binary = os.path.join(self.work.path, "lsmfs")
        shutil.copy(LSMFS, self.binary)
        self.user = pwd.getpwnam("nobody")
        self.home = self.work.sub("home")
        os.chown(self.home, self.user.pw_uid, self.user.pw_gid)

    def as_user(self, *command):
        number = os.stat("/dev/fuse").st_rdev
        script = IN_NAMESPACE.format(major=os.major(number), minor=os.minor(number))
        return harness.call(*namespace.alone("sh", "-c", script, "sh", self.work.sub("dev"), self.user.pw_uid, self.user.pw_gid, *command))

    def test_an_ordinary_user_makes_mounts_and_unmounts_an_image(self):
        for steps in (STEPS, LATER_STEPS):
            done = self.as_user("sh", "-c", steps, "sh", self.binary, self.home)
            self.assertEqual((done.returncode, done.stdout.strip().splitlines()[-1:]), (0, ["done"]), done.stderr)
            until(lambda: not harness.workspace.processes_of(self.work.path, self.binary), "the end of the daemon")

    def test_an_ordinary_user_cannot_mount_over_what_is_not_theirs(self):
        done = self.as_user("sh", "-c", '"$1" mkfs --size 256M "$2"/image && mkdir -p "$2"/mnt && "$1" mount "$2"/image /usr',
                            "sh", self.binary, self.home)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/usr", done.stderr)


if __name__ == "__main__":
    harness.main()
