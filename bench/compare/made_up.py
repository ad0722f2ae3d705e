"""Made-up trees as tar files, the same for the same seed, in the order in which such trees come into being: which is not
that of their names. Their proportions are about those of real ones; their text compresses about as text does.

    objects: a git object store: loose objects of 1 KiB in the middle, in 256 folders, and a pack; nothing compresses
    modules: what npm installs: packages in packages, many small scripts
    mail:    maildirs, in which messages of 5 KiB in the middle have arrived in turn
"""

import base64
import io
import tarfile

from shared.cold import seeded

KiB, MiB = 1 << 10, 1 << 20


def make(kind, path, files, seed):
    """A tar file at `path` of about so many files."""
    with tarfile.open(path, "w") as tar:
        for name, data in KINDS[kind](seeded(seed, kind), files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), 1_600_000_000
            tar.addfile(entry, io.BytesIO(data))


class Text:
    def __init__(self, rng):
        self._rng = rng
        words = ["".join(rng.choices("etaoinshrdlucmfw", k=rng.randint(2, 9))) for _ in range(3000)]
        self._lines = [" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(20_000)]

    def take(self, size):
        lines = []
        while size > 0:
            lines.append(self._rng.choice(self._lines))
            size -= len(lines[-1]) + 1
        return ("\n".join(lines) + "\n").encode()


def some_size(rng, middle, spread, most=MiB):
    """Log-normal, as sizes of files are."""
    return max(16, min(most, int(middle * rng.lognormvariate(0, spread))))


def _objects(rng, files):
    pack = f"objects/pack/pack-{rng.randbytes(20).hex()}"
    yield pack + ".idx", rng.randbytes(files * 32)
    yield pack + ".pack", rng.randbytes(min(files * 2 * KiB, 256 * MiB))
    for _ in range(files):
        name = rng.randbytes(20).hex()
        yield f"objects/{name[:2]}/{name[2:]}", rng.randbytes(some_size(rng, 1 * KiB, 1.4))


def _modules(rng, files):
    text = Text(rng)
    packages = []
    left = files
    while left > 0:
        inside = rng.choice(packages) + "/" if packages and rng.random() < 0.25 else ""
        package = f"{inside}node_modules/{rng.choice('abcdefghijklmnopqrstuvwxyz')}-package-{len(packages):05}"
        packages.append(package if inside.count("/") < 8 else packages[0])
        yield f"{package}/package.json", text.take(some_size(rng, 1 * KiB, 0.5))
        left -= 1
        for name, data in files_of_package(rng, text, left):
            yield f"{package}/{name}", data
            left -= 1


def files_of_package(rng, text, most=600):
    """(path in it, contents) of all files of a package of npm but package.json."""
    for number in range(min(most, some_size(rng, 20, 0.9, most=600))):
        folder = rng.choice(("", "lib/", "lib/", "dist/", "dist/esm/", "src/", "test/"))
        kind = rng.choice(("js", "js", "js", "d.ts", "js.map", "md"))
        yield f"{folder}file{number:03}.{kind}", text.take(some_size(rng, 2 * KiB, 1.3))


def _mail(rng, files):
    text = Text(rng)
    boxes = [f"mail/user{number % 4}/box{number:03}" for number in range(max(1, files // 500))]
    for number in range(files):
        name = f"{1_600_000_000 + number * 60}.M{rng.randrange(1_000_000)}P{rng.randrange(30_000)}.host:2,S"
        size = some_size(rng, 5 * KiB, 1.0)
        head = f"Message-ID: <{rng.randbytes(12).hex()}@example.org>\nSubject: message {number}\n\n".encode()
        body = text.take(size) if rng.random() < 0.85 else base64.encodebytes(rng.randbytes(size * 6))
        yield f"{rng.choice(boxes)}/cur/{name}", head + body


KINDS = {"objects": _objects, "modules": _modules, "mail": _mail}
