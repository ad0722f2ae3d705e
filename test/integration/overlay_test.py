"""An overlayfs whose upper layer lies on lsmfs, as containers use it: whiteouts, copies with their attributes, opaque directories."""

import os
import shutil
import stat
import subprocess

import harness


class Overlay(harness.MountCase):
    def mount_overlay(self, volume, lower, merged):
        options = f"lowerdir={lower},upperdir={volume.path('upper')},workdir={volume.path('work')}"
        done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def tree(self, place):
        found = {}
        for folder, folders, files in os.walk(place):
            for name in folders:
                found[os.path.relpath(os.path.join(folder, name), place)] = "directory"
            for name in files:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, place)] = file.read()
        return found

    def test_an_upper_layer_on_lsmfs_hides_changes_and_keeps(self):
        volume = self.volume()
        volume.mount()
        lower, merged = self.work.sub("lower"), self.work.sub("merged")
        os.makedirs(os.path.join(lower, "dir", "deep"))
        for name in ("kept", "removed", "changed", "dir/inside", "dir/deep/down"):
            with open(os.path.join(lower, name), "w", encoding="utf-8") as file:
                file.write(f"lower {name}")
        os.setxattr(os.path.join(lower, "changed"), "trusted.note", b"n" * 1000)
        os.mkdir(volume.path("upper"))
        os.mkdir(volume.path("work"))

        self.mount_overlay(volume, lower, merged)
        try:
            os.unlink(os.path.join(merged, "removed"))
            with open(os.path.join(merged, "changed"), "a", encoding="utf-8") as file:
                file.write(", and more")
            os.rename(os.path.join(merged, "changed"), os.path.join(merged, "renamed"))
            shutil.rmtree(os.path.join(merged, "dir"))
            os.mkdir(os.path.join(merged, "dir"))
            with open(os.path.join(merged, "dir", "new"), "w", encoding="utf-8") as file:
                file.write("new")
            expected = {"kept": b"lower kept", "renamed": b"lower changed, and more", "dir": "directory", "dir/new": b"new"}
            self.assertEqual(self.tree(merged), expected)
        finally:
            subprocess.run(["umount", merged], check=True)
        for name in ("removed", "changed"):
            facts = os.lstat(volume.path("upper", name))
            self.assertTrue(stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0, f"{name} is a whiteout")

        volume.remount()
        self.mount_overlay(volume, lower, merged)
        try:
            self.assertEqual(self.tree(merged), expected)
            self.assertEqual(os.getxattr(os.path.join(merged, "renamed"), "trusted.note"), b"n" * 1000)
        finally:
            subprocess.run(["umount", merged], check=True)


if __name__ == "__main__":
    harness.main()
