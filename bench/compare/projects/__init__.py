"""Made-up projects for tools that install or build packages, the same for the same seed. All that such a tool asks for lies in
the project's folder, and none of it comes from a network. The tool itself is of the machine."""

from shared.cold import seeded

from . import cargo, npm, pip

KIB_OF_PACKAGE = 256  # on a disk, at most about
KINDS = {"npm": npm.make, "cargo": cargo.make, "pip": pip.make}


def make(kind, folder, packages, seed):
    """Makes the folder, and in it a project of so many packages."""
    KINDS[kind](folder, packages, seeded(seed, kind, packages))
