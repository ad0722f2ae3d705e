"""lsmfs send and lsmfs receive on disks that fail, and on full ones: one line says so, nothing is there in part but what is kept, and the next
try ends with what was sent.

Needs root. A sample of places; LSMFS_LONG=1: many."""

import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "integration"))

import harness  # noqa: E402
import inodes  # noqa: E402
import qemu_disk  # noqa: E402
import transfers  # noqa: E402
from fed import Fed  # noqa: E402
from harness import LSMFS, SEED, MiB  # noqa: E402
from sent import Sent  # noqa: E402
from until import until  # noqa: E402

LONG = bool(os.environ.get("LSMFS_LONG"))
PLACES = 12 if LONG else 1   # of each stream and kind of failure
FILLS = 24 if LONG else 3    # how full a disk is
SIZE = 160 * MiB


@harness.lsmfs_only
class Faults(harness.MountCase):
    def setUp(self):
        super().setUp()
        harness.print_seed(self)
        self.rng = random.Random(SEED)
        self.told = set()

    def tearDown(self):
        for line in sorted(self.told):
            print(f"said: {line}")

    def sent_from(self, volume):
        volume.mount("")
        return Sent(volume)

    def target(self):
        volume = self.volume(SIZE, image=True)
        volume.mount("")
        os.mkdir(volume.path("in"))
        volume.umount()
        return volume

    def one_line(self, volume, code, out, said, codes=(1,)):
        self.assertIn(code, codes, said)
        self.assertEqual((out, said.count("\n")), ("", 1), said)
        self.assertNotRegex(said, r"(: [A-Z][a-z ]+)\1", "an error that is told twice")
        line = said.strip().replace(volume.point, "")
        self.told.add(" ".join(word if not word.startswith("/in/.receiving-") else "..." for word in line.split(";")[0].split()))

    def nothing_else(self, volume, sent):
        """What is there of snapshots is whole, and of others there is a part at most."""
        for kind, name in Sent.NAMES.items():
            if name in os.listdir(volume.path(".snapshots")):
                self.assertEqual(inodes.difference(sent.trees[kind], inodes.tree(volume.path(".snapshots", name))), "", kind)
        self.assertLessEqual(len(os.listdir(volume.path("in"))), 1)

    def receive(self, volume, data):
        done = subprocess.run([LSMFS, "receive", volume.path("in")], input=data, capture_output=True, check=False, timeout=900)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def received(self, volume, sent, kind):
        """With a try that succeeds, or says that it has."""
        name = Sent.NAMES[kind]
        was_there = name in os.listdir(volume.path(".snapshots"))
        code, out, said = self.receive(volume, sent.data[kind])
        self.assertEqual((code, out), (1, "") if was_there else (0, volume.path(".snapshots", name) + "\n"), said)
        self.assertEqual("has been received already" in said, was_there, said)
        self.assertIn(name, os.listdir(volume.path(".snapshots")))
        self.nothing_else(volume, sent)
        self.assertEqual(os.listdir(volume.path("in")), [])

    def places(self, data):
        """Ends of records in it, and the last one, its beginning, or both."""
        ends = transfers.ends_of_frames(data)[:-1]
        edges = (0, ends[-1])
        return sorted({*self.rng.sample(ends, min(PLACES, len(ends))), *(edges if LONG else self.rng.sample(edges, 1))})

    # ---- a receiver whose disk fails

    def fails(self, kind_of_request):
        sent = self.sent_from(self.volume(SIZE, image=True))
        for kind in Sent.NAMES:
            for place in self.places(sent.data[kind]):
                with self.subTest(kind, place=place):
                    self.fails_at(sent, kind, kind_of_request, place)

    def fails_at(self, sent, kind, kind_of_request, place):
        volume = self.target()
        if kind == "changes":
            volume.mount("")
            self.received(volume, sent, "whole")
            volume.umount()
        with qemu_disk.breaking_below(volume, kind_of_request, once=kind_of_request != "read") as disk:
            receiver = Fed(volume.path("in"))
            data = sent.data[kind]
            receiver.give(data[:place])
            disk.use("broken")
            code, out, said = receiver.end(data[place:])
            if kind_of_request == "read" and code == 0:
                self.told.add("nothing: no read was needed")
            else:
                self.one_line(volume, code, out, said)
                self.assertRegex(said, "Input/output error|[Rr]ead-only")
            disk.use("disk")
        self.must(LSMFS, "fsck", volume.image)
        volume.mount("")
        self.nothing_else(volume, sent)
        self.received(volume, sent, kind)
        self.assertEqual(sorted(os.listdir(volume.path(".snapshots"))), ["first", "second"] if kind == "changes" else ["first"])

    def test_a_write_below_a_receiver(self):
        self.fails("write")

    def test_a_flush_below_a_receiver(self):
        self.fails("flush")

    def test_reads_below_a_receiver(self):
        self.fails("read")

    # ---- a sender whose disk fails

    def test_reads_below_a_sender(self):
        """What comes before is right, and a receiver keeps it."""
        source = self.volume(SIZE, image=True)
        sent = self.sent_from(source)
        source.umount()
        there = self.target()
        there.mount("")
        for kind in Sent.NAMES:
            for at in self.places(sent.data[kind]):
                with self.subTest(kind, at=at), qemu_disk.breaking_below(source, "read", once=False) as disk:
                    with subprocess.Popen(sent.command(kind), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as sender:
                        got = sender.stdout.read(min(at, 4096)) if at else b""
                        disk.use("broken")
                        rest, said = sender.communicate()
                    data, said = got + rest, said.decode()
                    disk.use("disk")
                    self.assertTrue(sent.data[kind].startswith(data), "something else than without a failure")
                    if sender.returncode == 0:
                        self.assertEqual((data, said), (sent.data[kind], ""))
                        continue
                    self.one_line(source, sender.returncode, "", said)
                    self.assertLess(len(data), len(sent.data[kind]))
                    code, out, said = self.receive(there, data)
                    self.one_line(there, code, out, said, codes=(5,))
            self.received(there, sent, kind)
            with qemu_disk.breaking_below(source, "read", once=False):
                self.assertEqual(sent.send(kind), sent.data[kind], "sent again")

    # ---- full disks

    def test_a_full_disk(self):
        sent = self.sent_from(self.volume(SIZE, image=True))
        volume = self.target()
        volume.mount("")
        refused = 0
        for kind in Sent.NAMES:
            for number in range(FILLS):
                left = 8 * MiB * number // FILLS
                with self.subTest(kind, left=left):
                    self.fill(volume.path("filler"), left)
                    code, out, said = self.receive(volume, sent.data[kind])
                    if code == 0:
                        self.assertEqual(said, "")
                    else:
                        refused += 1
                        self.one_line(volume, code, out, said)
                        self.assertIn("no space left on the device", said)
                        self.assertNotIn(Sent.NAMES[kind], os.listdir(volume.path(".snapshots")))
                    self.nothing_else(volume, sent)
                    os.unlink(volume.path("filler"))
                    until(lambda: os.statvfs(volume.point).f_bavail * os.statvfs(volume.point).f_frsize > 16 * MiB, "room")
                    if number % 3 == 0:
                        volume.remount("")
                    self.received(volume, sent, kind)
                    self.must(LSMFS, "rm", "-r", volume.path(".snapshots", Sent.NAMES[kind]))
            self.received(volume, sent, kind)
        print(f"{refused} of {2 * FILLS} receives found no room")
        self.assertGreater(refused, 0)

    def fill(self, path, left):
        """All but about `left` bytes."""
        with open(path, "wb", buffering=0) as file:
            size = MiB
            while size >= 4096:
                if harness.outcome(file.write, self.rng.randbytes(size)) == "ENOSPC":
                    size //= 4
            os.truncate(path, max(0, os.fstat(file.fileno()).st_size - left))


if __name__ == "__main__":
    harness.main()
