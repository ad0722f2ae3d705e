"""Trees of files of one size, written in orders that spoil the layout in one respect: inside of files, or between them."""

import os

from shared.cold import seeded
from shared.commands import Problem

from .workload import Workload

KiB, MiB = 1 << 10, 1 << 20
CHUNK = 4 * KiB


def _write(path, data):
    with open(path, "wb", buffering=0) as file:
        file.write(data)


class _Rounds(Workload):
    """A file system anew for each point."""

    points = ()

    def steps(self):
        return len(self.points)

    def is_last(self, point):
        """It is measured several times."""
        return point == self.points[-1]

    def run(self, stage):
        done = stage.open()
        for number, point in enumerate(self.points[done:], done + 1):
            if number > 1:
                stage.remake()
            stage.context.tell(f"writing the files for {point}")
            self.age(stage, point, last=self.is_last(point))
            stage.checkpoint(number)
        stage.close(None)

    def age(self, stage, point, last):
        raise NotImplementedError


class Intrafile(_Rounds):
    """10 files of 100 chunks of 4 KiB: the last r chunks of each are appended in turn, with an fsync after each."""

    name = "intrafile"
    help = "appends to several files in turn"
    FILES, CHUNKS = 10, 100

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--every", type=int, default=10, metavar="R", help="chunks appended in turn: 0, R, 2R, ... 100; default: 10")

    def __init__(self, given):
        if not 1 <= given.every <= self.CHUNKS:
            raise Problem(f"--every: from 1 to {self.CHUNKS}")
        self.points = sorted({*range(0, self.CHUNKS + 1, given.every), self.CHUNKS})

    def asked(self):
        return {"points": self.points}

    def age(self, stage, point, last):
        rng = seeded(stage.context.seed, self.name, point)
        names = [os.path.join(stage.point, f"file{number}") for number in range(self.FILES)]
        with stage.aging():
            for name in names:
                _write(name, rng.randbytes((self.CHUNKS - point) * CHUNK))
            os.sync()
            for _ in range(point):
                for name in names:
                    fd = os.open(name, os.O_WRONLY | os.O_APPEND)
                    try:
                        os.write(fd, rng.randbytes(CHUNK))
                        os.fsync(fd)
                    finally:
                        os.close(fd)
        stage.measure(point, last=last, twin=False)


class _Tree(_Rounds):
    """Files of one size in the directories of a made-up source tree, created in the order of the tree but for what is
    exchanged."""

    FANOUT = 25  # files in a directory, and directories in one

    def names(self, count):
        """Relative paths in the order of a walk."""
        out = []
        for number in range(count):
            folder = number // self.FANOUT
            out.append(os.path.join(f"d{folder // self.FANOUT:03}", f"d{folder % self.FANOUT:03}", f"f{number:06}.c"))
        return out

    def create(self, stage, order, size, rng):
        with stage.aging():
            for name in sorted({os.path.dirname(name) for name in order}):
                os.makedirs(os.path.join(stage.point, name), exist_ok=True)
            for name in order:
                _write(os.path.join(stage.point, name), rng.randbytes(size))
            os.sync()

    @staticmethod
    def exchanged(names, percent, rng):
        """The first `percent` of two random permutations of the places are exchanged with each other."""
        order = list(names)
        one, other = rng.sample(range(len(names)), len(names)), rng.sample(range(len(names)), len(names))
        for left, right in list(zip(one, other))[:len(names) * percent // 100]:
            order[left], order[right] = order[right], order[left]
        return order


class Interfile(_Tree):
    name = "interfile"
    help = "files created in an order ever further from that of the tree"

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--files", type=int, default=10000, metavar="N", help="of 4 KiB; default: 10000")
        parser.add_argument("--every", type=int, default=20, metavar="P", help="percent exchanged: 0, P, 2P, ... 100; default: 20")

    def __init__(self, given):
        if not 1 <= given.every <= 100 or given.files < 2:
            raise Problem("--every: from 1 to 100; --files: at least 2")
        self._files = given.files
        self.points = sorted({*range(0, 101, given.every), 100})

    def asked(self):
        return {"files": self._files, "points": self.points}

    def age(self, stage, point, last):
        rng = seeded(stage.context.seed, self.name, point)
        self.create(stage, self.exchanged(self.names(self._files), point, rng), CHUNK, rng)
        stage.measure(point, last=last, twin=False)


class FileSize(_Tree):
    name = "filesize"
    help = "the cost of a scan against the size of files, created in the tree's order and in a random one"
    SIZES = [4, 16, 64, 256, 1024]

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--total", type=int, default=64, metavar="MIB", help="of all files together; default: 64")

    def __init__(self, given):
        if given.total < 2:
            raise Problem("--total: at least 2")
        self._total = given.total * MiB
        self.points = [(size, tree) for size in self.SIZES for tree in ("unaged", "aged")]

    def asked(self):
        return {"total": self._total}

    def is_last(self, point):
        return point[0] == self.SIZES[-1]  # of either tree

    def age(self, stage, point, last):
        size, tree = point
        rng = seeded(stage.context.seed, self.name, size)
        names = self.names(self._total // (size * KiB))
        self.create(stage, self.exchanged(names, 100, rng) if tree == "aged" else names, size * KiB, rng)
        stage.measure(size, last=last, tree=tree, twin=False)
