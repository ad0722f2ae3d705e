"""A part of Linux, built by make twice, and looked at by make when there is nothing to do."""

import os
import tempfile

from inputs import has_linux
from shared.commands import run

from .piece import AS_BEST, Figure, Piece, Setting
from .tree import unpack

JOBS = 2
PARTS = ("kernel/", "mm/", "lib/")


def _source(tree):
    """Where the Kconfig of the top is: archives have it in a folder of its own."""
    return next(folder for folder in (tree, *(os.path.join(tree, name) for name in sorted(os.listdir(tree)))) if os.path.exists(folder + "/Kconfig"))


def _cold(session):
    """The compiler lies on the host's disk, and is read before."""
    session.cold()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(session.point)) as folder:
        run("sh", "-c", "echo 'int main(void) { return 0; }' | gcc -O2 -x c -o main -", cwd=folder)


def _make(session):
    source = _source(unpack(session, "tree"))
    make = ["make", "-C", source, f"-j{JOBS}"]
    run(*make, "allnoconfig")
    build = [*make, *PARTS[:session.settings["parts"]]]
    _cold(session)
    session.note("make cold", session.time(*build))
    run(*make, "clean")  # which leaves the configuration, and what it has read in the page cache
    session.note("make warm", session.time(*build))
    _cold(session)
    session.note("make again cold", session.time(*build))
    session.note("make again warm", session.time(*build))
    session.inputs.same_everywhere("what was built", os.path.join(source, PARTS[0]))


PIECES = (
    Piece("make", _make, (
        Figure("make cold", "s", f"make -j{JOBS} of {', '.join(PARTS)} of Linux by allnoconfig, after a cold mount", AS_BEST),
        Figure("make warm", "s", "the same again, after make clean", AS_BEST),
        Figure("make again cold", "s", "the same with nothing left to do, after a cold mount", AS_BEST),
        Figure("make again warm", "s", "the same again", AS_BEST),
    ), inputs=("tree",), tools=("tar", "make", "gcc", "flex", "bison", "bc"),
          settings=(Setting("parts", str(len(PARTS)), "of these parts of Linux to build", budget="2"),),
          optional=True, lacks=lambda tree: "" if has_linux(tree) else "--tree is not the source of Linux"),
)
