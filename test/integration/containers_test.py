"""A container in a user namespace, by crun: its root is an overlay with all layers on lsmfs, and volumes are id-mapped, read-only, without programs."""

import json
import os
import shutil
import subprocess

import harness
from harness import MiB

FIRST = 100_000  # of the container's users outside
PROGRAMS = ("sh", "cat", "stat", "id", "mkdir", "mv", "rm", "ls", "ln")
# Each line is run in the container.
STEPS = """
id -u
stat -c %u:%g /usr/bin/cat /volume/of-0 /volume/of-7
echo new > /volume/new; mkdir /volume/folder; stat -c %u:%g /volume/new /volume/folder
/plain/run; cat /plain/new
cat /fixed/of-7; echo x > /fixed/of-0; rm -f /fixed/of-7; echo x > /fixed/new
echo kept > /made; mv /usr/bin/id /moved; rm -r /etc; mkdir /etc; ls -A /etc; ls /usr/bin
ln /made /usr/linked; stat -c %h:%u /made; cat /usr/linked
"""


@harness.lsmfs_only
class Containers(harness.MountCase):
    def give(self, top, program):
        """Copies a program into a root, with the libraries that it needs."""
        path = os.path.realpath(shutil.which(program))
        libraries = [word for word in self.must("ldd", path).split() if word.startswith("/")]
        for file, name in [(path, "/usr/bin/" + program), *((library, library) for library in libraries)]:
            os.makedirs(os.path.dirname(top + name), exist_ok=True)
            if not os.path.exists(top + name):
                shutil.copy(file, top + name)

    def unified_cgroups(self):
        """crun wants the second version of control groups, and makes none here. The mount is seen by the test alone."""
        if self.must("stat", "-f", "-c", "%T", "/sys/fs/cgroup").strip() != "cgroup2fs":
            self.must("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
            self.addCleanup(self.must, "umount", "-l", "/sys/fs/cgroup")

    def container(self, bundle, steps, mounts):
        mapping = [{"containerID": 0, "hostID": FIRST, "size": 1000}]
        with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"ociVersion": "1.0.0", "root": {"path": "rootfs"}, "mounts": mounts,
                       "process": {"user": {"uid": 0, "gid": 0}, "args": ["/usr/bin/sh", "-c", steps], "env": ["PATH=/usr/bin"], "cwd": "/"},
                       "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "user")],
                                 "uidMappings": mapping, "gidMappings": mapping}}, file)
        return subprocess.run(["crun", "--root", self.work.sub("state"), "--cgroup-manager=disabled", "run", "-b", bundle, "lsmfs-test"],
                              input="", capture_output=True, text=True, check=False, env=harness.ENVIRONMENT)  # crun gives stdin away: /dev/null, too

    def test_a_container_with_its_root_and_its_volumes_on_lsmfs(self):
        self.assertIsNotNone(shutil.which("crun"), "no crun: install the package crun")
        kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
        mapped = kernel >= (6, 12)  # which has id-mapped mounts of FUSE
        self.unified_cgroups()
        it = self.volume(512 * MiB)
        it.mount()
        lower, upper, work, volume = (it.path(name) for name in ("lower", "upper", "work", "volume"))
        for folder in (lower, upper, work, volume, os.path.join(lower, "etc/deep")):
            os.makedirs(folder)
        for folder in ("dev", "proc", "sys", "volume", "fixed", "plain"):
            os.mkdir(os.path.join(lower, folder))
        for program in PROGRAMS:
            self.give(lower, program)
        self.must("chown", "-R", f"{FIRST}:{FIRST}", lower, upper)
        shift = 0 if mapped else FIRST
        for name, owner, text in (("of-0", 0, "zero\n"), ("of-7", 7, "seven\n"), ("run", 0, "#!/usr/bin/sh\necho ran\n")):
            with open(os.path.join(volume, name), "w", encoding="ascii") as file:
                file.write(text)
            os.chown(file.name, owner + shift, owner + shift)
        os.chmod(os.path.join(volume, "run"), 0o755)
        os.chown(volume, shift, shift)
        bundle = self.work.sub("bundle")
        root = self.work.sub("bundle/rootfs")
        how = ["bind", "nosuid", "nodev"] + (["idmap"] if mapped else [])
        # crun 1.8 passes over noexec unless there is ro, too: so it is given a mount that has it.
        plain = self.work.sub("plain")
        mounts = [{"destination": "/volume", "type": "bind", "source": volume, "options": how},
                  {"destination": "/fixed", "type": "bind", "source": volume, "options": how + ["ro"]},
                  {"destination": "/plain", "type": "bind", "source": plain, "options": ["bind"]}]

        def run(steps):
            self.must("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", root)
            self.must("mount", "-o", "bind,nosuid,nodev,noexec", volume, plain)
            try:
                return self.container(bundle, steps, mounts)
            finally:
                self.must("umount", plain)
                self.must("umount", root)

        done = run(STEPS)
        self.assertEqual(done.stdout.split(), ["0", "0:0", "0:0", "7:7", "0:0", "0:0", "new", "seven", *sorted({*PROGRAMS} - {"id"}), "2:0", "kept"], done.stderr)
        said = done.stderr.splitlines()
        for line, word in zip(said, ("/plain/run: Permission denied", "/fixed/of-0: Read-only", "/fixed/of-7': Read-only", "/fixed/new: Read-only"), strict=True):
            self.assertIn(word, line)
        for name in ("new", "folder", "of-0"):
            facts = os.stat(os.path.join(volume, name))
            self.assertEqual((facts.st_uid, facts.st_gid), (shift, shift), name)
        self.assertEqual(os.stat(os.path.join(upper, "made")).st_uid, FIRST)

        it.remount()
        done = run("cat /made /volume/new; ls -A /etc; /moved -u")
        self.assertEqual((done.returncode, done.stdout), (0, "kept\nnew\n0\n"), done.stderr)


if __name__ == "__main__":
    harness.main()
