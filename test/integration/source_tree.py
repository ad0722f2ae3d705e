"""A made-up source tree: the same for the same seed. It has what real trees have, and what only odd ones have."""

import hashlib
import os
import random
import stat

NANO = 1_000_000_000
ODD_NAMES = [b"-rf", b"with space", b" leading", b"trailing ", b"new\nline", b"back\\slash", b"tab\there", b"quote'\"",
             "\u00fcml\u00e4ut".encode(), "\u65e5\u672c\u8a9e".encode(), b"\xff\xfe not utf-8", b"*?[a]", b"...", b"~", b"#a#",
             b"n" * 255, b"\x01\x02\x7f", b"a" * 254 + b"\xff"]


def _bytes(rng, size):
    """Half of it compresses, as real files do."""
    text = rng.randbytes(max(1, size // 16)).hex().encode() * 17
    return text[:size]


def make(root, seed, files=3000):
    """Makes the tree at `root` (a folder that exists). Returns the number of entries."""
    rng = random.Random(seed)
    root = os.fsencode(root)
    folders = [root]
    for number in range(files // 15):
        parent = rng.choice(folders[-40:])
        folders.append(os.path.join(parent, b"dir%d" % number))
        os.mkdir(folders[-1])
    deep = root
    for number in range(60):
        deep = os.path.join(deep, b"deep%d" % number)
        os.mkdir(deep)
    folders.append(deep)
    odd = os.path.join(root, b"odd")
    os.mkdir(odd)
    for name in ODD_NAMES:
        os.mkdir(os.path.join(odd, name))
        folders.append(os.path.join(odd, name))

    plain = []
    sizes = [0, 1, 100, 4095, 4096, 4097, 8192, 65536, 131071]
    for number in range(files):
        name = ODD_NAMES[number] if number < len(ODD_NAMES) else b"file%d.c" % number
        path = os.path.join(rng.choice(folders), name)
        if os.path.lexists(path):
            path += b"_"
            if len(os.path.basename(path)) > 255 or os.path.lexists(path):
                continue
        size = rng.choice(sizes) if rng.random() < 0.2 else int(rng.expovariate(1 / 9000))
        if number % 500 == 499:
            size = rng.randrange(1 << 20, 6 << 20)
        with open(path, "wb") as file:
            file.write(_bytes(rng, size))
        plain.append(path)
    with open(os.path.join(root, b"sparse"), "wb") as file:
        file.seek(5 << 20)
        file.write(b"in the middle")
        file.truncate(64 << 20)
    plain.append(os.path.join(root, b"sparse"))

    for number in range(60):  # links, some that lead nowhere, some of the greatest length
        target = rng.choice([b"../x", b"/nowhere", b"t" * 4000, os.path.basename(rng.choice(plain)), b"\xff\xfe"])
        os.symlink(target, os.path.join(rng.choice(folders), b"symlink%d" % number))
    for number in range(60):
        os.link(rng.choice(plain), os.path.join(rng.choice(folders), b"hardlink%d" % number))
    os.mkfifo(os.path.join(root, b"fifo"))
    os.mknod(os.path.join(root, b"null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(os.path.join(root, b"block"), stat.S_IFBLK | 0o600, os.makedev(7, 0x12345))

    entries = [os.path.join(place, name) for place, dirs, names in os.walk(root, topdown=False) for name in sorted(dirs + names)]
    for path in entries:
        link = os.path.islink(path)
        if rng.random() < 0.3:
            os.chown(path, rng.choice([0, 1, 1000, 4_000_000_000]), rng.choice([0, 5, 1000, 65534]), follow_symlinks=False)
        if not link and rng.random() < 0.3:
            bits = rng.choice([0o600, 0o640, 0o644, 0o755, 0o700, 0o4755, 0o2755, 0o6711, 0o444, 0o000])
            os.chmod(path, 0o1777 if os.path.isdir(path) and rng.random() < 0.5 else bits)
    for path in entries:  # children before their folders, whose times change with them
        seconds = rng.choice([0, -1, -2_000_000_000, 1_000_000_000, 2**31 - 1, 2**31, 4_000_000_000, 13_000_000_000])
        if rng.random() < 0.5:
            seconds = rng.randrange(1_000_000_000, 1_700_000_000)
        when = seconds * NANO + rng.choice([0, 1, 999_999_999, rng.randrange(NANO)])
        os.utime(path, ns=(when, when), follow_symlinks=False)
    return len(entries)


def facts(root, contents=True):
    """{relative path: all that must survive}. Hard links are named by the least path of their file."""
    root = os.fsencode(root)
    result = {}
    first = {}
    for place, dirs, names in os.walk(root):
        for name in sorted(dirs + names):
            path = os.path.join(place, name)
            info = os.lstat(path)
            entry = {"mode": oct(info.st_mode), "uid": info.st_uid, "gid": info.st_gid, "mtime": info.st_mtime_ns}
            xattrs = {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)}
            if xattrs:
                entry["xattrs"] = xattrs  # POSIX ACLs are among them
            if stat.S_ISREG(info.st_mode):
                entry["size"] = info.st_size
                entry["nlink"] = info.st_nlink
                if contents:
                    with open(path, "rb") as file:
                        entry["hash"] = hashlib.file_digest(file, "blake2b").hexdigest()
            elif stat.S_ISLNK(info.st_mode):
                entry["target"] = os.readlink(path)
            elif not stat.S_ISDIR(info.st_mode):
                entry["rdev"] = info.st_rdev
            relative = os.path.relpath(path, root)
            result[relative] = entry
            if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
                first.setdefault(info.st_ino, []).append(relative)
    for paths in first.values():
        for path in paths:
            result[path]["same as"] = min(paths)
    return result


def differences(expected, found, limit=20):
    lines = []
    for path in sorted(expected.keys() | found.keys()):
        if expected.get(path) != found.get(path):
            lines.append(f"{path!r}: expected {expected.get(path)}, found {found.get(path)}")
    return lines[:limit] + ([f"and {len(lines) - limit} more"] if len(lines) > limit else [])
