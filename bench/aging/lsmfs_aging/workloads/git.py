"""Pulls of a repository, one commit each, oldest first: the study's main workload."""

import os

import synthetic_repository

from shared.commands import Problem, call, described, one_line, read, run
from shared.file_systems import parse_size

from .. import memory
from .workload import Workload


def _check_repository(path):
    status, _, err, _ = call("git", "-C", path, "rev-parse", "--git-dir")
    if status != 0:
        raise Problem(f"--repo {path}: is no git repository: {one_line(err)}")
    if read("git", "-C", path, "rev-parse", "--is-shallow-repository") == "true":
        raise Problem(f"--repo {path}: is a shallow clone; fetch its whole history (git fetch --unshallow)")
    if call("git", "-C", path, "rev-parse", "-q", "--verify", "HEAD^{commit}")[0] != 0:
        raise Problem(f"--repo {path}: has no commit")


class Git(Workload):
    name = "git"
    help = "pulls of a git repository, one commit each"

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--repo", metavar="PATH", help="a local git repository; default: a made-up one (see --commits, --files)")
        parser.add_argument("--pulls", type=int, default=2000, help="default: 2000")
        parser.add_argument("--every", type=int, default=200, metavar="M", help="measure after every M pulls; default: 200")
        parser.add_argument("--gc", choices=("on", "off"), default="off", help="git's automatic repacking; default: off")
        parser.add_argument("--commits", type=int, default=0, metavar="N", help="of the made-up repository; default: as many as pulls")
        parser.add_argument("--files", type=int, default=2000, metavar="N", help="of its first commit; default: 2000")

    def __init__(self, given):
        self._given = given
        if given.pulls < 1 or given.every < 1:
            raise Problem("--pulls and --every: at least 1")
        if given.repo:
            _check_repository(given.repo)
        self._source = None
        self._commits = []

    def asked(self):
        given = self._given
        repository = {"head": read("git", "-C", given.repo, "rev-parse", "HEAD"), "name": os.path.basename(os.path.realpath(given.repo))} \
            if given.repo else {"made up": True, "commits": given.commits or given.pulls, "files": given.files}
        return {"repository": repository, "pulls": given.pulls, "every": given.every, "gc": given.gc}

    def prepare(self, context):
        given = self._given
        self._source = os.path.join(context.work.path, "source.git")
        context.tell("making the repository to pull from")
        if given.repo:
            run("git", "clone", "-q", "--bare", "--no-hardlinks", given.repo, self._source)
        else:
            synthetic_repository.make(self._source, commits=given.commits or given.pulls, files=given.files, seed=context.seed)
        run("git", "-C", self._source, "config", "uploadpack.allowReachableSHA1InWant", "true")
        # Parents before children, or a pull might find its commit there already.
        self._commits = read("git", "-C", self._source, "rev-list", "--reverse", "--topo-order", "HEAD").split()
        if len(self._commits) < given.pulls:
            raise Problem(f"the repository has {len(self._commits)} commits, and --pulls asks for {given.pulls}")
        self._commits = self._commits[:given.pulls]

    def steps(self):
        return self._given.pulls

    def run(self, stage):
        done = stage.open()
        copy = os.path.join(stage.point, "repo")
        if done == 0:
            run("git", "init", "-q", "-b", "main", copy)
            for key, value in (("gc.autodetach", "false"), ("maintenance.autoDetach", "false"), *([("gc.auto", "0")] if self._given.gc == "off" else [])):
                run("git", "-C", copy, "config", key, value)
        head = self._head(copy)
        for number, commit in enumerate(self._commits[done:], done + 1):
            if number % 20 == 1:
                stage.context.tell(f"pull {number}")
            with stage.aging():
                self._pull(copy, commit, number)
            now = self._head(copy)
            if now == head:
                raise Problem(f"{stage.fs.name}: pull {number} ({commit}) did not move HEAD from {head}")
            head = now
            if number % self._given.every == 0 or number == len(self._commits):
                self.measure(stage, number, number == len(self._commits), head)
            stage.checkpoint(number)
        stage.close(None)

    def measure(self, stage, number, last, head):
        stage.measure(number, last=last, head=head)

    def _pull(self, copy, commit, number):
        """What `-X theirs` does not decide, as when one side has removed what the other changed, is decided for them, too. The
        source's path is in the text of merges, so it is one that is the same in each sitting."""
        pull = ["git", "pull", "--no-edit", "-q", "--no-rebase", "--allow-unrelated-histories", "-s", "recursive", "-X", "theirs",
                os.path.relpath(self._source, copy), commit]
        status, out, err, _ = call(*pull, cwd=copy, environment=self._dates(number))
        if status == 0:
            return
        undecided = read("git", "-C", copy, "ls-files", "-u", "-z").split("\0")[:-1] if status == 1 else []
        if not undecided:
            raise Problem(f"{described(pull)}: exit status {status}: {one_line(err.strip() or out)}")
        stages = {}
        for entry in undecided:  # "mode object stage\tpath"
            facts, _, path = entry.partition("\t")
            stages.setdefault(path, set()).add(facts.split()[2])
        for path, there in stages.items():
            if "3" in there:
                run("git", "-C", copy, "checkout", "-q", "--theirs", "--", path)
                run("git", "-C", copy, "add", "--", path)
            else:
                run("git", "-C", copy, "rm", "-q", "-f", "--", path)
        run("git", "-C", copy, "commit", "-q", "--no-edit", environment=self._dates(number))

    @staticmethod
    def _dates(number):
        """So that merges are the same commits on every file system."""
        date = f"{1_600_000_000 + number} +0000"
        return {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}

    @staticmethod
    def _head(copy):
        """The branch's commit; empty: none yet. Without a process, since it is asked for after each pull."""
        try:
            with open(os.path.join(copy, ".git", "refs", "heads", "main"), encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:  # packed, or nothing yet
            status, out, _, _ = call("git", "-C", copy, "rev-parse", "-q", "--verify", "HEAD")
            return out.strip() if status == 0 else ""


class GitWarm(Git):
    """The same without dropping caches, in a control group whose memory is limited: daemons and page cache count alike."""

    name = "git-warm"
    help = "the same with warm caches and little memory"

    @staticmethod
    def add_arguments(parser):
        Git.add_arguments(parser)
        parser.add_argument("--memory", default="768m", metavar="SIZE", help="for caches, daemons and programs together; default: 768m")

    def __init__(self, given):
        super().__init__(given)
        try:
            self._memory = parse_size(given.memory)
        except ValueError as error:
            raise Problem(f"--memory {error}") from None
        memory.check()

    def asked(self):
        return {**super().asked(), "memory": self._memory}

    def around(self):
        return memory.limited(self._memory)

    def measure(self, stage, number, last, head):
        stage.measure_warm(number, last=last, head=head)
