"""The mount option io_uring=on, and the kernel's switch, which it turns on. That is one for the whole machine: it is as before after each test."""

import os
import subprocess

import harness
from harness import LSMFS, MiB
from until import until

USER = 65533
PARAMETERS = "/sys/module/fuse/parameters"
SWITCH = os.path.join(PARAMETERS, "enable_uring")


def switch():
    with open(SWITCH, encoding="ascii") as file:
        return file.read().strip()


def turn(to):
    with open(SWITCH, "w", encoding="ascii") as file:
        file.write(to)


def names_of_threads(pid):
    return [harness.comm(f"{pid}/task/{thread}") for thread in os.listdir(f"/proc/{pid}/task")]


@harness.lsmfs_only
class Rings(harness.MountCase):
    def setUp(self):
        super().setUp()
        os.close(os.open("/dev/fuse", os.O_RDWR))  # loads the module, if it is one

    def off(self):
        """The kernel's switch, off; not every kernel has it, nor may it be written everywhere."""
        if not os.path.exists(SWITCH):
            self.skipTest("this kernel has no FUSE over io_uring (it came with Linux 6.14)")
        try:
            before = switch()
            turn(before)
        except OSError as error:
            self.skipTest(f"the kernel's switch for FUSE over io_uring cannot be turned here: {error.strerror}")
        self.addCleanup(turn, before)
        turn("N")

    def mount(self, volume, options):
        done = harness.call(LSMFS, "mount", volume.device, volume.point, "--log", volume.log, "-o", options)
        if "without fuse_session_custom_io" in done.stderr:
            self.skipTest("this libfuse was built without fuse_session_custom_io")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def has_rings(self, volume):
        (pid, _), = volume.daemons()
        return "lsmfs-ring" in names_of_threads(pid)

    def test_on_by_root_switches_it_on_and_says_so_once(self):
        self.off()
        volume = self.volume(256 * MiB, image=True)
        self.assertEqual(self.mount(volume, "io_uring=auto"), "")
        self.assertFalse(self.has_rings(volume))
        self.assertEqual(switch(), "N")
        volume.umount()
        said = self.mount(volume, "io_uring=on")
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn(SWITCH, said)
        with open(volume.log, encoding="utf-8") as log:
            self.assertIn(SWITCH, log.read())
        self.assertEqual(switch(), "Y")
        self.assertTrue(self.has_rings(volume))
        (pid, _), = volume.daemons()
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            facts = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual((int(facts["CapEff"], 16), facts["Seccomp"]), (0, "2"), "it is confined after that")
        with open(volume.path("f"), "wb") as file:
            file.write(b"data")
        volume.umount()
        self.assertEqual(switch(), "Y", "nobody switches it off")
        for options in ("io_uring=on", "io_uring=auto"):
            self.assertEqual(self.mount(volume, options), "", options)
            self.assertTrue(self.has_rings(volume), options)
            with open(volume.path("f"), "rb") as file:
                self.assertEqual(file.read(), b"data")
            volume.umount()

    def test_a_snapshot_alone_comes_through_them(self):
        self.off()
        volume = self.volume(256 * MiB, image=True)
        self.mount(volume, "io_uring=on")
        with open(volume.path("f"), "wb") as file:
            file.write(b"data")
        self.must(LSMFS, "snapshot", volume.point, "s")
        volume.umount()
        self.mount(volume, "io_uring=on,snapshot=s")
        self.assertTrue(self.has_rings(volume))
        with open(volume.path("f"), "rb") as file:
            self.assertEqual(file.read(), b"data")

    def test_a_daemon_in_the_foreground_says_it_once(self):
        self.off()
        volume = self.volume(256 * MiB, image=True)
        self.mount(volume, "io_uring=on")  # or there are none here
        volume.umount()
        turn("N")
        daemon = subprocess.Popen([LSMFS, "mount", "-f", volume.device, volume.point, "-o", "io_uring=on"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True)
        until(lambda: os.path.ismount(volume.point) or daemon.poll() is not None, "the mount")
        volume.umount()
        _, said = daemon.communicate()
        self.assertEqual((daemon.returncode, said.count(SWITCH)), (0, 1), said)

    def test_where_it_cannot_be_written_there_is_one_line_and_no_mount(self):
        self.off()
        volume = self.volume(256 * MiB, image=True)
        # As in a container.
        self.must("mount", "--bind", SWITCH, SWITCH)
        self.addCleanup(self.must, "umount", SWITCH)
        self.must("mount", "-o", "remount,bind,ro", SWITCH)
        self.refused(LSMFS, "mount", volume.device, volume.point, "-o", "io_uring=on", says=[volume.point, "io_uring=on", SWITCH, "Read-only"], codes=[32])
        self.assertFalse(os.path.ismount(volume.point))
        self.assertEqual(self.mount(volume, "io_uring=auto"), "")
        self.assertFalse(self.has_rings(volume))

    def test_who_is_not_root_is_told_so(self):
        self.off()
        volume = self.volume(256 * MiB, image=True)
        for path in (volume.device, volume.point):
            os.chown(path, USER, USER)
        program = harness.two_programs.copy(LSMFS, self.work.path)  # the other may lie where only root can go
        self.refused("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", program, "mount", volume.device, volume.point, "-o", "io_uring=on",
                     says=["io_uring=on", SWITCH, "Permission denied"], codes=[1])
        self.assertEqual(switch(), "N")

    def test_a_kernel_without_it_is_told_of(self):
        volume = self.volume(256 * MiB, image=True)
        if os.path.isdir(PARAMETERS):
            self.must("mount", "-t", "tmpfs", "tmpfs", PARAMETERS)  # in the namespace of this test
            self.addCleanup(self.must, "umount", PARAMETERS)
        self.refused(LSMFS, "mount", volume.device, volume.point, "-o", "io_uring=on", says=[volume.point, "io_uring=on", "Linux 6.14"], codes=[32])
        self.assertEqual(self.mount(volume, "io_uring=auto"), "")
        self.assertFalse(self.has_rings(volume))


if __name__ == "__main__":
    harness.main()
