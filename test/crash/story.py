"""A program that notes each change that it makes to a tree, so that a tree found later can be told to be that of a moment.

A call here is what the promise calls an operation. A write that the kernel may divide (at a page that it has not cached whole, at
1 MiB) is noted as its parts, though it is one system call.
"""

import os
import stat

import syscalls

PAGE = os.sysconf("SC_PAGE_SIZE")
REQUEST = 1 << 20  # bytes of the largest write that is one request


class Story:
    def __init__(self):
        self.root = None   # where the calls are made
        self.synced = lambda number: None  # is told how many calls there were when a sync returned
        self.calls = []

    def _do(self, function, *call):
        function()
        self.calls.append(call)

    def _at(self, path):
        return os.path.join(self.root, path)

    def mkdir(self, path):
        self._do(lambda: os.mkdir(self._at(path), 0o755), "mkdir", path)

    def create(self, path):
        self._do(lambda: os.close(os.open(self._at(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)), "create", path)

    def symlink(self, target, path):
        self._do(lambda: os.symlink(target, self._at(path)), "symlink", path, target)

    def link(self, path, to):
        self._do(lambda: os.link(self._at(path), self._at(to)), "link", path, to)

    def unlink(self, path):
        self._do(lambda: os.unlink(self._at(path)), "unlink", path)

    def rmdir(self, path):
        self._do(lambda: os.rmdir(self._at(path)), "unlink", path)

    def rename(self, path, to):
        self._do(lambda: os.rename(self._at(path), self._at(to)), "rename", path, to)

    def chmod(self, path, mode):
        self._do(lambda: os.chmod(self._at(path), mode), "chmod", path, mode)

    def truncate(self, path, size):
        self._do(lambda: os.truncate(self._at(path), size), "truncate", path, size)

    def punch(self, path, at, size):
        fd = os.open(self._at(path), os.O_WRONLY)
        self._do(lambda: syscalls.punch_hole(fd, at, size), "punch", path, at, size)
        os.close(fd)

    def write(self, path, at, data):
        fd = os.open(self._at(path), os.O_WRONLY)
        done = os.pwrite(fd, data, at)
        os.close(fd)
        if done != len(data):
            raise AssertionError(f"{path}: wrote {done} of {len(data)} bytes")
        cut = -at % PAGE
        for begin, end in [(0, cut)] + [(first, first + REQUEST) for first in range(cut, len(data), REQUEST)]:
            if data[begin:end]:
                self.calls.append(("write", path, at + begin, data[begin:end]))

    def make(self, path, data):
        self.create(path)
        self.write(path, 0, data)

    def sync(self, path="", data_only=False):
        fd = os.open(self._at(path), os.O_RDONLY)
        (os.fdatasync if data_only else os.fsync)(fd)
        os.close(fd)
        self.synced(len(self.calls))

    def moment(self, found, first):
        """"" when the tree was `found` (see tree()) after at least `first` of the calls; else what is wrong in words."""
        model = Model()
        wrong = set(found)
        last, nearest = None, None
        for number in range(len(self.calls) + 1):
            for path in model.do(*self.calls[number - 1]) if number > 0 else ():
                (wrong.discard if model.shows(path) == found.get(path) else wrong.add)(path)
            if not wrong:
                last = number
            if number >= first and (nearest is None or len(wrong) <= len(nearest[1])):
                nearest = number, sorted(wrong)
        if last is not None:
            return "" if last >= first else f"lost: the tree is as after call {last}, and {first} calls had been synced"
        call = [str(word)[:60] for word in self.calls[nearest[0] - 1]] if nearest[0] > 0 else []
        return f"no moment: most like that after call {nearest[0]} {call}, but for {nearest[1][:10]}"


class Node:
    def __init__(self, kind, mode, data=None):
        self.kind, self.mode, self.data, self.names = kind, mode, data, set()


class Model:
    """The tree as the calls make it. Each call gives the paths that it has changed."""

    def __init__(self):
        self._nodes = {}

    def shows(self, path):
        node = self._nodes.get(path)
        if node is None:
            return None
        return node.kind, node.mode, node.data, len(node.names) if node.kind == "file" else 0

    def do(self, call, path, *words):
        return getattr(self, "_" + call)(path, *words)

    def _add(self, path, node):
        self._nodes[path] = node
        node.names.add(path)
        return node.names

    def _mkdir(self, path):
        return self._add(path, Node("folder", 0o755))

    def _create(self, path):
        return self._add(path, Node("file", 0o644, bytearray()))

    def _symlink(self, path, target):
        return self._add(path, Node("link", 0o777, target))

    def _link(self, path, to):
        return self._add(to, self._nodes[path])

    def _unlink(self, path):
        node = self._nodes.pop(path)
        node.names.remove(path)
        return node.names | {path}

    def _rename(self, path, to):
        touched = set()
        if to in self._nodes:
            touched |= self._unlink(to)
        for old in [path] + [other for other in self._nodes if other.startswith(path + "/")]:
            touched |= self._unlink_alone(old, to + old[len(path):])
        return touched

    def _unlink_alone(self, path, to):
        node = self._nodes.pop(path)
        node.names.remove(path)
        return self._add(to, node) | {path}

    def _chmod(self, path, mode):
        self._nodes[path].mode = mode
        return self._nodes[path].names

    def _write(self, path, at, data):
        contents = self._nodes[path].data
        contents.extend(bytes(max(0, at - len(contents))))
        contents[at:at + len(data)] = data
        return self._nodes[path].names

    def _truncate(self, path, size):
        contents = self._nodes[path].data
        contents.extend(bytes(max(0, size - len(contents))))
        del contents[size:]
        return self._nodes[path].names

    def _punch(self, path, at, size):
        contents = self._nodes[path].data
        end = min(at + size, len(contents))
        if at < end:
            contents[at:end] = bytes(end - at)
        return self._nodes[path].names


def tree(root):
    """{path: (kind, mode, contents, number of names)}: all of it read."""
    found = {}
    for place, folders, names in os.walk(root, onerror=_raise):
        for name in folders + names:
            path = os.path.join(place, name)
            facts = os.lstat(path)
            mode = stat.S_IMODE(facts.st_mode)
            if stat.S_ISDIR(facts.st_mode):
                what = "folder", mode, None, 0
            elif stat.S_ISLNK(facts.st_mode):
                what = "link", mode, os.readlink(path), 0
            elif not stat.S_ISREG(facts.st_mode):
                what = "special", mode, (stat.S_IFMT(facts.st_mode), facts.st_rdev), facts.st_nlink
            else:
                with open(path, "rb") as file:
                    what = "file", mode, file.read(), facts.st_nlink
                if len(what[2]) != facts.st_size:
                    raise AssertionError(f"{path}: {len(what[2])} bytes read of {facts.st_size}")
            found[os.path.relpath(path, root)] = what
    return found


def _raise(error):
    raise error
