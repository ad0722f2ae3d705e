"""kill -9 of the daemon, again and again, while two programs work on the mount, each in a folder of its own, and write down elsewhere
what they have done and what was synced: each time a folder is what it was after one of its program's calls, none before the last
sync, and none that had returned before a sync of the other program was called.

Needs root. 20 cycles; LSMFS_LONG=1: 1,000."""

import collections
import copy
import errno
import os
import random
import struct
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "integration"))

import harness  # noqa: E402
import workspace  # noqa: E402
from harness import SEED, MiB  # noqa: E402
from until import until  # noqa: E402

CYCLES = 1000 if os.environ.get("LSMFS_LONG") else 20
PROGRAMS = 2
CALLS_MAX = 1500  # of both, before a kill
FAULT_KILLS_MAX = 100  # until a planted fault is noticed: every third kill or so comes at the right moment
# A record of the manifest says what, of which program, and the number of the call: a sync is called, one has returned, another call has.
ASKED, SYNCED, DONE = b"a", b"s", b"d"
RECORD = struct.Struct("<cBI")
# What calls meet when the daemon is dead: nothing else may end a program. The last is what the kernel says of those in a ring.
GONE = {errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED}
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
        """Whether `found` is the tree after that call, which was the last, but with no more of `data` than what lies in its first page."""
        if path not in found or found[path] is None or found | {path: None} != self.files | {path: None}:
            return False
        first = -at % PAGE
        contents = bytearray(self._before)
        contents.extend(bytes(max(0, at - len(contents))))
        contents[at:at + first] = data[:first]
        return 0 < first < len(data) and contents == found[path]

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


def perform(call, *arguments):
    """Each is one system call that changes the tree below the current folder. All but a write are one request to the daemon: the kernel
    ends a request where the page ends in which a write begins, if it has not cached that one whole (fuse_fill_write_pages in
    fs/fuse/file.c)."""
    if call == "nothing":
        return
    path = arguments[0] or "."
    if call == "create":
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    elif call == "mkdir":
        os.mkdir(path)
    elif call == "write":
        write(path, *arguments[1:])
    elif call == "truncate":
        os.truncate(path, arguments[1])
    elif call == "rename":
        os.rename(path, arguments[1])
    elif call == "unlink":
        os.unlink(path)
    elif call == "sync":
        sync(path)


def write(path, at, data):
    fd = os.open(path, os.O_WRONLY)
    done = os.pwrite(fd, data, at)
    if done < len(data):
        os.pwrite(fd, data[done:], at + done)  # says why
        raise AssertionError(f"{path}: wrote {done} of {len(data)} bytes")
    os.close(fd)


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def perform_no_sync(call, *arguments):
    """A fault: an fsync that does nothing."""
    if call != "sync":
        perform(call, *arguments)


def perform_no_truncate(call, *arguments):
    """A fault: something is acknowledged and not done."""
    if call != "truncate":
        perform(call, *arguments)


class PerformLate:
    """A fault: what is acknowledged is done some calls later. A sync waits for it, so that only those of others miss it."""

    OWED_MAX = 20

    def __init__(self):
        self._owed = collections.deque()

    def __call__(self, *call):
        self._owed.append(call)
        while len(self._owed) > (0 if call[0] == "sync" else self.OWED_MAX):
            perform(*self._owed.popleft())


def work(program, seed, files, manifest, do):
    """In the current folder, until the daemon is gone. A call is written down when it has returned, a sync also when it is called."""
    story = Story(seed, files)
    number = 0
    while True:
        call = story.step()
        number += 1
        if call[0] == "sync":
            os.write(manifest, RECORD.pack(ASKED, program, number))
        do(*call)
        os.write(manifest, RECORD.pack(SYNCED if call[0] == "sync" else DONE, program, number))


def start(folder, *arguments):
    """A process that works in a folder. Its exit status is the number of the error that it met, or 255."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # stays that of the mount, when that is taken away
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            os.fchdir(fd)
            work(*arguments)
        except OSError as error:
            status = error.errno or status
            if status not in GONE:
                traceback.print_exc()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(fd)
    return pid


def windows(records):
    """Of each program the first and the last of its calls after which its folder may be as it is found."""
    done, asked, first = [0] * PROGRAMS, [None] * PROGRAMS, [0] * PROGRAMS
    for kind, program, number in records:
        if kind == ASKED:
            asked[program] = list(done)
            continue
        done[program] = number
        if kind == SYNCED:
            first = [max(pair) for pair in zip(first, asked[program])]
            first[program] = number
    return [(synced, returned + 1) for synced, returned in zip(first, done)]


def fail(error):
    raise error


def tree(root):
    found = {}
    for folder, folders, names in os.walk(root, onerror=fail):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), root)] = bytearray(file.read())
    return found


class Kill(harness.MountCase):
    @harness.lsmfs_only
    def test_what_was_synced_survives_and_the_rest_is_one_moment_of_the_past(self):
        harness.print_seed(self)
        rng = random.Random(SEED)
        volume = self.prepared("sync_interval=1")
        trees, calls, syncs, lost, ends = [{}] * PROGRAMS, 0, 0, 0, set()
        for cycle in range(CYCLES):
            lives = [(rng.getrandbits(32), files) for files in trees]
            found = self.run_and_kill(volume, lives, rng.randrange(CALLS_MAX), ends)
            if rng.random() < 0.3:
                self.kill_at_once(volume, rng)
            volume.mount("sync_interval=1")
            trees = self.trees(volume)
            for program, ((seed, before), after, (first, last)) in enumerate(zip(lives, trees, found)):
                survived = self.moment(seed, before, after, first, last)
                if survived is None:
                    self.fail(f"cycle {cycle}, seed {SEED}: folder {program} is as after none of the calls {first} to {last}; "
                              + self.nearest(seed, before, after, first, last))
                calls, syncs, lost = calls + last - 1, syncs + (first > 0), lost + max(0, last - 1 - survived)
            if cycle % 50 == 49:
                volume.umount()
                self._check(volume)
                volume.mount("sync_interval=1")
        print(f"{CYCLES} kills, {calls} calls, {syncs} times something had been synced since the last kill, {lost} calls lost")
        print(f"the programs' last calls met {', '.join(sorted(ends))}")
        self.assertGreater(syncs, PROGRAMS * CYCLES // 4, "hardly anything had been synced: nothing tested")
        self.assertGreater(lost, 0, "nothing was ever lost: the kills came too late")

    @harness.lsmfs_only
    def test_an_fsync_that_does_nothing_is_noticed(self):
        self.noticed(perform_no_sync, perform_no_sync)

    @harness.lsmfs_only
    def test_a_call_that_does_nothing_is_noticed(self):
        self.noticed(perform, perform_no_truncate)

    @harness.lsmfs_only
    def test_a_call_that_an_fsync_of_another_program_misses_is_noticed(self):
        self.noticed(perform, PerformLate())

    def test_what_a_program_meets_is_told(self):
        def no_room(*_):
            raise OSError(errno.ENOSPC, "planted")

        def mistake(*_):
            raise ValueError("planted")
        for fault, status in (no_room, errno.ENOSPC), (mistake, 255):
            manifest = os.open(os.path.join(self.work.path, "manifest"), os.O_WRONLY | os.O_CREAT)
            pid = start(self.work.path, 0, 1, {}, manifest, fault)
            os.close(manifest)
            self.assertEqual(self.status(pid), status)

    def noticed(self, *faults):
        """After one of the kills a folder is as it must not be."""
        volume = self.prepared("sync_interval=0")
        trees = [{}] * PROGRAMS
        for seed in range(FAULT_KILLS_MAX):
            lives = [(seed, files) for files in trees]
            found = self.run_and_kill(volume, lives, CALLS_MAX // 2, set(), faults)
            volume.mount("sync_interval=0")
            trees = self.trees(volume)
            if any(self.moment(*life, after, *window) is None for life, after, window in zip(lives, trees, found)):
                print(f"noticed by kill {seed + 1}", file=sys.stderr)
                return
        self.fail(f"{FAULT_KILLS_MAX} kills, and all seemed to be well")

    def prepared(self, options):
        """Mounted, with a folder for each program."""
        volume = self.volume(256 * MiB, image=True)  # whose daemon others' sync(2) does not reach
        volume.mount(options)
        for program in range(PROGRAMS):
            os.mkdir(volume.path(str(program)))
        sync(volume.point)
        return volume

    @staticmethod
    def trees(volume):
        return [tree(volume.path(str(program))) for program in range(PROGRAMS)]

    def run_and_kill(self, volume, lives, calls, ends, faults=(perform,) * PROGRAMS):
        """The programs' windows(). `lives`: the seed of each, and what its folder holds; `calls`: how many they have written down when the
        daemon is killed, or a few more; `ends`: gets what their last calls met."""
        path = os.path.join(self.work.path, "manifest")
        manifest = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        pids = [start(volume.path(str(program)), program, seed, files, manifest, do)
                for program, ((seed, files), do) in enumerate(zip(lives, faults))]
        os.close(manifest)
        until(lambda: os.path.getsize(path) >= calls * RECORD.size or any(workspace.start_time(pid) is None for pid in pids), "calls of the programs")
        volume.kill()
        for status in [self.status(pid) for pid in pids]:
            self.assertIn(status, GONE, "a program met something else than the end of the daemon")
            ends.add(errno.errorcode[status])
        with open(path, "rb") as file:
            return windows(RECORD.iter_unpack(file.read()))

    @staticmethod
    def status(pid):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def kill_at_once(self, volume, rng):
        """Once more, while or soon after it recovers."""
        volume.mount("sync_interval=1")
        for program in range(rng.randrange(PROGRAMS + 1)):
            tree(volume.path(str(program)))
        volume.kill()

    @staticmethod
    def moment(seed, files, found, first, last):
        """The last number of calls, of first to last, after which, or within the last of which, the tree was as it was found;
        None: there is none. The first is there as a whole: it had been synced."""
        story = Story(seed, files)
        same = None
        for number in range(last + 1):
            call = story.step() if number > 0 else ("nothing",)
            whole, within = number >= first and story.files == found, number > first and call[0] == "write"
            if whole or within and story.was_writing(found, *call[1:]):
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
