"""lsmfs layout: on ext4, btrfs and lsmfs it reads what is there, its figures agree with its trace, it never gives a figure
when requests were lost, and leaves neither trace nor mount behind. No time is asserted."""

import json
import mmap
import os
import pwd
import random
import re
import resource
import signal
import subprocess
import sys

import harness
import namespace
import syscalls
from harness import LSMFS, MiB

import caches
import loop

BLOCK = 4096
NUMBERS = ("reads", "read_bytes", "discontinuous", "score")


def tracefs_mounts():
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return sorted(line.split()[4] for line in table if " - tracefs " in line)


def figures_of_trace(path):
    """What the JSON says of each device, computed again from the lines of a trace."""
    reads, name = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                name = line.split()[2] if line.startswith("# device ") else name
                continue
            time_, kind, offset, size = line.split()
            if not re.fullmatch(r"\d+\.\d{9}", time_) or kind not in "RWFD":
                raise AssertionError(f"a line of the trace: {line}")
            if kind == "R":
                reads.setdefault(name, []).append((int(offset), int(size)))
    figures = {}
    for name, requests in reads.items():
        jumps = sum(1 for (at, size), (after, _) in zip(requests, requests[1:]) if at + size != after)
        total = sum(size for _, size in requests)
        figures[name] = dict(zip(NUMBERS, (len(requests), total, jumps, max(0, 1 - jumps / (total / BLOCK)))))
    return figures


def read_directly(device, places):
    """One request of a block for each of the places, past the page cache."""
    buffer = mmap.mmap(-1, BLOCK)
    fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        for place in places:
            os.preadv(fd, [buffer], place)
    finally:
        os.close(fd)


@harness.lsmfs_only
class Layout(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(3)
        self.pids = []  # of those that were begun
        self.tracing = self.work.sub("tracing")
        if harness.call("mount", "-t", "tracefs", "none", self.tracing).returncode != 0:
            self.skipTest("the kernel has no tracefs, or it may not be mounted here")
        self.addCleanup(self.must, "umount", self.tracing)
        if not os.path.exists(os.path.join(self.tracing, "events/block/block_rq_issue")):
            self.skipTest("the kernel cannot trace block devices")
        self.addCleanup(lambda: self.assertEqual(self.instances(), set(), "left behind"))

    def instances(self):
        """The numbers of those of our processes that have a trace. Other tests have some as well, and remove those of processes that are gone."""
        names = os.listdir(os.path.join(self.tracing, "instances"))
        return {int(name.split("-")[2].split(".")[0]) for name in names if name.startswith("lsmfs-layout-")} & set(self.pids)

    def layout(self, *arguments):
        with caches.alone():
            process = subprocess.Popen([LSMFS, "layout", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, env=harness.ENVIRONMENT)
            self.pids.append(process.pid)
            said, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        return said

    def measure(self, *arguments):
        """The figures, which have to be those of the trace."""
        trace, output = os.path.join(self.work.path, "trace"), os.path.join(self.work.path, "output")
        self.layout("--json", "--output", output, "--trace", trace, *arguments)
        with open(output, encoding="utf-8") as file:
            facts = json.load(file)
        traced = figures_of_trace(trace)
        for device in facts["devices"]:
            told = {key: device[key] for key in NUMBERS}
            name = device["device"]
            if device["reads"] == 0:
                self.assertIsNone(device["score"])
                self.assertNotIn(name, traced)
                continue
            self.assertAlmostEqual(told.pop("score"), traced[name].pop("score"), places=9)
            self.assertEqual(told, traced[name])
            self.assertTrue(0 <= device["score"] <= 1, device)
        for key in ("reads", "read_bytes", "discontinuous", "writes", "write_bytes", "flushes"):
            self.assertEqual(facts[key], sum(device[key] for device in facts["devices"]), key)
        return facts

    def mounted(self, fs, **more):
        volume = self.volume(512 * MiB, fs=fs, **more)
        volume.mount()
        return volume

    def fill(self, point):
        """Files of random data, which nothing makes smaller; gives (files, bytes)."""
        sizes = [self.rng.randrange(1, 64 * 1024) for _ in range(150)] + [8 * MiB]
        for number, size in enumerate(sizes):
            folder = os.path.join(point, f"d{number % 7}", "deeper")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"f{number}"), "wb") as file:
                file.write(self.rng.randbytes(size))
        os.symlink("f0", os.path.join(point, "d0", "deeper", "link"))
        return len(sizes), sum(sizes)

    def test_a_scan_reads_all_from_the_device_each_time(self):
        for fs in ("ext4", "btrfs", "lsmfs"):
            with self.subTest(fs):
                volume = self.mounted(fs)
                files, size = self.fill(volume.point)
                for _ in range(2):
                    facts = self.measure(volume.point)
                    self.assertEqual((facts["path"], facts["files"], facts["bytes"], facts["failures"]),
                                     (volume.point, files, size, 0))
                    self.assertEqual([device["device"] for device in facts["devices"]], [volume.device])
                    # The kernel may keep a page that is in use just then.
                    self.assertGreater(facts["read_bytes"], 0.9 * size)
                said = self.layout(volume.path("d0"))
                self.assertRegex(said, rf"^{volume.path('d0')}: \d+ files, [\d.]+ .?i?B read in [\d.]+ s\n"
                                       rf"device {volume.device}: \d+ reads, [\d.]+ .?i?B; \d+ discontinuous; layout score [01]\.\d+\n$")
                self.assertEqual(self.measure(volume.path("d0", "deeper", "f0"))["files"], 1)
                volume.umount()

    # $1: a folder to mount a tmpfs at, $2: lsmfs, $3: a device, $4: where a user mounts it, as plain FUSE, which has no number of a
    # device; others are let in, so that root can read it.
    BY_A_USER = """\
set -e
mount -t tmpfs -o mode=755 tmpfs "$1"
mknod -m 666 "$1/fuse" c $(stat -c '0x%t 0x%T' /dev/fuse)
mount --bind "$1/fuse" /dev/fuse
echo user_allow_other > "$1/fuse.conf"
mount --bind "$1/fuse.conf" /etc/fuse.conf
user="setpriv --reuid nobody --regid nogroup --clear-groups"
$user "$2" mount "$3" "$4" -o allow_other
"$2" layout "$4" > /dev/null
"$2" layout --json "$4"
$user "$2" umount "$4"
"""

    def test_a_users_mount_is_read_from_the_device_each_time_too(self):
        volume, program, user = self.mounted("lsmfs"), harness.two_programs.copy(LSMFS, self.work.path), pwd.getpwnam("nobody")
        _, size = self.fill(volume.point)
        volume.umount()
        for path in (volume.device, volume.point):
            before = os.stat(path)
            self.addCleanup(os.chown, path, before.st_uid, before.st_gid)
            os.chown(path, user.pw_uid, user.pw_gid)
        with caches.alone():
            said = self.must(*namespace.alone("sh", "-c", self.BY_A_USER, "sh", self.work.sub("dev"), program, volume.device, volume.point))
        facts = json.loads(said)
        self.assertEqual([device["device"] for device in facts["devices"]], [volume.device])
        self.assertGreater(facts["read_bytes"], 0.9 * size)

    def test_a_fragmented_file_scores_lower_than_a_contiguous_one(self):
        volume = self.mounted("ext4")
        for name in ("whole", "pieces"):
            os.mkdir(volume.path(name))
        with open(volume.path("whole", "file"), "wb") as file:
            file.write(self.rng.randbytes(4 * MiB))
        os.sync()
        files = [os.open(volume.path("pieces", f"f{number}"), os.O_WRONLY | os.O_CREAT) for number in range(8)]
        for _ in range(40):
            for fd in files:
                os.write(fd, self.rng.randbytes(BLOCK))
                os.fsync(fd)
        for fd in files:
            os.close(fd)
        whole, pieces = self.measure(volume.path("whole")), self.measure(volume.path("pieces"))
        self.assertGreater(whole["score"], 0.9)
        self.assertLess(pieces["score"], whole["score"])

    def test_a_btrfs_on_two_devices_has_both_traced(self):
        devices = []
        for number in range(2):
            image = os.path.join(self.work.path, f"half{number}.img")
            loop.make_sparse(image, 256 * MiB)
            devices.append(loop.attach(image))
            self.addCleanup(loop.detach, devices[-1])
        point = self.work.sub("two")
        self.must("mkfs.btrfs", "-q", "-d", "raid0", "-m", "raid0", *devices)
        self.must("mount", "-t", "btrfs", devices[0], point)
        self.addCleanup(self.must, "umount", point)
        _, size = self.fill(point)
        facts = self.measure(point)
        self.assertEqual(sorted(device["device"] for device in facts["devices"]), sorted(devices))
        self.assertTrue(all(device["reads"] > 0 for device in facts["devices"]), facts)
        self.assertGreater(facts["read_bytes"], 0.9 * size)

    def test_a_partition_is_told_from_the_rest_of_its_disk(self):
        image = os.path.join(self.work.path, "disk.img")
        loop.make_sparse(image, 128 * MiB)
        device = self.must("losetup", "--find", "--show", "--direct-io=on", "--partscan", image).strip()
        self.addCleanup(loop.detach, device)
        for number, start in ((1, MiB), (2, 41 * MiB)):
            try:
                syscalls.add_partition(device, number, start, 40 * MiB)
            except OSError as error:
                self.skipTest(f"no partitions on loop devices here: {error}")
            self.addCleanup(syscalls.delete_partition, device, number)
        first, second = f"{device}p1", f"{device}p2"
        point = self.work.sub("partition")
        self.must("mkfs.ext4", "-q", second)
        self.must("mount", second, point)
        self.addCleanup(self.must, "umount", point)
        with open(os.path.join(point, "file"), "wb") as file:
            file.write(self.rng.randbytes(4 * MiB))
        facts = self.measure(point)
        self.assertEqual([device["device"] for device in facts["devices"]], [second])
        self.assertGreater(facts["read_bytes"], 0.9 * 4 * MiB)
        command = ("dd", f"if={first}", "of=/dev/null", "bs=1M", "count=1", "iflag=direct", "status=none")
        self.assertEqual(self.measure("--device", second, "--", *command)["reads"], 0)
        both = self.measure("--device", first, "--device", second, "--", *command)
        self.assertEqual([device["read_bytes"] for device in both["devices"]], [MiB, 0])
        # Where it is on the device that was named.
        self.measure("--device", device, "--", *command)
        with open(os.path.join(self.work.path, "trace"), encoding="utf-8") as file:
            self.assertIn(f" R {MiB} ", file.read())

    def test_a_command_runs_under_the_trace(self):
        device = self.volume(256 * MiB).device
        done = harness.call(LSMFS, "layout", "--device", device, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual((done.returncode, done.stdout), (0, "out\n"))
        self.assertTrue(done.stderr.startswith("err\nsh: exit status 3 after "), done.stderr)
        # Whatever looks like an option of ours is the command's.
        said = self.layout("--output", "/dev/null", "--device", device, "--", "printf", "%s.", "-C", "x", "--", "--json", "--help",
                           "[a,b]", "[]", "{}")
        self.assertEqual(said, "-C.x.--.--json.--help.[a,b].[].{}.")
        facts = self.measure("--device", device, "--", "sh", "-c", "exit 1")
        self.assertEqual((facts["exit_status"], facts["signal"], facts["command"]), (1, None, ["sh", "-c", "exit 1"]))
        facts = self.measure("--device", device, "--", "sh", "-c", "kill -9 $$")
        self.assertEqual((facts["exit_status"], facts["signal"]), (None, 9))

    def test_the_order_of_reads_is_what_counts(self):
        device = self.volume(256 * MiB).device
        code = ("import mmap, os, sys; fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT); buffer = mmap.mmap(-1, 4096); "
                "[os.preadv(fd, [buffer], int(i) * 4096) for i in sys.argv[2].split()]")

        def scan(blocks):
            return self.measure("--drop-caches", "--device", device, "--", sys.executable, "-c", code, device,
                                " ".join(str(block) for block in blocks))

        forwards, backwards = scan(range(100)), scan(range(100, 0, -1))
        # Others may have a look at the device at any time.
        self.assertGreaterEqual(forwards["reads"], 100)
        self.assertGreater(forwards["score"], 0.8)
        self.assertGreaterEqual(backwards["discontinuous"], 99)
        self.assertLess(backwards["score"], 0.5)

    def begin(self, *arguments, ready=True):
        """A layout whose command waits for a line on stdin."""
        process = subprocess.Popen([LSMFS, "layout", *arguments, "--", "sh", "-c", "echo ready; read line"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.ENVIRONMENT)
        self.pids.append(process.pid)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.communicate()))
        if ready:
            self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_requests_that_were_lost_are_never_passed_over(self):
        device = self.volume(256 * MiB).device
        before = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, before)
        os.sched_setaffinity(0, {min(before)})  # the kernel has a buffer for each processor
        for options, fits in ((["--buffer", "64K"], False), ([], True)):
            process = self.begin("--json", *options, "--device", device)
            os.kill(process.pid, signal.SIGSTOP)  # it empties no buffer any more
            read_directly(device, [block * BLOCK for block in range(4000)])
            os.kill(process.pid, signal.SIGCONT)
            _, said = process.communicate("\n", timeout=300)
            if fits:
                self.assertEqual(process.returncode, 0, said)
                self.assertGreaterEqual(json.loads(said)["reads"], 4000)
            else:
                self.assertEqual(process.returncode, 1, said)
                self.assertRegex(said, r"^lsmfs: the kernel lost \d+ requests .* --buffer\n$")

    def test_signals_end_it_and_nothing_is_left(self):
        device = self.volume(256 * MiB).device
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            process = self.begin("--device", device)
            self.assertIn(process.pid, self.instances())
            process.send_signal(number)
            # The shell keeps the pipe to us open for as long as it lives.
            _, said = process.communicate(timeout=300)
            self.assertEqual(process.returncode, -number)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertNotIn(process.pid, self.instances())
        process = self.begin("--device", device)
        self.assertIn(process.pid, self.instances())
        process.kill()
        process.wait(timeout=300)
        process.communicate("\n")
        # The next one clears up.
        self.layout("--device", device, "--", "true")
        self.assertEqual(self.instances(), set())

    def test_it_needs_no_mount_of_tracefs_and_leaves_none(self):
        device = self.volume(256 * MiB).device
        before = tracefs_mounts()
        hide = "umount -a -t tracefs; test -z \"$(grep ' - tracefs ' /proc/self/mountinfo)\" || exit 9; "
        alone = namespace.alone("sh", "-c")
        said = self.must(*alone, hide + '"$0" layout --device "$1" -- sh -c "grep -c tracefs /proc/self/mountinfo; true"; echo $?; '
                                        'grep -c " - tracefs " /proc/self/mountinfo; true', LSMFS, device)
        self.assertEqual(said.split(), ["0", "0", "0"])
        self.assertEqual(tracefs_mounts(), before)
        self.refused(*alone, hide + 'exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$0" layout --device "$1" -- true',
                     LSMFS, device, says=["tracefs", "sudo"], codes=[1])

    def test_what_cannot_be_measured_is_named(self):
        image = self.mounted("lsmfs", image=True)
        point = self.work.sub("other")
        layers = [self.work.sub(name) for name in ("lower", "upper", "work")]
        device = self.volume(256 * MiB).device

        def refuse(*arguments, says):
            self.refused(LSMFS, "layout", *arguments, says=says, codes=[1])

        refuse(image.point, says=[image.point, image.image, "losetup"])
        refuse(os.path.join(point, "nothing"), says=[point, "does not exist"])
        self.must("mount", "-t", "tmpfs", "none", point)
        refuse(point, says=[point, "tmpfs", "no block device"])
        self.must("umount", point)
        overlay = "lowerdir={},upperdir={},workdir={}".format(*layers)
        if harness.call("mount", "-t", "overlay", "none", point, "-o", overlay).returncode == 0:
            refuse(point, says=[point, "overlay", "no block device"])
            self.must("umount", point)
        refuse("--device", "/dev/null", "--", "true", says=["/dev/null", "block device"])
        refuse("--device", "/dev/no-such-disk", "--", "true", says=["/dev/no-such-disk", "does not exist"])
        refuse("--device", device, "--", "/no/such/command", says=["/no/such/command", "No such file"])
        for option in ("--output", "--trace"):
            refuse(option, "/no/such/file", "--device", device, "--", "true", says=["/no/such/file", "cannot be written"])
        refuse("--output", "/dev/full", "--device", device, "--", "true", says=["/dev/full", "No space left"])
        file = os.path.join(self.work.path, "file")
        refuse("--output", file, "--trace", file, "--device", device, "--", "true", says=[file, "--output", "--trace"])
        self.layout("--output", "/dev/null", "--trace", "/dev/null", "--device", device, "--", "true")
        with caches.alone():
            self.refused("sh", "-c", 'exec "$0" layout "$1" > /dev/full', LSMFS, self.mounted("ext4").point, says=["stdout", "No space left"], codes=[1])

    def test_a_file_that_cannot_be_read_is_told(self):
        volume = self.mounted("btrfs", options=("-d", "single", "-m", "single"))
        for name in ("good", "bad"):
            with open(volume.path(name), "wb") as file:
                file.write(name.encode() * 100_000)
        volume.umount()
        # In every copy of its data, so that the checksums of btrfs refuse it.
        with open(volume.device, "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 512 * MiB) as contents:
            at = contents.find(b"bad" * 1000)
            self.assertGreater(at, 0)
            while at > 0:
                contents[at + 10:at + 13] = b"BAD"
                at = contents.find(b"bad" * 1000, at + 300_000)
        volume.mount()
        with caches.alone():
            done = harness.call(LSMFS, "layout", volume.point)
        self.assertEqual(done.returncode, 1)
        self.assertIn(": 2 files, ", done.stdout)
        self.assertRegex(done.stderr, rf"^lsmfs: 1 could not be read: {volume.path('bad')}: .*\n$")


if __name__ == "__main__":
    harness.main()
