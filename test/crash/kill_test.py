"""kill -9 of the daemon, again and again, while a program works on the mount and writes down elsewhere what it has done and
what was synced: each time the tree is what it was after one of the program's calls, none before the last sync.

Needs root. 20 cycles; LSMFS_LONG=1: 1,000."""

import copy
import os
import random
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "integration"))

import harness  # noqa: E402
from harness import MiB  # noqa: E402

CYCLES = 1000 if os.environ.get("LSMFS_LONG") else 20
SEED = int(os.environ.get("LSMFS_SEED", "0")) or random.SystemRandom().getrandbits(32)
DONE, SYNCED = b"d", b"s"
RECORD = struct.Struct("<cI")
SIZE_MAX = 300_000
PAGE = os.sysconf("SC_PAGE_SIZE")


class Story:
    """What the program does: the same calls for the same seed and the same tree. `files`: {path: contents}, None for a
    directory."""

    def __init__(self, seed, files):
        self._random = random.Random(seed)
        self.files = copy.deepcopy(files)

    def step(self):
        """The next call as (name, arguments...), done in `files`."""
        rng = self._random
        folders = [""] + [path for path, data in self.files.items() if data is None]
        regular = [path for path, data in self.files.items() if data is not None]
        dice = rng.random()
        if dice < 0.05:
            return ("sync", rng.choice(regular) if regular else "")
        if dice < 0.30 or not regular:
            return self._create(os.path.join(rng.choice(folders), f"f{rng.randrange(40)}"))
        if dice < 0.36 and len(folders) < 12:
            return self._mkdir(os.path.join(rng.choice(folders[:6]), f"d{rng.randrange(12)}"))
        path = rng.choice(regular)
        if dice < 0.66:
            return self._write(path, rng.randrange(min(len(self.files[path]) + 5000, SIZE_MAX)), rng.randbytes(rng.choice([10, 3000, 4096, 30000])))
        if dice < 0.72:
            return self._truncate(path, rng.randrange(len(self.files[path]) + 2000))
        if dice < 0.84:
            return self._rename(path, os.path.join(rng.choice(folders), f"f{rng.randrange(40)}"))
        if dice < 0.88 and len(folders) > 1:
            return self._rename_folder(rng.choice(folders[1:]), f"d{rng.randrange(12)}")
        del self.files[path]
        return ("unlink", path)

    def _create(self, path):
        if path in self.files:
            return ("nothing",)
        self.files[path] = bytearray()
        return ("create", path)

    def _mkdir(self, path):
        if path in self.files:
            return ("nothing",)
        self.files[path] = None
        return ("mkdir", path)

    def _write(self, path, at, data):
        contents = self.files[path]
        self._before = bytes(contents)
        contents.extend(bytes(max(0, at - len(contents))))
        contents[at:at + len(data)] = data
        return ("write", path, at, data)

    def was_writing(self, found, path, at, data):
        """Whether `found` is the tree after that call, which was the last, but with only the first pages of `data`."""
        if path not in found or found[path] is None or found | {path: None} != self.files | {path: None}:
            return False
        for cut in range((at // PAGE + 1) * PAGE, at + len(data), PAGE):
            contents = bytearray(self._before)
            contents.extend(bytes(max(0, at - len(contents))))
            contents[at:cut] = data[:cut - at]
            if contents == found[path]:
                return True
        return False

    def _truncate(self, path, size):
        contents = self.files[path]
        contents.extend(bytes(max(0, size - len(contents))))
        del contents[size:]
        return ("truncate", path, size)

    def _rename(self, path, to):
        if to == path or to in self.files and self.files[to] is None:
            return ("nothing",)
        self.files[to] = self.files.pop(path)
        return ("rename", path, to)

    def _rename_folder(self, path, to):
        if to in self.files or to.startswith(path + "/"):
            return ("nothing",)
        for old in [old for old in self.files if old == path or old.startswith(path + "/")]:
            self.files[to + old[len(path):]] = self.files.pop(old)
        return ("rename", path, to)


def perform(root, call, *arguments):
    """Each is one system call that changes the tree. All but a write are one request to the daemon: the kernel ends a request
    in the middle of a write where a page ends that it has not cached whole (fuse_fill_write_pages in fs/fuse/file.c)."""
    if call == "nothing":
        return
    path = os.path.join(root, arguments[0])
    if call == "create":
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    elif call == "mkdir":
        os.mkdir(path)
    elif call == "write":
        fd = os.open(path, os.O_WRONLY)
        os.pwrite(fd, arguments[2], arguments[1])
        os.close(fd)
    elif call == "truncate":
        os.truncate(path, arguments[1])
    elif call == "rename":
        os.rename(path, os.path.join(root, arguments[1]))
    elif call == "unlink":
        os.unlink(path)
    elif call == "sync":
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def perform_no_sync(root, call, *arguments):
    """A fault: an fsync that does nothing."""
    if call != "sync":
        perform(root, call, *arguments)


def perform_no_truncate(root, call, *arguments):
    """A fault: something is acknowledged and not done."""
    if call != "truncate":
        perform(root, call, *arguments)


def work(root, seed, files, manifest, do):
    """Until the daemon is gone. A call is written down when it has returned."""
    story = Story(seed, files)
    number = 0
    try:
        while True:
            call = story.step()
            number += 1
            do(root, *call)
            os.write(manifest, RECORD.pack(SYNCED if call[0] == "sync" else DONE, number))
    except OSError:
        pass


def tree(root):
    found = {}
    for folder, folders, names in os.walk(root):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), root)] = bytearray(file.read())
    return found


class Kill(harness.MountCase):
    @harness.lsmfs_only
    def test_what_was_synced_survives_and_the_rest_is_one_moment_of_the_past(self):
        print(f"run again with LSMFS_SEED={SEED}")
        rng = random.Random(SEED)
        volume = self.volume(256 * MiB)
        volume.mount("sync_interval=1")
        files, calls, syncs, lost = {}, 0, 0, 0
        for cycle in range(CYCLES):
            seed = rng.getrandbits(32)
            manifest = os.path.join(self.work.path, "manifest")
            done, synced = self.run_and_kill(volume, seed, files, manifest, rng.uniform(0.02, 0.5))
            if rng.random() < 0.3:
                self.kill_at_once(volume, rng)
            volume.mount("sync_interval=1")
            found = tree(volume.point)
            survived = self.moment(seed, files, found, synced, done + 1)
            if survived is None:
                self.fail(f"cycle {cycle}, seed {SEED}: the tree is as after none of the calls {synced} to {done + 1}; "
                          + self.nearest(seed, files, found, synced, done + 1))
            files, calls, syncs, lost = found, calls + done, syncs + (synced > 0), lost + max(0, done - survived)
            if cycle % 50 == 49:
                volume.umount()
                self._check(volume)
                volume.mount("sync_interval=1")
        print(f"{CYCLES} kills, {calls} calls, {syncs} times something had been synced since the last kill, {lost} calls lost")
        self.assertGreater(syncs, CYCLES // 4, "hardly anything had been synced: nothing tested")
        self.assertGreater(lost, 0, "nothing was ever lost: the kills came too late")

    @harness.lsmfs_only
    def test_an_fsync_that_does_nothing_is_noticed(self):
        self.noticed(perform_no_sync)

    @harness.lsmfs_only
    def test_a_call_that_does_nothing_is_noticed(self):
        self.noticed(perform_no_truncate)

    def noticed(self, fault):
        """Within a few kills: after one of them nothing was done since the last sync."""
        volume = self.volume(256 * MiB)
        files = {}
        for seed in range(10):
            volume.mount("sync_interval=0")
            done, synced = self.run_and_kill(volume, seed, files, os.path.join(self.work.path, "manifest"), 0.3, fault)
            volume.mount("sync_interval=0")
            found = tree(volume.point)
            volume.umount()
            if self.moment(seed, files, found, synced, done + 1) is None:
                return
            files = found
        self.fail("ten kills, and all seemed to be well")

    def run_and_kill(self, volume, seed, files, manifest, seconds, do=perform):
        """How many calls had returned, and the last of them that was a sync."""
        fd = os.open(manifest, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        pid = os.fork()
        if pid == 0:
            try:
                work(volume.point, seed, files, fd, do)
            finally:
                os._exit(0)
        time.sleep(seconds)
        volume.kill()
        os.waitpid(pid, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        with os.fdopen(fd, "rb") as file:
            records = [RECORD.unpack_from(chunk) for chunk in iter(lambda: file.read(RECORD.size), b"")]
        return len(records), max((number for kind, number in records if kind == SYNCED), default=0)

    def kill_at_once(self, volume, rng):
        """Once more, while or soon after it recovers."""
        volume.mount("sync_interval=1")
        time.sleep(rng.uniform(0, 0.05))
        volume.kill()

    @staticmethod
    def moment(seed, files, found, first, last):
        """The last number of calls, of first to last, after which, or within the last of which, the tree was as it was found;
        None: there is none."""
        story = Story(seed, files)
        same = None
        for number in range(last + 1):
            call = story.step() if number > 0 else ("nothing",)
            if number >= first and (story.files == found or call[0] == "write" and story.was_writing(found, *call[1:])):
                same = number
        return same

    @staticmethod
    def nearest(seed, files, found, first, last):
        """The moment that the tree is most like, and what is different: what to look at first."""
        story = Story(seed, files)
        best = None
        for number in range(last + 1):
            call = story.step()[:3] if number > 0 else ()
            other = sorted(path for path in story.files.keys() | found.keys()
                           if path not in story.files or path not in found or story.files[path] != found[path])
            if number >= first and (best is None or len(other) <= len(best[2])):
                best = number, call, [(path, difference(story.files, found, path)) for path in other]
        return f"the nearest is after call {best[0]} {best[1]}, but for {best[2]}"


def difference(expected, found, path):
    if path not in found:
        return "missing"
    if path not in expected:
        return "too many"
    if expected[path] is None or found[path] is None:
        return "of another kind"
    same = next((at for at, (a, b) in enumerate(zip(expected[path], found[path])) if a != b), "the shorter one's end")
    return f"{len(found[path])} bytes for {len(expected[path])}, the same to {same}"


if __name__ == "__main__":
    harness.main()
