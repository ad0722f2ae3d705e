"""A layer of a container, unpacked as root: with owners, modes, links and extended attributes."""

import errno
import os
import tarfile

from inputs import warm_file
from shared.commands import Problem, run

from .piece import AS_BEST, Figure, KiB, Piece, Setting

_ATTRIBUTE = "SCHILY.xattr."  # before the names of extended attributes in a tar file


def _check_attributes(tar, folder):
    """tar only warns about those that it could not set."""
    with tarfile.open(tar) as entries:
        for entry in entries:
            for header, value in entry.pax_headers.items():
                name = header.removeprefix(_ATTRIBUTE)
                if name != header and _attribute(os.path.join(folder, entry.name), name) != value.encode():
                    raise Problem(f"{folder}/{entry.name}: {name} is not what was unpacked")


def _attribute(path, name):
    """None: it is not there."""
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return None
        raise


def _layer(session):
    tar, folder = session.inputs.path("layer"), session.path("layer")
    session.cold()
    warm_file(tar)
    os.mkdir(folder)
    session.note_until_unmounted("layer", run, "tar", "--xattrs", "--xattrs-include=*", "--numeric-owner", "-xpf", tar, "-C", folder)
    session.mount()
    session.inputs.same_everywhere("layer", folder)
    run("tar", "--numeric-owner", "-df", tar, "-C", folder)
    _check_attributes(tar, folder)


PIECES = (
    Piece("layer", _layer, (
        Figure("layer", "s", "tar -xp of a made-up Debian root folder as root, with owners and extended attributes, until tar returns", AS_BEST),
        Figure("layer+umount", "s", "the same, until umount has returned", AS_BEST),
    ), inputs=("layer",), tools=("tar",), settings=(Setting("layer", "10000", "files of the made-up layer", budget="10000"),), room=lambda settings: settings["layer"] * 32 * KiB,
          optional=True),
)
