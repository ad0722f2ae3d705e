"""Id-mapped mounts, as containers have them: an owner is shown, and made, by another number than the file system keeps. All is as on ext4."""

import contextlib
import ctypes
import os
import struct
import subprocess

import harness
from harness import LSMFS, MiB
from until import until

AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # system calls
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_IDMAP = 1, 4, 0x100000
SHIFT = 100_000  # 0 to 999 are shown as so much more

AS_1 = f"setpriv --reuid={SHIFT + 1} --regid={SHIFT + 1} --clear-groups"
AS_2 = f"setpriv --reuid={SHIFT + 2} --regid={SHIFT + 2} --clear-groups"
AS_ROOT = f"setpriv --reuid={SHIFT} --regid={SHIFT} --clear-groups"
# Each with sh, in the mapped directory.
COMMANDS = f"""
stat -c %a:%u:%g . before sub sub/before
touch f; mkdir d
{AS_ROOT} sh -c 'touch f; mkdir d; ln -s f l; mkfifo p; ln f h; stat -c %a:%u:%g f d l p h'
{AS_1} sh -c 'touch g; cat before; echo x > before'
chmod 1777 .
{AS_1} sh -c 'touch g; mkdir e; echo hi > g; cat g; stat -c %a:%u:%g g e; chmod 4755 g; stat -c %a g; fallocate -l 5 g; stat -c %a g'
{AS_2} sh -c 'cat g; echo x > g; chmod 777 g; chown {SHIFT + 2} g; rm -f g; mv g elsewhere; touch e/x'
chown {SHIFT + 5}:{SHIFT + 6} f; stat -c %u:%g f; chown 5 f; chown 1000 f; chgrp 0 f; stat -c %u:%g f
chown {SHIFT + 1}:{SHIFT + 1} sub; {AS_1} sh -c 'touch sub/mine; stat -c %u:%g sub/mine; chgrp {SHIFT + 1} sub/mine; chgrp {SHIFT + 2} sub/mine'
chmod 2777 sub; chgrp {SHIFT + 9} sub; {AS_2} sh -c 'touch sub/of-9; mkdir sub/d-of-9; stat -c %a:%u:%g sub/of-9 sub/d-of-9; chmod 2755 sub/of-9; stat -c %a sub/of-9'
setfacl -m u:{SHIFT + 2}:rw g; getfacl -n g; {AS_2} sh -c 'echo acl > g; cat g'; setfacl -m u:7:rw g
setfacl -m d:u:{SHIFT + 7}:rwx d; mkdir d/i; {AS_ROOT} sh -c 'mkdir d/j; touch d/k'; getfacl -n d d/j d/k
{AS_1} sh -c 'setfattr -n user.a -v 1 g; getfattr -d g; setfattr -n trusted.a -v 1 g'
setfattr -n trusted.b -v 2 g; getfattr -d -m - g; {AS_1} getfattr -d -m - g
{AS_1} sh -c 'chmod 6755 g; cp g sub/copy; stat -c %a:%u:%g sub/copy'; {AS_2} sh -c 'echo over > g'; stat -c %a g
{AS_1} sh -c 'mv g sub/g; ln sub/g sub/h; rm sub/h; rmdir e; stat -c %a:%u:%g sub/g'
"""


@harness.lsmfs_only
class IdMapped(harness.MountCase):
    @contextlib.contextmanager
    def mapped(self, directory, name):
        """A mount of the directory with owners shifted; "" where the kernel cannot."""
        place = self.work.sub(name)
        libc = ctypes.CDLL(None, use_errno=True)
        with subprocess.Popen(["unshare", "-U", "cat"], stdin=subprocess.PIPE, cwd="/") as holder:
            until(lambda: os.readlink(f"/proc/{holder.pid}/ns/user") != os.readlink("/proc/self/ns/user"), "a user namespace")
            for kind in ("uid_map", "gid_map"):
                with open(f"/proc/{holder.pid}/{kind}", "w", encoding="ascii") as file:
                    file.write(f"0 {SHIFT} 1000")
            users = os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY)
            tree = libc.syscall(OPEN_TREE, AT_FDCWD, directory.encode(), OPEN_TREE_CLONE | os.O_CLOEXEC)
            self.assertGreaterEqual(tree, 0)
            try:
                how = struct.pack("QQQQ", MOUNT_ATTR_IDMAP, 0, 0, users)
                if libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, how, len(how)) != 0:
                    yield ""
                    return
                self.assertEqual(libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, place.encode(), MOVE_MOUNT_F_EMPTY_PATH), 0)
            finally:
                os.close(tree)
                os.close(users)
                holder.stdin.close()
        try:
            yield place
        finally:
            self.must("umount", place)

    def test_owners_are_those_of_ext4(self):
        volume = self.volume(400 * MiB)
        volume.mount()
        native = self.native(256 * MiB)
        for top in (volume.point, native):
            os.makedirs(os.path.join(top, "mapped", "sub"))
            for name in ("before", "sub/before"):
                with open(os.path.join(top, "mapped", name), "w", encoding="ascii") as file:
                    file.write("contents\n")
            os.chown(os.path.join(top, "mapped", "sub", "before"), 3, 4)
        with self.mapped(os.path.join(native, "mapped"), "native-mapped") as there:
            if not there:
                self.skipTest("this kernel has no id-mapped mounts")
            with self.mapped(os.path.join(volume.point, "mapped"), "lsmfs-mapped") as here:
                if not here:
                    self.skipTest("this kernel has none of FUSE, which came with Linux 6.12")
                self.compare(COMMANDS, here, there)
                shown = "find . | sort | while read f; do getfacl -n $f; stat -c %a:%u:%g $f; done"
                expected = self.outcome(shown, there)
                self.assertIn(f":{SHIFT + 1}:", str(expected))
                self.assertEqual(self.outcome(shown, here), expected)
        kept = "find mapped | sort | while read f; do getfacl -n $f; stat -c %a:%u:%g $f; done"
        self.assertEqual(self.outcome(kept, volume.point), self.outcome(kept, native))

    def test_whoever_is_shown_as_the_owner_may_clone(self):
        volume = self.volume(400 * MiB)
        volume.mount()
        self.must("chmod", "755", volume.point)
        top = volume.path("mapped")
        for name in ("own", "own/below"):
            os.makedirs(os.path.join(top, name))
        os.chmod(top, 0o777)
        os.chown(os.path.join(top, "own"), 1, 1)
        with self.mapped(top, "lsmfs-mapped") as here:
            if not here:
                self.skipTest("this kernel has none of FUSE, which came with Linux 6.12")
            own, copy = os.path.join(here, "own"), os.path.join(here, "copy")
            clone = [LSMFS, "clone", own, copy]
            self.must(*AS_1.split(), *clone)
            facts = os.stat(copy)
            self.assertEqual((facts.st_uid, os.stat(os.path.join(copy, "below")).st_uid), (SHIFT + 1, SHIFT))
            os.rename(os.path.join(top, "copy"), os.path.join(top, "moved"))
            self.refused(*AS_2.split(), *clone, says=["only root"], codes=[1])
            # Who has the number that the file system keeps is somebody else here, and has no number to make anything.
            self.refused("setpriv", "--reuid=1", "--regid=1", "--clear-groups", *clone, codes=[1])
            self.assertFalse(os.path.lexists(copy))


if __name__ == "__main__":
    harness.main()
