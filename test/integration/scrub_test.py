"""lsmfs scrub verifies all of a mounted file system: what it finds, how it tells of it, and that everything goes on beside it."""

import contextlib
import os
import pty
import random
import re
import signal
import subprocess
import threading

import harness
from harness import ENVIRONMENT, LSMFS, MiB
from until import until

DAMAGED = 4
CLEAN = re.compile(r"^(\S+): ([0-9.]+) MiB verified in 0:\d\d:\d\d \(.*/s\), no damage found\n$")


@harness.lsmfs_only
class Scrub(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(7)

    def filled(self, files=24, options=""):
        """A mounted image with so many MiB, all in tables."""
        volume = self.volume(512 * MiB, image=True)
        volume.mount()
        for number in range(files):
            os.mkdir(volume.path(f"d{number:02}"))
            with open(volume.path(f"d{number:02}", "file"), "wb") as file:
                file.write(self.rng.randbytes(MiB))
        volume.remount(options)
        return volume

    def begin(self, volume, rate="1K"):
        """A scrub that is under way, and comes to no end by itself."""
        process = subprocess.Popen([LSMFS, "scrub", volume.point, "--rate", rate], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, encoding="utf-8", env=ENVIRONMENT)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        until(lambda: process.poll() is not None or self.is_under_way(process.pid, volume), "a scrub under way")
        self.assertIsNone(process.poll())
        return process

    @staticmethod
    def is_under_way(pid, volume):
        """Whether it has the mount open and keeps signals waiting."""
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            blocked = next(int(line.split()[1], 16) for line in file if line.startswith("SigBlk:"))
        if not blocked >> (signal.SIGINT - 1) & 1:
            return False
        return volume.point in [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]

    @staticmethod
    def places(volume, piece):
        """Where some bytes are on the device."""
        found = []
        with open(volume.image, "rb") as image:
            for at in range(0, os.path.getsize(volume.image), MiB):
                contents = os.pread(image.fileno(), MiB + len(piece) - 1, at)
                if (begin := contents.find(piece)) >= 0:
                    found.append(at + begin)
        return found

    @staticmethod
    def flip(volume, places):
        with open(volume.image, "r+b", buffering=0) as image:
            for place in places:
                byte = os.pread(image.fileno(), 1, place)
                os.pwrite(image.fileno(), bytes([byte[0] ^ 1]), place)
            os.fsync(image.fileno())

    def quiet(self, volume):
        with open(volume.log, encoding="utf-8") as log:
            text = log.read()
        self.assertNotIn("has waited", text)
        return text

    def test_all_of_a_sound_file_system_is_verified(self):
        volume = self.filled()
        for options in ("", "ro"):
            said = self.must(LSMFS, "scrub", volume.point, "--rate", "0")
            match = CLEAN.match(said)
            self.assertIsNotNone(match, said)
            self.assertEqual(match[1], volume.point)
            self.assertGreater(float(match[2]), 24)
            self.assertLess(float(match[2]), 40)
            volume.remount("ro")
        self.quiet(volume)

    def test_the_rate_is_kept(self):
        """A slow one goes on, however many fast ones end."""
        volume = self.filled()
        process = self.begin(volume)
        for _ in range(2):
            self.must(LSMFS, "scrub", volume.point, "--rate", "0")
        self.assertIsNone(process.poll())

    def on_a_terminal(self, volume, rate, enough=lambda percents: False):
        """The percents that are shown to the end, which SIGINT brings about when they are `enough`, what is shown, and what is said."""
        ours, theirs = pty.openpty()
        with subprocess.Popen([LSMFS, "scrub", volume.point, "--rate", rate], stdout=subprocess.PIPE, stderr=theirs, env=ENVIRONMENT) as process:
            os.close(theirs)
            shown, percents, told = "", [], False
            with contextlib.suppress(OSError):  # the other end is closed
                while piece := os.read(ours, 4096):
                    shown += piece.decode()
                    percents = [int(number) for number in re.findall(r"verified \((\d+) %\), [0-9.]+ [KM]iB/s, \d+:\d\d:\d\d left", shown)]
                    if not told and enough(percents):
                        process.send_signal(signal.SIGINT)
                        told = True
            os.close(ours)
            said = process.stdout.read().decode()
        self.assertEqual(process.returncode, -signal.SIGINT if told else 0)
        return percents, shown, said

    def test_a_terminal_shows_how_far_it_is(self):
        volume = self.filled()
        percents, shown, said = self.on_a_terminal(volume, "0")
        self.assertEqual(percents, sorted(percents))
        self.assertGreater(len(percents), 0, shown)
        self.assertTrue(shown.endswith("\r\033[K"), shown)
        self.assertRegex(said, CLEAN)
        percents, shown, _ = self.on_a_terminal(volume, "4M", lambda percents: len(percents) > 3 and percents[-1] > percents[0])
        self.assertEqual(percents, sorted(percents))
        self.assertLess(percents[0], 50, shown)
        self.assertIn("\r\033[Klsmfs: ", shown)
        self.assertRegex(shown, r"\r\033\[Klsmfs: \S+: stopped before the end: .* no damage found\r\n$")

    def test_damage_to_a_table_is_found_while_it_is_mounted_and_cached(self):
        volume = self.filled()
        with open(volume.path("d11", "file"), "rb") as file:
            contents = file.read()
        places = self.places(volume, contents[500_000:500_060])
        self.assertNotEqual(places, [])
        self.flip(volume, places[-1:])  # in the table, which is behind the logs
        done = harness.call(LSMFS, "scrub", volume.point)
        self.assertEqual((done.returncode, done.stderr), (DAMAGED, ""), done.stdout)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^\S+: table \d+\.sst is damaged: .*; file data between byte \d+ of /d11/file and ")
        self.assertTrue(lines[-2].endswith(f", {len(lines) - 2} problem{'s' if len(lines) > 3 else ''} found"), lines)
        self.assertEqual(lines[-1], f"{volume.point}: nothing repaired: unmount it and run lsmfs fsck -y {volume.image}")
        self.assertIn("scrub: table ", self.quiet(volume))
        # What is lost stays so, and nothing is stopped.
        self.assertEqual(harness.call(LSMFS, "scrub", volume.point, "--rate", "0").returncode, DAMAGED)
        with open(volume.path("new"), "wb") as file:
            file.write(b"x" * 1000)
            os.fsync(file.fileno())
        os.unlink(volume.path("d11", "file"))
        until(lambda: harness.call(LSMFS, "scrub", volume.point, "--rate", "0").returncode == 0, "a scrub that finds nothing")

    def test_requests_go_on_beside_it_and_so_does_a_second_one(self):
        volume = self.filled()
        process = self.begin(volume)
        stop = threading.Event()

        def work():
            number = 0
            while not stop.is_set():
                number += 1
                path = volume.path(f"new{number % 20}")
                with open(path, "wb") as file:
                    file.write(self.rng.randbytes(MiB))
                    os.fsync(file.fileno())
                os.rename(path, path + "again")
        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(3):
                self.must(LSMFS, "scrub", volume.point, "--rate", "0")
        finally:
            stop.set()
            thread.join()
        self.assertIsNone(process.poll())
        self.quiet(volume)

    def test_a_command_that_is_killed_leaves_nothing(self):
        volume = self.filled()
        process = self.begin(volume)
        done = harness.call(LSMFS, "umount", volume.point)
        self.assertIn("is in use", done.stderr)
        process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        self.assertEqual(len(os.listdir(volume.point)), 24)
        self.must(LSMFS, "scrub", volume.point, "--rate", "0")
        volume.umount()

    def test_the_end_of_the_daemon_ends_it_with_one_line(self):
        volume = self.filled()
        process = self.begin(volume, "1M")  # so that it asks the daemon again before long
        daemon, = (pid for pid, _ in volume.daemons() if pid != process.pid)
        os.kill(daemon, signal.SIGKILL)
        _, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err, r"^lsmfs: \S+: the daemon of the mount is gone; take it away with umount -l\n$")
        self.must("umount", "-l", volume.point)

    def test_a_signal_ends_it_with_one_line(self):
        volume = self.filled()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.begin(volume)
            process.send_signal(number)
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, -number)
            self.assertEqual(out, "")
            self.assertRegex(err, r"^lsmfs: \S+: stopped before the end: .* verified in .*, no damage found\n$")
        volume.umount()

    def test_bad_input_gets_one_line(self):
        volume = self.volume(512 * MiB, image=True)
        self.refused(LSMFS, "scrub", volume.point, says=[volume.point, "not in an lsmfs"], codes=[1])
        self.refused(LSMFS, "scrub", volume.image, says=[volume.image, "not in an lsmfs"], codes=[1])
        self.refused(LSMFS, "scrub", "/no/such", says=["/no/such", "does not exist"], codes=[1])
        volume.mount()
        for rate in ("fast", "-5", "1.5M", "10X"):
            self.refused(LSMFS, "scrub", volume.point, "--rate", rate, says=["--rate"], codes=[1])
        self.refused(LSMFS, "scrub", volume.path("missing"), says=["missing", "does not exist"], codes=[1])


if __name__ == "__main__":
    harness.main()
