"""Of two hosts that reach one device only one writes to it, whatever becomes of the other."""

import os
import signal

import harness
import loop
from harness import LSMFS, MiB
from hosts import Host
from until import until


@harness.lsmfs_only
class Lease(harness.MountCase):
    def two_hosts(self):
        """One device: two loop devices on an image, which know nothing of each other."""
        image = os.path.join(self.work.sub("shared"), "image")
        loop.make_sparse(image, 200 * MiB)
        self.must(LSMFS, "mkfs", "--lease", image)
        devices = [loop.attach(image) for _ in range(2)]
        for device in devices:
            self.addCleanup(loop.detach, device)
        return Host(self, "alpha", devices[0]), Host(self, "beta", devices[1])

    def test_is_refused_while_the_other_host_has_it_and_given_when_it_has_not(self):
        alpha, beta = self.two_hosts()
        alpha.mounts()
        self.assertEqual(alpha.write("one").returncode, 0)
        for command, code in (("mount", 32), ("fsck", 8), ("mkfs", 1), ("tune", 1), ("resize", 1)):
            words = {"mount": [beta.device, beta.point], "fsck": ["-y", beta.device], "mkfs": ["-f", beta.device], "tune": ["--label", "x", beta.device],
                     "resize": [beta.device, "150M"]}[command]
            done = beta.call(LSMFS, command, *words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(f"{beta.device}: was in use by host alpha; waiting up to 20 s to see whether it is\n", done.stderr)
            self.assertIn(f"{beta.device}: is in use by host alpha since 20", done.stderr)
            self.assertIn("unmount it there first", done.stderr)
        self.assertIn("of host alpha since", beta.must(LSMFS, "info", beta.device))
        for reads in (["fsck", "-n", beta.device], ["mount", "-o", "ro", beta.device, beta.point]):
            self.assertIn(f"{beta.device}: host alpha may be writing to it: if it is, what is read here may be wrong\n", beta.call(LSMFS, *reads).stderr)
        beta.umount()
        alpha.umount()
        self.assertIn("nobody has it", beta.must(LSMFS, "info", beta.device))
        beta.mounts()
        self.assertEqual(beta.read(), "one")
        beta.umount()

    def test_is_taken_from_a_host_that_was_stopped_which_then_writes_nothing(self):
        alpha, beta = self.two_hosts()
        alpha.mounts()
        self.assertEqual(alpha.write("one").returncode, 0)
        alpha.signal(signal.SIGSTOP)
        self.assertIn("host alpha does not renew its lease any more, so it is taken over", beta.mounts())
        self.assertEqual(beta.read(), "one")
        self.assertEqual(beta.write("two").returncode, 0)
        alpha.signal(signal.SIGCONT)
        self.assertNotEqual(alpha.write("three").returncode, 0)
        until(lambda: "host beta has taken it over" in alpha.log(), "a word of it in the log")
        alpha.call(LSMFS, "umount", alpha.point)
        until(lambda: not alpha.daemons(), "the end of the daemon that has lost it")
        self.assertEqual(beta.read(), "two")
        beta.umount()
        self.must(LSMFS, "fsck", beta.device)
        beta.mounts()
        self.assertEqual(beta.read(), "two")
        beta.umount()

    def test_is_there_at_once_for_the_host_whose_daemon_was_killed(self):
        alpha, _ = self.two_hosts()
        alpha.mounts()
        self.assertEqual(alpha.write("one").returncode, 0)
        alpha.signal(signal.SIGKILL)
        until(lambda: not alpha.daemons(), "the end of the daemon")
        alpha.must("umount", "-l", alpha.point)
        self.assertEqual(alpha.mounts(), "")
        self.assertEqual(alpha.read(), "one")
        alpha.umount()

    def test_is_switched_on_and_off(self):
        image = os.path.join(self.work.sub("images"), "image")
        loop.make_sparse(image, 200 * MiB)
        self.must(LSMFS, "mkfs", image)
        self.assertNotIn("lease", self.must(LSMFS, "info", image))
        self.assertEqual(self.must(LSMFS, "tune", "--lease", "on", image), f"{image}: lease on\n")
        self.assertIn("lease:       on; nobody has it", self.must(LSMFS, "info", image))
        self.assertEqual(self.must(LSMFS, "tune", "--lease", "off", image), f"{image}: lease off\n")
        self.assertNotIn("lease", self.must(LSMFS, "info", image))
        self.refused(LSMFS, "tune", "--lease", "maybe", image, says=["--lease maybe: write on or off"], codes=[1])


if __name__ == "__main__":
    harness.main()
