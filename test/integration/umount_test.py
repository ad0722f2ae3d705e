"""lsmfs umount returns when all is on the device, or says at once who has the file system still."""

import os
import signal
import subprocess

import harness
from harness import LSMFS, MiB
from until import until


@harness.lsmfs_only
class Umount(harness.MountCase):
    def umount(self, volume, *options):
        done = harness.call(LSMFS, "umount", *options, volume.point)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def in_namespace(self, *command):
        """A program in a mount namespace of its own, which has copies of all mounts."""
        process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", *command], stdin=subprocess.PIPE)  # pylint: disable=R1732
        self.addCleanup(self.end, process)
        until(lambda: os.readlink(f"/proc/{process.pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"), "a mount namespace")
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def test_a_copy_in_another_namespace_is_told_of(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        holder = self.in_namespace("cat")
        said = self.umount(volume)
        self.assertIn(f"mounted at {volume.point} in the mount namespace of cat ({holder.pid})", said)
        self.assertFalse(os.path.ismount(volume.point))
        self.assertTrue(volume.daemons())
        self.end(holder)
        volume.wait_for_end()

    def test_wait_waits_for_the_copies_too(self):
        volume = self.volume(200 * MiB, image=True)
        volume.mount()
        holder = self.in_namespace("cat")
        with subprocess.Popen([LSMFS, "umount", "--wait", volume.point], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as waiting:
            self.assertIn("namespace of cat", waiting.stderr.readline())
            self.assertIsNone(waiting.poll())
            self.end(holder)
            self.assertEqual(waiting.wait(), 0)
        self.assertEqual(volume.daemons(), [])

    def test_a_bind_mount_is_told_of(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        elsewhere = self.work.sub("elsewhere")
        self.must("mount", "--bind", volume.point, elsewhere)
        self.assertEqual(self.umount(volume), f"lsmfs: {volume.device}: is not here any more, and still mounted at {elsewhere}\n")
        with open(os.path.join(elsewhere, "file"), "wb") as file:
            file.write(b"contents")
        self.must(LSMFS, "umount", elsewhere)
        volume.mount()
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents")

    def test_who_is_in_the_way_is_named(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, cwd=volume.point) as process:
            self.refused(LSMFS, "umount", volume.point, says=[volume.point, f"cat ({process.pid})"], codes=[32])
            process.communicate()

    def test_an_image_that_was_renamed_is_waited_for(self):
        volume = self.volume(400 * MiB, image=True)
        volume.mount()
        with open(volume.path("file"), "wb") as file:
            file.write(os.urandom(64 * MiB))
        moved = os.path.join(volume.folder, "moved.img")
        os.rename(volume.image, moved)
        self.umount(volume)
        self.assertEqual(volume.daemons(), [])
        os.rename(moved, volume.image)
        self.must(LSMFS, "fsck", volume.image)

    def test_a_daemon_that_had_ended_is_no_success(self):
        for image in (False, True):
            volume = self.volume(200 * MiB, image=image)
            volume.mount()
            for pid, _ in volume.daemons():
                os.kill(pid, signal.SIGKILL)
            until(lambda: not volume.processes(), "the end of the daemon")  # pylint: disable=W0640
            self.refused(LSMFS, "umount", volume.point, says=[volume.point, "lost"], codes=[32])
            self.assertFalse(os.path.ismount(volume.point))

    def test_it_ends_well_right_after_many_unnamed_files_were_closed(self):
        volume = self.volume(400 * MiB)
        for _ in range(4):
            with subprocess.Popen([LSMFS, "mount", volume.device, volume.point, "-f"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True) as daemon:
                until(lambda: os.path.ismount(volume.point) or daemon.poll() is not None, "the mount")  # pylint: disable=W0640
                script = "import os, sys\nfor _ in range(3000): os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)"
                makers = [subprocess.Popen(["python3", "-c", script, volume.point]) for _ in range(4)]  # pylint: disable=R1732
                self.assertEqual([maker.wait() for maker in makers], [0] * 4)
                self.must("umount", volume.point)
                said = daemon.communicate()[1]
            self.assertEqual(daemon.returncode, 0, said)
            self.assertEqual([line for line in said.splitlines() if not line.startswith("lsmfs: ")], [], "words that are not ours")


if __name__ == "__main__":
    harness.main()
