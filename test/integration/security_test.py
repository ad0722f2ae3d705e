"""The daemon has given up what it does not need, and everything works without it."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time

import harness
import syscalls
from harness import LSMFS, MiB
from until import PATIENCE, until

# linux/capability.h
CAP_SYS_NICE = 23
# What the kernel's log tells of a system call that a filter refuses.
REFUSED = re.compile(r"type=1326 .* pid=(\d+) .* exe=\"([^\"]*)\"")


def status(pid, task):
    with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def of_each_thread(pid, what):
    """[what(pid, thread)] of the threads that there are; some of a daemon end while others are asked."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(what(pid, thread))
    return found


def policy(_, thread):
    return os.sched_getscheduler(int(thread))


def name(pid, thread):
    return status(pid, thread)["Name"]


def descriptors(pid):
    """Where the descriptors of a process lead."""
    return [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]


@harness.lsmfs_only
class Security(harness.MountCase):
    def mounted(self, image=True, options="", size=512 * MiB):
        volume = self.volume(size, image=image)
        volume.mount(options)
        return volume

    def daemon(self, volume):
        (pid, _), = volume.daemons()
        return pid

    def mounter(self, volume):
        pid, = [pid for pid, _ in volume.processes() if harness.comm(pid) == harness.MOUNTER]
        return pid

    def check_confined(self, volume):
        pid = self.daemon(volume)
        threads = of_each_thread(pid, status)
        self.assertGreater(len(threads), 10)
        for facts in threads:
            for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                self.assertEqual(int(facts[kind], 16), 0, f"{kind} of thread {facts['Name']}")
            self.assertEqual((facts["Uid"].split(), facts["Groups"].split()), (["0", "0", "0", "65534"], []), f"of thread {facts['Name']}")
            self.assertEqual((facts["NoNewPrivs"], facts["Seccomp"]), ("1", "2"), f"of thread {facts['Name']}")

    def exercise(self, volume):
        """All kinds of requests that make the daemon do something else with its system calls."""
        point = volume.point
        self.must("sh", "-c", 'mkdir d; head -c 30M /dev/urandom > d/a; cp -a d e; mv d/a d/b; ln d/b c; sync -f .; rm -r e', cwd=point)
        self.must("fallocate", "--punch-hole", "--offset", "4096", "--length", "8192", os.path.join(point, "c"))
        self.must("setfattr", "-n", "user.x", "-v", "y", os.path.join(point, "c"))
        self.must("sh", "-c", "touch g; chgrp 65534 g; chmod 2755 g", cwd=point)
        os.chmod(point, 0o777)
        # Which groups a caller has is read from /proc.
        self.must("setpriv", "--reuid", "65533", "--regid", "65533", "--groups", "65534", "touch", os.path.join(point, "h"))
        self.must("setpriv", "--reuid", "65533", "--regid", "65533", "--groups", "65534", "sh", "-c", 'chgrp 65534 "$0" && chmod 2745 "$0" && echo x >> "$0"',
                  os.path.join(point, "h"))
        self.assertEqual(os.stat(os.path.join(point, "h")).st_mode & 0o7777, 0o2745, "a member of the file's group keeps the bit")
        self.must("sh", "-c", "find . -type f -exec cat {} + > /dev/null; du -s . > /dev/null", cwd=point)
        self.must(LSMFS, "trim", point)
        self.must(LSMFS, "scrub", point, "--rate", "0")
        self.must(LSMFS, "info", point)

    def test_every_thread_is_confined_and_everything_works(self):
        for image in (True, False):
            for options in ("", "latency=on,writeback", "sync,strictatime"):
                volume = self.mounted(image, options)
                self.exercise(volume)
                self.check_confined(volume)
                if "latency=on" in options:
                    self.assertIn("/dev/cpu_dma_latency", descriptors(self.daemon(volume)))
                self.must(LSMFS, "mount", "-o", "remount,ro", volume.device, volume.point)
                self.must(LSMFS, "mount", "-o", "remount,rw", volume.device, volume.point)
                self.must("sh", "-c", "head -c 20M /dev/urandom > again", cwd=volume.point)
                self.check_confined(volume)
                volume.remount("ro")
                self.assertEqual(os.stat(volume.path("again")).st_size, 20 * MiB)
                self.check_confined(volume)
                volume.umount()

    def test_threads_have_the_names_of_what_they_do(self):
        volume = self.mounted()
        self.exercise(volume)
        self.must(LSMFS, "mount", "-o", "remount,ro", volume.device, volume.point)  # memtables become tables
        pid = self.daemon(volume)
        names = set(of_each_thread(pid, name))
        wanted = ("pages", "inodes", "deference", "worker", "signals", "watchdog", "upkeep", "commit", "prefetch", "flush", "log")
        self.assertLessEqual({"lsmfs", *("lsmfs-" + name for name in wanted)}, names)
        self.assertEqual([name for name in names if not name.startswith("lsmfs")], [])

    def refused_calls(self, log, patience=PATIENCE):
        """[(program, line)] since the last time."""
        markers, called, found = set(), 0, []

        def call_again():
            nonlocal called
            if time.monotonic() >= called + 2:
                markers.add(harness.in_child(syscalls.make_a_call_that_is_refused_aloud))
                called = time.monotonic()

        def told():
            with contextlib.suppress(BlockingIOError):
                while True:
                    try:
                        line = os.read(log, 8192).decode(errors="replace").splitlines()[0]
                    except BrokenPipeError:  # the log has run over
                        continue
                    if match := REFUSED.search(line):
                        if int(match.group(1)) in markers:
                            return True
                        found.append((match.group(2), line))
            call_again()  # the line comes later than the call, and not at all where the kernel has much to tell
            return False
        until(told, "word of a system call that a filter has refused, in the kernel's log", patience)
        return found

    def test_the_filter_knows_all_that_is_done(self):
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, log)
        os.lseek(log, 0, os.SEEK_END)
        try:
            self.refused_calls(log, patience=10)
        except AssertionError:
            self.skipTest("this kernel's log does not tell of system calls that a filter refuses")
        for image in (True, False):
            volume = self.mounted(image)
            self.exercise(volume)
            volume.umount()
            self.must(LSMFS, "fsck", volume.device)
            self.must(LSMFS, "info", volume.device)
            self.must(LSMFS, "info", "--udev", volume.device)
        refused = self.refused_calls(log)
        program = os.path.realpath(LSMFS)
        self.assertEqual([line for exe, line in refused if exe == program], [])

    def test_the_process_that_mounts_has_nothing_of_the_device(self):
        volume = self.mounted(image=False)
        pid = self.mounter(volume)
        self.assertEqual(int(status(pid, pid)["PPid"]), self.daemon(volume))
        for target in descriptors(pid):
            self.assertTrue(target == "/dev/null" or target.startswith("socket:"), target)
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")

    def test_who_serves_steps_back_while_requests_come(self):
        volume = self.mounted()
        if not int(status(self.mounter(volume), self.mounter(volume))["CapEff"], 16) >> CAP_SYS_NICE & 1:
            self.skipTest("the policy of a thread cannot be taken back without CAP_SYS_NICE")
        pid = self.daemon(volume)

        def defer():
            return os.SCHED_IDLE in of_each_thread(pid, policy)

        def defer_at_requests():
            for _ in range(1000):
                os.statvfs(volume.point)
            return defer()

        until(lambda: not defer(), "nobody who steps back with nobody to look after them")
        until(defer_at_requests, "somebody who steps back")
        until(lambda: not defer(), "nobody who steps back with nobody to look after them")
        self.check_confined(volume)
        # In the midst of requests, by either way.
        until(defer_at_requests, "somebody who steps back")
        volume.umount()
        volume.mount()
        pid = self.daemon(volume)
        until(defer_at_requests, "somebody who steps back")
        os.kill(pid, signal.SIGTERM)
        volume.wait_for_end()

    def test_a_signal_unmounts(self):
        for image in (True, False):
            volume = self.mounted(image)
            with open(volume.path("file"), "wb") as file:
                file.write(b"contents")
            os.kill(self.daemon(volume), signal.SIGTERM)
            volume.wait_for_end()
            self.assertFalse(os.path.ismount(volume.point))
            volume.mount()
            # In use, and the signal is for both, as a service manager sends it.
            file = os.open(volume.path("file"), os.O_RDONLY)
            for pid in (self.mounter(volume), self.daemon(volume)):
                os.kill(pid, signal.SIGTERM)
            volume.wait_for_end()
            harness.outcome(os.close, file)
            self.assertFalse(os.path.ismount(volume.point))
            volume.mount()
            with open(volume.path("file"), "rb") as file:
                self.assertEqual(file.read(), b"contents")
            volume.umount()

    def test_the_process_that_mounts_ends_with_the_daemon_but_not_the_other_way_round(self):
        volume = self.mounted()
        with open(volume.path("file"), "wb") as file:
            file.write(b"contents")
        os.kill(self.mounter(volume), signal.SIGKILL)
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        volume.umount()
        volume.mount()
        mounter = self.mounter(volume)
        start = harness.workspace.start_time(mounter)
        volume.kill()
        self.assertNotEqual(harness.workspace.start_time(mounter), start)
        volume.mount()
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), b"contents")

    def test_a_signal_ends_the_daemon_also_when_nobody_unmounts_for_it(self):
        volume = self.mounted()
        daemon = self.daemon(volume)
        os.kill(self.mounter(volume), signal.SIGKILL)
        os.kill(daemon, signal.SIGTERM)
        volume.wait_for_end()
        self.must("umount", "-l", volume.point)  # what is left answers nothing
        volume.mount()

    def test_ctrl_c_ends_a_daemon_in_the_foreground(self):
        volume = self.volume(256 * MiB, image=True)
        daemon = subprocess.Popen([LSMFS, "mount", "-f", volume.device, volume.point], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(daemon.stdout))
        reader.start()
        until(lambda: os.path.ismount(volume.point), "the mount")
        os.listdir(volume.point)
        self.check_confined(volume)
        os.killpg(daemon.pid, signal.SIGINT)
        self.assertEqual(daemon.wait(PATIENCE), 0)
        reader.join(PATIENCE)  # all who had its output are gone
        daemon.stdout.close()
        self.assertFalse(reader.is_alive())
        self.assertIn("is unmounted", "".join(lines))
        self.assertFalse(os.path.ismount(volume.point))

    def test_what_has_a_hostile_name_for_its_device_is_not_opened(self):
        # Any user can mount a FUSE of our type by fusermount3, and name what they like as its source. To open some devices
        # is to do something: a FIFO stands for them.
        fifo = os.path.join(self.work.path, "fifo")
        os.mkfifo(fifo)
        notify = syscalls.Inotify()
        self.addCleanup(notify.close)
        notify.watch(fifo, "open")
        point = self.work.sub("point")
        fuse = os.open("/dev/fuse", os.O_RDWR)
        syscalls.mount(fifo, point, "fuse.lsmfs", f"fd={fuse},rootmode=40000,user_id=0,group_id=0")
        os.close(fuse)
        self.refused(LSMFS, "umount", point, says=["daemon had ended"], codes=[32])
        self.assertFalse(os.path.ismount(point))
        self.refused(LSMFS, "mount", fifo, self.work.sub("other"), says=["neither"])
        self.refused(LSMFS, "fsck", fifo, says=["neither"])
        self.refused(LSMFS, "info", fifo, says=["neither"])
        self.refused(LSMFS, "mkfs", "-f", fifo, says=["neither"])
        self.assertEqual(notify.events(), [])
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
        self.assertNotEqual(notify.events(), [], "the test does not see what it is to see")


if __name__ == "__main__":
    harness.main()
