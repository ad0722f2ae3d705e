"""A Subversion repository of which one half was loaded before and one after the device had aged: how much of what the
layout gives is left for a tree that was copied in and then used for months."""

import os

from shared.cold import seeded
from shared.commands import Problem, call, run

from .workload import Workload

KiB = 1 << 10


def _record(out, headers, properties, text):
    body = b"".join(b"K %d\n%s\nV %d\n%s\n" % (len(key), key, len(value), value) for key, value in properties.items()) + b"PROPS-END\n"
    if text is not None:
        headers = {**headers, "Text-content-length": len(text)}
    headers = {**headers, "Prop-content-length": len(body), "Content-length": len(body) + len(text or b"")}
    out.write("".join(f"{key}: {value}\n" for key, value in headers.items()).encode() + b"\n" + body + (text or b"") + b"\n\n")


def write_dump(path, revisions, files, rng):
    """A dump (format 2, as svnadmin(1) loads it) of made-up revisions: each changes some files, and now and then adds one."""
    names = []
    words = [rng.randbytes(12).hex().encode() for _ in range(2000)]

    def text():
        return b"\n".join(b" ".join(rng.choices(words, k=5)) for _ in range(rng.randint(5, 300))) + b"\n"

    with open(path, "wb") as out:
        out.write(b"SVN-fs-dump-format-version: 2\n\n")
        for revision in range(1, revisions + 1):
            _record(out, {"Revision-number": revision}, {b"svn:date": b"2020-01-01T00:00:00.000000Z", b"svn:author": b"author",
                                                         b"svn:log": b"change %d" % revision}, None)
            if revision == 1:
                for folder in range(20):
                    _record(out, {"Node-path": f"d{folder}", "Node-kind": "dir", "Node-action": "add"}, {}, None)
            fresh = files if revision == 1 else int(rng.random() < 0.3)
            for _ in range(fresh):
                names.append(f"d{rng.randrange(20)}/f{len(names):05}")
                _record(out, {"Node-path": names[-1], "Node-kind": "file", "Node-action": "add"}, {}, text())
            for name in rng.sample(names[:len(names) - fresh or None], min(4, len(names))) if revision > 1 else []:
                _record(out, {"Node-path": name, "Node-kind": "file", "Node-action": "change"}, {}, text())


class Svn(Workload):
    name = "svn"
    help = "svnbench on a repository half loaded before and half after aging"
    COMMANDS = {"null-export": ["null-export", "-q"], "null-log": ["null-log", "-q"], "null-log -v": ["null-log", "-q", "-v"]}

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--revisions", type=int, default=2000, metavar="N", help="default: 2000")
        parser.add_argument("--files", type=int, default=500, metavar="N", help="of the first revision; default: 500")
        parser.add_argument("--churn", type=int, default=20000, metavar="N", help="files of 4 to 64 KiB made between the halves, of which every other one is removed; default: 20000")
        parser.add_argument("--runs", type=int, default=3, help="default: 3")

    def __init__(self, given):
        self._given = given
        if min(given.revisions, given.files, given.runs) < 1 or given.revisions < 2 or given.churn < 0:
            raise Problem("--revisions: at least 2; --files and --runs: at least 1; --churn: not less than 0")
        for tool in ("svnadmin", "svnbench"):
            if call("which", tool)[0] != 0:
                raise Problem(f"{tool}: not installed; install subversion and subversion-tools")

    def asked(self):
        return {name: getattr(self._given, name) for name in ("revisions", "files", "churn", "runs")}

    def prepare(self, context):
        self._dump = os.path.join(context.work.path, "dump")
        write_dump(self._dump, self._given.revisions, self._given.files, seeded(context.seed, self.name))
        self._halves = os.path.join(context.work.path, "half")
        run("sh", "-c", 'svnadmin create "$1" && svnadmin load -q "$1" < "$2" && svnadmin dump -q -r "0:$3" "$1" > "$4.1" && '
                        'svnadmin dump -q --incremental -r "$(($3 + 1)):HEAD" "$1" > "$4.2" && rm -r "$1"', "sh",
            os.path.join(context.work.path, "whole"), self._dump, str(self._given.revisions // 2), self._halves)

    def steps(self):
        return self._given.runs

    def run(self, stage):
        stage.open()
        repository = os.path.join(stage.point, "repository")
        with stage.aging():
            run("svnadmin", "create", repository)
            self._load(stage, repository, 1)
            self._churn(stage)
            self._load(stage, repository, 2)
        scans = [(name, number, words) for number in range(self._given.runs) for name, words in self.COMMANDS.items()]
        for name, number, words in scans:
            stage.context.tell(f"svnbench {name}")
            stage.scan_cold(name + ", aged", number, self._command(words, stage.point))
        stage.scan_twin_cold([(name + ", unaged", number, lambda point, words=words: self._command(words, point)) for name, number, words in scans])
        stage.context.advance(self._given.runs)
        stage.close(None)

    @staticmethod
    def _command(words, point):
        return ["svnbench", *words, "file://" + os.path.join(point, "repository")]

    def _load(self, stage, repository, half):
        stage.context.tell(f"loading half {half}")
        run("sh", "-c", 'svnadmin load -q "$1" < "$2"', "sh", repository, f"{self._halves}.{half}")

    def _churn(self, stage):
        stage.context.tell("filling and emptying the device between the halves")
        rng = seeded(stage.context.seed, "churn")
        folder = os.path.join(stage.point, "churn")
        os.makedirs(folder)
        for number in range(self._given.churn):
            with open(os.path.join(folder, f"{number:06}"), "wb", buffering=0) as file:
                file.write(rng.randbytes(rng.randint(1, 16) * 4 * KiB))
            if number % 2:
                os.unlink(os.path.join(folder, f"{number - 1:06}"))
