"""The same operations, in random order, on the file system under test and on ext4, compared after each.

A state machine (hypothesis) draws operations with their arguments and who does them. Each is done on both sides. What
it returns or fails with, what then is in the tree, every attribute and all that is inside of what was touched have to
be the same; at the end of an example the whole tree, also as it is without the kernel's caches.

LSMFS_LONG=1: ten times 100 examples of 200 steps instead of 100 of 50. LSMFS_SEED=N: those of an earlier run, which
prints its seed. LSMFS_SHRINK=1: makes an example that fails as short as it can. LSMFS_TEST_FS=ext4: ext4 against itself.

Not compared, since the difference is documented (docs/limits.md) or cannot be avoided:

- st_size of directories, st_blocks and the place of holes: what they count is a file system's own. That SEEK_DATA
  leads to everything that is not zeros is checked on each side by itself.
- Access times by reading: the kernel answers reads from its caches without asking the daemon, so that only the first
  is noticed. Both sides are mounted with noatime; access times that are set are compared.
- The order of listings, and offsets in directories but as places to return to, as long as the directory has not been
  removed: ext4 has forgotten then that its places are hashes, and says EINVAL.
- The time of change when an extended attribute is set to the value that it has, of more than 256 bytes or on a file with
  more than 1000 of them: both file systems leave it alone for those that they keep with the inode, which differ.
- chown(-1, -1) of a file with set-user-id or set-group-id bits by somebody who does not own it, or that also has a
  capability: the daemon sees what it would see before a write, and leaves the bits as they are. ext4 says EPERM to the
  former and takes the bits away in the latter case.
- Hard links to a file that a write has just taken set-user-id bits from: its mode is asked for before each link.
- RENAME_WHITEOUT onto a directory that is not empty: ext4 fails, but changes the times of the source's directory.
- open(2), access(2), fcntl(2) and mmap(2) of what is immutable or may only be appended to: the kernel looks at the flags of a native file
  system's inode; a daemon is not asked. What is then done with it is compared.
- Which error it is when something is refused because of such a flag and for another reason as well: the kernel finds
  the other reason before it asks the daemon. Nor does it ask when nothing would be done: no bytes written or copied, the
  default access control list of a file, which has none, removed.
- Append-only files that have capabilities: the kernel has these removed before a write or a truncation, of which it does
  not know that the latter will be refused.
- Writing through descriptors opened before a file became append-only, or through mappings from before it became
  immutable: lsmfs does not let bytes into them, ext4 does.
- Files beyond 8 TiB and times outside of 1901 to 2446: ext4 has no larger ones.
- Direct I/O that is not aligned to blocks, which ext4 refuses and FUSE does not.
- Data written to FIFOs: the kernel does not tell a daemon, so that their times stay.
- sendfile(2) from a file to itself where it overlaps: undefined.
- fallocate(2) with FALLOC_FL_COLLAPSE_RANGE or FALLOC_FL_INSERT_RANGE: the kernel does not pass them on to FUSE.

With LSMFS_MOUNT_OPTIONS=writeback there are also left out:

- When regular files were last changed: the kernel keeps these times by rules of its own.
- Writing to what is immutable or may only be appended to: the daemon refuses the pages, and the writer hears of it from fsync(2) or close(2).
- Holes: all of a file is data, as the daemon does not see what has been written. Thus no files of gigabytes either.
"""

import collections
import contextlib
import fcntl
import functools
import inspect
import operator
import os
import random
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "integration"))

import harness  # noqa: E402
from harness import SEED  # noqa: E402
import hypothesis  # noqa: E402
from hypothesis import settings, strategies as st  # noqa: E402
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test  # noqa: E402

import calls  # noqa: E402
import operations  # noqa: E402
from facts import Clock  # noqa: E402
from side import Person, Side  # noqa: E402

LONG = os.environ.get("LSMFS_LONG") == "1"
WRITEBACK = "writeback" in harness.MOUNT_OPTIONS.split(",")
EXAMPLES = 100
ROUNDS, STEPS = (10, 200) if LONG else (1, 50)  # rounds, since hypothesis keeps all examples of one in memory
SHRINK = os.environ.get("LSMFS_SHRINK") == "1"
CLONES = harness.FS != "lsmfs" or harness.call(harness.LSMFS, "clone", "--help").returncode == 0

ALICE, BOB, SHARED_GROUP = 1001, 1002, 3000
KiB, MiB, GiB, TiB = (1 << shift for shift in (10, 20, 30, 40))

# ---- what operations are drawn from; what is simplest comes first

ROOT = Person("root", 0, 0, [0], 0o022)
WHO = st.sampled_from([
    ROOT, ROOT, ROOT, ROOT, ROOT._replace(umask=0), ROOT._replace(umask=0o027),
    Person("alice", ALICE, ALICE, [ALICE, SHARED_GROUP], 0o022), Person("alice", ALICE, ALICE, [ALICE, SHARED_GROUP], 0o002),
    Person("alice", ALICE, SHARED_GROUP, [], 0), Person("bob", BOB, BOB, [BOB, SHARED_GROUP], 0o077)])
ALWAYS_ROOT = st.just(ROOT)

NAMES = st.sampled_from([b"a", b"b", b"c", b"d", b"sub", b"\xff\xfe\x01", "\u00e9 \n".encode(), b"n" * 255, b"n" * 256])
ODD_PATHS = [b"", b".", b"..", b"a/", b"sub/", b"a/.", b"sub/..", b"./b", b"sub//a", b"missing/a", b"a/b/c", b"x/" * 2100]
TARGETS = st.sampled_from([b"a", b"b", b"sub", b"c/a", b"sub/a", b"../a", b".", b"..", b"sub/", b"missing/x", b"t" * 4095, b"t" * 4096, b""])


class Patterns:
    """Bytes to write: any that do not repeat, and zeros."""

    POOL = random.Random(0).randbytes(1 << 19)

    @classmethod
    def data(cls, start, size):
        return bytes(size) if start == 0 else cls.POOL[start * 997:start * 997 + size]


SIZES = st.sampled_from([1, 0, 10, 511, 4095, 4096, 4097, 8192, 10000, 65536, 140000])
OFFSETS = st.sampled_from([0, 1, 100, 4095, 4096, 4097, 8192, 12000, 65536, 200000, 1 * MiB + 5, -1] + ([] if WRITEBACK else [5 * GiB + 1, 4 * TiB]))
SHORTER_LENGTHS = st.sampled_from([4096, 1, 0, 100, 4095, 4097, 8192, 20000, 65536, 1 * MiB])
LENGTHS = SHORTER_LENGTHS if WRITEBACK else st.one_of(SHORTER_LENGTHS, SHORTER_LENGTHS, st.just(6 * GiB))
DATA = st.builds(Patterns.data, st.integers(0, 255), SIZES)
BLOCK_NUMBERS = st.sampled_from([0, 1, 2, 3, 16, 40])
BLOCK_COUNTS = st.sampled_from([1, 2, 5, 33])
MODES = st.sampled_from([0o644, 0o755, 0o777, 0o600, 0o000, 0o666, 0o4755, 0o2755, 0o6777, 0o2644, 0o1777, 0o2775, 0o444, 0o070, 0o007])
IDS = st.sampled_from([-1, 0, ALICE, BOB, SHARED_GROUP, 70000])
SECOND = 10**9
TIMES = st.sampled_from(["now", "omit", 0, 1, 123456789 * SECOND + 987654321, -1, -(2**31) * SECOND, -86400 * SECOND + 5, 2**31 * SECOND + 1,
                         2**32 * SECOND + 999999999, 15032385535 * SECOND])
TIME_PAIRS = st.one_of(st.tuples(TIMES, TIMES), st.none())


def together(*words):
    return functools.reduce(operator.or_, words)


OPEN_FLAGS = st.builds(
    together, st.sampled_from([os.O_RDWR, os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_RDWR]),
    st.sampled_from([0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_CREAT | os.O_TRUNC, os.O_TRUNC, os.O_APPEND, os.O_CREAT | os.O_APPEND]),
    st.sampled_from([0, 0, 0, os.O_DIRECT, os.O_SYNC, os.O_DSYNC, os.O_NOFOLLOW, os.O_DIRECTORY, os.O_PATH, os.O_NOATIME]))
CAPABILITY = 0x02000000.to_bytes(4, "little") + b"\x02" + bytes(15)
XATTRS = st.sampled_from([b"user.a", b"user.a", b"user.b", b"user.c", b"trusted.a", b"trusted.a", b"security.a", b"user." + b"x" * 250, b"trusted.\xff b"])
ODD_XATTRS = st.sampled_from([b"user.", b"user." + b"x" * 251, b"security.capability", b"odd.a", b"nodot", b""])
ANY_XATTRS = st.one_of(XATTRS, XATTRS, XATTRS, XATTRS, ODD_XATTRS)
XATTR_VALUES = st.builds(Patterns.data, st.integers(0, 3), st.sampled_from([5, 0, 1, 256, 257, 1000, 4000]))
XATTR_FLAGS = st.sampled_from([0, os.XATTR_CREATE, os.XATTR_REPLACE, os.XATTR_CREATE | os.XATTR_REPLACE])
# No number of a device that exists, but null and zero.
DEVICES = st.sampled_from([(stat.S_IFCHR, os.makedev(1, 3)), (stat.S_IFCHR, os.makedev(1, 5)), (stat.S_IFCHR, 0), (stat.S_IFBLK, os.makedev(125, 7)),
                           (stat.S_IFBLK, os.makedev(4095, 1048575)), (stat.S_IFCHR, os.makedev(300, 256)), (stat.S_IFBLK, 0)])
ROOMS = st.sampled_from([300, 700, 4096])


def acl(*entries):
    """The kernel's form of an access control list of (tag, permissions, id)."""
    return (2).to_bytes(4, "little") + b"".join(
        tag.to_bytes(2, "little") + permissions.to_bytes(2, "little") + (number & 0xffffffff).to_bytes(4, "little")
        for tag, permissions, number in entries)


_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
ACL_NAMES = st.sampled_from([b"system.posix_acl_access", b"system.posix_acl_default"])
ACL_VALUES = st.sampled_from([
    acl((_USER_OBJ, 7, -1), (_GROUP_OBJ, 5, -1), (_OTHER, 5, -1)),
    acl((_USER_OBJ, 6, -1), (_USER, 6, ALICE), (_GROUP_OBJ, 4, -1), (_MASK, 6, -1), (_OTHER, 0, -1)),
    acl((_USER_OBJ, 7, -1), (_USER, 0, BOB), (_GROUP_OBJ, 5, -1), (_GROUP, 7, SHARED_GROUP), (_MASK, 7, -1), (_OTHER, 5, -1)),
    acl((_USER_OBJ, 6, -1), (_USER, 7, ALICE), (_GROUP_OBJ, 7, -1), (_MASK, 1, -1), (_OTHER, 4, -1)),
    acl((_USER_OBJ, 7, -1), (_USER, 7, ALICE), (_GROUP_OBJ, 5, -1), (_OTHER, 5, -1)),  # no mask
    acl((_USER_OBJ, 7, -1), (_GROUP_OBJ, 5, -1)), acl(), b"", b"\1\0\0\0", b"rubbish"])
FLAG_SETS = st.sampled_from([0, calls.FLAG_IMMUTABLE, calls.FLAG_APPEND, calls.FLAG_NODUMP, calls.FLAG_NOATIME,
                             calls.FLAG_NODUMP | calls.FLAG_NOATIME])


def chosen(candidates):
    """One of what the machine has at this moment. Its rules have to hold back while there is nothing."""

    # No lambda here and below: hypothesis looks up the source of each, again and again, which takes most of the time.
    def choose(machine):
        return st.sampled_from(candidates(machine))

    return st.runner().flatmap(choose)


EXISTING = chosen(operator.attrgetter("paths"))
FOLDERS = chosen(operator.attrgetter("folders"))
NEW = st.builds(os.path.join, FOLDERS, NAMES)
LIKELY = st.one_of(EXISTING, EXISTING, EXISTING, EXISTING, EXISTING, EXISTING, NEW, st.sampled_from(ODD_PATHS))
NEW_PATHS = st.one_of(NEW, NEW, NEW, NEW, NEW, NEW, EXISTING, st.sampled_from(ODD_PATHS))
FILES = chosen(operator.methodcaller("some_files"))
FILE_PATHS = st.one_of(FILES, FILES, FILES, LIKELY)
FOLDER_PATHS = st.one_of(FOLDERS, LIKELY)
LINKS = chosen(operator.methodcaller("some_links"))
TAGGED = chosen(operator.methodcaller("tagged_paths"))  # (path, name of an attribute that it has or had)
HANDLES = chosen(operator.methodcaller("all_handles"))
DATA_HANDLES = chosen(operator.methodcaller("data_handles"))
FOLDER_HANDLES = chosen(operator.methodcaller("folder_handles"))
WALKS = chosen(operator.methodcaller("all_walks"))

Handle = collections.namedtuple("Handle", "direct folder fifo")
HANDLES_MAX, WALKS_MAX = 8, 3


class Difference(AssertionError):
    """The two sides do not do the same."""


def short(value):
    text = repr(value)
    return text if len(text) < 90 else f"{text[:50]}...{text[-12:]} ({len(value) if hasattr(value, '__len__') else 'long'})"


with_handles = precondition(operator.methodcaller("all_handles"))
with_data_handles = precondition(operator.methodcaller("data_handles"))
with_folder_handles = precondition(operator.methodcaller("folder_handles"))
with_room_for_handles = precondition(operator.methodcaller("has_room_for_handles"))
with_walks = precondition(operator.methodcaller("all_walks"))
with_room_for_walks = precondition(operator.methodcaller("has_room_for_walks"))
with_clones = precondition(operator.methodcaller("knows_clones"))
now_and_then = precondition(operator.methodcaller("is_a_sixteenth_step"))


class Machine(RuleBasedStateMachine):
    examples = 0
    reported = False
    counts = collections.Counter()  # of (operation, "ok" or the errno's name)

    def __init__(self, sides, seed):
        """`sides`: the one under test, and the one that is right."""
        super().__init__()
        self.sides = sides
        self.seed = seed
        self.log = []
        self.failed = False
        self.clock = Clock()
        self.handles = {}
        self.walks = {}  # number: (names there throughout, names there at times)
        self.next_number = 10
        self.paths = self.folders = [b"."]
        self.files, self.links = [], []
        self.tagged = []
        self.patient = False
        self.froze = False  # something is or was immutable or append-only
        Machine.examples += 1
        for side in sides:
            side.begin(Machine.examples, self.clock)

    # ---- the comparison

    def both(self, who, operation, *arguments, touched=()):
        """Does an operation on both sides. True when it succeeded. `touched`: paths whose insides may have changed."""
        self.clock.wait()
        self.log.append(f"{who.name}/{who.umask:03o} {operation}({', '.join(map(short, arguments))})")
        outcomes = [side.perform(who, operation, arguments) for side in self.sides]
        self.clock.step_ends()
        self.log[-1] += f" -> {short(outcomes[1])}"
        if outcomes[0] != outcomes[1] and not self.frozen_otherwise(arguments, *outcomes):
            self.fail([f"{side.name}: {short(outcome)}" for side, outcome in zip(self.sides, outcomes)])
        self.look(touched)
        Machine.counts[operation, outcomes[0][1] if outcomes[0][0] == "error" else "ok"] += 1
        return outcomes[0][0] == "ok"

    def frozen_otherwise(self, arguments, outcome, right):
        """What the docstring says of flags: the kernel has answered without the daemon."""
        answered = outcome[0] == "error" or outcome == ("ok", 0) or b"system.posix_acl_default" in arguments
        return harness.FS == "lsmfs" and self.froze and answered and right == ("error", "EPERM")

    def look(self, touched):
        with self.telling():
            self.look_and_compare(touched)

    @contextlib.contextmanager
    def telling(self):
        """What goes wrong with looking is told like a difference."""
        try:
            yield
        except Difference:
            raise
        except (AssertionError, OSError) as error:
            self.fail([f"{type(error).__name__}: {error}"])

    def look_and_compare(self, touched):
        right = self.sides[1].facts.tree(self.sides[1])
        if not self.patient:
            self.compare(self.sides[0].facts.tree(self.sides[0]), right)
            for path in touched:
                self.compare(*[{path: self.inside(side, path)} for side in self.sides])
        self.remember(right)

    @staticmethod
    def inside(side, what):
        """Of a path or a handle."""
        reach = side.at(what) if isinstance(what, bytes) else b"/proc/self/fd/%d" % side.files[what]
        try:
            found = os.stat(reach)
        except OSError:
            return None
        facts = side.facts.inside(reach, found) if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) else {}
        if isinstance(what, bytes) and os.path.islink(reach):
            facts["of the link"] = side.facts.xattrs(reach)
        return facts

    def compare(self, left, right):
        if left == right:
            return
        lines = []
        for path in sorted(left.keys() | right.keys(), key=str):
            one, other = left.get(path), right.get(path)
            if one is None or other is None:
                if one != other:
                    lines.append(f"{path!r}: {self.sides[0 if other is None else 1].name} only")
                continue
            for name in one.keys() | other.keys():
                if one.get(name) != other.get(name):
                    lines.append(f"{path!r}: {name}: {self.sides[0].name}: {short(one.get(name))}, {self.sides[1].name}: {short(other.get(name))}")
        self.fail(lines)

    def fail(self, lines):
        self.failed = True
        story = "\n".join([f"{number:4} {line}" for number, line in enumerate(self.log)] + ["differs: " + line for line in lines])
        if not Machine.reported:
            Machine.reported = True
            print(f"seed {self.seed}, example {Machine.examples}:\n{story}", file=sys.stderr, flush=True)
        raise Difference("\n" + story)

    def remember(self, tree):
        """What there is now, for the next operations to be drawn from."""
        inner = os.path.join(*map(os.fsencode, Side.INNER)) + b"/"
        inside = {path[len(inner):]: facts for path, facts in tree.items() if isinstance(path, bytes) and path.startswith(inner)}
        names = sorted(inside, key=lambda path: (len(path), path))
        self.paths = names[:200] or [b"."]
        self.files = [path for path in self.paths if path in inside and stat.S_ISREG(inside[path]["type"])]
        self.links = [path for path in self.paths if path in inside and stat.S_ISLNK(inside[path]["type"])]
        self.folders = [b"."] + [path for path in self.paths if path in inside and stat.S_ISDIR(inside[path]["type"]) and path.count(b"/") < 4]
        for number, (throughout, at_times) in self.walks.items():
            now = set(os.listdir(b"/proc/self/fd/%d" % self.sides[1].walks[number].fd))
            throughout &= now
            at_times |= now

    # What rules are drawn from, and whether they can be.

    def some_links(self):
        return self.links or self.paths

    def tagged_paths(self):
        return self.tagged[-12:] or [(path, b"user.a") for path in self.paths]

    def some_files(self):
        return self.files or self.paths

    def all_handles(self):
        return list(self.handles)

    def data_handles(self):
        return [number for number, handle in self.handles.items() if not handle.folder and not handle.fifo]

    def folder_handles(self):
        return [number for number, handle in self.handles.items() if handle.folder]

    def has_room_for_handles(self):
        return len(self.handles) < HANDLES_MAX

    def all_walks(self):
        return list(self.walks)

    def has_room_for_walks(self):
        return len(self.walks) < WALKS_MAX

    def knows_clones(self):
        return CLONES

    def is_a_sixteenth_step(self):
        return len(self.log) % 16 == 15

    def opened(self, number):
        kind = os.fstat(self.sides[1].files[number]).st_mode
        flags = fcntl.fcntl(self.sides[1].files[number], fcntl.F_GETFL)
        self.handles[number] = Handle(bool(flags & os.O_DIRECT), stat.S_ISDIR(kind), stat.S_ISFIFO(kind))
        self.next_number += 1

    def teardown(self):
        try:
            if not self.failed:
                self.check_end()
        finally:
            for side in self.sides:
                side.end()

    def check_end(self):
        self.log.append("the end")
        with self.telling():
            for direct in (False, True):
                self.compare(*[side.facts.tree(side, deep=True, direct=direct) for side in self.sides])
            for side in self.sides:
                side.facts.check_with_file_system(side)

    # ---- names

    @initialize(start=st.sampled_from([0, 1, 2, 3, 3, 3]), patient=st.sampled_from([False, False, False, True]))
    def begin(self, start, patient):
        """`patient`: looks at what is under test at the end only, so that looking leaves nothing in its caches."""
        self.log.append(f"begin({start}, {patient})")
        self.patient = patient
        if start >= 1:
            self.both(ROOT, "mkdir", b"sub", 0o777)
            self.both(ROOT, "open_file", 0, b"sub/a", os.O_CREAT | os.O_RDWR, 0o666)
            self.both(ROOT, "write", 0, Patterns.data(1, 10000), touched=[0])
            self.opened(0)
        if start >= 2:
            self.both(ROOT, "mkdir", b"sub/sub", 0o777)
            self.both(ROOT, "chmod", b"sub/sub", 0o1777)
            self.both(ROOT, "symlink", b"sub/a", b"b")
            self.both(ROOT, "link", b"sub/a", b"sub/sub/a", False)
            self.both(ROOT, "symlink", b"sub", b"c")
        if start >= 3:
            self.both(ROOT, "mkdir", b"d", 0o777)
            self.both(ROOT, "chown", b"d", -1, SHARED_GROUP, True)
            self.both(ROOT, "chmod", b"d", 0o2777)
            self.both(ROOT, "chmod", b"sub/a", 0o6777)
            self.both(ROOT, "chown", b"sub/a", ALICE, SHARED_GROUP, True)
            self.both(ROOT, "chmod", b"sub/a", 0o6777)
            self.both(ROOT, "setxattr", b"sub/a", b"user.a", b"value", 0, True)
            self.tagged.append((b"sub/a", b"user.a"))
            self.both(ROOT, "open_file", 1, b"d", os.O_RDONLY, 0)
            self.opened(1)
            self.both(ROOT, "open_file", 2, b"d", os.O_TMPFILE | os.O_RDWR, 0o600)
            self.opened(2)

    @rule(who=WHO, path=NEW_PATHS, mode=MODES)
    def mkdir(self, who, path, mode):
        self.both(who, "mkdir", path, mode)

    @rule(who=WHO, path=FOLDER_PATHS)
    def rmdir(self, who, path):
        self.both(who, "rmdir", path)

    @rule(who=WHO, path=LIKELY)
    def unlink(self, who, path):
        self.both(who, "unlink", path)

    @rule(who=WHO, old=FILE_PATHS, new=NEW_PATHS, follow=st.booleans())
    def link(self, who, old, new, follow):
        self.both(who, "link", old, new, follow, touched=[new])

    @rule(who=WHO, leads_to=TARGETS, path=NEW_PATHS)
    def symlink(self, who, leads_to, path):
        self.both(who, "symlink", leads_to, path)

    @rule(who=WHO, old=LIKELY, new=NEW_PATHS)
    def rename(self, who, old, new):
        self.both(who, "rename", old, new, 0, touched=[old, new])

    @rule(who=WHO, old=EXISTING, new=LIKELY)
    def rename_onto(self, who, old, new):
        self.both(who, "rename", old, new, 0, touched=[old, new])

    @rule(who=WHO, old=LIKELY, new=NEW_PATHS)
    def rename_noreplace(self, who, old, new):
        self.both(who, "rename", old, new, calls.RENAME_NOREPLACE, touched=[old, new])

    @rule(who=WHO, old=LIKELY, new=LIKELY)
    def rename_exchange(self, who, old, new):
        self.both(who, "rename", old, new, calls.RENAME_EXCHANGE, touched=[old, new])

    @rule(who=WHO, old=LIKELY, new=NEW_PATHS, flags=st.sampled_from([4, 4, 4, 4, 5, 6, 3, 8]))
    def rename_whiteout(self, who, old, new, flags):
        target = self.sides[1].at(new)
        if not (os.path.isdir(target) and os.listdir(target)):
            self.both(who, "rename", old, new, flags, touched=[old, new])

    @with_clones
    @rule(old=FOLDERS, new=NEW)
    def clone(self, old, new):
        if len(self.paths) < 60:  # it must not double again and again
            self.both(ROOT, "clone", old, new, touched=[new])

    @rule(who=WHO, path=NEW_PATHS, kind=st.sampled_from([stat.S_IFIFO, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFSOCK, stat.S_IFREG, 0, stat.S_IFDIR]), mode=MODES)
    def mknod(self, who, path, kind, mode):
        self.both(who, "mknod", path, kind | mode, 0)

    @rule(who=WHO, path=NEW_PATHS, device=DEVICES, mode=MODES)
    def mknod_device(self, who, path, device, mode):
        self.both(who, "mknod", path, device[0] | mode, device[1])

    @with_folder_handles
    @rule(who=WHO, handle=FOLDER_HANDLES, name=NAMES, what=st.sampled_from(["mkdir_at", "create_at", "symlink_at"]))
    def make_at(self, who, handle, name, what):
        if what != "create_at" or not self.is_frozen(os.path.join(b"/proc/self/fd/%d" % self.sides[1].files[handle], name)):
            self.both(who, what, handle, name)

    @with_folder_handles
    @rule(who=WHO, handle=FOLDER_HANDLES, name=NAMES, directory=st.booleans())
    def remove_at(self, who, handle, name, directory):
        self.both(who, "unlink_at", handle, name, directory)

    @with_folder_handles
    @rule(who=WHO, handle=FOLDER_HANDLES, name=NAMES, other=FOLDER_HANDLES, new=NAMES)
    def rename_at(self, who, handle, name, other, new):
        self.both(who, "rename_at", handle, name, other, new)

    # ---- attributes

    @staticmethod
    def looks_like_a_write(who, target, uid, gid):
        try:
            facts = os.stat(target)
            capable = "security.capability" in os.listxattr(target)
        except (OSError, ValueError):
            return False
        return uid == gid == -1 and facts.st_mode & 0o6000 != 0 and (capable or who.uid not in (0, facts.st_uid))

    @rule(who=WHO, path=LIKELY, what=st.sampled_from([("status", True), ("status", False), ("listxattr", True), ("listxattr", False), ("entries",), ("statvfs",)]))
    def ask(self, who, path, what):
        self.both(who, what[0], path, *what[1:])

    @rule(who=WHO, path=st.one_of(LINKS, LINKS, LIKELY))
    def readlink(self, who, path):
        self.both(who, "readlink", path)

    @rule(who=WHO, path=LIKELY, mode=MODES)
    def chmod(self, who, path, mode):
        self.both(who, "chmod", path, mode)

    @with_handles
    @rule(who=WHO, handle=HANDLES, mode=MODES)
    def fchmod(self, who, handle, mode):
        self.both(who, "fchmod", handle, mode)

    @rule(who=WHO, path=LIKELY, uid=IDS, gid=IDS, follow=st.sampled_from([True, True, False]))
    def chown(self, who, path, uid, gid, follow):
        if not self.looks_like_a_write(who, self.sides[1].at(path), uid, gid):
            self.both(who, "chown", path, uid, gid, follow, touched=[path])

    @with_handles
    @rule(who=WHO, handle=HANDLES, uid=IDS, gid=IDS)
    def fchown(self, who, handle, uid, gid):
        if not self.looks_like_a_write(who, self.sides[1].files[handle], uid, gid):
            self.both(who, "fchown", handle, uid, gid)

    @rule(who=WHO, path=LIKELY, times=TIME_PAIRS, follow=st.booleans())
    def utimens(self, who, path, times, follow):
        self.both(who, "utimens", path, times, follow)

    @with_handles
    @rule(who=WHO, handle=HANDLES, times=TIME_PAIRS)
    def futimens(self, who, handle, times):
        self.both(who, "futimens", handle, times)

    @rule(who=WHO, path=LIKELY, mode=st.integers(0, 8), effective=st.booleans())
    def access(self, who, path, mode, effective):
        if not self.is_frozen(self.sides[1].at(path)):
            self.both(who, "access", path, mode, effective)

    @rule(who=WHO, path=FILE_PATHS, size=OFFSETS)
    def truncate(self, who, path, size):
        self.both(who, "truncate", path, size, touched=[path])

    # ---- extended attributes

    @staticmethod
    def sets_a_large_one_again(target, name, value, follow=True):
        try:
            names = os.listxattr(target, follow_symlinks=follow)
            sizes = [len(os.getxattr(target, other, follow_symlinks=follow)) for other in names]
            return os.getxattr(target, name, follow_symlinks=follow) == value and (len(value) > 256 or sum(sizes) > 1000)
        except (OSError, ValueError):
            return False

    @rule(who=WHO, path=FILE_PATHS, name=ANY_XATTRS, value=XATTR_VALUES, flags=XATTR_FLAGS, follow=st.sampled_from([True, True, False]))
    def setxattr(self, who, path, name, value, flags, follow):
        if not self.sets_a_large_one_again(self.sides[1].at(path), name, value, follow):
            if self.both(who, "setxattr", path, name, value, flags, follow, touched=[path]):
                self.tagged.append((path, name))

    @rule(who=WHO, tagged=TAGGED, value=XATTR_VALUES, flags=XATTR_FLAGS)
    def setxattr_again(self, who, tagged, value, flags):
        if not self.sets_a_large_one_again(self.sides[1].at(tagged[0]), tagged[1], value):
            self.both(who, "setxattr", *tagged, value, flags, True, touched=[tagged[0]])

    @with_handles
    @rule(who=WHO, handle=HANDLES, name=XATTRS, value=XATTR_VALUES, flags=XATTR_FLAGS)
    def fsetxattr(self, who, handle, name, value, flags):
        if not self.sets_a_large_one_again(self.sides[1].files[handle], name, value):
            self.both(who, "fsetxattr", handle, name, value, flags, touched=[handle])

    @rule(path=FILE_PATHS)
    def set_capability(self, path):
        if self.both(ROOT, "setxattr", path, b"security.capability", CAPABILITY, 0, True, touched=[path]):
            self.tagged.append((path, b"security.capability"))

    @rule(who=WHO, path=LIKELY, name=ANY_XATTRS, follow=st.booleans())
    def getxattr(self, who, path, name, follow):
        self.both(who, "getxattr", path, name, follow)

    @rule(who=WHO, tagged=TAGGED, room=st.sampled_from([None, 0, 1, 5, 256, 65536]))
    def getxattr_there(self, who, tagged, room):
        if room is None:
            self.both(who, "getxattr", *tagged, True)
        else:
            self.both(who, "getxattr_into", *tagged, room)

    @rule(who=WHO, path=LIKELY, name=ANY_XATTRS, follow=st.booleans())
    def removexattr(self, who, path, name, follow):
        self.both(who, "removexattr", path, name, follow, touched=[path])

    @rule(who=WHO, tagged=TAGGED)
    def removexattr_there(self, who, tagged):
        self.both(who, "removexattr", *tagged, True, touched=[tagged[0]])

    @with_handles
    @rule(who=WHO, handle=HANDLES, name=st.sampled_from([b"user.a", b"user.a", b"trusted.a", b"user.b"]))
    def fremovexattr(self, who, handle, name):
        self.both(who, "fremovexattr", handle, name, touched=[handle])

    @rule(who=WHO, path=LIKELY, name=ACL_NAMES, value=ACL_VALUES)
    def set_acl(self, who, path, name, value):
        self.both(who, "setxattr", path, name, value, 0, True, touched=[path])

    @rule(who=WHO, path=LIKELY, name=ACL_NAMES)
    def get_acl(self, who, path, name):
        self.both(who, "getxattr", path, name, True)

    @rule(who=WHO, path=LIKELY, name=ACL_NAMES)
    def remove_acl(self, who, path, name):
        self.both(who, "removexattr", path, name, True, touched=[path])

    # ---- inode flags

    @rule(who=WHO, path=EXISTING, flags=FLAG_SETS)
    def set_flags(self, who, path, flags):
        if flags & calls.FLAG_APPEND and self.has_capability(path):
            return
        if self.both(who, "set_flags", path, flags, touched=[path]) and flags & (calls.FLAG_IMMUTABLE | calls.FLAG_APPEND):
            self.froze = True

    @rule(who=WHO, path=EXISTING)
    def get_flags(self, who, path):
        self.both(who, "get_flags", path)

    def has_capability(self, path):
        try:
            return harness.FS == "lsmfs" and "security.capability" in os.listxattr(self.sides[1].at(path))
        except (OSError, ValueError):
            return False

    def is_frozen(self, target, by=calls.FLAG_IMMUTABLE | calls.FLAG_APPEND):
        if harness.FS != "lsmfs":
            return False
        try:
            found = os.stat(target).st_mode
        except (OSError, ValueError):
            return False
        if not stat.S_ISREG(found) and not stat.S_ISDIR(found):
            return False
        path = target if isinstance(target, bytes) else b"/proc/self/fd/%d" % target
        return self.sides[1].facts.flags(path) & by != 0

    def writes_into_what_is_frozen(self, handle):
        """Of what only grows, perhaps elsewhere than at the end. With the writeback cache, anything: the kernel asks later."""
        fd = self.sides[1].files[handle]
        if WRITEBACK:
            return self.is_frozen(fd)
        return not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND and self.is_frozen(fd, calls.FLAG_APPEND)

    # ---- open files

    @with_room_for_handles
    @rule(who=WHO, path=FILE_PATHS, flags=OPEN_FLAGS, mode=MODES)
    def open(self, who, path, flags, mode):
        if not self.is_frozen(self.sides[1].at(path)) and self.both(who, "open_file", self.next_number, path, flags, mode, touched=[path]):
            self.opened(self.next_number)

    @with_room_for_handles
    @rule(who=WHO, path=NEW_PATHS, mode=MODES)
    def create(self, who, path, mode):
        if self.both(who, "open_file", self.next_number, path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode):
            self.opened(self.next_number)

    @with_room_for_handles
    @rule(who=WHO, path=FOLDERS, mode=MODES, more=st.sampled_from([0, os.O_EXCL]))
    def create_unnamed(self, who, path, mode, more):
        if self.both(who, "open_file", self.next_number, path, os.O_TMPFILE | os.O_RDWR | more, mode):
            self.opened(self.next_number)

    @with_room_for_handles
    @rule(who=WHO, path=FOLDERS)
    def open_folder(self, who, path):
        if self.both(who, "open_file", self.next_number, path, os.O_RDONLY | os.O_DIRECTORY, 0):
            self.opened(self.next_number)

    @with_room_for_handles
    @with_handles
    @rule(who=ALWAYS_ROOT, handle=HANDLES, flags=st.sampled_from([os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND]))
    def open_again(self, who, handle, flags):
        if not self.is_frozen(self.sides[1].files[handle]) and self.both(who, "open_again", self.next_number, handle, flags):
            self.opened(self.next_number)

    @with_handles
    @rule(handle=HANDLES)
    def close(self, handle):
        self.both(ROOT, "close", handle)
        del self.handles[handle]

    @with_handles
    @rule(who=WHO, handle=HANDLES, path=NEW_PATHS, how=st.sampled_from(["link_open_file", "link_by_descriptor"]))
    def link_handle(self, who, handle, path, how):
        self.both(who, how, handle, path, touched=[path])

    @with_data_handles
    @rule(handle=DATA_HANDLES, on=st.booleans())
    def set_appending(self, handle, on):
        if not self.handles[handle].direct and not self.is_frozen(self.sides[1].files[handle]):
            self.both(ROOT, "set_appending", handle, on)

    @with_data_handles
    @rule(handle=DATA_HANDLES, offset=OFFSETS, whence=st.sampled_from([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END]))
    def seek(self, handle, offset, whence):
        if not self.handles[handle].direct:
            self.both(ROOT, "seek", handle, offset, whence)

    @with_data_handles
    @rule(handle=DATA_HANDLES, offset=OFFSETS, whence=st.sampled_from([os.SEEK_DATA, os.SEEK_HOLE]))
    def find_data(self, handle, offset, whence):
        if not WRITEBACK:
            self.both(ROOT, "find_data", handle, offset, whence)

    # ---- data

    @with_data_handles
    @rule(who=WHO, handle=DATA_HANDLES, data=DATA)
    def write(self, who, handle, data):
        if not self.handles[handle].direct and not self.writes_into_what_is_frozen(handle):
            self.both(who, "write", handle, data, touched=[handle])

    @with_data_handles
    @rule(who=WHO, handle=DATA_HANDLES, data=DATA, offset=OFFSETS)
    def pwrite(self, who, handle, data, offset):
        if self.writes_into_what_is_frozen(handle):
            return
        if self.handles[handle].direct:
            fd = self.sides[1].files[handle]
            if not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND or os.fstat(fd).st_size % 4096 == 0:
                self.both(who, "pwrite_direct", handle, data[:len(data) // 4096 * 4096], offset // 4096 * 4096, touched=[handle])
        else:
            self.both(who, "pwrite", handle, data, offset, touched=[handle])

    @with_data_handles
    @rule(who=WHO, handle=DATA_HANDLES, parts=st.lists(DATA, max_size=3), offset=OFFSETS,
          flags=st.sampled_from([0, os.RWF_DSYNC, os.RWF_SYNC, os.RWF_APPEND]))
    def pwritev(self, who, handle, parts, offset, flags):
        if not self.handles[handle].direct and not self.writes_into_what_is_frozen(handle):
            self.both(who, "pwritev", handle, parts, offset, flags, touched=[handle])

    @with_data_handles
    @rule(who=WHO, handle=DATA_HANDLES, data=DATA, block=BLOCK_NUMBERS, at=st.sampled_from([0, 1, 4095, 5000]))
    def write_mapped(self, who, handle, data, block, at):
        if not self.is_frozen(self.sides[1].files[handle]):
            self.both(who, "write_mapped", handle, data, block, at, touched=[handle])

    @with_data_handles
    @rule(handle=DATA_HANDLES, block=BLOCK_NUMBERS, blocks=BLOCK_COUNTS)
    def read_mapped(self, handle, block, blocks):
        if not self.is_frozen(self.sides[1].files[handle]):
            self.both(ROOT, "read_mapped", handle, block, blocks)

    @with_data_handles
    @rule(handle=DATA_HANDLES, size=SIZES)
    def read(self, handle, size):
        if not self.handles[handle].direct:
            self.both(ROOT, "read", handle, size)

    @with_data_handles
    @rule(handle=DATA_HANDLES, size=SIZES, offset=OFFSETS)
    def pread(self, handle, size, offset):
        if self.handles[handle].direct:
            self.both(ROOT, "pread_direct", handle, -(-max(size, 1) // 4096) * 4096, offset // 4096 * 4096)
        else:
            self.both(ROOT, "pread", handle, size, offset)

    @with_data_handles
    @rule(handle=DATA_HANDLES, sizes=st.lists(SIZES, min_size=1, max_size=3), offset=OFFSETS)
    def preadv(self, handle, sizes, offset):
        if not self.handles[handle].direct:
            self.both(ROOT, "preadv", handle, sizes, offset)

    @with_handles
    @rule(who=WHO, handle=HANDLES, size=OFFSETS)
    def ftruncate(self, who, handle, size):
        self.both(who, "ftruncate", handle, size, touched=[handle])

    @with_handles
    @rule(who=WHO, handle=HANDLES, mode=st.sampled_from([0, calls.FALLOC_KEEP_SIZE]), offset=OFFSETS,
          length=SHORTER_LENGTHS)
    def fallocate(self, who, handle, mode, offset, length):
        self.both(who, "fallocate", handle, mode, offset, length, touched=[handle])

    @with_handles
    @rule(who=WHO, handle=HANDLES, offset=OFFSETS, length=LENGTHS, mode=st.sampled_from([3, 3, 3, 2, 0x12]))
    def punch_hole(self, who, handle, offset, length, mode):
        self.both(who, "fallocate", handle, mode, offset, length, touched=[handle])

    @with_handles
    @rule(who=WHO, handle=HANDLES, offset=OFFSETS, length=SHORTER_LENGTHS, keep_size=st.booleans())
    def zero_range(self, who, handle, offset, length, keep_size):
        mode = calls.FALLOC_ZERO_RANGE | (calls.FALLOC_KEEP_SIZE if keep_size else 0)
        self.both(who, "fallocate", handle, mode, offset, length, touched=[handle])

    @with_data_handles
    @rule(who=WHO, source=DATA_HANDLES, sink=DATA_HANDLES, size=SHORTER_LENGTHS, source_offset=OFFSETS, target_offset=OFFSETS)
    def copy_file_range(self, who, source, sink, size, source_offset, target_offset):
        if self.writes_into_what_is_frozen(sink):
            return
        if min(source_offset, target_offset) >= 0 and not self.handles[source].direct and not self.handles[sink].direct:
            self.both(who, "copy_file_range", source, sink, size, source_offset, target_offset, touched=[source, sink])

    @with_data_handles
    @rule(who=WHO, source=DATA_HANDLES, sink=DATA_HANDLES, size=SHORTER_LENGTHS, offset=OFFSETS)
    def sendfile(self, who, source, sink, size, offset):
        if self.writes_into_what_is_frozen(sink):
            return
        facts = [os.fstat(self.sides[1].files[number]) for number in (source, sink)]
        if facts[0].st_ino != facts[1].st_ino and not self.handles[source].direct and not self.handles[sink].direct:
            self.both(who, "sendfile", source, sink, size, offset, touched=[source, sink])

    @with_handles
    @rule(handle=HANDLES, how=st.sampled_from(["fsync", "fdatasync", "syncfs"]))
    def sync(self, handle, how):
        self.both(ROOT, how, handle)

    @with_handles
    @rule(handle=HANDLES, offset=OFFSETS, length=LENGTHS, flags=st.sampled_from([7, 2, 1, 0, 8]))
    def sync_file_range(self, handle, offset, length, flags):
        self.both(ROOT, "sync_file_range", handle, offset, length, flags)

    @with_data_handles
    @rule(handle=DATA_HANDLES)
    def drop_pages(self, handle):
        self.both(ROOT, "drop_pages", handle)

    # ---- locks

    @with_handles
    @rule(handle=HANDLES, operation=st.sampled_from([fcntl.LOCK_EX, fcntl.LOCK_SH, fcntl.LOCK_UN]))
    def flock(self, handle, operation):
        self.both(ROOT, "flock", handle, operation)

    @with_handles
    @rule(handle=HANDLES, kind=st.sampled_from([fcntl.F_WRLCK, fcntl.F_RDLCK, fcntl.F_UNLCK]), start=st.integers(0, 3), length=st.integers(0, 3),
          ask=st.booleans())
    def lock_range(self, handle, kind, start, length, ask):
        self.both(ROOT, "who_locks" if ask else "lock_range", handle, kind, start, length)

    # ---- listings

    @with_room_for_walks
    @rule(who=WHO, path=FOLDERS)
    def start_walk(self, who, path):
        number = self.next_number
        if self.both(who, "start_walk", number, path):
            there = set(os.listdir(b"/proc/self/fd/%d" % self.sides[1].walks[number].fd)) | {b".", b".."}
            self.walks[number] = {os.fsencode(name) for name in there}, {os.fsencode(name) for name in there}
            self.next_number += 1

    @with_walks
    @rule(walk=WALKS, room=ROOMS)
    def go_on_walking(self, walk, room):
        self.both(ROOT, "go_on_walking", walk, room)

    @with_walks
    @rule(walk=WALKS, share=st.sampled_from([0, 128, 200, 255]))
    def walk_back(self, walk, share):
        if os.fstat(self.sides[1].walks[walk].fd).st_nlink > 0:
            self.both(ROOT, "walk_back", walk, share)

    @with_walks
    @rule(walk=WALKS, room=ROOMS)
    def end_walk(self, walk, room):
        throughout, at_times = self.walks.pop(walk)
        self.both(ROOT, "end_walk", walk, room, sorted(throughout), sorted(at_times))

    # ---- the mount

    def close_all(self):
        for side in self.sides:
            side.close_all()
        self.handles.clear()
        self.walks.clear()

    @now_and_then
    @rule()
    def remount(self):
        self.log.append("remount")
        Machine.counts["remount", "ok"] += 1
        self.close_all()
        with self.telling():
            for side in self.sides:
                side.remount()
        self.look([])

    @now_and_then
    @rule()
    def crash(self):
        """Loses nothing that was synced before it."""
        self.log.append("crash")
        Machine.counts["crash", "ok"] += 1
        self.close_all()
        with self.telling():
            for side in self.sides:
                side.crash()
        self.look([])

    @rule()
    def forget_names(self):
        self.log.append("forget_names")
        Machine.counts["forget_names", "ok"] += 1
        self.sides[0].forget_names()
        self.look([])


def run(sides, examples, steps, seed=None, shrink=False):
    """Raises Difference. Without a seed the examples are always the same."""
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate) + ((hypothesis.Phase.shrink,) if shrink else ())
    fixed = settings(max_examples=examples, stateful_step_count=steps, deadline=None, database=None, verbosity=hypothesis.Verbosity.quiet,
                     report_multiple_bugs=False, suppress_health_check=list(hypothesis.HealthCheck), phases=phases, derandomize=seed is None)

    def machine():
        return Machine(sides, seed)

    run_state_machine_as_test(machine if seed is None else hypothesis.seed(seed)(machine), settings=fixed)


class Case(harness.MountCase):
    def ext4(self):
        """With room for extended attributes and times to the nanosecond."""
        volume = self.volume(GiB, fs="ext4", options=["-I", "1024", "-O", "ea_inode"])
        volume.mount("noatime")
        return volume


class StateMachine(Case):
    def test_every_operation_does_the_same_as_on_ext4(self):
        if harness.FS == "ext4":
            volume = self.ext4()
        else:
            volume = self.volume(image=SEED % 2 == 1)
            volume.mount("noatime")
        sides = [Side(harness.FS, volume, times_of_files=not WRITEBACK), Side("ext4", self.ext4(), times_of_files=not WRITEBACK)]
        Machine.reported = False
        harness.print_seed(self)
        for seed in range(SEED, SEED + 2 * ROUNDS, 2):  # of any, LSMFS_SEED takes the same kind of device
            run(sides, EXAMPLES, STEPS, seed, SHRINK)
        if LONG:
            self.assertEqual([name for name in self.operations() if not Machine.counts[name, "ok"]], [], "operations that never succeeded")

    @staticmethod
    def operations():
        return [name for name, what in vars(operations).items() if inspect.isfunction(what) and not name.startswith("_")]


class Wrong(Side):
    """A side that gets one operation wrong."""

    def __init__(self, mount, fault):
        super().__init__("wrong", mount, "wrong")
        self.fault = fault

    def perform(self, person, operation, arguments):
        return self.fault(super().perform, self, person, operation, arguments)


def drops_chmod(perform, _side, person, operation, arguments):
    return ("ok", None) if operation == "chmod" else perform(person, operation, arguments)


def loses_the_last_byte(perform, _side, person, operation, arguments):
    outcome = perform(person, operation, arguments)
    if operation == "write" and outcome[0] == "ok" and outcome[1] > 1:
        perform(ROOT, "ftruncate", (arguments[0], outcome[1] - 1))
    return outcome


def says_another_error(perform, _side, person, operation, arguments):
    outcome = perform(person, operation, arguments)
    return ("error", "EPERM") if outcome == ("error", "EEXIST") else outcome


def keeps_the_time_of_a_directory(perform, side, person, operation, arguments):
    before = os.stat(side.base).st_mtime_ns
    outcome = perform(person, operation, arguments)
    if operation == "symlink":
        os.utime(side.base, ns=(os.stat(side.base).st_atime_ns, before))
    return outcome


def keeps_attributes(perform, _side, person, operation, arguments):
    return ("ok", None) if operation == "removexattr" else perform(person, operation, arguments)


def gives_names_to_root(perform, side, person, operation, arguments):
    outcome = perform(person, operation, arguments)
    if operation == "mkdir" and outcome[0] == "ok":
        os.chown(side.at(arguments[0]), 0, 0)
    return outcome


class SelfTest(Case):
    """The machine finds what is wrong: ext4 against itself, with one fault on one side."""

    def test_what_is_wrong_is_found(self):
        volume = self.ext4()
        for fault in (drops_chmod, loses_the_last_byte, says_another_error, keeps_the_time_of_a_directory, keeps_attributes, gives_names_to_root):
            with self.subTest(fault.__name__):
                Machine.reported = True  # the story would only confuse
                with self.assertRaises(Difference):
                    run([Wrong(volume, fault), Side("right", volume, "right")], 100, 50)

    def test_what_is_right_is_not_complained_about(self):
        volume = self.ext4()
        run([Side("right", volume, "this_"), Side("right", volume, "other")], 5, 30)


if __name__ == "__main__":
    harness.main()
