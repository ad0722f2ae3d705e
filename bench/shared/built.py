"""Where the programs lie that are measured: in the build folder of this checkout, or installed beside these files."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
IS_CHECKOUT = os.path.exists(os.path.join(ROOT, "CMakeLists.txt"))
FOLDER = os.path.join(ROOT, "build", "release") if IS_CHECKOUT else os.path.normpath(os.path.join(ROOT, "..", "..", "bin"))
DEFAULT = "build/release" if IS_CHECKOUT else FOLDER  # in words


def path(name):
    return os.path.join(FOLDER, name)


def wanted(name):
    """Help for an option that names another one."""
    return f"default: {DEFAULT}/{name}"
