"""The file systems that are compared: how each is made, mounted and unmounted."""

import os
import subprocess
import time

import workspace

PEERS = ("ext4", "xfs", "btrfs")
ALL = PEERS + ("lsmfs",)


class CommandFailed(Exception):
    pass


def run(*command, seconds=1800, ok=(0,), cwd=None):
    """Runs a command to its end. Returns the seconds it took."""
    environment = dict(os.environ, LC_ALL="C", GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull)
    start = time.perf_counter()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=seconds, cwd=cwd, env=environment, check=False)
    except FileNotFoundError as error:
        raise CommandFailed(f"{command[0]}: not installed ({error.strerror}); see scripts/install-deps --bench") from None
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{' '.join(command)}: not done after {seconds} s") from None
    taken = time.perf_counter() - start
    if done.returncode not in ok:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise CommandFailed(f"{' '.join(command)}: exit status {done.returncode}: {said}")
    return taken


class Peer:
    """ext4, xfs or btrfs with their defaults, except that ext4 makes its tables at once: by default it goes on
    with that in the background, which would be charged to the work measured."""

    _mkfs = {"ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
             "xfs": ["mkfs.xfs", "-q", "-f"],
             "btrfs": ["mkfs.btrfs", "-q", "-f"]}

    def __init__(self, name):
        self.name = name

    def make(self, device):
        run(*self._mkfs[self.name], device)

    def mount(self, device, point):
        run("mount", "-t", self.name, device, point)

    def unmount(self, point):
        """Unmounts; returns the seconds until all is on the device."""
        return run("umount", point)

    def memory(self):
        """(peak resident, anonymous) bytes of the daemon; None: there is no daemon."""
        return None


class Lsmfs(Peer):
    def __init__(self, binary, options):
        super().__init__("lsmfs")
        self._binary = binary
        self._options = options
        self._daemons = []

    def make(self, device):
        run(self._binary, "mkfs", "-f", device)

    def mount(self, device, point):
        run(self._binary, "mount", device, point, *(["-o", self._options] if self._options else []))
        self._daemons = workspace.processes_of(point, self._binary)
        if not self._daemons:
            raise CommandFailed(f"no daemon found for {point} after `{self._binary} mount`")

    def unmount(self, point):
        start = time.perf_counter()
        run("umount", point)
        while any(workspace.start_time(pid) == begun for pid, begun in self._daemons):
            if time.perf_counter() - start > 600:
                raise CommandFailed("the daemon is still there 600 s after umount")
            time.sleep(0.005)
        return time.perf_counter() - start

    def memory(self):
        peak = anonymous = 0
        for pid, _ in self._daemons:
            try:
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                    fields = dict(line.split(":", 1) for line in file)
                peak += int(fields["VmHWM"].split()[0]) * 1024
                anonymous += int(fields["RssAnon"].split()[0]) * 1024
            except (OSError, KeyError):
                raise CommandFailed(f"the daemon (process {pid}) has gone while mounted") from None
        return peak, anonymous
