"""Ends of a daemon that nobody ordered, and signals and limits that must not be one: somebody is told of each."""

import contextlib
import os
import re
import resource
import signal
import subprocess

import harness
from harness import LSMFS, MiB
from until import until


@harness.lsmfs_only
class Ends(harness.MountCase):
    def said(self, volume, *words):
        with open(volume.log, encoding="utf-8") as file:
            return [line for line in file if all(word in line for word in words)]

    def write(self, volume, name, contents=b"contents"):
        with open(volume.path(name), "wb") as file:
            file.write(contents)

    def daemon(self, volume):
        (pid, _), = volume.daemons()
        return pid

    def test_a_hangup_opens_the_log_again(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        old = volume.log + ".1"
        os.rename(volume.log, old)
        os.kill(self.daemon(volume), signal.SIGHUP)
        until(lambda: os.path.exists(volume.log), "a new log")
        self.write(volume, "file")
        volume.umount()
        volume.wait_for_end()
        self.assertEqual(len(self.said(volume, "is unmounted")), 1)
        with open(old, encoding="utf-8") as file:
            self.assertNotIn("is unmounted", file.read())

    def test_a_log_that_cannot_be_opened_again_stays(self):
        volume = self.volume(200 * MiB)
        folder = self.work.sub("logs")
        volume.log = os.path.join(folder, "log")
        volume.mount()
        gone = self.work.sub("gone")
        os.rename(folder, os.path.join(gone, "logs"))
        volume.log = os.path.join(gone, "logs", "log")
        os.kill(self.daemon(volume), signal.SIGHUP)
        until(lambda: self.said(volume, "the log cannot be opened again"), "word of it")
        self.write(volume, "file")
        volume.umount()
        volume.wait_for_end()
        self.assertEqual(len(self.said(volume, "is unmounted")), 1)

    def test_a_hangup_ends_a_program_in_a_terminal(self):
        volume = self.volume(200 * MiB)
        with subprocess.Popen([LSMFS, "mount", volume.device, volume.point, "-f"], stderr=subprocess.DEVNULL) as process:
            until(lambda: os.path.ismount(volume.point), "the mount")
            process.send_signal(signal.SIGHUP)
            self.assertEqual(process.wait(), 0)

    def test_a_kill_is_told_by_the_log_and_by_the_next_mount(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        self.assertEqual(self.said(volume, "was not unmounted"), [])
        self.write(volume, "file")
        os.sync()
        volume.kill()
        self.assertEqual(len(self.said(volume, "was killed or broke down", volume.device, volume.point)), 1)
        done = harness.call(LSMFS, "mount", volume.device, volume.point, "--log", volume.log)
        self.assertEqual((done.returncode, done.stderr), (0, ""), "what belongs into the log is there")
        told, = self.said(volume, "was not unmounted")
        self.assertTrue(re.search(r"as it was at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", told), told)
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        volume.umount()
        volume.mount()
        self.assertEqual(len(self.said(volume, "was not unmounted")), 1, "once")

    def test_a_mount_that_only_reads_says_so_each_time(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        self.write(volume, "file")
        os.sync()
        volume.kill()
        for times in (1, 2):
            volume.mount("ro")
            volume.umount()
            self.assertEqual(len(self.said(volume, "was not unmounted")), times)

    def test_what_was_made_read_only_was_unmounted(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        self.write(volume, "file")
        self.must(LSMFS, "mount", volume.device, volume.point, "-o", "remount,ro")
        volume.kill()
        volume.mount()
        self.assertEqual(self.said(volume, "was not unmounted"), [])

    def limited(self, kind, soft, hard, *command):
        """Runs it as somebody with that limit, who may not raise it over `hard`."""
        def begin():
            resource.setrlimit(kind, (soft, hard))
        return subprocess.run(["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource", "--", *command], preexec_fn=begin,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", check=False)

    def test_an_image_that_is_larger_than_a_file_may_be_is_refused(self):
        volume = self.volume(400 * MiB, image=True)
        done = self.limited(resource.RLIMIT_FSIZE, 100 * MiB, 100 * MiB, LSMFS, "mount", volume.image, volume.point)
        self.assertEqual(done.returncode, 32, done.stderr)
        self.assertIn("larger than a file may be that is written here, 100 MiB; raise that limit (ulimit -f", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertFalse(os.path.ismount(volume.point))

    def test_a_limit_that_may_be_raised_does_not_matter(self):
        volume = self.volume(400 * MiB, image=True)
        done = self.limited(resource.RLIMIT_FSIZE, 100 * MiB, resource.RLIM_INFINITY, LSMFS, "mount", volume.image, volume.point, "--log", volume.log)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.write(volume, "file", os.urandom(MiB) * 200)
        volume.umount()
        volume.mount()
        self.assertEqual(os.stat(volume.path("file")).st_size, 200 * MiB)

    def test_a_new_image_that_is_larger_than_a_file_may_be_is_refused(self):
        image = os.path.join(self.work.sub("images"), "image")
        done = self.limited(resource.RLIMIT_FSIZE, 100 * MiB, 100 * MiB, LSMFS, "mkfs", "--size", "200M", image)
        self.assertGreater(done.returncode, 0)
        self.assertIn("ulimit -f", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertFalse(os.path.exists(image))

    def test_the_end_of_processor_time_unmounts(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        self.write(volume, "file")
        os.kill(self.daemon(volume), signal.SIGXCPU)  # as the kernel does some seconds before it kills
        volume.wait_for_end()
        self.assertFalse(os.path.ismount(volume.point))
        self.assertEqual(len(self.said(volume, "stopping on a signal")), 1)
        volume.mount()
        self.assertTrue(os.path.exists(volume.path("file")))
        self.assertEqual(self.said(volume, "was not unmounted"), [])

    def test_a_daemon_that_is_stopped_goes_on(self):
        volume = self.volume(200 * MiB)
        volume.mount()
        pid = self.daemon(volume)
        os.kill(pid, signal.SIGSTOP)
        with contextlib.ExitStack() as after:
            after.callback(os.kill, pid, signal.SIGCONT)
            with subprocess.Popen(["sh", "-c", 'echo contents > "$0"', volume.path("file")]) as process:
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(0.2)
                os.kill(pid, signal.SIGCONT)
                self.assertEqual(process.wait(), 0)
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents\n")

    def test_an_interrupt_before_it_is_mounted_leaves_nothing(self):
        """The daemon leaves the group of its caller only when it is mounted."""
        volume = self.volume(200 * MiB)
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([LSMFS, "mount", volume.device, volume.point, "--log", volume.log], stderr=subprocess.DEVNULL,
                                  start_new_session=True) as process:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                process.wait()
            # It came to it, or it did not.
            if os.path.ismount(volume.point):
                volume.umount()
            volume.wait_for_end()


if __name__ == "__main__":
    harness.main()
