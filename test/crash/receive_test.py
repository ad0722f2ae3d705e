"""lsmfs receive, killed before each of its calls that change something, alone or with the daemon. Of what it was to receive there is then
nothing, a part that is kept, or all. What is received again ends with what was sent.

Needs root. A sample of calls; LSMFS_LONG=1: all."""

import os
import random
import re
import signal
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "integration"))

import harness  # noqa: E402
import inodes  # noqa: E402
import transfers  # noqa: E402
import workspace  # noqa: E402
from harness import LSMFS, SEED, MiB  # noqa: E402
from sent import Sent  # noqa: E402
from traced import Traced  # noqa: E402
from trees import NOBODY  # noqa: E402
from until import until  # noqa: E402

LONG = bool(os.environ.get("LSMFS_LONG"))
SAMPLE = 6                    # calls of each way
PARTS = 4 if LONG else 1      # from which a receive goes on


@harness.lsmfs_only
class Receive(harness.MountCase):
    def setUp(self):
        super().setUp()
        harness.print_seed(self)
        self.rng = random.Random(SEED)
        self.user = 0

    def prepare(self, user=0):
        self.user = user
        self.sent = Sent(self._mounted(), user)
        self.there = self._mounted()
        os.mkdir(self.there.path("in"))
        os.chown(self.there.path("in"), user, user)
        os.chmod(self.there.path(".snapshots"), 0o1777)
        self.streams = {kind: self.file(kind, data) for kind, data in self.sent.data.items()}

    def _mounted(self):
        volume = self.volume(256 * MiB, image=True)
        volume.mount("")
        os.chmod(volume.point, 0o755)
        return volume

    def file(self, name, data):
        path = os.path.join(self.work.path, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    # ---- what is there

    def tokens(self):
        done = harness.call(LSMFS, "receive", "-t", self.there.path("in"))
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual("nothing is received there in part" in done.stderr, done.returncode == 1, done.stderr)
        return done.stdout.split()

    def received(self, kind):
        """Whether the snapshot is there, which it is with all that was sent."""
        name = Sent.NAMES[kind]
        if name not in os.listdir(self.there.path(".snapshots")):
            return False
        self.assertEqual(inodes.difference(self.sent.trees[kind], inodes.tree(self.there.path(".snapshots", name))), "", "the snapshot is there")
        return True

    def judge(self, kind, kept):
        """`kept`: how many records were the last time that something was; None: nothing was."""
        done = self.received(kind)
        for part in transfers.parts_in(self.there.path("in")):
            facts = os.lstat(part)
            self.assertEqual((stat.S_IMODE(facts.st_mode) & 0o077, facts.st_uid), (0, self.user))
        self.assertLessEqual(len(os.listdir(self.there.path("in"))), 1)
        tokens = self.tokens()
        self.assertLessEqual(len(tokens), 1)
        if kept is not None and not done:
            self.assertNotEqual(tokens, [], "what was kept is lost")
            self.assertGreaterEqual(transfers.records_of(tokens[0]), kept, "less is kept than was")
        return done, tokens

    # ---- what is done

    def command(self):
        return [LSMFS, "receive", self.there.path("in")]

    def once_more(self, kind, was_done, tokens, way):
        """To its end, by the same stream or by the rest."""
        path = self.streams[kind]
        if way == "rest" and tokens and not was_done:
            path = self.file("rest", self.sent.send(kind, "--resume", tokens[0]))
        code, out, said = self.plain(path)
        if was_done:
            self.assertEqual((code, out, said.count("\n")), (1, "", 1), said)
            self.assertIn("has been received already", said)
        else:
            self.assertEqual((code, out, said), (0, self.there.path(".snapshots", Sent.NAMES[kind]) + "\n", ""))
        self.assertTrue(self.received(kind))
        self.assertEqual(os.listdir(self.there.path("in")), [])

    def plain(self, path):
        ids = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        with open(path, "rb") as file:
            done = subprocess.run(self.command(), stdin=file, capture_output=True, check=False, timeout=900, **ids)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def receive(self, kind):
        self.assertEqual(self.plain(self.streams[kind]), (0, self.there.path(".snapshots", Sent.NAMES[kind]) + "\n", ""))

    def clear(self, kind):
        """Nothing of it is there any more."""
        for part in transfers.parts_in(self.there.path("in")):
            inodes.unlock(part)
            harness.call(LSMFS, "rm", "-r", part)
        harness.call(LSMFS, "rm", "-r", self.there.path(".snapshots", Sent.NAMES[kind]))
        self.assertNotIn(Sent.NAMES[kind], os.listdir(self.there.path(".snapshots")))

    def traced(self, path, at=None, with_signal=signal.SIGKILL, before=lambda number, name: None):
        """The names of its calls, of which the one with the number `at` is not made. `before`: is called before each."""
        calls = []

        def stopped(name):
            before(len(calls), name)
            calls.append(name)
            return with_signal if len(calls) - 1 == at else None
        traced = Traced(self.command(), path, self.user)
        traced.run(stopped)
        return calls, traced

    def calls(self, kind, part):
        """How many it makes when nothing goes wrong."""
        self.receive_part(kind, part)
        calls, traced = self.traced(self.streams[kind])
        self.assertEqual((traced.code, traced.said[1]), (0, ""))
        self.assertTrue(self.received(kind))
        self.clear(kind)
        return len(calls)

    def chosen(self, count):
        return range(count) if LONG else sorted(self.rng.sample(range(count), min(SAMPLE, count)))

    # ---- the receiver alone

    def each_call(self, kind, part=0):
        """`part`: how many records have been received before."""
        count = self.calls(kind, part)
        chosen = self.chosen(count)
        whole, resumed = 0, 0
        for turn, at in enumerate(chosen):
            with self.subTest(kind, part=part, call=at):
                try:
                    done, tokens = self.killed(kind, part, at, count)
                    whole, resumed = whole + done, resumed + bool(tokens)
                    self.once_more(kind, done, tokens, ("same", "rest")[turn % 2])
                finally:
                    self.clear(kind)
        print(f"{kind} from record {part} on: {count} calls, killed before {len(chosen)} of them; {resumed} times a part was kept, {whole} times all was there")

    def killed(self, kind, part, at, count):
        """What is there then."""
        self.receive_part(kind, part)
        _, traced = self.traced(self.streams[kind], at)
        self.assertEqual(traced.code, -signal.SIGKILL)
        done, tokens = self.judge(kind, part - 1 if part else None)
        if not done and self.rng.random() < 0.3:  # once more
            self.traced(self.streams[kind], self.rng.randrange(count))
            done, tokens = self.judge(kind, transfers.records_of(tokens[0]) if tokens else None)
        return done, tokens

    def receive_part(self, kind, part):
        """Of a stream that ends too early."""
        if part == 0:
            return
        data = self.sent.data[kind]
        code, _, said = self.plain(self.file("part", data[:transfers.ends_of_frames(data)[part - 1]]))
        self.assertEqual(code, 5, said)
        self.assertEqual([transfers.records_of(token) for token in self.tokens()], [part - 1])

    def drawn_part(self, kind):
        return self.rng.randrange(3, len(transfers.ends_of_frames(self.sent.data[kind])) - 1)

    def test_a_killed_receiver(self):
        self.prepare()
        self.each_call("whole")
        self.receive("whole")
        self.each_call("changes")
        self.assertTrue(self.received("whole"), "the base")

    def test_a_killed_receiver_of_a_user(self):
        self.prepare(NOBODY)
        self.each_call("whole")
        self.receive("whole")
        self.each_call("changes")

    def test_a_killed_receiver_that_went_on(self):
        self.prepare()
        for _ in range(PARTS):
            self.each_call("whole", self.drawn_part("whole"))
        self.receive("whole")
        for _ in range(PARTS):
            self.each_call("changes", self.drawn_part("changes"))
        self.assertTrue(self.received("whole"), "the base")

    # ---- what must be noticed

    def test_what_is_planted_is_noticed(self):
        self.prepare()
        part = len(transfers.ends_of_frames(self.sent.data["whole"])) // 2
        self.receive_part("whole", part)
        [there] = transfers.parts_in(self.there.path("in"))
        self.judge("whole", part - 1)
        with self.assertRaisesRegex(AssertionError, "less is kept than was"):
            self.judge("whole", part)
        self.must(LSMFS, "snapshot", os.path.join(there, "part/tree"), "first")
        with self.assertRaisesRegex(AssertionError, "the snapshot is there"):
            self.judge("whole", part - 1)
        self.must(LSMFS, "rm", "-r", self.there.path(".snapshots/first"))
        os.unlink(os.path.join(there, "state"))
        with self.assertRaisesRegex(AssertionError, "what was kept is lost"):
            self.judge("whole", part - 1)

    # ---- with the daemon

    def each_call_with_the_daemon(self, kind):
        """What was made since the last sync may be gone then. `alone`: the receiver is not killed, and meets that."""
        part = self.drawn_part(kind)
        count = self.calls(kind, part)
        chosen = self.chosen(count)
        whole, resumed, told = 0, 0, set()
        for turn, at in enumerate(chosen):
            synced, alone, options = self.rng.randrange(-count // 2, at + 1), self.rng.random() < 0.5, self.rng.choice(("", "writeback"))
            with self.subTest(kind, part=part, call=at, synced=synced, alone=alone, options=options):
                try:
                    self.receive_part(kind, part)
                    self.there.remount(f"sync_interval=0,{options}".rstrip(","))
                    kept = self.kill_with_the_daemon(kind, at, synced, alone, told)
                    self.must(LSMFS, "fsck", self.there.image)
                    self.there.mount("")
                    done, tokens = self.judge(kind, kept)
                    whole, resumed = whole + done, resumed + bool(tokens)
                    self.once_more(kind, done, tokens, ("same", "rest")[turn % 2])
                finally:
                    if not os.path.ismount(self.there.point):
                        self.there.mount("")
                    self.clear(kind)
        print(f"{kind} from record {part} on: {count} calls, the daemon killed before {len(chosen)} of them; {resumed} times a part was kept, {whole} times all was there")
        for line in sorted(told):
            print(f"the receiver said: {line}")

    def kill_with_the_daemon(self, kind, at, synced, alone, told):
        """Before the call with the number `at`; before that with the number `synced` all is synced. How many records had been kept."""
        kept = [None]
        calls = []

        def stopped(name):
            number = len(calls)
            calls.append(name)
            if number == synced:
                self.sync()
            if number == synced or number > 0 and calls[number - 1] == "fsync":
                kept[0] = max([transfers.records_of(token) for token in self.tokens()], default=kept[0])
            if number != at:
                return None
            self.kill_daemon(traced.pid)
            return None if alone else signal.SIGKILL
        traced = Traced(self.command(), self.streams[kind], self.user)
        traced.run(stopped)
        until(lambda: not self.there.processes(), "the end of the daemon")
        self.must("umount", "-l", self.there.point)
        if alone:
            self.assertEqual((traced.code, traced.said[0], traced.said[1].count("\n")), (1, "", 1), traced.said)
            self.assertNotRegex(traced.said[1], r"(: [A-Z][a-z ]+)\1", "an error that is told twice")
            self.assertNotIn("/proc/", traced.said[1], "a path that nobody knows")
            told.add(re.sub(r"\.receiving-\S*", "...", traced.said[1].split(";")[0].strip().replace(self.there.point, "")))
        else:
            self.assertEqual(traced.code, -signal.SIGKILL)
        return kept[0]

    def sync(self):
        fd = os.open(self.there.point, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def kill_daemon(self, but):
        """As by an out-of-memory killer. Its mount stays. `but`: a process that names the mount, too."""
        killed = [(pid, start) for pid, start in self.there.daemons() if pid != but]
        self.assertNotEqual(killed, [])
        for pid, _ in killed:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(workspace.start_time(pid) == start for pid, start in killed), "the end of the killed daemon")

    def test_a_killed_daemon(self):
        self.prepare()
        self.each_call_with_the_daemon("whole")
        self.receive("whole")
        self.each_call_with_the_daemon("changes")
        self.assertTrue(self.received("whole"), "the base")


if __name__ == "__main__":
    harness.main()
