"""The man pages say what the program knows, all of it and nothing else; their examples work; and they are well formed."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import unittest

import pages
import program
import harness
import workspace
from harness import LSMFS, MiB

BUILD = os.path.dirname(LSMFS)
ORDER = ["NAME", "SYNOPSIS", "DESCRIPTION", "OUTPUT", "COMMANDS", "MOUNT OPTIONS", "DEVICES OF SERVERS", "OPTIONS", "FSTAB", "FORMAT", "LIMITS", "EXIT STATUS", "ENVIRONMENT",
         "FILES", "EXAMPLES", "SEE ALSO"]
ALWAYS = {"NAME", "DESCRIPTION", "EXAMPLES", "SEE ALSO"}
OF_A_PROGRAM = ALWAYS | {"SYNOPSIS", "OPTIONS", "EXIT STATUS"}


def page_of(command):
    return f"lsmfs-{command}.8" if command else "lsmfs.8"


class Options(unittest.TestCase):
    maxDiff = None

    def described(self, section):
        """{"-L": takes a value, ...}"""
        found = {}
        for term, _ in pages.terms(section):
            for name, value in pages.words(term).items():
                self.assertNotIn(name, found, "described twice")
                found[name] = bool(value)
        return found

    def test_each_command_has_a_page_and_each_page_a_command(self):
        pages_of_commands = {page_of(command) for command in program.commands() - {"help"}}
        self.assertEqual(set(pages.names()), pages_of_commands | {"lsmfs.5", "lsmfs.8"})
        listed = {name for term, _ in pages.terms(pages.sections("lsmfs.8")["COMMANDS"]) for name in pages.words(term)}
        self.assertEqual(listed, program.commands())

    def test_a_page_has_the_options_of_its_command(self):
        for command in {""} | program.commands() - {"help"}:
            with self.subTest(command):
                # What a helper knows besides comes after a line about it.
                section = re.split(r"^\*\w+\.lsmfs\* .*:$", pages.sections(page_of(command))["OPTIONS"], flags=re.MULTILINE)
                own = program.options(command)
                self.assertEqual(self.described(section[0]), {name: value for name, (value, _) in own.items()})
                helpers = [helper for helper, like in program.HELPERS.items() if like == command]
                self.assertEqual(len(section), 1 + len(helpers))
                for helper in helpers:
                    more = {name: facts[0] for name, facts in program.options(helper).items() if own.get(name) != facts}
                    self.assertEqual(self.described(section[1]), more, helper)

    def test_a_synopsis_has_every_option_but_help(self):
        for command in program.commands() - {"help"}:
            with self.subTest(command):
                synopsis = pages.sections(page_of(command))["SYNOPSIS"].strip().split("\n\n")
                own = [line for line in synopsis if line.startswith(f"*lsmfs {command}*")]
                options = program.options(command)
                groups = {}  # names of one option
                for name, facts in options.items():
                    groups.setdefault(facts, set()).add(name)
                shown = set(re.findall(r"\*(-[\w-]*\w)\*", "".join(own)))
                self.assertEqual(shown - set(options), set())
                for facts, names in groups.items():
                    if "--help" not in names and facts[1] != "ignored" and "(which it always does)" not in facts[1]:
                        self.assertTrue(names & shown, names)

    def test_the_exit_codes_are_those_of_the_help(self):
        seen = 0
        for command in program.commands() - {"help"}:
            codes = re.search(r"Exit codes: (.*)\.", program.help_of(command))
            if codes:
                seen += 1
                with self.subTest(command):
                    described = [int(word) for term, _ in pages.terms(pages.sections(page_of(command))["EXIT STATUS"]) for word in pages.words(term)]
                    said = [int(code) for code in re.findall(r"(?:^|[,;] )(\d+) ", codes.group(1))]
                    self.assertEqual(described, said)
        self.assertGreater(seen, 3)


class MountOptions(harness.MountCase):
    def terms(self):
        return pages.terms(pages.sections("lsmfs.5")["MOUNT OPTIONS"])

    def test_the_page_has_all_that_the_program_knows(self):
        described = [name for term, _ in self.terms() for name in pages.words(term)]
        self.assertEqual(len(described), len(set(described)), "described twice")
        self.assertEqual(set(described), set(program.mount_options()) | program.further_mount_options() | program.ignored_mount_options())

    def test_values_and_defaults_are_those_of_the_help(self):
        for term, text in self.terms():
            for name, value in pages.words(term).items():
                known, default = program.mount_options().get(name, (None, ""))
                if known is not None:
                    self.assertEqual(value, known, name)
                if default:
                    self.assertIn(f"*{default}*", text, name)

    def test_the_program_takes_each(self):
        volume = self.volume(200 * MiB, image=True)
        samples = {"SIZE": "64M", "SECONDS": "7", "NAME": "name", "TEXT": "text", "LABEL": '"a:b:c:s0:c1,c2"', "": ""}
        for term, _ in self.terms():
            for name, value in pages.words(term).items():
                for sample in value.split("|") if "|" in value else [samples[value]]:
                    with self.subTest(name + sample):
                        done = program.run("mount.lsmfs", "-f", volume.image, volume.point, "-o", name + sample)
                        if name == "remount":
                            self.assertIn("is not mounted", done.stderr)
                        else:
                            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Form(unittest.TestCase):
    def test_sections_come_in_their_order(self):
        for page in pages.names():
            with self.subTest(page):
                found = list(pages.sections(page))
                self.assertEqual(found, [name for name in ORDER if name in found])
                self.assertLessEqual(OF_A_PROGRAM if page.endswith(".8") else ALWAYS, set(found))

    def test_references_to_pages_of_lsmfs_lead_somewhere(self):
        seen = 0
        for page in pages.names():
            for name, section in re.findall(r"\*(lsmfs[\w-]*)\*\((\d)\)", pages.text(page)):
                seen += 1
                self.assertIn(f"{name}.{section}", pages.names(), page)
        self.assertGreater(seen, 30)
        see_also = pages.sections("lsmfs.8")["SEE ALSO"]
        for page in pages.names():
            if page != "lsmfs.8":
                name, section = page.rsplit(".", 1)
                self.assertIn(f"*{name}*({section})", see_also)

    def tool(self, name):
        if shutil.which(name):
            return True
        if os.environ.get("CI", "false") != "false":
            self.fail(f"{name}: is not installed")
        self.skipTest(f"{name}: is not installed")
        return False

    def made(self):
        """The pages beside the program."""
        self.tool("scdoc")
        folder = os.path.join(BUILD, "man")
        found = sorted(os.path.join(folder, name) for name in os.listdir(folder) if not name.endswith(".scd"))
        self.assertEqual([os.path.basename(path) for path in found], pages.names(), "cmake/manual.cmake has others than there are")
        return found

    def test_scdoc_makes_them_without_a_word(self):
        self.tool("scdoc")
        for page in pages.names():
            with self.subTest(page):
                done = subprocess.run(["scdoc"], input=pages.text(page), capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_man_shows_them_without_a_word(self):
        self.tool("man")
        for path in self.made():
            with self.subTest(path):
                done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path], capture_output=True, text=True, check=False,
                                      env=dict(os.environ, LC_ALL="C.UTF-8", MANROFFSEQ="", MANWIDTH="80"))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertGreater(len(done.stdout), 1000)

    def test_mandoc_finds_no_error(self):
        self.tool("mandoc")
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "error", *self.made()], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class Examples(harness.MountCase):
    """Each is run, with what the pages call /dev/sdb1, LABEL=data and /data in a folder of the test."""

    def setUp(self):
        super().setUp()
        self.lsmfs = self.volume(200 * MiB, image=True)
        self.image, self.point = self.lsmfs.image, self.lsmfs.point
        self.backup = None
        self.folder = self.work.sub("here")
        os.mkdir(os.path.join(self.folder, "mnt"))

    def here(self, word):
        for page_says, test_has in ((r"/dev/sdb1|LABEL=data|(?:/var/lib|/home/ann)/data\.img", self.image), (r"(?:/home/ann)?/data(?:-monday)?", self.point)):
            word = re.sub(rf"^(?:{page_says})(?=$|/)", test_has, word)
        return os.path.join(self.folder, word) if word == "data.img" else word

    def be_mounted(self, wanted):
        """Mounts the image anew, or unmounts all: as the example to come needs it."""
        for point in workspace.mounts_below(self.work.path):
            self.must(LSMFS, "umount", point)
        if wanted:
            self.must(LSMFS, "mount", self.image, self.point)

    def prepare(self, command, words):
        """What the example to come finds there."""
        image = next((word for word in words if word.endswith("/data.img")), self.image)
        if command == "mkfs":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(image)
            if image == self.image:
                with open(image, "wb") as file:
                    file.truncate(200 * MiB)
            if "-f" in words:
                self.must(LSMFS, "mkfs", image)
        elif not os.path.exists(image):
            self.must(LSMFS, "mkfs", "--size", "200M", image)

    def keep(self, words):
        """The snapshot, of a directory that is there, for a rollback or a comparison."""
        snapshot, *directories = [word for word in words if not word.startswith("-")]
        source = os.path.join(self.point, "source")
        for directory in (source, *directories):
            os.makedirs(directory, exist_ok=True)
        if not os.path.isdir(snapshot):
            self.assertEqual(program.run("lsmfs", "snapshot", source, os.path.basename(snapshot)).returncode, 0)

    def offer(self, source):
        """A directory, or an archive of one, in the test's folder."""
        path = os.path.join(self.folder, source)
        os.makedirs(path.split(".tar")[0], exist_ok=True)
        if ".tar" in source:
            self.must("tar", "-caf", path, "-C", self.folder, source.split(".tar")[0])

    def run_pipeline(self, line):
        """With ssh left out, and a file system beside the other one for /backup. What is to be sent are snapshots of one directory."""
        self.be_mounted(True)
        if not self.backup:
            self.backup = self.volume(200 * MiB, image=True)
        if not os.path.ismount(self.backup.point):
            self.must(LSMFS, "mount", self.backup.image, self.backup.point)
        words = [re.sub("^/tmp/", self.folder + "/", re.sub("^/backup", self.backup.point, self.here(word))) for word in shlex.split(re.sub("ssh (backup|host) ", "", line)[2:])]
        for word in words:
            if "/.snapshots/" in word and not os.path.isdir(word):
                source = os.path.join(word.split("/.snapshots/")[0], "source")
                os.makedirs(source, exist_ok=True)
                self.assertEqual(program.run("lsmfs", "snapshot", source, os.path.basename(word)).returncode, 0)
        done = subprocess.run(["sh", "-c", " ".join(word if word in "|>" else shlex.quote(LSMFS if word == "lsmfs" else word) for word in words)], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        received = done.stdout.strip()
        if received and os.path.basename(received) == words[-1]:  # others receive the same, and only one of them can be a base
            self.must(LSMFS, "rm", "-r", received)

    def run_example(self, words):
        command = words[1] if words[0] == "lsmfs" else words[0].split(".")[0]
        if words[0] == "mount":  # mount(8) itself is not to find another lsmfs
            operands = [word for index, word in enumerate(words[1:]) if word[0] != "-" and words[index] not in ("-t", "-o")]
            options = words[words.index("-o") + 1]
            command = "remount" if "remount" in options else "mount"
            words = ["mount.lsmfs", *([self.image] if command == "remount" else []), *operands, "-o", options]
        last = words[-1]
        self.be_mounted(command in ("umount", "clone", "import", "snapshot", "snapshots", "prune", "rollback", "diff", "changes", "rm", "scrub", "stats", "top", "trim", "remount") or (command in ("info", "resize") and last == self.point))
        self.prepare(command, words)
        if command == "rm":
            os.makedirs(os.path.join(last, "below"))
        if command == "clone":
            os.makedirs(os.path.join(words[-2], "below"))
        if command == "import":
            self.offer(words[-2])
        if command in ("snapshot", "prune", "changes"):
            os.makedirs(next(word for word in words if word.startswith(self.point)), exist_ok=True)
        if command in ("rollback", "diff"):
            self.keep(words[2:])
        done = program.run(*words, cwd=self.folder)
        if command == "layout":  # which would have the whole machine drop its caches
            missing = words[words.index("--device") + 1] if "--device" in words else last
            self.assertEqual(done.returncode, 1)
            self.assertIn(missing, done.stderr)
            self.assertNotIn("--help", done.stderr)
        elif "-U" in words:
            self.assertEqual(done.returncode, 0)
            self.assertIn("does not find it any more", done.stderr)
        elif command == "diff":
            self.assertEqual((done.returncode, done.stderr), (1, ""))
        elif command == "top":  # which needs a terminal
            self.assertEqual(done.returncode, 1)
            self.assertIn("terminal", done.stderr)
        else:
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_each_command_line_works(self):
        seen = set()
        for page in pages.names():
            for line in pages.blocks(pages.sections(page)["EXAMPLES"]):
                with self.subTest(page=page, line=line):
                    self.assertRegex(line, r"^[#$] ")
                    words = [self.here(word) for word in shlex.split(line[2:])]
                    if "|" in words or ">" in words:
                        self.run_pipeline(line)
                        seen.update(words)
                        continue
                    self.assertIn(words[0], {"lsmfs", "mount"} | set(program.HELPERS))
                    self.run_example(words)
                    seen.add(words[1])
        self.be_mounted(False)
        self.assertLessEqual(program.commands(), seen)

    def test_each_line_of_fstab_has_options_that_the_program_takes(self):
        lines = pages.blocks(pages.sections("lsmfs.5")["FSTAB"])
        self.assertGreater(len(lines), 2)
        for line in lines:
            with self.subTest(line):
                source, point, kind, options, dump, number = line.split()
                self.assertEqual((kind, dump), ("lsmfs", "0"))
                self.assertIn(number, "02")
                rest = ",".join(word for word in options.split(",") if word != "loop")  # mount(8) keeps that one
                done = program.run("mount.lsmfs", "-f", self.here(source), self.here(point), "-o", rest)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


class Installed(harness.MountCase):
    def test_every_program_has_a_page_and_completions(self):
        folder = self.work.sub("installed")
        self.must("env", f"DESTDIR={folder}", "cmake", "--install", BUILD, "--prefix", "/usr")
        usr = os.path.join(folder, "usr")
        programs = [name for part in ("bin", "sbin") for name in os.listdir(os.path.join(usr, part))]
        self.assertGreater(len(programs), 5)
        with open(os.path.join(usr, "share/zsh/site-functions/_lsmfs"), encoding="utf-8") as file:
            self.assertEqual(set(file.readline().split()[1:]), set(programs))
        for name in programs:
            wanted = {f"share/bash-completion/completions/{name}": "lsmfs.bash", f"share/fish/vendor_completions.d/{name}.fish": "lsmfs.fish"}
            for path, source in wanted.items():
                with open(os.path.join(usr, path), encoding="utf-8") as file, open(os.path.join(program.ROOT, "completions", source), encoding="utf-8") as other:
                    self.assertEqual(file.read(), other.read(), path)
            if shutil.which("scdoc"):
                page = os.path.join(usr, "share/man/man8", name + ".8")
                tool = name.split(".")[0]
                self.assertEqual(os.path.basename(os.path.realpath(page)), page_of("" if name == "lsmfs" else tool))
                self.assertTrue(os.path.isfile(page), page)
                self.assertIn(name if name in program.HELPERS else tool, pages.text(os.path.basename(os.path.realpath(page))))


if __name__ == "__main__":
    harness.main()
