"""What the program knows, as it says itself: commands, options, and mount options."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "integration"))

from harness import LSMFS  # noqa: E402

HELPERS = {"mkfs.lsmfs": "mkfs", "fsck.lsmfs": "fsck", "mount.lsmfs": "mount"}  # and the commands that they are like


def run(*words, **more):
    """Runs a command of the program; "mkfs.lsmfs" and such are the program under that name."""
    return subprocess.run(list(words), executable=LSMFS, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **more)


def help_of(command):
    """`command`: "" is the program itself."""
    words = [command] if command in HELPERS else ["lsmfs", *command.split()]
    done = run(*words, "--help")
    if done.returncode != 0:
        raise AssertionError(f"{command} --help: {done.stderr}")
    return done.stdout


def commands():
    return set(re.findall(r"^  ([a-z]+) {2,}\S", help_of(""), re.MULTILINE))


def options(command):
    """Each option: (takes a value, what it does)."""
    found = {}
    for names, value, text in re.findall(r"^ +(-[\w-]+(?:, *-[\w-]+)*)( (?:TEXT|INT|FLOAT)(?: \.\.\.)?)?(?: Excludes:(?: -[\w-]+)+)? +(\S.*)$", help_of(command), re.MULTILINE):
        for name in re.split(", *", names):
            found[name] = (bool(value), text)
    return found


def mount_options():
    """Those of the help: {"cache=": ("SIZE", "256M"), "ro": ("", "rw"), ...}, with values and defaults."""
    listed = help_of("mount").split("Options for -o", 1)[1].split("Exit codes")[0].split("\n", 1)[1]
    found = {}
    for words, text in re.findall(r"^  ([^\s,]+(?:, [^\s,]+)*)\s+(\S.*)$", listed, re.MULTILINE):
        default = re.search(r"\(default ([^):]+)", text)
        for word in words.split(", "):
            name, equals, value = word.partition("=")
            found[name + equals] = (value, default.group(1) if default else "")
    return found


def _list_in_source(name):
    return set(re.findall(r'"([^"]+)"', re.search(rf"\b{name}(?:\[\])?\s*(?:= )?\{{(.*?)\}};", _source(), re.DOTALL).group(1)))


def _source():
    text = ""
    for path in ("src/cli/mount_options.cc", "include/lsmfs/fuse.h"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text += file.read()
    return text


def further_mount_options():
    """Those that the help leaves out, and that mean something."""
    compared = set(re.findall(r'\b(?:word|option) == "(\w+)"', _source()))
    return (compared | _list_in_source("kForTheKernel") | _list_in_source("kLabelOptions") | _list_in_source("kPolicies")) - set(mount_options())


def ignored_mount_options():
    """Those that have no meaning to the program; "x-" and such are what they begin with."""
    return _list_in_source("kIgnored") | _list_in_source("kIgnoredStarts")
