"""POSIX access control lists: what programs see must be what they see on ext4, command by command."""

import os

import harness

AS_DAEMON = "setpriv --reuid=1 --regid=1 --clear-groups"
# Each with sh, in a directory of the file system; uids 1 and 65534 are nobody of interest.
COMMANDS = f"""
mkdir d; setfacl -m u:1:rwx,d:u:1:rwx,d:g:65534:r-x d; getfacl -n d
touch d/f; mkdir d/s; mknod d/p p; ln -s f d/l; getfacl -n d/f d/s d/p; stat -c %a d/f d/s d/p d/l
chmod 700 d/f; getfacl -n d/f
cp -a d copy; getfacl -n copy copy/f copy/s
setfacl -b d/f; getfacl -n d/f; ls -ld d d/f d/s | cut -c1-11
setfacl -m d:u:1:rwx d/f
setfacl -m u::rw,g::r,o::- d/f; stat -c %a d/f
getfattr -d -m - -e hex d d/s copy/f
getfattr -n system.other d; setfattr -n system.other -v x d
setfattr -n system.posix_acl_access -v 0x0200000001000700ffffffff d
setfacl -m u:77:rwx d/l; getfacl -n d/f
{AS_DAEMON} sh -c 'echo hi > d/x; cat d/x; setfacl -m u:2:r d/x; getfacl -n d/x; chmod 4755 d/x; stat -c %a d/x'
{AS_DAEMON} sh -c 'setfacl -m u:1:rwx d/s'
{AS_DAEMON} sh -c 'ls d/s; cat d/f'
setfacl -m u:1:--- d; {AS_DAEMON} ls d
setfacl -m u:1:rwx,m::r-- d; {AS_DAEMON} touch d/y; getfacl -n d
mkdir g; chgrp 65534 g; chmod 2777 g
{AS_DAEMON} sh -c 'mkdir g/a; stat -c %a:%g g/a; setfacl -m u:2:rwx g/a; stat -c %a:%g g/a; chmod 2775 g/a; stat -c %a g/a'
{AS_DAEMON} sh -c 'touch g/f; chmod 2755 g/f; stat -c %a:%g g/f'
setfacl -m u:5:rwx g/f; stat -c %a:%g g/f
setfacl -k d; getfacl -n d; setfacl -x u:1 d; getfacl -n d; setfacl -b d; getfattr -d -m - d
mkdir u; (umask 077; touch u/f; mkdir u/d); setfacl -d -m o::r u; (umask 077; touch u/g; mkdir u/e; mkdir u/e/i); getfacl -n u/f u/d u/g u/e u/e/i
mkdir m; for i in $(seq 100 200); do echo d:u:$i:rwx; done | setfacl -M - m; mkdir -p m/a/b; getfacl -n m/a/b | sha256sum; stat -c %a m/a/b
"""


class Acl(harness.MountCase):
    def test_lists_are_kept_inherited_and_enforced_as_on_ext4(self):
        volume = self.volume(1 * harness.GiB)
        volume.mount()
        native = self.native(256 * harness.MiB)
        self.compare(COMMANDS, volume.point, native)
        see_all = "find . -path ./lost+found -prune -o -print | sort | while read f; do getfacl -n $f; stat -c %a:%u:%g $f; done"
        expected = self.outcome(see_all, native)
        self.assertEqual(self.outcome(see_all, volume.point), expected)
        volume.remount()
        self.assertEqual(self.outcome(see_all, volume.point), expected)

    @harness.lsmfs_only
    def test_noacl_leaves_permissions_to_the_mode(self):
        volume = self.volume(1 * harness.GiB)
        volume.mount()
        os.mkdir(volume.path("d"), 0o700)
        self.must("setfacl", "-m", "u:1:rwx", volume.path("d"))
        as_daemon = [*AS_DAEMON.split(), "ls", volume.path("d")]
        self.must(*as_daemon)
        os.mkdir(volume.path("parent"))
        self.must("setfacl", "-m", "d:u:1:rwx", volume.path("parent"))
        volume.remount("noacl")
        self.refused("setfacl", "-m", "u:1:rwx", volume.path("d"), says=["not supported"])
        self.must("chmod", "755", volume.point)
        self.must("sh", "-c", "umask 027; touch f; mkdir s", cwd=volume.path("parent"))
        before = os.umask(0o027)
        unnamed = os.open(volume.path("parent"), os.O_TMPFILE | os.O_RDWR, 0o666)
        os.umask(before)
        self.assertEqual((os.fstat(unnamed).st_mode & 0o777, os.listxattr(unnamed)), (0o640, []))
        os.close(unnamed)
        modes = [os.stat(volume.path("parent", name)).st_mode & 0o777 for name in ("f", "s")]
        self.assertEqual(modes, [0o640, 0o750])
        for name in ("d", "parent", "parent/f", "parent/s"):
            self.assertEqual(os.listxattr(volume.path(name)), [])
        volume.remount()
        self.must(*as_daemon)
        self.assertEqual(os.listxattr(volume.path("parent")), ["system.posix_acl_default"])
        self.assertEqual(os.listxattr(volume.path("parent/s")), [])


if __name__ == "__main__":
    harness.main()
