"""mount(8), umount(8), fsck(8) and mkfs(8) find what `cmake --install` puts into /sbin, and it does what they ask.

The tests run in a mount namespace of their own, where the installed files lie over those of /usr: nothing of
the machine is changed, whatever becomes of this process."""

import contextlib
import fcntl
import os
import struct
import subprocess
import termios

import harness
import workspace
from harness import LSMFS, MiB
from until import until

BUILD = os.path.dirname(LSMFS)
LINKS = "/dev/disk"


class Installed(harness.MountCase):
    """With the helpers in /sbin, and a /dev/disk that is ours."""

    @classmethod
    def setUpClass(cls):
        """Installs everything once, in a folder of the class."""
        super().setUpClass()
        if not os.path.exists(os.path.join(BUILD, "CMakeCache.txt")):
            raise AssertionError(f"{LSMFS} does not lie in a build folder, from which it could be installed")
        place = workspace.Workspace("installed")
        cls.addClassCleanup(place.close)
        cls.tree = place.path
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", "/usr"], env=dict(os.environ, DESTDIR=cls.tree),
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def setUp(self):
        super().setUp()
        for folder in ("/usr/bin", "/usr/sbin", "/usr/libexec"):
            self.must("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={self.tree}{folder}:{folder}", folder)
            self.addCleanup(self.must, "umount", "-l", folder)
        self.rule = os.path.join(self.tree, "usr/lib/udev/rules.d/61-lsmfs.rules")

        made = not os.path.isdir(LINKS)
        if made:
            os.mkdir(LINKS)
            self.addCleanup(os.rmdir, LINKS)
        self.must("mount", "-t", "tmpfs", "tmpfs", LINKS)
        self.addCleanup(self.must, "umount", LINKS)

    def udev(self, device):
        """Makes the links to a device that udev would make by the installed rule."""
        with open(self.rule, encoding="utf-8") as file:
            program = [line for line in file if "IMPORT{program}" in line][0].split('"')[1]
        found = dict(line.split("=", 1) for line in self.must(*program.replace("$devnode", device).split()).splitlines())
        self.assertEqual((found["ID_FS_TYPE"], found["ID_FS_USAGE"]), ("lsmfs", "filesystem"))
        for folder, key in (("by-uuid", "ID_FS_UUID_ENC"), ("by-label", "ID_FS_LABEL_ENC")):
            if key in found:
                os.makedirs(os.path.join(LINKS, folder), exist_ok=True)
                link = os.path.join(LINKS, folder, found[key])
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(link)
                os.symlink(device, link)
        return found

    def fstab(self, *lines):
        path = os.path.join(self.work.path, "fstab")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        return path

    def quietly(self, *command):
        """Must succeed without a word on stderr."""
        done = harness.call(*command)
        self.assertEqual((done.returncode, done.stderr), (0, ""), " ".join(str(word) for word in command))
        return done.stdout

    def mounted(self, point):
        """(source, type, options) of what is mounted there; None: nothing."""
        done = harness.call("findmnt", "-n", "-r", "-o", "SOURCE,FSTYPE,OPTIONS", "--mountpoint", point)
        if done.returncode != 0:
            return None
        source, kind, options = done.stdout.split()
        return source, kind, set(options.split(","))

    @staticmethod
    def write(volume, name, text):
        with open(volume.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    @staticmethod
    def read(volume, name):
        with open(volume.path(name), encoding="utf-8") as file:
            return file.read()


@harness.lsmfs_only
class Mount(Installed):
    def test_a_device_is_mounted_by_type_and_unmounted_by_directory_and_by_device(self):
        volume = self.volume(200 * MiB)
        for kind in ("lsmfs", "fuseblk.lsmfs"):
            for what in (volume.point, volume.device):
                self.quietly("mount", "-t", kind, "-o", "nosuid,lazytime", volume.device, volume.point)
                source, found, options = self.mounted(volume.point)
                self.assertEqual((source, found), (volume.device, "fuseblk.lsmfs"))
                self.assertLessEqual({"rw", "nosuid", "lazytime", "relatime"}, options)
                self.write(volume, "file", kind + what)
                self.quietly("umount", what)
                self.assertIsNone(self.mounted(volume.point))
                self.quietly("mount", "-r", "-t", kind, volume.device, volume.point)
                self.assertEqual(self.read(volume, "file"), kind + what)
                self.assertIn("ro", self.mounted(volume.point)[2])
                self.quietly("umount", volume.point)

    def test_an_image_is_mounted_by_type(self):
        volume = self.volume(200 * MiB, image=True)
        for number, kind in enumerate(("lsmfs", "fuse.lsmfs")):
            self.quietly("mount", "-t", kind, volume.image, volume.point)
            self.assertEqual(self.mounted(volume.point)[:2], (volume.image, "fuse.lsmfs"))
            self.assertEqual(sorted(os.listdir(volume.point)), [str(old) for old in range(number)])
            self.write(volume, str(number), "contents")
            self.quietly(LSMFS, "umount", volume.point)
        self.quietly("mount", "-t", "lsmfs", volume.image, volume.point)
        self.quietly("umount", volume.image)
        self.assertIsNone(self.mounted(volume.point))

    def test_an_image_on_a_loop_device_of_mount(self):
        volume = self.volume(200 * MiB, image=True)
        self.quietly("mount", "-t", "lsmfs", "-o", "loop", volume.image, volume.point)
        self.write(volume, "file", "contents")
        source, kind, _ = self.mounted(volume.point)
        self.assertEqual((source[:9], kind), ("/dev/loop", "fuseblk.lsmfs"))
        self.quietly("umount", volume.point)
        until(lambda: volume.image not in self.must("losetup", "-l", "-n", "-O", "BACK-FILE"), "the end of the loop device")
        self.quietly("mount", "-t", "lsmfs", volume.image, volume.point)
        self.assertEqual(self.read(volume, "file"), "contents")

    def test_a_line_of_fstab(self):
        volume = self.volume(200 * MiB)
        missing = self.work.sub("missing")
        fstab = self.fstab(f"{volume.device} {volume.point} lsmfs defaults,nofail,cache=64M,nodiratime,x-systemd.automount,comment=hello 0 2",
                           f"/dev/no-such-device {missing} lsmfs defaults,nofail 0 2")
        for command in (["mount", "-T", fstab, volume.point], ["mount", "-T", fstab, volume.device], ["mount", "-T", fstab, "-a"]):
            self.quietly(*command)
            self.assertEqual(self.mounted(volume.point)[:2], (volume.device, "fuseblk.lsmfs"))
            self.assertIn("nodiratime", self.mounted(volume.point)[2])
            self.quietly("mount", "-T", fstab, "-a")  # what is mounted stays
            self.assertEqual(self.must("findmnt", "-n", "-o", "TARGET", volume.device).split(), [volume.point])
            self.quietly("umount", volume.point)
            self.assertIsNone(self.mounted(volume.point))

    def test_lines_of_fstab_for_the_whole_and_a_snapshot(self):
        volume = self.volume(200 * MiB)
        snapshot = self.work.sub("snapshot")
        volume.mount()
        self.write(volume, "file", "then")
        self.must(LSMFS, "snapshot", volume.point, "a b")
        self.write(volume, "file", "now")
        volume.umount()
        fstab = self.fstab(f"{volume.device} {volume.point} lsmfs defaults 0 0", f"{volume.device} {snapshot} lsmfs snapshot=a\\040b,x-systemd.requires={volume.point} 0 0")
        kept = os.path.join(snapshot, "file")
        for command in (["mount", "-T", fstab, "-a"], ["mount", "-T", fstab, snapshot]):
            self.quietly(*command)
            with open(kept, encoding="utf-8") as file:
                self.assertEqual(file.read(), "then")
            self.assertIn("ro", self.mounted(snapshot)[2])
            if command[-1] == "-a":
                self.assertEqual(self.read(volume, "file"), "now")
                self.quietly("mount", "-T", fstab, "-a")
                self.quietly("umount", volume.point)
            self.quietly("umount", snapshot)
            volume.wait_for_end()

    def test_labels_and_uuids_are_found_by_the_links_of_udev(self):
        volume = self.volume(200 * MiB)
        self.must("mkfs", "-t", "lsmfs", "-f", "-L", "my data", volume.device)
        found = self.udev(volume.device)
        fstab = self.fstab(f"LABEL=my\\040data {volume.point} lsmfs defaults 0 2")
        for command in (["mount", "-T", fstab, volume.point], ["mount", "-T", fstab, "-a"],
                        ["mount", "-t", "lsmfs", "UUID=" + found["ID_FS_UUID"], volume.point],
                        ["mount", "-t", "lsmfs", "-L", "my data", volume.point]):
            self.quietly(*command)
            self.assertEqual(self.mounted(volume.point)[:2], (volume.device, "fuseblk.lsmfs"))
            self.quietly("umount", volume.point)

    def test_without_udev_lsmfs_finds_labels_and_uuids_by_itself(self):
        volume, other = self.volume(200 * MiB), self.volume(200 * MiB)
        label = "label" + os.path.basename(self.work.path)[-8:]
        uuid = self.must(LSMFS, "mkfs", "-f", "-L", label, volume.device).split(",")[0].split()[-1]
        for tag in ("LABEL=" + label, "UUID=" + uuid, "UUID=" + uuid.upper()):
            self.quietly("mount.lsmfs", tag, volume.point)
            self.assertEqual(self.mounted(volume.point)[0], volume.device)
            self.assertIn(volume.device, self.must(LSMFS, "info", tag))
            self.quietly("umount", volume.point)
        self.must(LSMFS, "mkfs", "-f", "-L", label, other.device)
        self.refused(LSMFS, "mount", "LABEL=" + label, volume.point, says=[volume.device, other.device], codes=[32])
        self.assertIsNone(self.mounted(volume.point))

    def test_a_mount_waits_for_the_umount_that_is_still_going_on(self):
        volume = self.volume(400 * MiB)
        for _ in range(5):
            self.quietly("mount", "-t", "lsmfs", volume.device, volume.point)
            with open(volume.path("file"), "wb") as file:
                file.write(os.urandom(40 * MiB))
            # Busy is who looks at all mounts at that moment, as df of another test does.
            with subprocess.Popen(["sh", "-c", 'umount "$1" || { sleep 1; umount "$1"; }', "sh", volume.point]) as umount:
                until(lambda: not os.path.ismount(volume.point) or umount.poll() is not None, "the end of the mount")
                self.must("mount", "-t", "lsmfs", volume.device, volume.point)
            self.assertEqual(umount.returncode, 0)
            self.assertEqual(os.path.getsize(volume.path("file")), 40 * MiB)
            self.quietly("umount", volume.point)

    def test_what_cannot_be_mounted_gets_one_line_and_the_exit_status_of_mount(self):
        volume = self.volume(200 * MiB)
        self.refused("mount", "-t", "lsmfs", "-o", "colour=red", volume.device, volume.point, says=["colour=red"], codes=[1])
        self.must("dd", "if=/dev/zero", f"of={volume.device}", "bs=1M", "count=200", "conv=fsync")
        self.refused("mount", "-t", "lsmfs", volume.device, volume.point, says=[volume.device, "not lsmfs"], codes=[32])
        self.refused("mount", "-f", "-t", "lsmfs", volume.device, volume.point, says=["not lsmfs"], codes=[32])
        self.must("mkfs", "-t", "lsmfs", volume.device)
        self.quietly("mount", "-f", "-t", "lsmfs", volume.device, volume.point)
        self.assertIsNone(self.mounted(volume.point))
        self.quietly("mount", "-s", "-t", "lsmfs", "-o", "colour=red", volume.device, volume.point)
        self.refused("mount", "-t", "lsmfs", volume.device, self.work.sub("other"), says=["in use", volume.point])
        self.refused("mkfs", "-t", "lsmfs", "-f", volume.device, says=["in use", volume.point])


@harness.lsmfs_only
class Remount(Installed):
    def check_read_only_and_back(self, volume, *remount):
        """`remount`: the command, which `ro` and `rw` follow."""
        self.write(volume, "file", "before")
        os.makedirs(volume.path("folder"), exist_ok=True)
        with open(volume.path("open"), "w", encoding="utf-8") as file:
            self.refused(*remount, "remount,ro", volume.point, says=[volume.point, "in use"], codes=[32])
            file.write("still writable")
        self.quietly(*remount, "remount,ro", volume.point)
        self.assertIn("ro", self.mounted(volume.point)[2])
        self.assertIn("(read-only)", self.must(LSMFS, "info", volume.point))
        frozen = volume.digest()
        for change in (lambda: self.write(volume, "file", "x"), lambda: os.mkdir(volume.path("new")),
                       lambda: os.utime(volume.path("file"))):
            with self.assertRaises(OSError):
                change()
        self.assertEqual(self.read(volume, "file"), "before")
        os.listdir(volume.path("folder"))
        self.assertEqual(volume.digest(), frozen, "the device has changed")
        self.quietly(*remount, "remount,rw", volume.point)
        self.assertIn("rw", self.mounted(volume.point)[2])
        self.write(volume, "file", "after")
        volume.remount("sync_interval=1")
        self.assertEqual((self.read(volume, "file"), self.read(volume, "open")), ("after", "still writable"))
        self.quietly(*remount, "remount,ro", volume.point)
        frozen = volume.digest()
        self.assertEqual(self.read(volume, "file"), "after")
        volume.umount()
        self.assertEqual(volume.digest(), frozen, "unmounting has changed the device")
        volume.mount("sync_interval=1")
        self.assertEqual(self.read(volume, "file"), "after")

    def test_of_a_device_without_a_line_in_fstab(self):
        volume = self.volume(200 * MiB)
        volume.mount("sync_interval=1")
        self.check_read_only_and_back(volume, "mount", "-o")

    def test_of_an_image(self):
        volume = self.volume(200 * MiB, image=True)
        volume.mount("sync_interval=1")
        self.check_read_only_and_back(volume, "mount", "-o")

    def test_of_a_device_with_a_line_in_fstab(self):
        volume = self.volume(200 * MiB)
        fstab = self.fstab(f"{volume.device} {volume.point} lsmfs defaults,nofail,sync_interval=1,comment=hello 0 2")
        self.quietly("mount", "-T", fstab, volume.point)
        self.check_read_only_and_back(volume, "mount", "-T", fstab, "-o")

    def test_with_type_device_and_directory(self):
        volume = self.volume(200 * MiB)
        volume.mount("nosuid,noatime")
        self.quietly("mount", "-t", "lsmfs", "-o", "remount,ro,noexec", volume.device, volume.point)
        # As for other file systems: what is not named gets its default, but for access times.
        self.assertLessEqual({"ro", "noexec", "noatime"}, self.mounted(volume.point)[2])
        self.assertNotIn("nosuid", self.mounted(volume.point)[2])
        self.refused(LSMFS, "mount", "-o", "remount,rw", "/dev/null", volume.point, says=[volume.device, "/dev/null"], codes=[32])
        self.quietly(LSMFS, "mount", "-o", "remount,rw", volume.device, volume.point)
        self.write(volume, "file", "contents")

    def test_flags_are_kept_and_changed_as_mount_says(self):
        volume = self.volume(200 * MiB)
        volume.mount("nosuid,noexec")
        for options, there, gone in (("noatime", {"rw", "nosuid", "noexec", "noatime"}, {"relatime"}),
                                     ("exec,nodev", {"nosuid", "nodev", "noatime"}, {"noexec"}),
                                     ("ro,lazytime", {"ro", "nosuid", "nodev", "noatime", "lazytime"}, {"relatime"}),
                                     ("rw,suid,dev,nolazytime,strictatime", {"rw"}, {"nosuid", "nodev", "relatime", "lazytime"})):
            self.quietly("mount", "-o", "remount," + options, volume.point)
            found = self.mounted(volume.point)[2]
            self.assertLessEqual(there, found, options)
            self.assertFalse(gone & found, f"{options}: {found}")

    def test_what_cannot_change_is_refused_and_nothing_changes(self):
        volume = self.volume(200 * MiB)
        volume.mount("cache=64M,latency=off")
        for option in ("cache=128M", "latency=on", "io_uring=on", "writeback", "noacl", "noxattr", "user_rm"):
            self.refused("mount", "-o", f"remount,ro,noexec,{option}", volume.point,
                         says=[volume.point, option.split("=")[0].removeprefix("no"), "unmount"], codes=[32])
        self.refused("mount", "-o", "remount,ro,colour=red", volume.point, says=["colour=red"], codes=[1])
        self.assertLessEqual({"rw"}, self.mounted(volume.point)[2])
        self.assertNotIn("noexec", self.mounted(volume.point)[2])
        self.write(volume, "file", "still writable")
        # As they are they may be named, as in a line of fstab.
        self.quietly("mount", "-o", "remount,ro,cache=64M,latency=off,acl,xattr", volume.point)
        self.quietly("mount", "-f", "-o", "remount,rw", volume.point)
        self.assertIn("ro", self.mounted(volume.point)[2])

    def test_what_was_mounted_read_only_cannot_become_writable(self):
        volume = self.volume(200 * MiB)
        volume.mount("ro")
        self.refused("mount", "-o", "remount,rw", volume.point, says=[volume.point, "unmount it and mount it again"], codes=[32])
        self.assertIn("ro", self.mounted(volume.point)[2])
        self.quietly("mount", "-o", "remount,ro,noexec", volume.point)
        self.assertIn("noexec", self.mounted(volume.point)[2])

    def test_a_read_only_device_cannot_become_writable_until_it_is(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        self.quietly("mount", "-o", "remount,ro", volume.point)
        self.must("blockdev", "--setro", volume.device)
        self.refused("mount", "-o", "remount,rw", volume.point, says=["device is read-only"], codes=[32])
        self.must("blockdev", "--setrw", volume.device)
        frozen = volume.digest()
        self.assertIn("(read-only)", self.must(LSMFS, "info", volume.point))
        self.assertEqual(volume.digest(), frozen)
        self.quietly("mount", "-o", "remount,rw", volume.point)
        self.write(volume, "file", "contents")

    def test_an_internal_mount_changes_the_kernels_part_alone(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        done = harness.call("mount", "-i", "-o", "remount,ro", volume.point)
        # From 2.39 on mount(8) hands the kernel all options by fsconfig(2), and FUSE takes none of its own then.
        if "No changes allowed in reconfigure" in done.stderr:
            self.write(volume, "file", "contents")
            return
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with self.assertRaises(OSError):
            self.write(volume, "file", "x")
        self.assertNotIn("(read-only)", self.must(LSMFS, "info", volume.point))
        self.quietly("mount", "-i", "-o", "remount,rw", volume.point)
        self.write(volume, "file", "contents")

    def test_what_is_not_an_lsmfs_is_left_alone(self):
        volume = self.volume(200 * MiB)
        self.refused(LSMFS, "mount", "-o", "remount,ro", volume.device, volume.point, says=["not mounted"], codes=[32])
        self.must("mount", "-t", "tmpfs", "tmpfs", volume.point)
        self.refused(LSMFS, "mount", "-o", "remount,ro", volume.device, volume.point, says=["tmpfs"], codes=[32])
        self.must("umount", volume.point)


@harness.lsmfs_only
class Check(Installed):
    def fsck(self, *words, fstab=""):
        """fsck(8) itself: (exit status, what it and the helper said)."""
        done = subprocess.run(["fsck", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env=dict(harness.ENVIRONMENT, FSTAB_FILE=fstab))
        return done.returncode, done.stdout + done.stderr

    def damage(self, volume):
        """Flips a bit in every copy of the contents of a file."""
        volume.mount()
        contents = os.urandom(100_000)
        with open(volume.path("file"), "wb") as file:
            file.write(contents)
        volume.umount()
        part = contents[50_000:50_064]
        with open(volume.device, "r+b") as device:
            image = device.read()
            at = image.find(part)
            while at >= 0:
                device.seek(at)
                device.write(bytes([part[0] ^ 1]))
                at = image.find(part, at + 1)

    def test_a_sound_device_is_clean(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        self.write(volume, "file", "contents")
        volume.umount()
        before = volume.digest()
        for words in ([], ["-a"], ["-p"], ["-C"], ["-V", "-C5", "-y"], ["-M", "-T", "-l"]):
            code, said = self.fsck("-t", "lsmfs", *words, volume.device)
            self.assertEqual(code, 0, said)
            self.assertIn(f"{volume.device}: clean: 1 files, 1 directories", said)
        self.assertEqual(self.fsck("-t", "lsmfs", volume.device, "--", "-f", "-n", "-C0")[0], 0)
        self.assertEqual(volume.digest(), before)

    def test_a_line_of_fstab(self):
        volume = self.volume(200 * MiB)
        fstab = self.fstab(f"{volume.device} {volume.point} lsmfs defaults,nofail 0 2", "/dev/no-such-device /x lsmfs nofail 0 2")
        for words in (["-A"], ["-A", "-a", "-T", "-C0"], [volume.device], [volume.point]):
            code, said = self.fsck(*words, fstab=fstab)
            self.assertEqual(code, 0, said)
            self.assertIn(f"{volume.device}: clean", said)
        self.quietly("mount", "-T", fstab, "-a")
        code, said = self.fsck("-A", "-M", fstab=fstab)
        self.assertEqual(code, 0, said)  # fsck(8) leaves out what is mounted

    def test_problems_and_failures_have_the_exit_status_of_fsck(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        code, said = self.fsck("-t", "lsmfs", volume.device)
        self.assertEqual(code, 8, said)
        self.assertIn(volume.point, said)
        volume.umount()
        code, said = self.fsck("-t", "lsmfs", volume.device, "--", "-z")
        self.assertEqual(code, 16, said)
        self.damage(volume)
        for words in ([], ["-n"], ["-a"]):
            code, said = self.fsck("-t", "lsmfs", *words, volume.device)
            self.assertEqual(code, 4, said)
            self.assertIn("file data from", said)
        code, said = self.fsck("-t", "lsmfs", "-y", volume.device)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"/file: \d+ of its 25 blocks of 4096 bytes are lost")
        self.assertEqual(self.fsck("-t", "lsmfs", volume.device)[0], 0)

    def test_progress_is_shown_on_a_terminal_that_asks(self):
        volume = self.volume(200 * MiB)
        master, terminal = os.openpty()
        with subprocess.Popen(["fsck.lsmfs", "-C0", volume.device], stdout=subprocess.PIPE, stderr=terminal) as process:
            os.close(terminal)
            said = process.communicate(timeout=300)[0].decode()
        shown = os.read(master, 4096).decode()
        os.close(master)
        self.assertEqual(process.returncode, 0)
        self.assertIn(": checking, 0 %", shown)
        self.assertTrue(shown.endswith("\r\x1b[K"), "and taken away")
        self.assertTrue(said.startswith(volume.device + ": clean"))

    def test_progress_fits_into_a_narrow_terminal(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        with open(volume.path("file"), "wb") as file:
            file.write(os.urandom(MiB))
        columns = 40
        for command in ([LSMFS, "scrub", volume.point], ["fsck.lsmfs", "-C0", volume.device]):
            master, terminal = os.openpty()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal) as process:
                os.close(terminal)
                self.assertEqual(process.wait(), 0)
            shown = os.read(master, 4096).decode()
            os.close(master)
            lines = [line for line in shown.split("\r\x1b[K") if line]
            self.assertTrue(lines)
            for line in lines:
                self.assertLess(len(line), columns, lines)
            if os.path.ismount(volume.point):
                volume.umount()


if __name__ == "__main__":
    harness.main()
