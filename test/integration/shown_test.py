"""What other programs show of an lsmfs: df, stat, findmnt, lsblk and udisksctl say sensible values, and the same."""

import json
import lzma
import os
import shutil
import subprocess

import harness
from harness import LSMFS, MiB
from until import until

LABEL = "my data"
# Of a bus of our own, on which everything is allowed.
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={socket}</listen><auth>EXTERNAL</auth><policy context="default"><allow user="*"/>
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
"""
UDISKSD = "/usr/libexec/udisks2/udisksd"


@harness.lsmfs_only
class Shown(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.it = self.volume(256 * MiB, options=("-L", LABEL))
        self.info = json.loads(self.must(LSMFS, "info", "--json", self.it.device))

    def ours(self, path):
        """Lays an empty folder over one of the machine's."""
        if not os.path.isdir(path):
            os.makedirs(path)
            self.addCleanup(os.rmdir, path)
        self.must("mount", "-t", "tmpfs", "tmpfs", path)
        self.addCleanup(self.must, "umount", "-l", path)

    def tell_udev(self):
        """What udev notes of the device by the installed rule, where its library looks for it."""
        self.ours("/run/udev")
        os.mkdir("/run/udev/data")
        number = os.stat(self.it.device).st_rdev
        properties = self.must(LSMFS, "info", "--udev", self.it.device)
        with open(f"/run/udev/data/b{os.major(number)}:{os.minor(number)}", "w", encoding="utf-8") as file:
            file.write("I:1\n" + "".join(f"E:{line}\n" for line in properties.splitlines()) + "V:1\n")
        open("/run/udev/control", "w", encoding="ascii").close()  # udev is there

    def facts(self):
        return os.statvfs(self.it.point)

    def test_df_and_stat_count_space_and_inodes(self):
        self.it.mount()
        free, total = self.info["space"]["free_bytes"], self.info["space"]["total_bytes"]
        facts = self.facts()
        self.assertEqual((facts.f_bsize, facts.f_frsize, facts.f_namemax), (4096, 4096, 255))
        self.assertLessEqual(abs(facts.f_blocks * 4096 - total), MiB)
        self.assertLessEqual(abs(facts.f_bavail * 4096 - free), MiB)
        self.assertTrue(0 < facts.f_favail <= facts.f_files)
        for number in range(100):
            open(self.it.path(str(number)), "w", encoding="ascii").close()
        with open(self.it.path("data"), "wb") as file:
            file.write(os.urandom(20 * MiB))
            os.fsync(file.fileno())
        now = self.facts()
        self.assertEqual((now.f_files - now.f_ffree) - (facts.f_files - facts.f_ffree), 101, "inodes in use")
        self.assertGreater((facts.f_bavail - now.f_bavail) * 4096, 16 * MiB)
        inodes = [int(word) for word in self.must("df", "--output=itotal,iused,iavail", self.it.point).split()[-3:]]
        self.assertEqual(inodes[1], 102)
        self.assertEqual(inodes[0], inodes[1] + inodes[2])
        source, kind, size, target = self.must("df", "-B1", "--output=source,fstype,size,target", self.it.point).split()[-4:]
        self.assertEqual((source, kind, target), (self.it.device, "fuseblk.lsmfs", self.it.point))
        self.assertEqual(int(size), now.f_blocks * 4096)
        shown = self.must("stat", "-f", "-c", "%T %l %s %S %b %f %a %c %d", self.it.point).split()
        self.assertEqual(shown[:4], ["fuseblk", "255", "4096", "4096"])
        # What is free moves a little, as rows reach tables.
        for word, wanted in zip(shown[4:], (now.f_blocks, now.f_bfree, now.f_bavail, now.f_files, now.f_ffree)):
            self.assertAlmostEqual(int(word), wanted, delta=MiB // 4096)

    def test_findmnt_shows_device_type_and_options(self):
        self.it.mount("nosuid,noatime")
        shown = json.loads(self.must("findmnt", "-J", "-b", "-o", "SOURCE,TARGET,FSTYPE,OPTIONS,SIZE,AVAIL,USED", "-T", self.it.point))["filesystems"][0]
        self.assertEqual((shown["source"], shown["target"], shown["fstype"]), (self.it.device, self.it.point, "fuseblk.lsmfs"))
        self.assertLessEqual({"rw", "nosuid", "noatime"}, set(shown["options"].split(",")))
        facts = self.facts()
        self.assertEqual(int(shown["size"]), facts.f_blocks * 4096)
        self.assertEqual(int(shown["used"]) + int(shown["avail"]), int(shown["size"]))
        self.assertEqual(self.must("findmnt", "-n", "-o", "TARGET", self.it.device).strip(), self.it.point)

    def test_lsblk_shows_type_label_and_uuid_and_what_is_free(self):
        self.tell_udev()
        wanted = ("lsmfs", str(self.info["format_version"]), LABEL, self.info["uuid"])
        for mounted in (False, True):
            if mounted:
                self.it.mount()
            shown = json.loads(self.must("lsblk", "-f", "-J", "-b", self.it.device))["blockdevices"][0]
            self.assertEqual((shown["fstype"], shown["fsver"], shown["label"], shown["uuid"]), wanted)
            self.assertEqual(shown["mountpoints"], [self.it.point if mounted else None])
        self.assertAlmostEqual(int(shown["fsavail"]), self.facts().f_bavail * 4096, delta=MiB)
        self.assertRegex(shown["fsuse%"], r"^[0-5]%$")

    def test_udisksctl_shows_the_same(self):
        self.assertTrue(os.path.exists(UDISKSD) and shutil.which("dbus-daemon"), "no udisksd or dbus-daemon: install the packages udisks2 and dbus")
        self.tell_udev()
        for folder in ("/run/udisks2", "/var/lib/udisks2"):
            self.ours(folder)
        folder = self.work.sub("bus")
        configuration, socket = os.path.join(folder, "bus.conf"), os.path.join(folder, "socket")
        with open(configuration, "w", encoding="ascii") as file:
            file.write(BUS.format(socket=socket))
        environment = dict(harness.ENVIRONMENT, DBUS_SYSTEM_BUS_ADDRESS="unix:path=" + socket)

        def begin(*words):
            process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.terminate)

        begin("dbus-daemon", "--nofork", "--config-file=" + configuration)
        until(lambda: os.path.exists(socket), "the bus")
        begin(UDISKSD)

        def shown():
            done = subprocess.run(["udisksctl", "info", "-b", self.it.device], env=environment, capture_output=True, text=True, check=False)
            return done.stdout if done.returncode == 0 else None

        def values():
            """Of the block device, and of the file system what that one has not."""
            lines = [line.strip().split(":", 1) for line in (shown() or "").splitlines() if line.startswith("    ") and ":" in line]
            return {name: value.strip() for name, value in reversed(lines)}

        found = until(values, "udisksd")
        self.assertEqual((found["IdType"], found["IdUsage"], found["IdLabel"], found["IdUUID"]), ("lsmfs", "filesystem", LABEL, self.info["uuid"]))
        self.assertEqual((found["IdVersion"], found["Size"]), (str(self.info["format_version"]), str(256 * MiB)))
        self.assertIn("MountPoints", found, "it is a file system")
        self.it.mount()
        until(lambda: self.it.point in values().get("MountPoints", ""), "udisksd has heard of the mount")

    def test_the_image_for_libblkid_is_what_the_patch_says(self):
        """If it is of another version of the format by now: make both anew, as contrib/libblkid says."""
        contrib = os.path.join(harness.ROOT, "contrib", "libblkid")
        with lzma.open(os.path.join(contrib, "lsmfs.img.xz")) as packed:
            first = packed.read()
        self.assertEqual(len(first), MiB)
        image = os.path.join(self.work.path, "image")
        with open(image, "wb") as file:
            file.write(first)
            file.truncate(128 * MiB)
        with open(os.path.join(contrib, "lsmfs.patch"), encoding="utf-8") as file:
            wanted = {line[1:].strip() for line in file if line.startswith("+ID_FS_")}
        told = set(self.must(LSMFS, "info", "--udev", image).split("\n")[:-1])
        self.assertEqual({line for line in wanted if "SIZE=" not in line}, told)
        self.assertIn(f"ID_FS_FSSIZE={128 * MiB}", wanted)
        self.assertIn(f'ID_FS_VERSION={self.info["format_version"]}', wanted)


if __name__ == "__main__":
    harness.main()
