"""The programs whose power is cut. Each prepares a tree, works on it while all requests are recorded, and judges what it finds.

    prepare(root)        what is there before
    run(root, mark)      the work; calls mark(fact) whenever something must survive from now on, first for what was prepared
    judge(root, found, facts)   "" when the tree `found` at `root` is one that a power cut may leave after these facts were marked;
                         "lost: ..." when one of them does not hold, other words when something else is wrong
    TAKES_NAMES          False: no name is made in its folders after that

Of those that this module drives call by call the order of all changes is known: the tree must be that after one of the calls.
Of others, less is known: what they say is committed, that nothing is there in part but the last, their own checks.
"""

import os
import random
import re
import sqlite3
import tarfile

import harness
import inodes
import transfers
from fed import Fed
from sent import Sent
from story import Story


def run(*command, cwd=None):
    done = harness.call(*command, cwd=cwd)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit status {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}")
    return done.stdout


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def noise(rng, size):
    """Half of it compressible."""
    return rng.randbytes(size // 2) + bytes(size - size // 2)


class Told:
    """Driven call by call; subclasses say before(story, rng) and work(story, rng)."""

    def __init__(self, folder):
        self._rng = random.Random(type(self).__name__)
        self._story = Story()

    def prepare(self, root):
        self._story.root = root
        self.before(self._story, self._rng)

    def run(self, root, mark):
        self._story.root, self._story.synced = root, mark
        mark(len(self._story.calls))
        self.work(self._story, self._rng)

    def judge(self, root, found, facts):
        return self._story.moment(found, max(facts))

    def before(self, story, rng):
        pass


class Unpack(Told):
    """As tar does it, of a source tree, with a sync now and then."""

    def work(self, story, rng):
        folders = [""]
        for number in range(160):
            path = os.path.join(rng.choice(folders[-6:]), f"{rng.choice('fhkz')}{number}")
            dice = rng.random()
            if dice < 0.12:
                story.mkdir(path)
                folders.append(path)
            elif dice < 0.16:
                story.symlink("../" * rng.randrange(3) + "target", path)
            else:
                story.create(path)
                data = noise(rng, rng.choice([0, 10, 4096, 5000, 30000, 200000]))
                for at in range(0, len(data), 65536):
                    story.write(path, at, data[at:at + 65536])
                story.chmod(path, rng.choice([0o644, 0o755, 0o400]))
                if rng.random() < 0.05:
                    story.link(path, path + "-link")
            if number % 40 == 39:
                story.sync()


class Maildir(Told):
    """Deliveries as by most mail servers, and a reader who moves messages on."""

    def before(self, story, rng):
        for folder in ("tmp", "new", "cur"):
            story.mkdir(folder)

    def work(self, story, rng):
        for number in range(60):
            story.create(f"tmp/{number}.host")
            story.write(f"tmp/{number}.host", 0, noise(rng, rng.randrange(400, 20000)))
            story.sync(f"tmp/{number}.host")
            story.rename(f"tmp/{number}.host", f"new/{number}.host")
            if number % 2 == 0:
                story.sync("new")
            if number % 3 == 2:
                story.rename(f"new/{number - 1}.host", f"cur/{number - 1}.host:2,S")
            if number % 12 == 11:
                story.unlink(f"cur/{number - 4}.host:2,S")


class Editor(Told):
    """Saves a document: to a new file, synced, in the place of the old one, which is kept under another name."""

    def before(self, story, rng):
        story.make("letter.txt", noise(rng, 30000))

    def work(self, story, rng):
        for number in range(40):
            if number > 0:
                story.unlink("letter.txt~")
            story.link("letter.txt", "letter.txt~")
            story.create(".letter.txt.new")
            story.write(".letter.txt.new", 0, noise(rng, 30000 + 100 * number))
            story.chmod(".letter.txt.new", 0o600)
            story.sync(".letter.txt.new")
            story.rename(".letter.txt.new", "letter.txt")


class Appends(Told):
    """Two logs, synced after some lines."""

    def before(self, story, rng):
        story.create("access.log")
        story.create("error.log")

    def work(self, story, rng):
        sizes = {"access.log": 0, "error.log": 0}
        for number in range(240):
            name = rng.choice(list(sizes))
            line = f"{number} {rng.randbytes(rng.randrange(10, 400)).hex()}\n".encode()
            story.write(name, sizes[name], line)
            sizes[name] += len(line)
            if number % 3 == 0:
                story.sync(name, data_only=True)


class Renames(Told):
    """Directories that trade places, over and over, with what is in them."""

    def before(self, story, rng):
        self._folders = []
        for number in range(24):
            path = os.path.join(rng.choice([""] + self._folders[:6]), f"d{number}")
            story.mkdir(path)
            self._folders.append(path)
            for name in range(rng.randrange(6)):
                story.make(f"{path}/f{name}", noise(rng, rng.choice([5, 3000, 40000])))

    def work(self, story, rng):
        folders = self._folders
        for number in range(300):
            path, into = rng.choice(folders), rng.choice([""] + folders)
            to = os.path.join(into, f"r{number}")
            if into != path and not into.startswith(path + "/") and to.count("/") < 6:
                story.rename(path, to)
                folders[:] = [to + folder[len(path):] if folder == path or folder.startswith(path + "/") else folder for folder in folders]
            if number % 7 == 0:
                story.make(f"{rng.choice(folders)}/n{number}", noise(rng, 2000))
            if number % 15 == 14:
                story.sync(rng.choice(folders))


class Packages(Told):
    """Upgrades as dpkg does them: new files beside the old ones, synced, then renamed over them; then the list of what is installed."""

    def before(self, story, rng):
        for package in range(4):
            story.mkdir(f"p{package}")
            for number in range(10):
                story.make(f"p{package}/f{number}", noise(rng, rng.randrange(20000)))
        story.make("status", b"version 1\n" * 40)

    def work(self, story, rng):
        for package in range(4):
            files = [f"p{package}/f{number}" for number in range(2, 14)]
            for path in files:
                story.create(path + ".dpkg-new")
                story.write(path + ".dpkg-new", 0, noise(rng, rng.randrange(60000)))
            for path in files:
                story.sync(path + ".dpkg-new")
                replaced = int(path.rpartition("f")[2]) < 10
                if replaced:
                    story.link(path, path + ".dpkg-tmp")
                story.rename(path + ".dpkg-new", path)
                if replaced:
                    story.unlink(path + ".dpkg-tmp")
            for number in range(2):
                story.unlink(f"p{package}/f{number}")
            story.create("status-new")
            story.write("status-new", 0, f"version {package + 2}\n".encode() * 40)
            story.sync("status-new")
            story.rename("status-new", "status")


class Holes(Told):
    """Files that are cut, extended and punched."""

    def before(self, story, rng):
        for number in range(4):
            story.make(f"f{number}", noise(rng, 600_000))

    def work(self, story, rng):
        for number in range(160):
            path = f"f{rng.randrange(4)}"
            dice = rng.random()
            if dice < 0.3:
                story.truncate(path, rng.randrange(900_000))
            elif dice < 0.65:
                story.punch(path, rng.randrange(600_000), rng.randrange(1, 200_000))
            else:
                story.write(path, rng.randrange(600_000), rng.randbytes(rng.choice([100, 5000, 70_000])))
            if number % 8 == 7:
                story.sync(path)


class Removal(Told):
    """A tree goes, from the leaves up."""

    def before(self, story, rng):
        self._paths = []
        folders = [""]
        for number in range(300):
            path = os.path.join(rng.choice(folders), f"n{number}")
            folder = number % 12 == 0
            if folder:
                story.mkdir(path)
                folders.append(path)
            else:
                story.make(path, noise(rng, rng.choice([0, 700, 9000, 60000])))
            self._paths.append((path, folder))

    def work(self, story, rng):
        for number, (path, folder) in enumerate(reversed(self._paths)):
            (story.rmdir if folder else story.unlink)(path)
            if number % 30 == 29:
                story.sync()


class Tar:
    """tar(1): its archive's order is that in which it makes files."""

    def __init__(self, folder):
        rng = random.Random("tar")
        self._archives = []
        for number in range(2):
            path = os.path.join(folder, f"{number}.tar")
            members = []
            with tarfile.open(path, "w") as archive:
                for member in range(90):
                    name = f"t{number}/{member // 15}/{member}"
                    contents = noise(rng, rng.choice([0, 10, 4096, 5000, 30000, 150000]))
                    info = tarfile.TarInfo(name)
                    info.size, info.mode, info.mtime = len(contents), 0o644, 1_600_000_000
                    source = os.path.join(folder, "member")
                    with open(source, "wb") as file:
                        file.write(contents)
                    with open(source, "rb") as file:
                        archive.addfile(info, file)
                    members.append((name, contents))
            self._archives.append((path, members))

    def prepare(self, root):
        pass

    def run(self, root, mark):
        mark(0)
        for number, (path, _) in enumerate(self._archives):
            run("tar", "-xf", path, "-C", root)
            sync(root)
            mark(number + 1)

    def judge(self, root, found, facts):
        files = {path: what[2] for path, what in found.items() if what[0] == "file"}
        end = False
        for number, (_, members) in enumerate(self._archives):
            for name, contents in members:
                if files.get(name) == contents and not end:
                    del files[name]
                    continue
                if number < max(facts):
                    return f"lost: {name} of a synced archive"
                if name in files and not end and contents.startswith(files[name]):
                    del files[name]
                end = True
        return f"files that are wrong, or there though an earlier one is not: {list(files)[:5]}" if files else ""


class Rsync:
    """rsync(1), which writes beside the target and renames: no file is there in part but one under another name."""

    def __init__(self, folder):
        rng = random.Random("rsync")
        self._sources, self._versions = [], [{}, {}]
        for version in range(2):
            source = os.path.join(folder, f"v{version}")
            for number in range(100):
                name = f"{number // 12}/{number}"
                if version == 0 or number % 3 == 0:
                    contents = noise(rng, rng.choice([10, 4096, 20000, 120000]) + version)
                else:
                    contents = self._versions[0][name]
                os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
                with open(os.path.join(source, name), "wb") as file:
                    file.write(contents)
                os.utime(os.path.join(source, name), (1_600_000_000 + version, 1_600_000_000 + version))
                self._versions[version][name] = contents
            self._sources.append(source)

    def prepare(self, root):
        os.mkdir(os.path.join(root, "copy"))

    def run(self, root, mark):
        mark(0)
        for number, source in enumerate(self._sources):
            run("rsync", "-a", source + "/", os.path.join(root, "copy") + "/")
            sync(root)
            mark(number + 1)

    def judge(self, root, found, facts):
        files = {path.removeprefix("copy/"): what[2] for path, what in found.items() if what[0] == "file"}
        temporary = [path for path in files if re.fullmatch(r"\.\d+\.\w{6}", os.path.basename(path))]
        if len(temporary) > 1:
            return f"two files under way at once: {temporary}"
        synced = max(facts)
        for name in self._versions[0]:
            known = [version for version in range(2) if files.get(name) == self._versions[version][name]]
            if not known and name in files:
                return f"{name} is of no version"
            if max(known, default=-1) + 1 < synced:
                return f"lost: {name} of version {synced}"
        unknown = set(files) - set(self._versions[0]) - set(temporary)
        return f"files of nobody: {unknown}" if unknown else ""


class Copy:
    """cp -r, then rm -rf of the original."""

    def __init__(self, folder):
        rng = random.Random("copy")
        self._files = {f"{number // 10}/{number}": noise(rng, rng.choice([0, 500, 9000, 100_000])) for number in range(100)}

    def prepare(self, root):
        for name, contents in self._files.items():
            os.makedirs(os.path.dirname(os.path.join(root, "old", name)), exist_ok=True)
            with open(os.path.join(root, "old", name), "wb") as file:
                file.write(contents)

    def run(self, root, mark):
        mark(0)
        for number, command in enumerate([["cp", "-r", "old", "new"], ["rm", "-rf", "old"], ["mv", "new", "moved"]]):
            run(*command, cwd=root)
            sync(root)
            mark(number + 1)

    def judge(self, root, found, facts):
        synced = max(facts)
        files = {path: what[2] for path, what in found.items() if what[0] == "file"}
        old = {name.removeprefix("old/"): data for name, data in files.items() if name.startswith("old/")}
        moved = {name.removeprefix("moved/"): data for name, data in files.items() if name.startswith("moved/")}
        new = {name.removeprefix("new/"): data for name, data in files.items() if name.startswith("new/")}
        if len(old) + len(new) + len(moved) != len(files) or ("new" in found and "moved" in found):
            return "a tree under two names, or files of nobody"
        whole = "moved" in found or "old" not in found or len(old) < len(self._files)
        if synced >= 3 and "moved" not in found or synced >= 2 and "old" in found or synced >= 1 and not (new or moved):
            return f"lost: {synced} commands had been synced; there are {[name for name in ('old', 'new', 'moved') if name in found]}"
        if any(self._files.get(name) != data for name, data in old.items()) or whole and "moved" in found and old:
            return "the original has changed, or is there after the end"
        copy = new or moved
        other = [name for name, data in copy.items() if self._files.get(name) != data]
        if (whole or synced >= 1) and (other or len(copy) != len(self._files)):
            return f"the copy is not whole, though what comes after it was done: {other[:5]}, {len(copy)} files"
        if len(other) > 1:
            return f"more than one file is there in part: {other[:5]}"
        return ""


class Make:
    """make(1) of a small C project, a change, and make again: nothing but the last output is there in part."""

    PARTS = 6

    def __init__(self, folder):
        self._built = []  # the outputs of each build

    def _source(self, root, number, version):
        path = os.path.join(root, f"part{number}.c")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(f"#include <stdio.h>\nint part{number}(void) {{ return printf(\"part {number} version {version}\\n\"); }}\n")
        os.rename(path + ".new", path)

    def prepare(self, root):
        for number in range(self.PARTS):
            self._source(root, number, 1)
        calls = "".join(f"int part{number}(void);\n" for number in range(self.PARTS))
        sums = " + ".join(f"part{number}()" for number in range(self.PARTS))
        with open(os.path.join(root, "main.c"), "w", encoding="ascii") as file:
            file.write(f"{calls}int main(void) {{ return {sums} == 0; }}\n")
        objects = "main.o " + " ".join(f"part{number}.o" for number in range(self.PARTS))
        with open(os.path.join(root, "Makefile"), "w", encoding="ascii") as file:
            file.write(f"program: {objects}\n\tgcc -o $@ $^\n%.o: %.c\n\tgcc -c -o $@ $<\n")

    @staticmethod
    def _outputs(root):
        found = {}
        for name in os.listdir(root):
            if name.endswith(".o") or name == "program":
                with open(os.path.join(root, name), "rb") as file:
                    found[name] = file.read()
        return found

    def run(self, root, mark):
        mark(0)
        for version in range(1, 3):
            for number in range(self.PARTS if version > 1 else 0):
                self._source(root, number, version)
            run("make", "-s", cwd=root)
            sync(root)
            self._built.append(self._outputs(root))
            mark(version)

    def judge(self, root, found, facts):
        synced = max(facts)
        outputs = self._outputs(root)
        first, second = self._built
        for name, expected in (second if synced == 2 else {}).items():
            if outputs.get(name) != expected:
                return f"lost: {name} of the second build"
        other = [name for name in first if outputs.get(name) not in (first[name], second[name])]
        missing = [name for name in other if name not in outputs]
        if synced == 1 and len(other) > 1:
            return f"lost: {other} of the first build"
        if len(other) - len(missing) > 1:
            return f"more than one output is there in part: {other}"
        return ""


class Git:
    """Commits, branches, a collection of garbage, a clone. git's own check, and the commits that must be there."""

    def __init__(self, folder):
        self._commits = []

    def _git(self, root, *words):
        return run("git", "-C", os.path.join(root, "work"), "-c", "core.fsync=all", "-c", "gc.auto=0", "-c", "maintenance.auto=false", *words).strip()

    def _commit(self, root, rng):
        for _ in range(12):
            path = os.path.join(root, "work", f"{rng.randrange(4)}", f"{rng.randrange(30)}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(noise(rng, rng.randrange(20000)))
        self._git(root, "add", "-A")
        self._git(root, "commit", "-q", "-m", f"number {len(self._commits)}")
        self._commits.append(self._git(root, "rev-parse", "HEAD"))

    def prepare(self, root):
        self._rng = random.Random("git")
        run("git", "init", "-q", "-b", "main", os.path.join(root, "work"))
        self._commit(root, self._rng)

    def run(self, root, mark):
        def done():
            sync(root)
            mark((len(self._commits) - 1, step))

        step = 0  # 1: there is a clone
        done()
        for _ in range(3):
            self._commit(root, self._rng)
            done()
        self._git(root, "checkout", "-q", "-b", "side", "HEAD~2")
        self._git(root, "checkout", "-q", "main")
        self._git(root, "gc", "-q", "--prune=now")
        self._commit(root, self._rng)
        done()
        run("git", "clone", "-q", "--no-hardlinks", os.path.join(root, "work"), os.path.join(root, "clone"))
        step = 1
        self._commit(root, self._rng)
        done()

    def judge(self, root, found, facts):
        number, step = max(facts)
        head = self._git(root, "rev-parse", "main")
        if head not in self._commits:
            return f"main is at {head}, which is none of the commits"
        if self._commits.index(head) < number:
            return f"lost: main is at commit {self._commits.index(head)}, and {number} was synced"
        self._git(root, "fsck", "--full", "--strict", "--no-dangling")
        self._git(root, "log", "--stat", "main")
        if step == 1:
            if run("git", "-C", os.path.join(root, "clone"), "rev-parse", "main").strip() not in self._commits:
                return "lost: the clone"
            run("git", "-C", os.path.join(root, "clone"), "fsck", "--full")
            if run("git", "-C", os.path.join(root, "clone"), "status", "--porcelain"):
                return "lost: files of the clone"
        return ""


class Sqlite:
    """Transactions of three rows each, synchronous=FULL; subclasses say how."""

    JOURNAL, SYNCHRONOUS = "", "full"

    def __init__(self, folder):
        pass

    def _open(self, root):
        database = sqlite3.connect(os.path.join(root, "db"), isolation_level=None)
        database.execute(f"pragma synchronous = {self.SYNCHRONOUS}")
        database.execute("pragma wal_autocheckpoint = 30")
        return database

    def prepare(self, root):
        database = self._open(root)
        database.execute(f"pragma journal_mode = {self.JOURNAL}")
        database.execute("create table t (transaction_number integer, part integer, contents blob)")
        database.execute("create index i on t (contents)")
        database.close()

    def run(self, root, mark):
        rng = random.Random("sqlite")
        database = self._open(root)
        mark(0)
        for number in range(50):
            database.execute("begin")
            for part in range(3):
                database.execute("insert into t values (?, ?, ?)", (number, part, rng.randbytes(rng.randrange(3000))))
            database.execute("commit")
            mark(number + 1)
        database.close()

    def judge(self, root, found, facts):
        database = self._open(root)
        try:
            sound = database.execute("pragma integrity_check").fetchall()
            if sound != [("ok",)]:
                return f"integrity_check: {sound[:3]}"
            rows = database.execute("select transaction_number, part from t order by 1, 2").fetchall()
        finally:
            database.close()
        if rows != [(number, part) for number in range(len(rows) // 3) for part in range(3)]:
            return f"{len(rows)} rows, which are no transactions"
        return f"lost: {len(rows) // 3} transactions of {max(facts)}" if len(rows) // 3 < max(facts) else ""


class SqliteWal(Sqlite):
    JOURNAL = "wal"


class SqliteJournal(Sqlite):
    # "full" does not sync the removal of the journal, which is what commits; "extra" is "full" and does.
    JOURNAL, SYNCHRONOUS = "delete", "extra"


class Receive:
    """lsmfs receive of a whole stream, and of changes. The first part of each comes alone, and is kept. All is synced after some records."""

    TAKES_NAMES = False  # what is found there is received again, and then is nowhere

    def __init__(self, folder):
        source = harness.Volume(os.path.join(folder, "source"), 160 * harness.MiB, image=True)
        source.mount()
        self._sent = Sent(source)
        source.umount()
        source.wait_for_end()
        self._steps = [(kind, part) for kind in Sent.NAMES for part in (True, False)]

    def prepare(self, root):
        os.mkdir(os.path.join(root, "in"))

    def _data(self, kind, part):
        data = self._sent.data[kind]
        ends = transfers.ends_of_frames(data)
        return data[:ends[len(ends) // 2]] if part else data

    def run(self, root, mark):
        mark(0)
        for number, (kind, part) in enumerate(self._steps):
            data = self._data(kind, part)
            receiver, last = Fed(os.path.join(root, "in")), 0
            for end in transfers.ends_of_frames(data)[:-1:8]:
                receiver.give(data[last:end])
                last = end
                sync(root)
            code, _, said = receiver.end(data[last:])
            if code != (5 if part else 0):
                raise AssertionError(f"exit status {code}: {said}")
            mark(number + 1)

    def judge(self, root, found, facts):
        synced = max(facts)
        there = [kind for kind, name in Sent.NAMES.items() if name in os.listdir(os.path.join(root, ".snapshots"))]
        tokens = harness.call(harness.LSMFS, "receive", "-t", os.path.join(root, "in")).stdout.split()
        for number, (kind, part) in enumerate(self._steps[:synced]):
            if kind not in there and not part:
                return f"lost: the snapshot of {kind}"
            if kind not in there and max(map(transfers.records_of, tokens), default=-1) < len(transfers.ends_of_frames(self._data(kind, part))) - 1:
                return f"lost: the part that was kept of {kind}"
        if wrong := self._wrong(root, there):
            return wrong
        for kind in Sent.NAMES:
            receiver = Fed(os.path.join(root, "in"))
            code, _, said = receiver.end(self._sent.data[kind])
            if code != 0 and not (kind in there and "has been received already" in said):
                return f"{kind} is not received again: {said}"
        return self._wrong(root, Sent.NAMES) or ("a part is left" if os.listdir(os.path.join(root, "in")) else "")

    def _wrong(self, root, there):
        for kind in there:
            if wrong := inodes.difference(self._sent.trees[kind], inodes.tree(os.path.join(root, ".snapshots", Sent.NAMES[kind]))):
                return f"the snapshot of {kind}: {wrong}"
        return ""


PROGRAMS = [Unpack, Maildir, Editor, Appends, Renames, Packages, Holes, Removal, Tar, Rsync, Copy, Make, Git, SqliteWal, SqliteJournal, Receive]
