"""File systems, each known by a description file: the commands that make, mount and unmount it, and nothing else."""

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
DAEMON_PATIENCE = 600  # seconds for a daemon to end after umount(8)


def known():
    return sorted(name.removesuffix(".toml") for name in os.listdir(FOLDER) if name.endswith(".toml"))


def parse_size(text):
    match = re.fullmatch(r"([0-9]+)([kmgt]?)", text.strip().lower())
    if not match:
        raise ValueError(f"{text}: is not a size; write 20g or 512m")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]]


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
            else:
                self._words[key] = shlex.split(value) if key == "mkfs" else ["rw," + value]
        if not re.fullmatch(r"[A-Za-z0-9._-]+", self.name):
            raise Problem(f"--fs {text}: the name '{self.name}' has other characters than letters, digits, . _ and -")
        try:
            with open(path, "rb") as file:
                self._description = tomllib.load(file)
        except FileNotFoundError:
            raise Problem(f"--fs {kind}: unknown; known are {', '.join(known())}, or give a description file (.toml)") from None
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise Problem(f"--fs {path}: {error}") from None
        for command in COMMANDS:
            if not self._description.get(command):
                raise Problem(f"--fs {path}: says no command `{command}`")
        self.smallest = parse_size(self._description.get("smallest", "16m"))
        self._daemons = []

    def check(self):
        """Problem, unless its tools are here."""
        for tool in self._description.get("needs", []):
            tool = tool.replace("{lsmfs}", self._words["lsmfs"][0])
            if shutil.which(tool) is None:
                hint = "build it (cmake --preset release && cmake --build --preset release)" if "/" in tool else "install it or leave it out of --fs"
                raise Problem(f"{self.name}: {tool}: not there; {hint}")

    def facts(self):
        """For the results: the commands as they are run, and the version of the tools."""
        _, out, err, _ = call(*self._command("version")) if "version" in self._description else (0, "", "", 0)
        return {"name": self.name, "kind": self.kind, "version": one_line(out or err),
                **{command: " ".join(self._command(command, device="DEVICE", point="POINT")) for command in COMMANDS}}

    def _command(self, which, **places):
        words = []
        for word in self._description[which]:
            if word == "{mkfs}":
                words += self._words["mkfs"]
                continue
            for name, value in {**places, "lsmfs": self._words["lsmfs"][0], "mount": self._words["mount"][0],
                                "mkfs": shlex.join(self._words["mkfs"])}.items():
                word = word.replace("{" + name + "}", value)
            words.append(word)
        return words

    def make(self, device):
        run(*self._command("mkfs", device=device))

    def mount(self, device, point):
        run(*self._command("mount", device=device, point=point))
        if not os.path.ismount(point):
            raise Problem(f"{self.name}: nothing is mounted at {point} after its mount command")
        self._daemons = [process for process in workspace.processes_of(point) if self._is_daemon(process[0])]

    def _is_daemon(self, pid):
        """A process of a file system in user space, which names the mount point on its command line."""
        try:
            program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            return False
        return program in (self.kind, self._description.get("daemon"), os.path.basename(os.path.realpath(self._words["lsmfs"][0])))

    def memory(self):
        """(largest resident, anonymous now) bytes of its daemons while it is mounted; None: it has no daemon."""
        if not self._daemons:
            return None
        peak = anonymous = 0
        for pid, _ in self._daemons:
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
        start = time.perf_counter()
        run(*self._command("umount", point=point, device=read("findmnt", "-n", "-o", "SOURCE", point)))
        deadline = time.monotonic() + DAEMON_PATIENCE
        while any(workspace.start_time(pid) == begun for pid, begun in self._daemons):
            if time.monotonic() > deadline:
                raise Problem(f"{self.name}: its daemon is still there {DAEMON_PATIENCE} s after umount")
            time.sleep(0.005)
        return time.perf_counter() - start
