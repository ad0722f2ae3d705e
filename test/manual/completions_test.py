"""Each shell completes what the program knows, all of it and nothing else."""

import os
import pty
import select
import shutil
import unittest

import program
import shells
import harness
from harness import LSMFS, MiB
from until import PATIENCE

COMMANDS = program.commands()
LIKE = dict(program.HELPERS, **{f"{tool}.{kind}.lsmfs": tool for tool in ("fsck", "mount") for kind in ("fuse", "fuseblk")})
LABEL, UUID = "my data$", "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
# A lsblk as it is with udev: an ext4, and two lsmfs, one of which has no label.
LSBLK = f"""#!/bin/sh
case "$*" in
  *NAME*) printf '%s\\n' /dev/made-up /dev/made-up1 ;;
  *) printf '%s\\n' 'FSTYPE="ext4" LABEL="root" UUID="not-this"' 'FSTYPE="lsmfs" LABEL="my data\\x24" UUID="{UUID}"' \\
       'FSTYPE="lsmfs" LABEL="" UUID="second"' 'FSTYPE="" LABEL="" UUID=""' ;;
esac
"""


class Completions(harness.MountCase):
    """All lines are asked of a shell at once, since one takes seconds to start."""

    shell = ""

    def setUp(self):
        super().setUp()
        if not shutil.which(self.shell):
            if os.environ.get("CI", "false") != "false":
                self.fail(f"{self.shell}: is not installed")
            self.skipTest(f"{self.shell}: is not installed")
        self.folder = self.work.sub("here")
        tools = self.work.sub("tools")
        with open(os.path.join(tools, "lsblk"), "w", encoding="utf-8") as file:
            file.write(LSBLK)
        os.chmod(file.name, 0o755)
        os.mkdir(os.path.join(self.folder, "directory"))
        with open(os.path.join(self.folder, "image"), "wb"):
            pass
        self.environment = dict(harness.ENVIRONMENT, PATH=tools + ":" + os.environ["PATH"], LC_ALL="C.UTF-8", HOME=self.work.path, TERM="dumb")

    def ask(self, *lines):
        """{line: set of words}"""
        answers = shells.SHELLS[self.shell](lines, cwd=self.folder, env=self.environment)
        for line, answer in zip(lines, answers):
            self.assertTrue(self.shell == "zsh" or len(answer) == len(set(answer)), f"{line}: something twice in {answer}")
        return {line: set(answer) for line, answer in zip(lines, answers)}

    def value(self, typed, *values):
        """What is to come for an option with these values: bash and zsh complete what follows "="."""
        return {typed + value if self.shell == "fish" else value for value in values}


class Words:
    """What each shell is asked."""

    def test_commands_and_options_are_those_of_the_program(self):
        lines = {"lsmfs ": COMMANDS, "lsmfs help ": COMMANDS, "lsmfs -": set(program.options("")), "lsmfs um": {"umount"}}
        for command in COMMANDS - {"help"}:
            lines[f"lsmfs {command} -"] = set(program.options(command))
        for name, like in LIKE.items():
            lines[f"{name} -"] = set(program.options(like if like in program.HELPERS else f"{like}.lsmfs"))
        for line in list(lines):
            if line.startswith("lsmfs m") and line.endswith("-"):
                lines[line + "-"] = {option for option in lines[line] if option.startswith("--")}
        answers = self.ask(*lines)
        for line, wanted in lines.items():
            with self.subTest(line):
                self.assertEqual({word.rstrip("=") for word in answers[line]}, wanted)

    def test_mount_options_are_those_of_the_program(self):
        known = {word.rstrip("=") for word in set(program.mount_options()) | program.further_mount_options()}
        lines = ["lsmfs mount -o ", "mount.fuse.lsmfs -o ", "lsmfs mount -o ro,no", "lsmfs mount image directory -o ", "lsmfs mount -ono"]
        answers = self.ask(*lines)
        for line in lines:
            with self.subTest(line):
                typed = line.rsplit(" ", 1)[1]
                begun = typed.removeprefix("-o").split(",")[-1]
                found = {word.removeprefix("-o").split("=")[0].split(",")[-1] for word in answers[line]}
                self.assertEqual(found, {word for word in known if word.startswith(begun)})
                if self.shell != "zsh":  # which leaves alone what stands before
                    self.assertTrue(all(word.startswith(typed) for word in answers[line]), answers[line])

    def test_values_of_mount_options_are_taken_by_the_program(self):
        volume = self.volume(200 * MiB, image=True)
        choices = {"auto", "on", "off"}
        lines = {"latency=": choices, "io_uring=": choices, "noatime,latency=o": {"on", "off"}, "cache=": None, "ro,sync_interval=": None}
        answers = self.ask(*(f"lsmfs mount -o {typed}" for typed in lines))
        for typed, wanted in lines.items():
            with self.subTest(typed):
                before = typed[:typed.index("=") + 1]
                found = answers[f"lsmfs mount -o {typed}"]
                if wanted is None:
                    self.assertGreater(len(found), 1)
                else:
                    self.assertEqual(found, self.value(before, *wanted))
                for word in found:
                    options = word if self.shell == "fish" else before + word
                    done = program.run("mount.lsmfs", "-f", volume.image, volume.point, "-o", options)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), options)

    def test_values_of_options_are_taken_by_the_program(self):
        trials = {"lsmfs mkfs --size ": None, "lsmfs scrub --rate ": ["directory", "not in an lsmfs"],
                  "lsmfs layout --buffer ": ["missing", "missing"],
                  "lsmfs prune directory ": ["fast", "fast: is no rule"]}
        answers = self.ask(*trials, "lsmfs mkfs --size=", "mount.lsmfs -t ", "lsmfs mkfs --label ", "lsmfs tune --uuid ", "lsmfs tune -o noat", "lsmfs resize image ")
        self.assertEqual(answers["lsmfs mkfs --size="], self.value("--size=", *answers["lsmfs mkfs --size "]))
        self.assertIn("lsmfs", answers["mount.lsmfs -t "])
        self.assertEqual(answers["lsmfs mkfs --label "], set())
        self.assertEqual(answers["lsmfs tune --uuid "], {"random"})
        self.assertEqual(answers["lsmfs tune -o noat"], {"noatime"})
        self.assertEqual(answers["lsmfs resize image "], answers["lsmfs mkfs --size "])
        for line, trial in trials.items():
            self.assertGreater(len(answers[line]), 1, line)
            for value in answers[line]:
                with self.subTest(line + value):
                    if trial is None:
                        path = os.path.join(self.folder, f"{self.shell}-{value}.img")
                        self.must(LSMFS, "mkfs", "--size", value, path)
                        os.unlink(path)
                    else:
                        done = program.run("lsmfs", *line.split()[1:], value, trial[0], cwd=self.folder)
                        self.assertEqual(done.returncode, 1)
                        self.assertIn(trial[1], done.stderr)  # which is about the operand, so the value was taken

    def test_what_names_a_device_or_an_image(self):
        devices, tags = {"/dev/made-up", "/dev/made-up1"}, {"LABEL=" + LABEL, "UUID=" + UUID, "UUID=second"}
        sources = ["lsmfs mount ", "lsmfs mount -o ro ", "lsmfs fsck ", "lsmfs fsck -C 5 -y ", "lsmfs info ", "lsmfs tune -L x ", "lsmfs resize ", "mount.lsmfs -t lsmfs ", "fsck.fuse.lsmfs "]
        targets = ["lsmfs mkfs ", "lsmfs mkfs -L name ", "mkfs.lsmfs "]
        answers = self.ask(*sources, *targets, "lsmfs fsck im", "lsmfs mkfs LAB", "lsmfs mkfs image ", "lsmfs layout --device ", "lsmfs info UUID=sec")
        for line in sources + targets:
            with self.subTest(line):
                found = {word.rstrip("/") for word in answers[line]}
                self.assertEqual(found, devices | {"image", "directory"} | (tags if line in sources else set()))
        self.assertEqual(answers["lsmfs fsck im"], {"image"})
        self.assertEqual(answers["lsmfs mkfs LAB"], set())
        self.assertFalse(answers["lsmfs mkfs image "] & devices)
        self.assertEqual(answers["lsmfs layout --device "], devices)
        self.assertEqual(answers["lsmfs info UUID=sec"], {"second"} if self.shell == "bash" else {"UUID=second"})

    def test_where_an_lsmfs_is_mounted(self):
        volume = self.volume(200 * MiB, image=True)
        point = os.path.join(self.folder, "a b\\c")
        os.mkdir(point)
        self.must("mount", "-t", "tmpfs", "tmpfs", os.path.join(self.folder, "directory"))
        self.addCleanup(self.must, "umount", os.path.join(self.folder, "directory"))
        self.must(LSMFS, "mount", volume.image, point)
        self.addCleanup(self.must, LSMFS, "umount", point)
        lines = ["lsmfs umount ", "lsmfs umount --wait ", "lsmfs scrub --rate 10M ", "lsmfs trim " + self.folder[:5]]
        answers = self.ask(*lines, "lsmfs trim /@@", "lsmfs umount x ")
        for line in lines:
            with self.subTest(line):
                self.assertEqual(answers[line], {point})
        self.assertEqual(answers["lsmfs trim /@@"], set())  # fish finds the letters of a word anywhere in a path: these are in none
        self.assertFalse(point in answers["lsmfs umount x "])

    def test_the_command_of_layout(self):
        answers = self.ask("lsmfs layout --device /dev/made-up -- lsbl", "lsmfs layout --device /dev/made-up -- lsblk --js")
        self.assertIn("lsblk", answers["lsmfs layout --device /dev/made-up -- lsbl"])
        self.assertNotIn("--device", answers["lsmfs layout --device /dev/made-up -- lsblk --js"])


class Bash(Words, Completions):
    shell = "bash"

    def test_a_line_that_is_typed(self):
        """In a terminal: what bash itself makes of the answers."""
        volume = self.volume(200 * MiB, image=True)
        point = os.path.join(self.folder, "a b")
        os.mkdir(point)
        self.must(LSMFS, "mount", volume.image, point)
        self.addCleanup(self.must, LSMFS, "umount", point)
        typed = {"lsmfs mount -o ro,cache=2\t image\t": "<mount> <-o> <ro,cache=256M> <image>", "lsmfs umount /v\t": f"<umount> <{point}/>",
                 "lsmfs fsck -y LAB\t": f"<fsck> <-y> <LABEL={LABEL}>", "lsmfs scrub --rate=6\t": "<scrub> <--rate=64M>",
                 "lsmfs mo\tdirec\t": "<mount> <directory/>", "lsmfs layout ./im\t": "<layout> <./image>"}
        setup = f"source {shells.FOLDER}/lsmfs.bash; lsmfs() {{ printf '<%s> ' \"$@\"; echo; echo; }}; PS1=; bind 'set enable-bracketed-paste off'; echo REA''DY"
        for keys, wanted in typed.items():
            with self.subTest(keys):
                self.assertIn(wanted, self.typed(setup, keys.replace("/v", self.folder[:6])))

    def typed(self, setup, keys):
        """What a terminal shows in the end."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe("bash", ["bash", "--norc", "-i"], dict(self.environment, COLUMNS="1000"))
        try:
            self.until(terminal, f"{setup}\n", "READY")
            return self.until(terminal, keys + "\n", ">")
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)

    def until(self, terminal, keys, mark):
        os.write(terminal, keys.encode())
        shown = ""
        while f"{mark}" not in shown or not shown.endswith("\r\n"):
            ready, _, _ = select.select([terminal], [], [], PATIENCE)
            self.assertTrue(ready, f"no answer after: {shown}")
            shown += os.read(terminal, 4096).decode()
        return shown


class Fish(Words, Completions):
    shell = "fish"


class Zsh(Words, Completions):
    shell = "zsh"


del Completions


def tearDownModule():
    shells.forget()


if __name__ == "__main__":
    harness.main()
