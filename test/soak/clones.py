"""Who clones directories during a soak test, changes clones and their sources, and takes snapshots. What each file has, it remembers."""

import os

import harness
from workers import Worker, command, digest, pace, room, wrong


class Clones(Worker):
    """Trees that are clones of each other, and snapshots of them. A step makes, changes, rolls back, removes or reads one of them."""

    TREES_MAX, SNAPSHOTS_MAX, FOLDERS = 6, 4, 12
    SIZES = [0, 100, 3_000, 20_000, 20_000, 300_000]

    def __init__(self, root, seed, files):
        super().__init__(root, seed)
        self._all_snapshots = os.path.join(root, ".snapshots")
        self._number = 0
        self._trees = {}      # path of a tree: {path of a file in it: digest of its contents}
        self._snapshots = {}  # the same of snapshots
        self._half = None       # path of what is being made, of which there is something when there was no room;
        self._half_tree = None  # in this tree; None: it is a tree by itself, of which there is nothing then
        tree = self._new(self.root)
        self._trees[tree] = {}
        for number in range(files):
            self._write(tree, os.path.join(str(number % self.FOLDERS), str(number)))

    def step(self):
        tree = self.rng.choice(list(self._trees))
        snapshot = self.rng.choice(list(self._snapshots)) if self._snapshots else None
        dice = self.rng.random()
        if dice < 0.10 and len(self._trees) < self.TREES_MAX:
            to = self._new(self.root)
            self._make(to, "clone", tree, to)
            self._trees[to] = dict(self._trees[tree])
        elif dice < 0.15 and len(self._snapshots) < self.SNAPSHOTS_MAX:
            of = self._new(self._all_snapshots)
            self._make(of, "snapshot", tree, os.path.basename(of))
            self._snapshots[of] = dict(self._trees[tree])
        elif dice < 0.18 and snapshot:
            with room():
                self._lsmfs("rollback", "--discard", snapshot, tree)
            self._trees[tree] = dict(self._snapshots[snapshot])
        elif dice < 0.22 and len(self._trees) > 1:
            self._remove(tree, self._trees)
        elif dice < 0.26 and snapshot:
            self._remove(snapshot, self._snapshots)
        elif dice < 0.85:
            self._change(tree)
        elif dice < 0.97 or not snapshot:
            self._compare(tree, self._trees[tree])
        else:
            self._compare(snapshot, self._snapshots[snapshot])
        pace(0.01)

    def _new(self, folder):
        self._number += 1
        return os.path.join(folder, f"tree{self._number}")

    @staticmethod
    def _lsmfs(*words):
        command(harness.LSMFS, *words)

    def _make(self, path, *words):
        self._half, self._half_tree = path, None
        with room():
            self._lsmfs(*words)
        self._half = None

    def _remove(self, path, among):
        """Needs no room."""
        del among[path]
        self._lsmfs("rm", "-r", path)
        if os.path.lexists(path):
            wrong(f"{path} was removed, and is there")

    def _change(self, tree):
        files = self._trees[tree]
        path = self.rng.choice(list(files)) if files else None
        dice = self.rng.random()
        if dice < 0.6 and path:
            self._write(tree, path)
        elif dice < 0.75 or not path:
            self._number += 1
            self._write(tree, os.path.join(str(self.rng.randrange(self.FOLDERS)), f"new{self._number}"))
        elif dice < 0.9:
            os.unlink(os.path.join(tree, path))
            del files[path]
        else:
            self._number += 1
            to = os.path.join(os.path.dirname(path), f"renamed{self._number}")
            with room():  # the directory may have nothing of its own yet
                os.rename(os.path.join(tree, path), os.path.join(tree, to))
            files[to] = files.pop(path)

    def _write(self, tree, path):
        """A file, new or with other contents than before."""
        whole = os.path.join(tree, path)
        data = self.rng.randbytes(self.rng.choice(self.SIZES))
        self._half, self._half_tree = path, tree
        with room():
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "wb", buffering=0) as file:
                at = 0
                while at < len(data):
                    at += file.write(data[at:])
        self._half = None
        self._trees[tree][path] = digest(data)

    def recover(self):
        half, self._half = self._half, None
        if half is None:
            return
        if self._half_tree is None:
            if os.path.lexists(half):
                wrong(f"there was no room for {half}, and it is there")
            return
        self._trees[self._half_tree].pop(half, None)
        if os.path.lexists(os.path.join(self._half_tree, half)):
            os.unlink(os.path.join(self._half_tree, half))

    @staticmethod
    def _compare(tree, expected):
        found = {}
        for place, _, names in os.walk(tree):
            for name in names:
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, tree)] = digest(file.read())
        if found != expected:
            other = sorted(path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path))
            wrong(f"{tree} has other files than were written: {other[:5]}")

    def verify(self):
        for among in self._trees, self._snapshots:
            for tree, expected in among.items():
                self._compare(tree, expected)

    def clear(self):
        for snapshot in list(self._snapshots):
            self._remove(snapshot, self._snapshots)
