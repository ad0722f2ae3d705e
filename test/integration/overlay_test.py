"""An overlayfs with layers on lsmfs, as containers use it: whiteouts, copies with their attributes, opaque and renamed directories."""

import os
import shutil
import stat
import subprocess

import harness


# Each with sh, at the top of what is merged. The lower layer has what LOWER makes.
LOWER = """
mkdir -p dir/deep a/b other; echo one > dir/one; echo two > dir/deep/two; echo x > a/b/x; echo big > big; truncate -s 1M big; ln -s dir/one link
for n in 1 2 3 4 5 6 7 8 9; do echo $n > other/$n; done; chmod 4755 other/1; chown 7:8 other/2; ln other/3 other/linked; mkfifo fifo; setfattr -n user.note -v kept other/4
"""
MERGED = """
ls -R . | sort; cat link; stat -c '%a %u:%g %F' other/1 other/2 fifo
echo more >> other/4; cat other/4; getfattr -d --absolute-names other/4; getfattr -d -m - other/4
chmod 600 other/5; stat -c %a other/5; chown 9:9 other/1; stat -c '%a %u:%g' other/1
rm other/6; ls other; echo again > other/6; cat other/6; rm other/6; mkdir other/6; ls -A other/6; rmdir other/6
mv dir renamed; cat renamed/deep/two; mv renamed/deep a/deep; find . | sort; echo new > a/deep/new; cat a/deep/*
mkdir dir; ls -A dir; echo fresh > dir/one; cat dir/one; cat renamed/one
rm -r a/b; mkdir a/b; ls -A a/b; mv a/b a/c; ls a
python3 -c 'import ctypes; c = ctypes.CDLL(None); print(c.renameat2(-100, b"renamed", -100, b"other", 2))'; ls renamed other; cat renamed/9
mv renamed/7 renamed/8; cat renamed/8; ls renamed; rm renamed/3; cat renamed/linked; ln renamed/9 nine; echo nine >> nine; cat renamed/9; rm nine; cat renamed/9; stat -c %h renamed/9
python3 -c 'import os; f = os.open(".", os.O_TMPFILE | os.O_RDWR); os.write(f, b"unnamed\\n"); os.link(f"/proc/self/fd/{f}", "named", src_dir_fd=f, follow_symlinks=True)'; cat named
truncate -s 10 big; stat -c %s big; cp -a renamed copied; diff -r renamed copied
rm -rf renamed copied; find . | sort
"""


class Overlay(harness.MountCase):
    def check_layers(self, lower, upper, more):
        """Layers in these folders, beside the same on ext4. All is once more as it was after a mount of its own."""
        native = self.native(256 * harness.MiB)
        sides = []
        for name, lower_side, upper_side in (("merged", lower, upper), ("native-merged", native, native)):
            places = [os.path.join(lower_side, "lower"), *(os.path.join(upper_side, part) for part in ("upper", "work"))]
            for place in places:
                os.makedirs(place)
            self.must("sh", "-ec", LOWER, cwd=places[0])
            options = "lowerdir={},upperdir={},workdir={},".format(*places) + more
            sides.append((self.work.sub(name), options))
        seen = "find . | sort | while read f; do stat -c '%A %u:%g %s %h %n' \"$f\"; done | grep -v '^d'; find . -type f | sort | xargs cat; ls -R"
        for round_ in range(2):
            for merged, options in sides:
                self.must("mount", "-t", "overlay", "overlay", "-o", options, merged)
            try:
                if round_ == 0:
                    self.compare(MERGED, sides[0][0], sides[1][0])
                self.compare(seen, sides[0][0], sides[1][0])
            finally:
                for merged, _ in sides:
                    self.must("umount", merged)

    def test_all_layers_on_lsmfs_are_as_on_ext4(self):
        volume = self.volume()
        volume.mount()
        self.check_layers(volume.point, volume.point, "redirect_dir=on,metacopy=on")

    def test_directories_that_are_copied_up_to_be_renamed(self):
        volume = self.volume()
        volume.mount()
        self.check_layers(volume.point, volume.point, "redirect_dir=off,metacopy=off")

    def test_a_lower_layer_on_lsmfs_under_an_upper_one_elsewhere(self):
        volume = self.volume()
        volume.mount()
        upper = self.work.sub("elsewhere")
        self.check_layers(volume.point, upper, "redirect_dir=on")

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
