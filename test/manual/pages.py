"""The man pages as they are written, in the language of scdoc(5)."""

import functools
import os
import re

import program

FOLDER = os.path.join(program.ROOT, "man")


def names():
    return sorted(name.removesuffix(".scd") for name in os.listdir(FOLDER) if name.endswith(".scd"))


@functools.cache
def text(page):
    with open(os.path.join(FOLDER, page + ".scd"), encoding="utf-8") as file:
        return file.read()


def sections(page):
    """{"NAME": text, ...}, in their order."""
    parts = re.split(r"^# ([A-Z ]+)\n", text(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def terms(section):
    """Of a list of definitions: [(the lines of a term's words, their text), ...]."""
    return re.findall(r"^(\*.*)\n((?:\t.*\n)+)", section, re.MULTILINE)


def words(term):
    """ "*-L* _LABEL_, *--label* _LABEL_" -> {"-L": "LABEL", "--label": "LABEL"}; of options of mount, too: "*cache=*_SIZE_". """
    bold = r"\*((?:[^*\\]|\\.)+)\*(?:\s?\[?_([^_]+)_)?"
    return {re.sub(r"\\(.)", r"\1", name): value for name, value in re.findall(bold, term)}


def blocks(section):
    """What stands between lines of ```, line by line."""
    return [line for block in re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL) for line in block.splitlines()]
