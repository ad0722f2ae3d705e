"""The pieces of work. Each begins with a file system made anew on a device of its own, whose file is empty, and is always done
whole; so a figure is the same kind of figure whatever else is measured in a run.

"cold" is: sync, umount, drop the kernel's caches, mount. Inputs (the tar file, the repository to clone) are read into the
page cache before, and programs stay there, so that only the file system under test is measured.
"""

from . import beside, changes, clones, create, database, diff, directory, git, io, latency, layer, make, packages, parallel, reads, send, shuffle, tree, trees
from .piece import Budget, Figure, MiB

# The table has them in this order.
PIECES = (*tree.PIECES, *clones.PIECES, *diff.PIECES, *send.PIECES, *changes.PIECES, *git.PIECES, *trees.PIECES, *create.PIECES, *directory.PIECES,
          *shuffle.PIECES, *io.PIECES, *reads.PIECES, *database.PIECES, *latency.PIECES, *beside.PIECES, *parallel.PIECES, *make.PIECES, *packages.PIECES, *layer.PIECES)

# Words of --work for several pieces.
GROUPS = {"build": (*make.PIECES, *packages.PIECES, *layer.PIECES)}

# Of the daemon, whatever it does; file systems in the kernel have none.
MEMORY = (
    Figure("memory peak", "MiB", "the daemon's largest VmHWM in all that was done, looked at before each umount", Budget(lambda run: run.cache + 128 * MiB)),
    Figure("memory anon", "MiB", "the daemon's largest RssAnon when a figure was taken"),
)

FIGURES = {figure.name: figure for figure in (*(figure for piece in PIECES for figure in piece.figures), *MEMORY)}
SETTINGS = {setting.name: setting for piece in PIECES for setting in piece.settings}


# What a word of --work means: a figure, or all of a piece or of a group.
ROWS = {**{name: [name] for name in FIGURES}, **{piece.name: [figure.name for figure in piece.figures] for piece in PIECES},
        **{name: [figure.name for piece in pieces for figure in piece.figures] for name, pieces in GROUPS.items()}}


def pieces_with(names):
    """Those that give any of these figures. The daemon's memory alone is that of all the work."""
    return [piece for piece in PIECES if any(figure.name in names for figure in piece.figures)] or list(PIECES)


def describe():
    lines = ["pieces of work, and their figures:"]
    for piece in PIECES:
        lines.append(f"  {piece.name}")
        lines += [f"    {figure.name:24} {figure.unit:6} {figure.what}" for figure in piece.figures]
    lines.append("  whatever is done")
    lines += [f"    {figure.name:24} {figure.unit:6} {figure.what}" for figure in MEMORY]
    lines += [f"for --work, {name} is all of: {', '.join(piece.name for piece in pieces)}" for name, pieces in GROUPS.items()]
    lines.append("settings; of less than its budgets are about, no verdict is given:")
    lines += [f"  {setting.name + '=' + setting.default:26} {setting.what}" + (f" (budgets: {setting.budget})" if setting.budget != "0" else "")
              for setting in SETTINGS.values()]
    return "\n".join(lines)
