"""An ordinary user makes, mounts and uses an image file, by way of fusermount3."""

import os
import pwd
import shutil
import stat
import subprocess

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
# mount(8) and umount(8), by a line of fstab with "user". $1, $2 as above, $3: a device that is the user's.
FSTAB_STEPS = """\
set -e
cd "$2"
mount "$2/mnt"
grep -q "$2/mnt .*nosuid,nodev,noexec.*fuse.lsmfs $2/image .*default_permissions" /proc/self/mountinfo
echo hello > mnt/file
if mount "$2/mnt" 2> again; then exit 1; fi
grep -q mounted again
umount "$2/mnt"
test ! -e mnt/file
mount "$2/mnt"
test "$(cat mnt/file)" = hello
umount "$2/mnt"
if mount "$2/hers" 2> said; then exit 1; fi
grep -q "^lsmfs: $3: no permission" said
test "$(wc -l < said)" = 1
echo done
"""
OWNER_STEPS = """\
set -e
mount "$2/hers"
grep -q "$2/hers .*nosuid,nodev.*fuse.lsmfs $3 .*user_id=$(id -u)" /proc/self/mountinfo
umount "$2/hers"
echo done
"""
# $1: what fstab is to say, then a command. mount(8) lets nobody but root name another file for it. $2: a folder with what is installed.
WITH_FSTAB = """\
set -e
printf %s "$1" > "$2/fstab"
test -e /etc/fstab || touch /etc/fstab
mount --bind "$2/fstab" /etc/fstab
for folder in /usr/bin /usr/sbin /usr/libexec; do mount -t overlay overlay -o "lowerdir=$2$folder:$folder" "$folder"; done
shift 2
exec "$@"
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
        self.binary = harness.two_programs.copy(LSMFS, self.work.path)
        self.user = pwd.getpwnam("nobody")
        self.home = self.work.sub("home")
        os.chown(self.home, self.user.pw_uid, self.user.pw_gid)

    def as_user_words(self, *command):
        number = os.stat("/dev/fuse").st_rdev
        script = IN_NAMESPACE.format(major=os.major(number), minor=os.minor(number))
        return ["sh", "-c", script, "sh", self.work.sub("dev"), self.user.pw_uid, self.user.pw_gid, *command]

    def as_user(self, *command):
        return harness.call(*namespace.alone(*self.as_user_words(*command)))

    def test_an_ordinary_user_makes_mounts_and_unmounts_an_image(self):
        for steps in (STEPS, LATER_STEPS):
            done = self.as_user("sh", "-c", steps, "sh", self.binary, self.home)
            self.assertEqual((done.returncode, done.stdout.strip().splitlines()[-1:]), (0, ["done"]), done.stderr)
            until(lambda: not harness.workspace.processes_of(self.work.path, harness.two_programs.whole(self.binary)), "the end of the daemon")

    def by_fstab(self, option, steps, *words):
        """As the user, with lines of fstab for "mnt" and "hers", where mount(8) finds the helper."""
        fstab = "".join(f"{source} {self.home}/{point} lsmfs noauto,{option} 0 0\n" for source, point in ((f"{self.home}/image", "mnt"), (words[0], "hers")))
        return harness.call(*namespace.alone("sh", "-c", WITH_FSTAB, "sh", fstab, self.installed, *self.as_user_words(
            "sh", "-c", steps, "sh", self.binary, self.home, *words)))

    def test_lines_of_fstab_let_users_mount_what_is_theirs(self):
        self.installed = self.work.sub("installed")
        done = subprocess.run(["cmake", "--install", os.path.dirname(LSMFS), "--prefix", "/usr"], env=dict(os.environ, DESTDIR=self.installed),
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = self.as_user("sh", "-c", 'cd "$2" && mkdir mnt hers && "$1" mkfs --size 200M image', "sh", self.binary, self.home)
        self.assertEqual(made.returncode, 0, made.stderr)
        device = self.volume().device
        owner = os.stat(device)
        self.addCleanup(os.chown, device, owner.st_uid, owner.st_gid)
        os.chown(device, 0, 0)
        for option in ("user", "users"):
            done = self.by_fstab(option, FSTAB_STEPS, device)
            self.assertEqual((done.returncode, done.stdout.strip()), (0, "done"), done.stderr)
        os.chown(device, self.user.pw_uid, 0)
        done = self.by_fstab("owner", OWNER_STEPS, device)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "done"), done.stderr)
        until(lambda: not harness.workspace.processes_of(self.home), "the end of the daemon")

    def test_an_ordinary_user_cannot_mount_over_what_is_not_theirs(self):
        done = self.as_user("sh", "-c", '"$1" mkfs --size 256M "$2"/image && mkdir -p "$2"/mnt && "$1" mount "$2"/image /usr',
                            "sh", self.binary, self.home)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/usr", done.stderr)


if __name__ == "__main__":
    harness.main()
