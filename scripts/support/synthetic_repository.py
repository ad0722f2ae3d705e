"""A made-up git repository with a long history: the same one for the same seed, made by git fast-import in seconds.

Its proportions are about those of a large C project: directories a few levels deep, files of 7 KiB in the middle and of
up to hundreds of KiB; a commit changes a few lines in one to a few files that mostly lie in one directory, seldom many;
of the files touched 6 % are new, 2 % removed, 1 % renamed; one commit in thirteen merges a branch of up to six commits.
"""

import random
import subprocess

_WORDS = """buffer cache commit device entry extent frame granule header inode journal key ledger merge node offset
page queue record segment table update value volume window zone static const return while struct size count""".split()
_NEW, _REMOVED, _RENAMED = 0.06, 0.02, 0.01
_BRANCHES = 1 / 13
_BRANCH_MOST = 6  # commits
_SAME_FOLDER = 0.7


class _Feed:
    """What git fast-import reads."""

    def __init__(self, path):
        self._git = subprocess.Popen(["git", "-C", path, "-c", "core.compression=1", "fast-import", "--quiet"], stdin=subprocess.PIPE)
        self._out = self._git.stdin
        self._mark = 0

    def _data(self, raw):
        self._out.write(b"data %d\n%s\n" % (len(raw), raw))

    def _next(self):
        self._mark += 1
        return self._mark

    def blob(self, lines):
        mark = self._next()
        self._out.write(b"blob\nmark :%d\n" % mark)
        self._data(("\n".join(lines) + "\n").encode())
        return mark

    def commit(self, branch, number, parents, changes):
        """`changes`: blobs by name, None where the file goes. Returns the commit's mark."""
        mark = self._next()
        self._out.write(b"commit refs/heads/%s\nmark :%d\n" % (branch.encode(), mark))
        self._out.write(f"committer A U Thor <author@example.org> {1_000_000_000 + number * 3600} +0000\n".encode())
        self._data(f"{'Merge' if len(parents) > 1 else 'Change'} {number}".encode())
        for word, parent in zip(("from", "merge"), parents):
            self._out.write(b"%s :%d\n" % (word.encode(), parent))
        for name, blob in changes.items():
            self._out.write((f"D {name}\n" if blob is None else f"M 100644 :{blob} {name}\n").encode())
        self._out.write(b"\n")
        return mark

    def reset(self, ref, commit):
        self._out.write(f"reset {ref}\nfrom :{commit}\n\n".encode())

    def drop(self, ref):
        self._out.write(f"reset {ref}\nfrom {'0' * 40}\n\n".encode())

    def close(self):
        self._out.write(b"done\n")
        self._out.close()
        if self._git.wait() != 0:
            raise RuntimeError("git fast-import failed")


class _Tree:
    """The files of the latest commit, those of branches that are not merged yet included."""

    def __init__(self, rng, feed):
        self._rng, self._feed = rng, feed
        self._phrases = [" ".join(rng.choices(_WORDS, k=rng.randint(1, 9))) for _ in range(50_000)]  # lines to choose from
        self._lines = {}
        self._by_folder = {}
        self._names = []  # in no order, for picking
        self._places = {}
        self._serial = 0

    def __len__(self):
        return len(self._names)

    def _text(self, count):
        return self._rng.choices(self._phrases, k=count)

    def _put(self, name, lines):
        self._lines[name] = lines
        self._places[name] = len(self._names)
        self._names.append(name)
        self._by_folder.setdefault(name.rpartition("/")[0], []).append(name)

    def _take(self, name):
        last, place = self._names[-1], self._places.pop(name)
        self._names[place] = last
        self._names.pop()
        if last != name:
            self._places[last] = place
        self._by_folder[name.rpartition("/")[0]].remove(name)
        return self._lines.pop(name)

    def _new_name(self):
        self._serial += 1
        depth = self._rng.randint(1, 4)
        return "/".join([f"d{self._rng.randrange(12)}" for _ in range(depth)] + [f"f{self._serial:05}.c"])

    def add(self):
        """Returns the changes."""
        name = self._new_name()
        lines = self._text(max(5, min(8000, int(self._rng.lognormvariate(5.4, 1.1)))))
        self._put(name, lines)
        return {name: self._feed.blob(lines)}

    def _pick(self, count, avoid):
        """Names of some files, mostly of one directory."""
        picked = []
        neighbours = []
        for _ in range(count * 3):
            if neighbours and self._rng.random() < _SAME_FOLDER:
                name = self._rng.choice(neighbours)
            else:
                name = self._rng.choice(self._names)
            if name in avoid or name in picked:
                continue
            picked.append(name)
            neighbours = neighbours or self._by_folder[name.rpartition("/")[0]]
            if len(picked) == count:
                break
        return picked

    def change(self, avoid, least):
        """Changes as a commit makes them. `avoid`: files that another branch has changed. `least`: of no fewer files is
        one removed."""
        how_many = self._rng.choices([1, 2, self._rng.randint(3, 5), self._rng.randint(6, 20), self._rng.randint(21, 50)],
                                     weights=[50, 18, 17, 12, 3])[0]
        changes = {}
        for name in self._pick(how_many, avoid):
            action = self._rng.random()
            if action < _NEW:
                changes.update(self.add())
            elif action < _NEW + _REMOVED and len(self) > least:
                self._take(name)
                changes[name] = None
            elif action < _NEW + _REMOVED + _RENAMED:
                lines = self._take(name)
                other = self._new_name()
                self._put(other, lines)
                changes.update({name: None, other: self._feed.blob(lines)})
            else:
                lines = self._lines[name]
                for _ in range(self._rng.randint(1, 3)):
                    at = self._rng.randrange(len(lines) + 1)
                    lines[at:at + self._rng.randint(0, 3)] = self._text(self._rng.randint(1, 6))
                changes[name] = self._feed.blob(lines)
        return changes or self.add()


def make(path, commits, files, seed, tags=10):
    """A bare repository at `path`: a commit of `files` files, then others up to `commits` in all, with tags v0 to
    v<tags - 1> spread over the history."""
    rng = random.Random(seed)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", path], check=True)
    feed = _Feed(path)
    tree = _Tree(rng, feed)
    first = {}
    for _ in range(files):
        first.update(tree.add())
    main = feed.commit("main", 0, [], first)
    branch = None  # (its tip, what it changes, how many commits are to come)
    changed = set()  # on main, since the branch left it
    for number in range(1, commits):
        if branch and (branch[2] == 0 or number == commits - 1):
            main = feed.commit("main", number, [main, branch[0]], branch[1])
            branch = None
        elif branch and rng.random() < 0.5:
            tip, ours, left = branch
            changes = tree.change(changed, files // 2)
            branch = feed.commit("branch", number, [tip], changes), {**ours, **changes}, left - 1
        elif branch is None and number < commits - 2 and rng.random() < _BRANCHES * 1.2:
            changes = tree.change((), files // 2)
            branch = feed.commit("branch", number, [main], changes), changes, rng.randrange(_BRANCH_MOST)
            changed = set()
        else:
            changes = tree.change(branch[1] if branch else (), files // 2)
            changed.update(changes)
            main = feed.commit("main", number, [main], changes)
        for tag in range(tags):
            if number == (tag + 1) * commits // tags - 1:
                feed.reset(f"refs/tags/v{tag}", main)
    feed.drop("refs/heads/branch")
    feed.close()
