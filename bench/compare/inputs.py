"""What is put on the file systems, made once for all of them, on the disk on which their devices lie as well."""

import lzma
import os
import re
import shutil
import tarfile

import layer
import made_up
import projects
import synthetic_repository
from shared.cold import seeded
from shared.commands import ENVIRONMENT, Problem, call, read, run

KiB, MiB = 1 << 10, 1 << 20
ENVIRONMENT["GIT_CONFIG_GLOBAL"] = os.path.join(os.path.dirname(os.path.realpath(__file__)), "gitconfig")

_BAD_TAR = (OSError, tarfile.TarError, lzma.LZMAError, EOFError)


def check_tree(path):
    """Problem, unless it is a tar file, as it is or compressed by xz."""
    if not os.path.exists(path):
        raise Problem(f"--tree {path}: not there; `scripts/install-deps --bench` installs the default tree")
    packed = path.endswith(".xz")
    if packed and shutil.which("xz") is None:
        raise Problem(f"--tree {path}: xz is not installed; install it (scripts/install-deps --bench) or give a .tar")
    try:
        tarfile.open(path, "r:xz" if packed else "r:").close()
    except _BAD_TAR as error:
        raise Problem(f"--tree {path}: is no {'.tar.xz' if packed else '.tar'}: {getattr(error, 'strerror', None) or error}") from None


def has_linux(path):
    """Whether there is such a tar file, and it is the source of Linux. It is read as far as to its Kconfig."""
    try:
        check_tree(path)
        with tarfile.open(path, "r|xz" if path.endswith(".xz") else "r|") as tar:
            return any(re.fullmatch(r"(\./)?([^/]+/)?Kconfig", entry.name) for entry in tar)
    except (Problem, *_BAD_TAR):
        return False


def check_repository(path):
    """Problem, unless it is a git repository with some history."""
    if call("git", "-C", path, "rev-parse", "--verify", "--quiet", "HEAD~1")[0] != 0:
        raise Problem(f"--repo {path}: is no git repository with two commits or more")


def room(name, tree, repository, settings):
    """About the bytes that an input takes when it has been made."""
    if name == "tree":
        return int(read("xz", "--robot", "-l", tree).split("\t")[-5]) if tree.endswith(".xz") else 0
    if name == "tree-repository":  # besides the files that it is made of
        return 2 * (room("tree", tree, repository, settings) or os.path.getsize(tree))
    if name == "repository":
        return 0 if repository else (settings["repo-commits"] + settings["repo-files"]) * 16 * KiB
    if name == "beside":
        return settings[name]
    if name in projects.KINDS:
        return settings[name] * projects.KIB_OF_PACKAGE * KiB
    return settings[name] * 16 * KiB


class Inputs:
    """`tree`: a tar file, as it is or compressed by xz. `repository`: a git repository; None: one is made up."""

    def __init__(self, folder, tree, repository, settings, seed, say):
        self._folder, self._tree, self._repository, self._settings, self._seed, self._say = folder, tree, repository, settings, seed, say
        self._paths = {}
        self._seen = {}  # what trees come to, by what they are called

    def same_everywhere(self, what, tree):
        """Problem, unless the tree has as many entries and bytes as on the file systems before: what is lost is searched fast."""
        entries = size = 0
        for folder, folders, names in os.walk(tree, onerror=_fail):
            entries += len(folders) + len(names)
            size += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
        first = self._seen.setdefault(what, (entries, size))
        if (entries, size) != first:
            raise Problem(f"{tree} has {entries} entries and {size} bytes, and {what} had {first[0]} and {first[1]} before: something is lost")

    def path(self, name):
        """"tree", "layer" and the kinds of made_up: a tar file; "repository": a git repository; "tree-repository": a bare one of
        the files of the tree; "beside": a large file; the kinds of projects: a folder with a "large" one and a "small" one. Made when it
        is first asked for."""
        if name not in self._paths:
            if name == "tree":
                self._paths[name] = self._plain_tar()
            elif name == "repository":
                self._paths[name] = os.path.realpath(self._repository) if self._repository else self._made_up_repository()
            elif name == "tree-repository":
                self._paths[name] = self._repository_of_tree(name)
            elif name == "beside":
                self._paths[name] = self._large_file(name)
            elif name in projects.KINDS:
                self._paths[name] = self._projects(name)
            else:
                self._say(f"making up a tree: {name}")
                self._paths[name] = os.path.join(self._folder, name + ".tar")
                if name == "layer":
                    layer.make(self._paths[name], self._settings[name], self._seed)
                else:
                    made_up.make(name, self._paths[name], self._settings[name], self._seed)
        return self._paths[name]

    def _plain_tar(self):
        if not self._tree.endswith(".xz"):
            return os.path.realpath(self._tree)
        self._say(f"unpacking {self._tree}")
        tar = os.path.join(self._folder, "tree.tar")
        run("sh", "-c", 'xz -dc "$1" > "$2"', "sh", self._tree, tar)
        return tar

    def _projects(self, kind):
        self._say(f"making up projects: {kind}")
        folder = os.path.join(self._folder, kind)
        for size, packages in (("large", self._settings[kind]), ("small", 1)):
            projects.make(kind, os.path.join(folder, size), packages, self._seed)
        return folder

    def _large_file(self, name):
        """Data that does not compress."""
        self._say(f"making up a large file: {name}")
        path, rng, left = os.path.join(self._folder, name), seeded(self._seed, name), self._settings[name]
        with open(path, "wb") as file:
            while left > 0:
                left -= file.write(rng.randbytes(min(left, MiB)))
        return path

    def _made_up_repository(self):
        self._say("making up a repository")
        path = os.path.join(self._folder, "repository.git")
        try:
            synthetic_repository.make(path, commits=self._settings["repo-commits"], files=self._settings["repo-files"], seed=self._seed)
        except (OSError, RuntimeError) as error:
            raise Problem(f"{path}: could not be made up: {error}") from None
        return path

    def _repository_of_tree(self, name):
        """Bare, of one commit, in one pack as those that were cloned."""
        self._say("making a repository of the tree")
        path, files = os.path.join(self._folder, name + ".git"), os.path.join(self._folder, name)
        os.mkdir(files)
        run("tar", "-xf", self.path("tree"), "-C", files)
        git = ["git", "-c", "gc.auto=0", "--git-dir", path]
        run(*git, "init", "-q", "--bare")
        run(*git, "--work-tree", files, "add", "--force", "--all", ".", cwd=files)
        run(*git, "--work-tree", files, "commit", "-q", "-m", "the tree")
        run(*git, "repack", "-q", "-a", "-d", "--window=0")
        os.unlink(os.path.join(path, "index"))
        shutil.rmtree(files)
        return path


def _fail(error):
    raise error


def warm_file(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(4 * MiB):
            pass


def warm_repository(path):
    """What a clone reads, which for a linked worktree lies elsewhere."""
    for folder, _, names in os.walk(read("git", "-C", path, "rev-parse", "--path-format=absolute", "--git-common-dir")):
        for file in (os.path.join(folder, name) for name in names):
            if os.path.isfile(file):
                warm_file(file)
