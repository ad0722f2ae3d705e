"""All that two trees can have in common, and the flags of chattr(1)."""

import array
import fcntl
import os
import stat

import harness

FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
IMMUTABLE, APPEND, NODUMP = 0x10, 0x20, 0x40
SEES_HOLES = "writeback" not in harness.MOUNT_OPTIONS  # with it all of a file is data


def get_flags(path):
    flags = array.array("i", [0])
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, flags)
    finally:
        os.close(fd)
    return flags[0]


def set_flags(path, flags):
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, array.array("i", [flags]))
    finally:
        os.close(fd)


def unlock(top):
    """Takes all flags from all that is there."""
    for folder, folders, names in os.walk(top):
        for name in [".", *folders, *names]:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and (os.path.isfile(path) or os.path.isdir(path)):
                set_flags(path, 0)


def tree(top):
    """{path below: all that is the same of a received tree}. Files that are one have the first one's path."""
    files, found = {}, {}
    for folder, folders, names in os.walk(top):
        folders.sort()
        for name in [".", *sorted(folders + names)]:
            path = os.path.normpath(os.path.join(folder, name))
            below = os.path.relpath(path, top)
            if below in found:
                continue
            facts = os.lstat(path)
            xattrs = {key: os.getxattr(path, key, follow_symlinks=False) for key in os.listxattr(path, follow_symlinks=False)}
            plain = stat.S_ISREG(facts.st_mode)
            flags = get_flags(path) if plain or stat.S_ISDIR(facts.st_mode) else 0
            data = b""
            if plain:
                with open(path, "rb") as file:
                    data = file.read()
            link = os.readlink(path) if stat.S_ISLNK(facts.st_mode) else ""
            found[below] = (files.setdefault(facts.st_ino, below), facts.st_mode, facts.st_nlink, facts.st_uid, facts.st_gid, facts.st_rdev, facts.st_size if not stat.S_ISDIR(facts.st_mode) else 0,
                            facts.st_atime_ns, facts.st_mtime_ns, facts.st_blocks if plain and SEES_HOLES else 0, flags, link, xattrs, data)
    return found


def difference(one, other):
    """Between two trees, in words; "": there is none."""
    if one.keys() != other.keys():
        return f"only one of them has {sorted(one.keys() ^ other.keys())[:10]}"
    for path, facts in one.items():
        a, b = (tuple(str(each)[:200] for each in side[:-1]) for side in (facts, other[path]))
        if a != b:
            return f"{path}: {a} and {b}"
        if facts[-1] != other[path][-1]:
            return f"{path}: the data differs"
    return ""
