"""lsmfs stats and lsmfs top: the numbers of a mount move as what is done in it says, and a terminal is given back as it was."""

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios

import harness
from harness import ENVIRONMENT, LSMFS, MiB, call
from until import until

SECOND_SCREEN, FIRST_SCREEN = "\033[?1049h", "\033[?1049l"


@harness.lsmfs_only
class Stats(harness.MountCase):
    def mounted(self, size=512 * MiB):
        volume = self.volume(size, image=True)
        volume.mount()
        return volume

    def numbers(self, volume):
        return json.loads(self.must(LSMFS, "stats", volume.point, "--json"))

    @staticmethod
    def counts(numbers):
        return {kind: of["count"] for kind, of in numbers["requests"].items()}

    def counted(self, volume, **wanted):
        """The numbers once so many requests of these kinds have been counted: the kernel hears of an answer a moment before."""
        numbers = {}

        def there():
            nonlocal numbers
            numbers = self.numbers(volume)
            return all(self.counts(numbers).get(kind, 0) >= count for kind, count in wanted.items())

        until(there, str(wanted))
        for kind, count in wanted.items():
            self.assertEqual(self.counts(numbers)[kind], count)
        return numbers

    def test_each_request_counts_once(self):
        volume = self.mounted()
        for number in range(7):
            os.mkdir(volume.path(f"d{number}"))
        for number in range(3):
            os.rename(volume.path(f"d{number}"), volume.path(f"r{number}"))
            os.rmdir(volume.path(f"r{number}"))
        numbers = self.counted(volume, MKDIR=7, RMDIR=3, RENAME2=3) if "RENAME2" in self.counts(self.numbers(volume)) else \
            self.counted(volume, MKDIR=7, RMDIR=3, RENAME=3)
        self.assertEqual(numbers["mount_point"], volume.point)
        self.assertGreater(numbers["seconds"], 0)
        mkdir = numbers["requests"]["MKDIR"]
        self.assertLessEqual(mkdir["p50_seconds"], mkdir["p999_seconds"])
        self.assertTrue(any(program["id"] == os.getpid() for program in numbers["programs"]))

    def test_bytes_count_under_what_they_are_for(self):
        volume = self.mounted(1024 * MiB)
        before = self.numbers(volume)
        with open(volume.path("file"), "wb") as file:
            file.write(os.urandom(MiB))
            file.flush()
            os.fsync(file.fileno())
        numbers = self.numbers(volume)
        written = {cause: of["written_bytes"] - before["device"]["by_cause"][cause]["written_bytes"] for cause, of in numbers["device"]["by_cause"].items()}
        self.assertGreaterEqual(written["log"], MiB)
        self.assertLess(written["log"], 2 * MiB)
        self.assertEqual([written[cause] for cause in ("miss", "read_ahead", "flush", "compaction", "scrub")], [0] * 5)
        self.assertEqual(numbers["requests"]["WRITE"]["bytes"], MiB)
        self.assertGreaterEqual(numbers["store"]["committed_bytes"], MiB)
        self.assertGreater(numbers["store"]["log_syncs"], before["store"]["log_syncs"])
        self.assertGreater(numbers["device"]["flush"]["count"], before["device"]["flush"]["count"])

        with open(volume.path("large"), "wb") as file:
            for _ in range(24):
                file.write(os.urandom(MiB))
            file.flush()
            os.fsync(file.fileno())
        numbers = self.numbers(volume)
        self.assertGreaterEqual(numbers["device"]["by_cause"]["stream"]["written_bytes"], 8 * MiB)
        self.assertGreaterEqual(numbers["store"]["stream_bytes"], 8 * MiB)

        volume.remount()
        numbers = self.numbers(volume)
        self.assertNotIn("WRITE", numbers["requests"], "counts begin with the mount")
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(len(file.read()), MiB)
        self.must(LSMFS, "scrub", volume.point, "--rate", "0")
        read = {cause: of["read_bytes"] for cause, of in self.numbers(volume)["device"]["by_cause"].items()}
        self.assertGreaterEqual(read["miss"] + read["read_ahead"], MiB)
        self.assertGreaterEqual(read["scrub"], 2 * MiB)

    def test_people_get_text_and_prometheus_its_format(self):
        volume = self.mounted()
        os.mkdir(volume.path("d"))
        text = self.must(LSMFS, "stats", volume.path("d"))
        self.assertRegex(text, rf"^{re.escape(volume.point)}: mounted for 0:\d\d:\d\d\n")
        self.assertRegex(text, r"\n  MKDIR +1 ")
        self.assertLessEqual(max(map(len, text.splitlines()[1:])), 80)
        exposition = self.must(LSMFS, "stats", volume.point, "--prometheus")
        self.assertIn(f'lsmfs_requests_total{{mount="{volume.point}",kind="MKDIR"}} 1\n', exposition)
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=exposition, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_intervals_go_on_until_they_are_stopped(self):
        volume = self.mounted()
        with subprocess.Popen([LSMFS, "stats", volume.point, "--interval", "0.1", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", env=ENVIRONMENT) as process:
            json.loads(process.stdout.readline())
            os.mkdir(volume.path("d"))
            seen = 0
            while seen == 0:
                seen = self.counts(json.loads(process.stdout.readline())).get("MKDIR", 0)
            self.assertEqual(seen, 1)
            self.assertNotIn("MKDIR", self.counts(json.loads(process.stdout.readline())), "what was counted before is not in it")
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate()
        for line in rest.splitlines():
            json.loads(line)
        self.assertEqual((process.returncode, said), (0, ""))

    def test_wrong_use_gets_one_line(self):
        volume = self.mounted()
        self.refused(LSMFS, "stats", "/proc", says=("not in an lsmfs",), codes=[1])
        self.refused(LSMFS, "top", "/proc", says=("not in an lsmfs",), codes=[1])
        self.refused(LSMFS, "stats", volume.path("none"), says=("none",), codes=[1])
        self.refused(LSMFS, "stats", volume.point, "--interval", "0", says=("--interval",), codes=[1])
        self.refused(LSMFS, "stats", volume.point, "--interval", "nan", says=("--interval",), codes=[1])
        self.refused(LSMFS, "stats", volume.point, "--interval", "1", "--prometheus", says=("leave --interval out",), codes=[1])
        self.refused(LSMFS, "top", volume.point, says=("needs a terminal",), codes=[1])
        self.refused("sh", "-c", f"{LSMFS} stats {volume.point} > /dev/full", says=("stdout",), codes=[1])

    def test_the_unit_writes_a_whole_file_or_none(self):
        """The command of lsmfs-stats@.service, as sh gets it."""
        with open(os.path.join(harness.ROOT, "systemd", "lsmfs-stats@.service"), encoding="utf-8") as file:
            script = re.search(r"^ExecStart=/bin/sh -c '(.*)' sh %f (\S+)$", file.read(), re.MULTILINE)
        self.assertEqual(script.group(2), "/var/lib/prometheus/node-exporter/lsmfs-%i.prom")
        words = script.group(1).replace("$$", "$").replace("@lsmfs@", LSMFS)
        volume = self.mounted()
        target = os.path.join(self.work.sub("prom"), r"lsmfs-a\x2db.prom")
        self.must("sh", "-c", words, "sh", volume.point, target)
        self.assertEqual(os.listdir(os.path.dirname(target)), [os.path.basename(target)])
        with open(target, encoding="utf-8") as file:
            self.assertIn("lsmfs_mounted_seconds", file.read())
        self.assertEqual(call("sh", "-c", words, "sh", "/proc", target).returncode, 1)
        self.assertEqual(os.listdir(os.path.dirname(target)), [], "old numbers would look like new ones")


@harness.lsmfs_only
class Top(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.mount = self.volume(512 * MiB, image=True)
        self.mount.mount()

    @contextlib.contextmanager
    def on_a_terminal(self, rows=24, columns=80):
        """A process, the terminal that it runs on, and what reads from it until a condition holds for what has come."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        before = termios.tcgetattr(theirs)
        shown = ""

        def read_until(condition):
            nonlocal shown
            while not condition(shown):
                shown += os.read(ours, 65536).decode()
            return shown

        process = subprocess.Popen([LSMFS, "top", self.mount.point], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=ENVIRONMENT)
        try:
            yield process, ours, read_until
            read_until(lambda text: FIRST_SCREEN in text)
            _, said = process.communicate()
            self.assertEqual(termios.tcgetattr(theirs), before, "the terminal is as it was")
            self.assertTrue(shown.endswith("\033[?25h" + FIRST_SCREEN), shown[-100:])
            self.said = said.decode()
        finally:
            process.kill()
            process.wait()
            os.close(theirs)
            os.close(ours)

    @staticmethod
    def screens(text):
        return text.split("\033[H")[1:]

    def test_q_ends_it_and_gives_the_terminal_back(self):
        with self.on_a_terminal() as (process, terminal, read_until):
            shown = read_until(lambda text: len(self.screens(text)) >= 3)
            self.assertTrue(shown.startswith(SECOND_SCREEN))
            os.write(terminal, b"xq")
        self.assertEqual((process.returncode, self.said), (0, ""))

    def test_signals_end_it_and_give_the_terminal_back(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number), self.on_a_terminal() as (process, _, read_until):
                read_until(lambda text: len(self.screens(text)) >= 1)
                process.send_signal(number)
            self.assertEqual((process.returncode, self.said), (0, ""))

    def test_it_shows_what_goes_on_and_by_whom_in_any_window(self):
        for rows, columns in ((24, 80), (5, 30), (60, 200)):
            with self.subTest(rows), self.on_a_terminal(rows, columns) as (_, terminal, read_until):
                def asks(text):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.mount.path("file"))
                    with open(self.mount.path("file"), "wb"):
                        pass
                    return any(re.search(" (MKNOD|CREATE|UNLINK|OPEN|LOOKUP) ", screen) for screen in self.screens(text)[1:-1])

                shown = read_until(asks)
                for screen in self.screens(shown)[:-1]:
                    lines = re.sub(r"\033\[[0-9;?]*[a-zA-Z]|\r", "", screen).split("\n")
                    self.assertLessEqual(len(lines), rows + 1)
                    self.assertLessEqual(max(map(len, lines)), columns)
                if rows >= 24:
                    self.assertIn(harness.comm(os.getpid()), shown)
                os.write(terminal, b"q")

    def test_the_end_of_the_mount_ends_it_with_one_line(self):
        with self.on_a_terminal() as (process, _, read_until):
            read_until(lambda text: len(self.screens(text)) >= 1)
            for pid, _ in self.mount.daemons():
                if pid != process.pid:
                    os.kill(pid, signal.SIGKILL)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(self.said.count("\n"), 1, self.said)
        self.assertIn("is gone", self.said)
        until(lambda: not self.mount.processes(), "the end of the killed daemon")
        self.must("umount", "-l", self.mount.point)


if __name__ == "__main__":
    harness.main()
