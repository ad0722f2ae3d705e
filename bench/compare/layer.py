"""A made-up layer of a container as a tar file, the same for the same seed: a root folder like Debian's with some programs, their
libraries, documents and lists of files, and an application of another user. It has owners, modes, links and extended attributes.
Half of the bytes of programs do not compress."""

import io
import struct
import tarfile

from made_up import KiB, MiB, Text, some_size
from shared.cold import seeded

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_NET_RAW = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0).decode()  # as `setcap cap_net_raw+ep` writes it
_FOLDERS = (  # path, mode, owner, group
    ("etc", 0o755, 0, 0), ("home", 0o755, 0, 0), ("home/app", 0o750, 1000, 1000), ("tmp", 0o1777, 0, 0), ("usr", 0o755, 0, 0), ("usr/bin", 0o755, 0, 0),
    ("usr/lib", 0o755, 0, 0), (_LIBRARIES, 0o755, 0, 0), ("usr/share", 0o755, 0, 0), ("usr/share/doc", 0o755, 0, 0), ("var", 0o755, 0, 0),
    ("var/cache", 0o755, 0, 0), ("var/cache/man", 0o755, 6, 12), ("var/lib", 0o755, 0, 0), ("var/lib/dpkg", 0o755, 0, 0),
    ("var/lib/dpkg/info", 0o755, 0, 0), ("var/mail", 0o2775, 0, 8),
)


def make(path, files, seed):
    """A tar file at `path` of about so many files."""
    rng = seeded(seed, "layer")
    entries = {entry.name: (entry, b"") for entry in (_folder(*words, rng) for words in _FOLDERS)}
    text, machine_code = Text(rng), _machine_code(rng)
    number = 0
    while len(entries) < files:
        for entry, data in _package(f"package{number:05}", rng, text, machine_code):
            entries[entry.name] = entry, data
        number += 1
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for _, (entry, data) in sorted(entries.items()):  # as a walk finds them
            tar.addfile(entry, io.BytesIO(data))


def _package(name, rng, text, machine_code):
    """(entry, contents) of what a package of Debian installs, and of what the application has of it."""
    info = f"var/lib/dpkg/info/{name}"
    yield _file(info + ".list", text.take(some_size(rng, 1 * KiB, 1.3)), rng)
    yield _file(info + ".md5sums", text.take(some_size(rng, 1 * KiB, 1.3)), rng)
    yield _folder(f"usr/share/doc/{name}", 0o755, 0, 0, rng), b""
    yield _file(f"usr/share/doc/{name}/copyright", text.take(some_size(rng, 4 * KiB, 1.0)), rng)
    yield _file(f"usr/share/doc/{name}/changelog.gz", rng.randbytes(some_size(rng, 2 * KiB, 1.0)), rng)
    if rng.random() < 0.3:
        yield _file(f"etc/{name}.conf", text.take(some_size(rng, 1 * KiB, 1.0)), rng)
    for program in range(rng.choice((0, 0, 1, 1, 2, 5))):
        path = f"usr/bin/{name}-{program}"
        entry, data = _file(path, machine_code(some_size(rng, 40 * KiB, 1.2)), rng, mode=rng.choice((0o755,) * 19 + (0o4755,)))
        if rng.random() < 0.05:
            entry.pax_headers = {"SCHILY.xattr.security.capability": _NET_RAW}
        yield entry, data
        if rng.random() < 0.1:
            yield _link(f"usr/bin/{name}-{program}-hard", path, tarfile.LNKTYPE, rng), b""
    if rng.random() < 0.4:
        library = f"lib{name}.so.1"
        yield _file(f"{_LIBRARIES}/{library}.2.3", machine_code(some_size(rng, 80 * KiB, 1.2)), rng)
        yield _link(f"{_LIBRARIES}/{library}", library + ".2.3", tarfile.SYMTYPE, rng), b""
    module = f"home/app/{name}"
    yield _folder(module, 0o755, 1000, 1000, rng), b""
    for number in range(some_size(rng, 16, 0.6, most=200) // 2):
        entry, data = _file(f"{module}/file{number:03}", text.take(some_size(rng, 3 * KiB, 1.2)), rng, mode=0o640, owner=1000)
        if number == 0:
            entry.pax_headers = {"SCHILY.xattr.user.origin": name}
        yield entry, data


def _entry(name, kind, mode, owner, group, rng):
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid, entry.mtime = kind, mode, owner, group, 1_600_000_000 + rng.randrange(1 << 24)
    return entry


def _folder(name, mode, owner, group, rng):
    return _entry(name, tarfile.DIRTYPE, mode, owner, group, rng)


def _file(name, data, rng, mode=0o644, owner=0):
    entry = _entry(name, tarfile.REGTYPE, mode, owner, owner, rng)
    entry.size = len(data)
    return entry, data


def _link(name, to, kind, rng):
    entry = _entry(name, kind, 0o777, 0, 0, rng)
    entry.linkname = to
    return entry


def _machine_code(rng):
    """Of so many bytes, a piece of a pool in which what does not compress takes turns with what was there before."""
    common = [rng.randbytes(32) for _ in range(64)]
    pool = b"".join(rng.randbytes(32) + rng.choice(common) for _ in range(4 * MiB // 64))

    def take(size):
        start = rng.randrange(len(pool) - size + 1)
        return pool[start:start + size]

    return take
