"""Those who work on a file system during a soak test, each in a folder of its own. What must be there each of them knows from
elsewhere: checksums and contents in memory, facts of a tree on another file system. Whatever is read is compared.

A step may find no room() for what grows, which is counted; recover() then brings the worker back to something that it knows. No
other call may give ENOSPC: what takes nothing more, or gives something back, always works.
"""

import contextlib
import errno
import hashlib
import os
import random
import threading
import time
import traceback

import harness
import source_tree
import syscalls
import synthetic_repository
from harness import MiB

BLOCK = 4096


def pace(seconds):
    """Load comes at a rate, whatever the machine could do: others have their turn in between."""
    time.sleep(seconds)


def wrong(what):
    raise AssertionError(what)


def digest(data):
    return hashlib.blake2b(data, digest_size=16).digest()


class NoRoom(Exception):
    """ENOSPC from a call that may need room."""


@contextlib.contextmanager
def room():
    """Around the calls that may need some."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise NoRoom from error


def used(root):
    facts = os.statvfs(root)
    return 1 - facts.f_bavail / facts.f_blocks


LONGER_THAN_A_RUN = 7200  # seconds: with a sanitizer a program may take most of it; one that hangs is found when the run ends


def command(*words, cwd=None):
    """ENOSPC of a program is an ENOSPC of its caller; any other failure is an error."""
    done = harness.call(*words, cwd=cwd, seconds=LONGER_THAN_A_RUN)
    if done.returncode != 0:
        if os.strerror(errno.ENOSPC) in done.stdout + done.stderr:
            raise OSError(errno.ENOSPC, words[0])
        wrong(f"{words}: exit status {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


class Team:
    """Runs workers until somebody says stop, or one of them finds something wrong."""

    FULL = 0.97  # the share of the space that df says is used, from which on there may be no room

    def __init__(self):
        self.stop = threading.Event()
        self.errors = []
        self.workers = []

    def start(self, workers):
        self.workers = workers
        for worker in workers:
            worker.thread = threading.Thread(target=self._run, args=(worker,), name=worker.name)
            worker.thread.start()

    def _run(self, worker):
        while not self.stop.is_set():
            try:
                worker.step()
                worker.steps += 1
            except NoRoom:
                worker.without_room += 1
                worker.too_early += used(worker.root) < self.FULL
                try:
                    worker.recover()
                except Exception:
                    return self._failed(worker)
            except Exception:
                return self._failed(worker)
        return None

    def _failed(self, worker):
        self.errors.append(f"{worker.name}: {traceback.format_exc()}")
        self.stop.set()

    def end(self, seconds):
        """The names of those that did not end in time."""
        self.stop.set()
        deadline = time.monotonic() + seconds
        for worker in self.workers:
            worker.thread.join(max(0.0, deadline - time.monotonic()))
        return [worker.name for worker in self.workers if worker.thread.is_alive()]


class Worker:
    def __init__(self, root, seed):
        self.name = type(self).__name__
        self.root = os.path.join(root, self.name)
        self.rng = random.Random(f"{seed} {self.name}")
        self.steps = 0
        self.without_room = self.too_early = 0  # times; the latter: of them, before it was full
        os.makedirs(self.root, exist_ok=True)

    def recover(self):
        """After there was no room."""

    def verify(self):
        """Reads all that it has, at the end, when nobody is at work any more."""

    def clear(self):
        """Removes what no walk of the file system finds, after that."""


class Ballast(Worker):
    """Files that nobody needs, so that the file system is as full as wanted: now filling up, now emptying."""

    HIGH, LOW = 0.82, 0.74
    SIZES = [3_000, 50_000, 300_000, MiB, 3 * MiB]

    def __init__(self, root, seed):
        super().__init__(root, seed)
        self.lock = threading.Lock()
        self.files = {}  # path: digest
        self._filling = True
        self._number = 0
        self.pause = 0.0  # seconds for each MiB, so that others have their turn
        for folder in range(20):
            os.mkdir(os.path.join(self.root, str(folder)))

    def step(self):
        share = used(self.root)
        if share > self.HIGH:
            self._filling = False
        elif share < self.LOW:
            self._filling = True
        if self._filling:
            size = self._write()
        elif self.files:
            size = self._delete()
        else:
            size = MiB  # until others have less
        pace(self.pause * size / MiB)

    def _write(self):
        self._number += 1
        path = os.path.join(self.root, str(self.rng.randrange(20)), str(self._number))
        data = self.rng.randbytes(self.rng.choice(self.SIZES))
        try:
            with room(), open(path, "xb", buffering=0) as file:
                at = 0
                while at < len(data):
                    at += file.write(data[at:at + MiB])
        except NoRoom:
            if os.path.exists(path):
                os.unlink(path)
            raise
        with self.lock:
            self.files[path] = digest(data)
        return len(data)

    def _delete(self):
        with self.lock:
            path = self.rng.choice(list(self.files))
            del self.files[path]
        size = os.path.getsize(path)
        os.unlink(path)
        return size

    def recover(self):
        self._filling = False

    def read(self, rng):
        """One of the files, whatever becomes of its name meanwhile."""
        with self.lock:
            if not self.files:
                return
            path = rng.choice(list(self.files))
            expected = self.files[path]
            file = open(path, "rb")
        with file:
            if rng.random() < 0.3:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if digest(file.read()) != expected:
                wrong(f"{path} has other contents than were written")

    def verify(self):
        for path, expected in self.files.items():
            with open(path, "rb") as file:
                if digest(file.read()) != expected:
                    wrong(f"{path} has other contents than were written")
        there = {os.path.join(place, name) for place, _, names in os.walk(self.root) for name in names}
        if there != set(self.files):
            wrong(f"files of nobody, or missing: {sorted(there ^ set(self.files))[:5]}")


class Reader(Worker):
    def __init__(self, root, seed, ballast, number):
        super().__init__(root, f"{seed} {number}")
        self.name += str(number)
        self._ballast = ballast

    def step(self):
        self._ballast.read(self.rng)
        pace(0.01)


class Unpack(Worker):
    """A made-up tree is unpacked, compared and removed again and again; two of them are there for a while."""

    def __init__(self, root, seed, folder, files):
        super().__init__(root, seed)
        source = os.path.join(folder, "tree")
        os.mkdir(source)
        source_tree.make(source, seed, files)
        self._tar = source + ".tar"
        command("tar", "--format=pax", "--sparse", "-cf", self._tar, "-C", source, ".")
        self._expected = source_tree.facts(source)
        self._trees = []
        self._number = 0

    def step(self):
        self._number += 1
        tree = os.path.join(self.root, str(self._number))
        with room():
            os.mkdir(tree)
            command("tar", "-xpf", self._tar, "-C", tree)
        self._trees.append(tree)
        self._compare(self.rng.choice(self._trees))
        if len(self._trees) > 2:
            command("rm", "-rf", self._trees.pop(0))

    def _compare(self, tree):
        lines = source_tree.differences(self._expected, source_tree.facts(tree), 5)
        if lines:
            wrong(f"{tree}: {lines}")

    def recover(self):
        for name in os.listdir(self.root):
            if os.path.join(self.root, name) not in self._trees:
                command("rm", "-rf", os.path.join(self.root, name))

    def verify(self):
        for tree in self._trees:
            self._compare(tree)


class Git(Worker):
    """Commits, checkouts of any of them, a collection of garbage. What each commit holds is remembered here."""

    COMMITS = 40  # before the clone is thrown away

    def __init__(self, root, seed, folder, files):
        super().__init__(root, seed)
        self._original = os.path.join(folder, "original.git")
        synthetic_repository.make(self._original, commits=40, files=files, seed=seed, tags=4)
        self._first = {}
        for tag in range(4):
            listed = self._git("ls-tree", "-r", "-z", f"v{tag}", at=self._original)
            self._first[f"v{tag}"] = {line.partition("\t")[2]: line.split()[2] for line in listed.split("\0") if line}
        self._clone = os.path.join(self.root, "clone")
        self._known = {}    # commit: {path: number of the blob}
        self._head = None   # what is checked out; None: there is no clone
        self._number = 0

    def _git(self, *words, at=None):
        with room():
            return command("git", "-c", "safe.directory=*", "-c", "protocol.file.allow=always", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
                           "-C", at or self._clone, *words)

    def step(self):
        if self._head is None:
            command("rm", "-rf", self._clone)
            self._git("clone", "-q", "file://" + self._original, self._clone, at=self.root)
            self._known = dict(self._first)
            self._check_out("v0")
        dice = self.rng.random()
        if dice < 0.5:
            self._commit()
        elif dice < 0.8:
            self._check_out(self.rng.choice(list(self._known)))
        elif dice < 0.9:
            self._git("gc", "-q", "--prune=now")
            self._git("fsck", "--full", "--strict", "--no-dangling")
        else:
            self.verify()
        if len(self._known) > self.COMMITS + len(self._first):
            self._head = None

    def _commit(self):
        blobs = dict(self._known[self._head])
        for _ in range(5):
            self._number += 1
            path = self.rng.choice(sorted(blobs)) if self.rng.random() < 0.5 else f"new/{self._number}"
            data = self.rng.randbytes(self.rng.randrange(40_000))
            with room():
                os.makedirs(os.path.dirname(os.path.join(self._clone, path)), exist_ok=True)
                with open(os.path.join(self._clone, path), "wb") as file:
                    file.write(data)
            blobs[path] = self._blob(data)
        self._git("add", "-A")
        self._git("commit", "-q", "-m", f"Change {self._number}")
        self._head = self._git("rev-parse", "HEAD").strip()
        self._git("branch", f"kept{self._number}")  # else it is garbage after the next checkout
        self._known[self._head] = blobs

    def _check_out(self, commit):
        self._git("checkout", "-q", commit)
        self._head = commit
        self.verify()

    @staticmethod
    def _blob(data):
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def recover(self):
        self._head = None
        command("rm", "-rf", self._clone)

    def verify(self):
        if self._head is None:
            return
        found = {}
        for place, folders, names in os.walk(self._clone):
            if place == self._clone:
                folders.remove(".git")
            for name in names:
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self._clone)] = self._blob(file.read())
        expected = self._known[self._head]
        if found != expected:
            other = sorted(path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path))
            wrong(f"the work tree is not that of {self._head}: {other[:5]}")


class Writes(Worker):
    """Random writes, truncations and holes in a few files whose contents are known, with fsyncs."""

    FILES, SIZE_MAX, PAUSE = 6, 2 * MiB, 0.002

    def __init__(self, root, seed):
        super().__init__(root, seed)
        self._files = {}
        for number in range(self.FILES):
            path = os.path.join(self.root, str(number))
            with open(path, "xb"):
                self._files[path] = bytearray()

    def step(self):
        path = self.rng.choice(list(self._files))
        fd = os.open(path, os.O_RDWR)
        try:
            self._act(path, fd, self._files[path], self.rng.random())
            if self.rng.random() < 0.2:
                (os.fsync if self.rng.random() < 0.5 else os.fdatasync)(fd)
        finally:
            os.close(fd)
        pace(self.PAUSE)

    def _act(self, path, fd, contents, dice):
        """Does to the open file what `dice`, from 0 to 1, says, and the same to its contents."""
        if dice < 0.6:
            at = self.rng.randrange(self.SIZE_MAX - 100_000)
            data = self.rng.randbytes(self.rng.choice([10, 1000, BLOCK, 30_000, 100_000]))
            with room():
                done = os.pwrite(fd, data, at)  # less than asked, when there is no room for the rest
            contents.extend(bytes(max(0, at - len(contents))))
            contents[at:at + done] = data[:done]
        elif dice < 0.65:
            size = self.rng.randrange(self.SIZE_MAX)
            with room() if size > len(contents) else contextlib.nullcontext():
                os.ftruncate(fd, size)
            contents.extend(bytes(max(0, size - len(contents))))
            del contents[size:]
        elif dice < 0.75 and contents:
            at, size = self.rng.randrange(len(contents)), self.rng.randrange(1, 200_000)
            syscalls.punch_hole(fd, at, size)
            end = min(at + size, len(contents))
            contents[at:end] = bytes(end - at)
        else:
            self._compare(path, fd)

    def _compare(self, path, fd):
        if self.rng.random() < 0.5:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if os.pread(fd, len(self._files[path]) + 1, 0) != self._files[path]:
            wrong(f"{path} has other contents than were written")

    def verify(self):
        for path in self._files:
            fd = os.open(path, os.O_RDONLY)
            try:
                self._compare(path, fd)
            finally:
                os.close(fd)


class Streams(Writes):
    """Large files that are appended to in order. What they have is written over now and then, for which there is always room, and cut off."""

    FILES, SIZE_MAX, PAUSE = 3, 14 * MiB, 0.05

    def _act(self, path, fd, contents, dice):
        if dice < 0.6 and len(contents) < self.SIZE_MAX:
            until = len(contents) + self.rng.randrange(1, 4 * MiB)
            while len(contents) < until:
                data = self.rng.randbytes(self.rng.choice([1000, BLOCK, 100_000, 128 * 1024, MiB]))
                with room():
                    done = os.pwrite(fd, data, len(contents))
                contents.extend(data[:done])
        elif dice < 0.8 and contents:
            at = self.rng.randrange(len(contents))
            data = self.rng.randbytes(min(len(contents) - at, self.rng.randrange(1, 200_000)))
            if os.pwrite(fd, data, at) != len(data):
                wrong(f"{path} was not written over whole")
            contents[at:at + len(data)] = data
        elif dice < 0.9:
            size = self.rng.randrange(len(contents) + 1)
            os.ftruncate(fd, size)
            del contents[size:]
        else:
            self._compare(path, fd)


class InPlace(Worker):
    """A file that is written over, and never grows: whatever is free, it finds room."""

    SIZE = 16 * MiB

    def __init__(self, root, seed):
        super().__init__(root, seed)
        self._path = os.path.join(self.root, "file")
        self._contents = bytearray(self.rng.randbytes(self.SIZE))
        with open(self._path, "xb") as file:
            file.write(self._contents)

    def step(self):
        size = self.rng.choice([100, BLOCK, 8192, 65536])
        at = self.rng.randrange(self.SIZE - size)
        data = self.rng.randbytes(size)
        fd = os.open(self._path, os.O_RDWR)
        try:
            if os.pwrite(fd, data, at) != size:
                wrong(f"less than {size} bytes were written over at {at}")
            self._contents[at:at + size] = data
            if self.rng.random() < 0.1:
                os.fsync(fd)
        finally:
            os.close(fd)
        if self.rng.random() < 0.01:
            self.verify()
        pace(0.002)

    def verify(self):
        with open(self._path, "rb") as file:
            if file.read() != self._contents:
                wrong(f"{self._path} has other contents than were written")


class Sparse(Worker):
    """A file of 64 GiB with a few hundred blocks of data."""

    BLOCKS, DATA_MAX = (64 << 30) // BLOCK, 400

    def __init__(self, root, seed):
        super().__init__(root, seed)
        self._path = os.path.join(self.root, "sparse")
        self._data = {}  # number of the block: its contents
        with open(self._path, "xb") as file:
            file.truncate(self.BLOCKS * BLOCK)

    def step(self):
        fd = os.open(self._path, os.O_RDWR)
        try:
            block = self.rng.randrange(self.BLOCKS)
            dice = self.rng.random()
            if dice < 0.4 and len(self._data) < self.DATA_MAX:
                data = self.rng.randbytes(BLOCK)
                with room():
                    done = os.pwrite(fd, data, block * BLOCK)
                if done == BLOCK:
                    self._data[block] = data
            elif dice < 0.6 and self._data:
                block = self.rng.choice(list(self._data))
                syscalls.punch_hole(fd, block * BLOCK, BLOCK)
                del self._data[block]
            elif dice < 0.98:
                block = self.rng.choice([block] + list(self._data))
                if os.pread(fd, BLOCK, block * BLOCK) != self._data.get(block, bytes(BLOCK)):
                    wrong(f"block {block} of {self._path} is another one")
            else:
                self._walk(fd)
        finally:
            os.close(fd)
        pace(0.002)

    def _walk(self, fd):
        """All data is where it was written, and nowhere else."""
        found = set()
        at = 0
        while True:
            try:
                at = os.lseek(fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break
            end = os.lseek(fd, at, os.SEEK_HOLE)
            for block in range(at // BLOCK, -(-end // BLOCK)):
                found.add(block)
                if os.pread(fd, BLOCK, block * BLOCK) != self._data.get(block, bytes(BLOCK)):
                    wrong(f"block {block} of {self._path} is another one")
            at = end
        if not found >= set(self._data):
            wrong(f"{self._path}: no data where there was some: blocks {sorted(set(self._data) - found)[:5]}")

    def verify(self):
        fd = os.open(self._path, os.O_RDONLY)
        try:
            self._walk(fd)
        finally:
            os.close(fd)


class Renames(Worker):
    """A large directory gets new names and parents."""

    def __init__(self, root, seed, files):
        super().__init__(root, seed)
        self._parents = [os.path.join(self.root, str(number), "deeper") for number in range(4)]
        for parent in self._parents:
            os.makedirs(parent)
        self._place = os.path.join(self._parents[0], "large")
        self._files = {}  # path in it: contents
        for number in range(files):
            path = f"{number % 10}/{number}"
            os.makedirs(os.path.join(self._place, str(number % 10)), exist_ok=True)
            data = self.rng.randbytes(self.rng.choice([0, 100, 5000]))
            with open(os.path.join(self._place, path), "xb") as file:
                file.write(data)
            self._files[path] = data

    def step(self):
        to = os.path.join(self.rng.choice(self._parents), f"large{self.rng.randrange(100)}")
        os.rename(self._place, to)
        self._place = to
        if self.rng.random() < 0.2:
            fd = os.open(os.path.dirname(to), os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        self._look(self.rng.sample(list(self._files), 20))
        pace(0.05)

    def _look(self, some):
        there = {os.path.relpath(os.path.join(place, name), self._place) for place, _, names in os.walk(self._place) for name in names}
        if there != set(self._files):
            wrong(f"{self._place} lists other names: {sorted(there ^ set(self._files))[:5]}")
        for path in some:
            with open(os.path.join(self._place, path), "rb") as file:
                if file.read() != self._files[path]:
                    wrong(f"{path} in {self._place} has other contents than were written")

    def verify(self):
        left = [os.path.join(parent, name) for parent in self._parents for name in os.listdir(parent)]
        if left != [self._place]:
            wrong(f"the large directory is at {left}, and was renamed to {self._place}")
        self._look(list(self._files))
