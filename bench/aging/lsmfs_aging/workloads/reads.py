"""Cold reads of trees that were just made: what the layout and the price of a missing name alone come to."""

import gzip
import os
import shutil
import time

import synthetic_repository

from shared.cold import seeded
from shared.commands import Problem, call, run

from .workload import Workload


class _Variants(Workload):
    """A tree in some variants on one file system, each read several times, cold, in an order permuted from run to run."""

    def steps(self):
        return self._runs

    def run(self, stage):
        done = stage.open()
        if done == 0:
            stage.context.tell("making the trees")
            self.make(stage)
        for number in range(done, self._runs):
            variants = self.variants()
            seeded(stage.context.seed, self.name, number).shuffle(variants)
            for variant in variants:
                stage.context.tell(f"run {number + 1}: {variant}")
                stage.scan_cold(variant, number, self.command(stage, variant), **self.facts(stage, variant))
            stage.checkpoint(number + 1)
        stage.close(None)

    def facts(self, stage, variant):
        return {}


class XargsCat(_Variants):
    name = "xargs-cat"
    help = "find | xargs cat of twin trees, with flat and with compressed contents"

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--tree", metavar="FOLDER", help="what to copy; default: a made-up source tree (see --files)")
        parser.add_argument("--files", type=int, default=5000, metavar="N", help="of the made-up tree; default: 5000")
        parser.add_argument("--runs", type=int, default=10, help="default: 10")

    def __init__(self, given):
        self._runs, self._files, self._tree = given.runs, given.files, given.tree
        if given.runs < 1 or given.files < 1:
            raise Problem("--runs and --files: at least 1")
        if given.tree and not os.path.isdir(given.tree):
            raise Problem(f"--tree {given.tree}: is not a directory")

    def asked(self):
        return {"tree": self._tree or {"made up": self._files}, "runs": self._runs}

    def prepare(self, context):
        self._sources = context.work.sub("trees")
        flat = os.path.join(self._sources, "flat")
        if self._tree:
            run("cp", "-a", self._tree, flat)
        else:
            repository = os.path.join(self._sources, "repository")
            synthetic_repository.make(repository, commits=1, files=self._files, seed=context.seed, tags=0)
            run("git", "clone", "-q", repository, flat)
            shutil.rmtree(os.path.join(flat, ".git"))
            shutil.rmtree(repository)
        packed = os.path.join(self._sources, "gzip")
        run("cp", "-a", flat, packed)
        for folder, _, names in os.walk(packed):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as file:
                        data = file.read()
                    with open(path, "wb") as file:
                        file.write(gzip.compress(data, 6, mtime=0))

    def variants(self):
        return ["flat-1", "flat-2", "gzip-1", "gzip-2"]

    def make(self, stage):
        for variant in self.variants():
            run("cp", "-a", os.path.join(self._sources, variant.partition("-")[0]), os.path.join(stage.point, variant))

    def command(self, stage, variant):
        return ["sh", "-c", 'find "$1" -type f -print0 | xargs -0 cat > /dev/null', "sh", os.path.join(stage.point, variant)]


class GitIgnore(_Variants):
    name = "gitignore"
    help = "opens of names that do not exist: one in every directory, and git's for .gitignore"

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--repo", metavar="PATH", help="a local git repository; default: a made-up one (see --files)")
        parser.add_argument("--files", type=int, default=5000, metavar="N", help="of the made-up repository; default: 5000")
        parser.add_argument("--runs", type=int, default=5, help="default: 5")

    def __init__(self, given):
        self._runs, self._files, self._repository = given.runs, given.files, given.repo
        if given.runs < 1 or given.files < 1:
            raise Problem("--runs and --files: at least 1")
        if given.repo and call("git", "-C", given.repo, "rev-parse", "-q", "--verify", "HEAD^{commit}")[0] != 0:
            raise Problem(f"--repo {given.repo}: is no git repository with a commit")

    def asked(self):
        return {"repository": self._repository or {"made up": self._files}, "runs": self._runs}

    def prepare(self, context):
        self._source = os.path.join(context.work.path, "source.git")
        if self._repository:
            run("git", "clone", "-q", "--bare", self._repository, self._source)
        else:
            synthetic_repository.make(self._source, commits=2, files=self._files, seed=context.seed, tags=0)

    def variants(self):
        return ["list", "list-and-open-missing", "read-tree", "read-tree-with-excludes"]

    def make(self, stage):
        copy = os.path.join(stage.point, "repo")
        run("git", "clone", "-q", self._source, copy)
        # An index of the same second as its files does not vouch for them, and git would read them all.
        time.sleep(1.1)
        run("git", "-C", copy, "read-tree", "-m", "-u", "HEAD", "HEAD")
        run("git", "-C", copy, "update-index", "-q", "--refresh")

    # Both walk all directories; the second also asks each for a name that is not there. The difference is the price of
    # asking. Perl, since it starts quickly and everywhere has it that has git.
    _WALK = 'use File::Find; my $ask = shift; find(sub { if (-d $_ && $ask) { open(my $f, "<", "$_/.no-such-name") and die } }, @ARGV)'

    def command(self, stage, variant):
        copy = os.path.join(stage.point, "repo")
        if variant.startswith("list"):
            return ["perl", "-e", self._WALK, str(int(variant != "list")), copy]
        excludes = ["--exclude-per-directory=.gitignore"] if variant.endswith("excludes") else []
        return ["git", "-C", copy, "read-tree", "-m", "-u", *excludes, "HEAD", "HEAD"]

    def facts(self, stage, variant):
        return {"directories": sum(1 for _ in os.walk(os.path.join(stage.point, "repo")))} if variant == "list-and-open-missing" else {}
