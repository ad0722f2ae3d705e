"""File systems, each known by a description file: the commands that make, mount and unmount it, those that clone, compare, send and watch a
folder of it, and nothing else."""

import os
import re
import shlex
import shutil
import time
import tomllib

import workspace

from .commands import Problem, call, one_line, read, run

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "fs")
COMMANDS = ("mkfs", "mount", "umount")
# Those that a description may leave out. `folder` makes one that `clone` can clone. `pending` prints something as long as what was
# removed is still being freed, and may hasten that. `fsmonitor` tells git what has changed, as its core.fsmonitor.
#
# `snapshot` makes a copy in which nothing changes; without it a folder is copied by `copy`, and such a copy brought up to date by `update`.
# `differences` prints what differs in `source` from `base`, which was the same before. `send` writes a stream of a snapshot, `send_since` one
# of what differs from the snapshot `base`, and `receive` makes `target` of either, in the same file system. `mark` keeps this moment in the
# file `mark`, and `since` prints what has changed after it. `differences` and `since` print paths in the folder among other words. By
# itself rsync takes files of the same size for the same that were changed within a second.
CLONING = {
    "folder": ["mkdir", "{target}"],
    "clone": ["cp", "-a", "{source}", "{target}"],
    "remove": ["rm", "-rf", "{target}"],
    "unpack": ["sh", "-c", 'mkdir "$2" && exec tar -xf "$1" -C "$2"', "sh", "{source}", "{target}"],
    "pending": [],
    "fsmonitor": [],
    "snapshot": [],
    "copy": ["cp", "-a", "{source}", "{target}"],
    "update": ["sh", "-c", 'rsync -a --modify-window=-1 --delete "$1/" "$2/" && mv "$2" "$3"', "sh", "{source}", "{received}", "{target}"],
    "differences": ["rsync", "-an", "--modify-window=-1", "--delete", "--itemize-changes", "{source}/", "{base}/"],
    "send": [],
    "send_since": [],
    "receive": [],
    "mark": ["touch", "{mark}"],
    "since": ["find", "{source}", "-newer", "{mark}"],
}
PLACES = {place: place.upper() for place in ("device", "point", "source", "target", "base", "received", "folder", "name", "mark")}  # in facts
DAEMON_PATIENCE = 600  # seconds for a daemon to end after umount(8)
BUSY_PATIENCE = 10  # seconds for others to close what they have open; df(1), for one, opens all there is for a moment


def known():
    return sorted(name.removesuffix(".toml") for name in os.listdir(FOLDER) if name.endswith(".toml"))


def parse_size(text):
    match = re.fullmatch(r"([0-9]+)([kmgt]?)", text.strip().lower())
    if not match:
        raise ValueError(f"{text}: is not a size; write 20g or 512m")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]]


def check_all(systems, size):
    """Problem, unless all can be made on devices of `size` bytes, and their names tell them apart."""
    names = [system.name for system in systems]
    for name in names:
        if names.count(name) > 1:
            raise Problem(f"--fs: there are two called {name}; give one another name with :as=NAME")
    for system in systems:
        system.check()
        if size < system.smallest:
            raise Problem(f"--size: {system.name} needs at least {system.smallest >> 20} MiB")


class FileSystem:
    """One kind of file system with its options. `text`: NAME or FILE.toml, then :mkfs=WORDS, :mount=OPTIONS and :as=NAME as
    wanted, with + for the comma; the name tells it in the results."""

    def __init__(self, text, lsmfs):
        kind, *settings = text.split(":")
        path = kind if kind.endswith(".toml") else os.path.join(FOLDER, kind + ".toml")
        self.kind = os.path.basename(kind).removesuffix(".toml")
        self.name = self.kind
        self._words = {"lsmfs": [lsmfs], "mkfs": [], "mount": ["rw"]}
        for setting in settings:
            key, equals, value = setting.partition("=")
            value = value.replace("+", ",")
            if key not in ("mkfs", "mount", "as") or not equals:
                raise Problem(f"--fs {text}: '{setting}' is none of mkfs=WORDS, mount=OPTIONS, as=NAME")
            if key == "as":
                self.name = value
            elif key == "mkfs":
                try:
                    self._words["mkfs"] = shlex.split(value)
                except ValueError as error:
                    raise Problem(f"--fs {text}: mkfs={value}: {error}") from None
            else:  # of more than one, the later options go before the earlier
                self._words["mount"] = [self._words["mount"][0] + "," + value]
        if not re.fullmatch(r"[A-Za-z0-9._-]+", self.name):
            raise Problem(f"--fs {text}: the name '{self.name}' has other characters than letters, digits, . _ and -")
        try:
            with open(path, "rb") as file:
                self._description = tomllib.load(file)
        except FileNotFoundError:
            raise Problem(f"--fs {kind}: unknown; known are {', '.join(known())}, or give a description file (.toml)") from None
        except (OSError, ValueError) as error:
            raise Problem(f"--fs {path}: {error}") from None
        for command in COMMANDS:
            if not self._description.get(command):
                raise Problem(f"--fs {path}: says no command `{command}`")
        try:
            self.smallest = parse_size(self._description.get("smallest", "16m"))
        except (ValueError, AttributeError) as error:
            raise Problem(f"--fs {path}: smallest: {error}") from None
        self._daemons = {}  # mount point -> [(pid, start)]: two may be mounted at the same time

    def tools(self):
        return [tool.replace("{lsmfs}", self._words["lsmfs"][0]) for tool in self._description.get("needs", [])]

    def check(self):
        """Problem, unless its tools are here."""
        for tool in self.tools():
            if shutil.which(tool) is None:
                hint = "build it (cmake --preset release && cmake --build --preset release)" if "/" in tool else "install it or leave it out of --fs"
                raise Problem(f"{self.name}: {tool}: not there; {hint}")

    def mount_option(self, name):
        """The value that the option NAME=VALUE is mounted with, the last one if there are several; None: it is not given."""
        words = self._words["mount"][0].split(",")
        return {key: value for key, equals, value in (word.partition("=") for word in words) if equals}.get(name)

    def facts(self, also=()):
        """For the results: the commands as they are run, those of CLONING that are in `also` among them, and the version of the tools."""
        _, out, err, _ = call(*self._command("version")) if "version" in self._description else (0, "", "", 0)
        return {"name": self.name, "kind": self.kind, "version": one_line(out or err, last=20),
                **{command: " ".join(self._command(command, **PLACES)) for command in (*COMMANDS, *also)}}

    def _command(self, which, **places):
        words = []
        for word in self._description.get(which) or CLONING[which]:
            if word == "{mkfs}":
                words += self._words["mkfs"]
                continue
            for name, value in {**places, "lsmfs": self._words["lsmfs"][0], "mount": self._words["mount"][0],
                                "mkfs": shlex.join(self._words["mkfs"])}.items():
                word = word.replace("{" + name + "}", value)
            words.append(word)
        return words

    @property
    def shares(self):
        """Whether a clone shares what it is made of, so that many of them fit."""
        return "clone" in self._description

    def folder_command(self, target):
        """Makes a folder that can be cloned."""
        return self._command("folder", target=target)

    def clone_command(self, source, target):
        """Makes `target`, which is not there, a copy of such a folder and of all below it."""
        return self._command("clone", source=source, target=target)

    def unpack_command(self, archive, target):
        """Makes `target`, which is not there, a folder of what the archive has."""
        return self._command("unpack", source=archive, target=target)

    def remove_command(self, target):
        """Removes such a folder, or a clone, with all below it."""
        return self._command("remove", target=target)

    @property
    def snapshots(self):
        """Whether it can keep a folder as it is."""
        return "snapshot" in self._description

    def snapshot_command(self, source, target):
        """Makes `target`, which is not there, a copy of such a folder in which nothing changes. It lies in .snapshots of the root."""
        return self._command("snapshot", source=source, target=target, name=os.path.basename(target))

    def differences_command(self, source, base):
        """Prints the paths of what differs in `source` from `base`: snapshots, or a folder and a copy of what it was."""
        return self._command("differences", source=source, base=base)

    def stream_command(self, source, base=None):
        """Writes a stream of a snapshot, or of what differs from the snapshot `base`; []: it has no streams."""
        return self._command("send_since" if base else "send", source=source, base=base or "")

    def transfer_command(self, source, target, base=None, received=None):
        """Makes `target`, which is not there, the same as `source`: of all that is in it, or of what differs from `base`, whose copy is `received`.
        Without streams that copy becomes `target`."""
        stream = self.stream_command(source, base)
        if not stream:
            return self._command("update" if base else "copy", source=source, target=target, received=received or "")
        receive = self._command("receive", target=target, folder=os.path.dirname(target), name=os.path.basename(target))
        return ["bash", "-c", f"set -o pipefail; {shlex.join(stream)} | {shlex.join(receive)}"]

    def mark_command(self, source, mark):
        """Keeps in a file which moment this is, for a folder."""
        return self._command("mark", source=source, mark=mark)

    def since_command(self, source, mark):
        """Prints the paths of what has changed there since."""
        return self._command("since", source=source, mark=mark)

    def fsmonitor(self):
        """What git may call to be told what has changed, as one line for a shell; "": nothing."""
        return shlex.join(self._command("fsmonitor"))

    def frees(self, point):
        """Whether it is still busy to free what was removed, as far as it tells."""
        command = self._command("pending", point=point)
        return bool(command) and read(*command) != ""

    def make(self, device):
        run(*self._command("mkfs", device=device))

    def mount(self, device, point):
        run(*self._command("mount", device=device, point=point))
        if not os.path.ismount(point):
            raise Problem(f"{self.name}: nothing is mounted at {point} after its mount command")
        self._daemons[point] = [process for process in workspace.processes_of(point) if self._is_daemon(process[0])]
        if self.kind == "lsmfs" and not self._daemons[point]:
            raise Problem(f"{self.name}: no daemon has {point} on its command line after its mount command")

    def _is_daemon(self, pid):
        """A process of a file system in user space, which names the mount point on its command line."""
        try:
            program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            return False
        return program in (self.kind, self._description.get("daemon"), os.path.basename(os.path.realpath(self._words["lsmfs"][0])))

    def daemons(self, point):
        """Process ids of its daemons, as long as it is mounted there; none: it has no daemon."""
        return [pid for pid, _ in self._daemons.get(point, ())]

    def memory(self, point):
        """(largest resident, anonymous now) bytes of its daemons while it is mounted there; None: it has no daemon."""
        daemons = self.daemons(point)
        if not daemons:
            return None
        peak = anonymous = 0
        for pid in daemons:
            try:
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                    fields = dict(line.split(":", 1) for line in file)
                peak += int(fields["VmHWM"].split()[0]) * 1024
                anonymous += int(fields["RssAnon"].split()[0]) * 1024
            except (OSError, KeyError):
                raise Problem(f"{self.name}: its daemon (process {pid}) has gone while it was mounted") from None
        return peak, anonymous

    def unmount(self, point):
        """Returns when all is on the device. Gives the seconds that took."""
        asks = any("{device}" in word for word in self._description["umount"])
        command = self._command("umount", point=point, device=read("findmnt", "-n", "-o", "SOURCE", point) if asks else "")
        start = self._run_when_not_busy(command)
        deadline = time.monotonic() + DAEMON_PATIENCE
        while any(workspace.start_time(pid) == begun for pid, begun in self._daemons.get(point, ())):
            if time.monotonic() > deadline:
                raise Problem(f"{self.name}: its daemon is still there {DAEMON_PATIENCE} s after umount")
            time.sleep(0.005)
        return time.perf_counter() - start

    @staticmethod
    def _run_when_not_busy(command):
        """Returns when that began which succeeded."""
        deadline = time.monotonic() + BUSY_PATIENCE
        while True:
            start = time.perf_counter()
            try:
                run(*command)
                return start
            except Problem as problem:
                if "target is busy" not in str(problem) or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)
