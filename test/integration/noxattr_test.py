"""The mount option noxattr: what programs see without extended attributes, what becomes of those that are there, and what counts in their place."""

import os
import shutil
import subprocess

import harness
from harness import LSMFS, MiB

USER, MEMBER = 1, 65533  # of nothing; and of the group GROUP
GROUP = 65534
CAPABILITY = "security.capability"


def as_user(*command, user=USER, group=None):
    return harness.call("setpriv", f"--reuid={user}", f"--regid={group or user}", "--clear-groups", *command)


@harness.lsmfs_only
class WithoutExtendedAttributes(harness.MountCase):
    def mounted(self, options=""):
        volume = self.volume(512 * MiB)
        volume.mount(options)
        os.chmod(volume.point, 0o755)
        return volume

    def attributes(self, volume, *names):
        return {name: {key: os.getxattr(volume.path(name), key) for key in os.listxattr(volume.path(name))} for name in names}

    def give_attributes(self, volume):
        with open(volume.path("f"), "wb") as file:
            file.write(b"data")
        os.setxattr(volume.path("f"), "user.small", b"s")
        os.setxattr(volume.path("f"), "trusted.large", b"l" * 5000)
        os.mkdir(volume.path("d"))
        self.must("setfacl", "-m", f"u:{USER}:rwx,d:u:{USER}:rwx,d:g::---", volume.path("d"))
        shutil.copy("/usr/bin/grep", volume.path("capable"))
        self.must("setcap", "cap_net_bind_service+ep", volume.path("capable"))
        return self.attributes(volume, "f", "d", "capable")

    def test_programs_are_told_that_there_are_none(self):
        volume = self.mounted()
        self.give_attributes(volume)
        source = self.work.sub("source")
        self.must("cp", "-a", volume.path("f"), volume.path("d"), source)
        archive = os.path.join(self.work.path, "archive.tar")
        self.must("tar", "--xattrs", "--xattrs-include=*", "--acls", "-cf", archive, "-C", source, ".")
        volume.remount("noxattr")
        none = ["not supported"]
        path = volume.path("f")
        self.refused("setfattr", "-n", "user.x", "-v", "y", path, says=none)
        self.refused("setfattr", "-x", "user.small", path, says=none)
        self.refused("getfattr", "-n", "user.small", path, says=none)
        self.refused("getfattr", "-d", "-m", "-", path, says=none)
        self.refused("setfacl", "-m", "u:2:r", path, says=none)
        self.refused("setcap", "cap_net_raw+ep", volume.path("capable"), says=none)
        self.refused("cp", "--preserve=xattr", os.path.join(source, "f"), volume.path("g"), says=none)
        self.refused("cp", "-a", os.path.join(source, "d"), volume.path("e"), says=none)
        # These go on without.
        self.assertEqual(self.must("getcap", volume.path("capable")), "")
        self.must("cp", "-a", os.path.join(source, "f"), volume.path("h"))
        self.must("rsync", "-a", source + "/", volume.path("plain"))
        for option in ("-aX", "-aA"):
            done = harness.call("rsync", option, source + "/", volume.path("rsync" + option))
            self.assertEqual(done.returncode, 23, done.stderr)
            self.assertIn(none[0], done.stderr)
        os.mkdir(volume.path("tar"))
        done = harness.call("tar", "--xattrs", "--xattrs-include=*", "--acls", "-xf", archive, "-C", volume.path("tar"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(none[0], done.stderr)
        for name in ("g", "h", "plain/f", "rsync-aX/f", "tar/f"):
            with open(volume.path(name), "rb") as file:
                self.assertEqual(file.read(), b"data", name)
        volume.remount()
        for name in ("g", "h", "e", "plain/f", "rsync-aX/f", "rsync-aA/d", "tar/f", "tar/d"):
            self.assertEqual(os.listxattr(volume.path(name)), [], name)

    def test_what_is_there_stays_and_counts_again(self):
        volume = self.mounted()
        before = self.give_attributes(volume)
        volume.remount("noxattr")
        self.must("sh", "-c", "umask 027; touch d/f; mkdir d/s; mv d e; ln f g; chmod 700 f", cwd=volume.point)
        umask = os.umask(0o022)
        unnamed = os.open(volume.path("e"), os.O_TMPFILE | os.O_RDWR, 0o666)
        os.umask(umask)
        modes = [os.fstat(unnamed).st_mode & 0o777, *(os.stat(volume.path("e", name)).st_mode & 0o777 for name in ("f", "s"))]
        os.close(unnamed)
        self.assertEqual(modes, [0o644, 0o640, 0o750], "by the umask")
        self.must("chmod", "705", volume.path("e"))
        volume.remount()
        after = self.attributes(volume, "g", "e", "capable")
        self.assertEqual(after["g"], before["f"])
        self.assertEqual(after["capable"], before["capable"])
        self.assertEqual(after["e"]["system.posix_acl_default"], before["d"]["system.posix_acl_default"])
        self.assertIn("mask::---", self.must("getfacl", "-n", volume.path("e")), "the list follows the mode")
        for name in ("f", "s"):
            self.assertEqual(os.listxattr(volume.path("e", name)), [], "nothing was given on")

    def test_permissions_are_those_of_the_mode(self):
        volume = self.mounted()
        path = volume.path("secret")
        with open(path, "w", encoding="ascii") as file:
            file.write("text")
        os.chown(path, 0, GROUP)
        self.must("setfacl", "-m", f"u::rw,u:{USER}:rw,g::-,o::-", path)

        def reads():
            return [as_user("cat", path, user=user, group=group).returncode == 0 for user, group in ((USER, USER), (MEMBER, GROUP))]

        self.assertEqual(reads(), [True, False])
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
        volume.remount("noxattr")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
        self.assertEqual(reads(), [False, True], "the mode's group bits are the list's mask")
        volume.remount()
        self.assertEqual(reads(), [True, False])

    def test_file_capabilities_do_not_count_and_go_when_the_file_changes(self):
        volume = self.mounted()
        self.give_attributes(volume)
        names = ("written", "longer", "cut", "given", "kept")
        for name in names:
            self.must("cp", "--preserve=xattr", volume.path("capable"), volume.path(name))

        def permitted(name="capable"):
            return int(as_user(volume.path(name), "CapPrm", "/proc/self/status").stdout.split()[1], 16)

        os.chmod(volume.path("kept"), 0o755)
        self.assertEqual(permitted(), 1 << 10)
        volume.remount("noxattr")
        self.assertEqual(permitted(), 0)
        with open(volume.path("written"), "r+b") as file:
            file.write(b"\x7f")
        self.must("fallocate", "-l", 16 * MiB, volume.path("longer"))
        os.truncate(volume.path("cut"), 100_000)
        os.chown(volume.path("given"), USER, USER)
        os.chmod(volume.path("kept"), 0o700)
        self.must("cat", volume.path("kept"))
        volume.remount()
        found = {name: CAPABILITY in os.listxattr(volume.path(name)) for name in names}
        self.assertEqual(found, {"written": False, "longer": False, "cut": False, "given": False, "kept": True})
        self.assertEqual(permitted(), 1 << 10)

    def test_an_overlay_can_have_it_below_and_not_on_top(self):
        volume = self.mounted("noxattr")
        for name in ("upper", "work", "lower"):
            os.mkdir(volume.path(name))
        with open(volume.path("lower", "f"), "w", encoding="ascii") as file:
            file.write("text")
        merged = self.work.sub("merged")
        for more in ("", ",userxattr"):
            layers = f"lowerdir={volume.path('lower')},upperdir={volume.path('upper')},workdir={volume.path('work')}{more}"
            done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, merged], capture_output=True, check=False)
            self.assertEqual(done.returncode, 32)
            self.assertFalse(os.path.ismount(merged))
        elsewhere = [self.work.sub("upper"), self.work.sub("work")]
        self.must("mount", "-t", "overlay", "overlay", "-o", "lowerdir={},upperdir={},workdir={}".format(volume.path("lower"), *elsewhere), merged)
        try:
            with open(os.path.join(merged, "f"), "a", encoding="ascii") as file:
                file.write(" and more")
            with open(os.path.join(merged, "f"), encoding="ascii") as file:
                self.assertEqual(file.read(), "text and more")
        finally:
            self.must("umount", merged)

    def test_a_file_system_can_keep_it_and_a_mount_can_take_it_back(self):
        volume = self.volume(512 * MiB)
        self.must(LSMFS, "tune", "-o", "noxattr", volume.device)
        for options, expected in (("", "ENOTSUP"), ("xattr", []), ("acl", []), ("xattr,noxattr", "ENOTSUP")):
            volume.mount(options)
            self.assertEqual(harness.outcome(os.listxattr, volume.point), expected, options)
            volume.umount()


if __name__ == "__main__":
    harness.main()
