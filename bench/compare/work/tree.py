"""A source tree: unpacked, read in all the ways in which people read trees, copied, removed."""

import os

from inputs import warm_file
from shared.cold import grep_command, used_bytes
from shared.commands import run

from .piece import BEST, Budget, Figure, GiB, Piece

# cat: tar reads nothing when it finds that it writes to /dev/null.
WALK_BY_TAR = ["bash", "-c", 'set -o pipefail; tar -cf - -C "$1" . | cat > /dev/null', "bash"]


def unpack(session, name, make_folder=os.mkdir):
    """The tree of an input, which is made but not measured. Returns its path."""
    tree = session.path("tree")
    make_folder(tree)
    run("tar", "-xf", session.inputs.path(name), "-C", tree)
    return tree


def _tree(session):
    session.note("space empty", used_bytes(session.point))
    session.cold()
    tar = session.inputs.path("tree")
    warm_file(tar)
    tree = session.path("tree")
    os.mkdir(tree)
    session.note_until_unmounted("untar", run, "tar", "-xf", tar, "-C", tree)
    session.mount()
    session.note("space", used_bytes(session.point))
    session.cold()
    for name in ("grep cold", "grep warm"):
        session.note(name, session.time(*grep_command(tree, session.rng), ok=(0, 1)))
    session.note_cold("find cold", "find", tree)
    session.note_cold("ls cold", "ls", "-lR", tree)
    session.note_cold("tar cold", *WALK_BY_TAR, tree)
    session.note_cold("du cold", "du", "-s", tree)
    session.inputs.same_everywhere("tree", tree)
    session.note_until_unmounted("rm", run, "rm", "-rf", tree)


def _copies(session):
    tree = unpack(session, "tree")
    for name, *command in (("cp", "cp", "-r", tree, session.path("cp")), ("rsync", "rsync", "-a", tree + "/", session.path("rsync"))):
        session.cold()
        session.note_until_unmounted(name, run, *command)
        session.mount()
        session.inputs.same_everywhere("tree", session.path(name))


def _import(session):
    tar = session.inputs.path("tree")
    warm_file(tar)
    imported = session.path("imported")
    session.note_until_unmounted("import", run, *session.fs.unpack_command(tar, imported))
    session.mount()
    untarred = unpack(session, "tree")
    for name, tree in (("grep imported", imported), ("grep untarred", untarred)):
        session.cold()
        session.note(name, session.time(*grep_command(tree, session.rng), ok=(0, 1)))
        session.inputs.same_everywhere("tree", tree)


_AS_EXT4 = Budget(1.0, "ext4")
_AHEAD = Budget(0.8, BEST)

PIECES = (
    Piece("tree", _tree, (
        Figure("untar", "s", "tar -xf of the tree, until tar returns", _AS_EXT4),
        Figure("untar+umount", "s", "the same, until umount has returned: all is on the device", _AS_EXT4),
        Figure("grep cold", "s", "grep -r of a random string that is nowhere, after a cold mount",
               Budget(lambda run: 0.45 if run.latency0 else 0.40, BEST)),
        Figure("grep warm", "s", "the same again", Budget(1.2, "ext4")),
        Figure("find cold", "s", "find, after a cold mount", _AHEAD),
        Figure("ls cold", "s", "ls -lR, after a cold mount"),
        Figure("tar cold", "s", "tar -cf - into a pipe, after a cold mount"),
        Figure("du cold", "s", "du -s, after a cold mount", _AHEAD),
        Figure("rm", "s", "rm -rf of the tree, with its attributes in memory, until rm returns", _AS_EXT4),
        Figure("rm+umount", "s", "the same, until umount has returned", _AS_EXT4),
        Figure("space", "MiB", "used space by df with the untarred tree, after umount and mount", Budget(0.22, "ext4")),
        Figure("space empty", "MiB", "the same before the tree"),
    ), inputs=("tree",), tools=("tar",)),
    Piece("import", _import, (
        Figure("import", "s", "the archive of the tree becomes a folder by what the file system has for that, else by tar, until it returns"),
        Figure("import+umount", "s", "the same, until umount has returned: all is on the device", Budget(0.7, "ext4")),
        Figure("grep imported", "s", "grep -r of a random string that is nowhere in that folder, after a cold mount"),
        Figure("grep untarred", "s", "the same in the folder of a tree that tar made beside it"),
    ), inputs=("tree",), tools=("tar",), room=lambda settings: 4 * GiB),
    Piece("copies", _copies, (
        Figure("cp", "s", "cp -r of the tree to another folder of the file system, cold, until cp returns", _AS_EXT4),
        Figure("cp+umount", "s", "the same, until umount has returned", _AS_EXT4),
        Figure("rsync", "s", "rsync -a of the tree to another folder of the file system, cold, until rsync returns"),
        Figure("rsync+umount", "s", "the same, until umount has returned"),
    ), inputs=("tree",), tools=("tar", "rsync"), room=lambda settings: 4 * GiB),
)
