"""Where the whole program lies that lsmfs becomes (docs/design/28-two-programs.md), and copies of both."""

import os
import shutil

WHOLE = os.path.join("libexec", "lsmfs", "lsmfs")


def whole(program):
    """The path of what `program` becomes for all that is more than to ask a daemon: it serves mounts, too. None where there is none."""
    folder = os.path.dirname(os.path.realpath(program))
    places = (os.path.join(folder, *up, WHOLE) for up in (("..",), ()))
    return next((os.path.realpath(place) for place in places if os.path.exists(place)), None)


def copy(program, folder):
    """A copy in `folder` that works there; gives its path."""
    if whole(program):
        os.makedirs(os.path.join(folder, os.path.dirname(WHOLE)), exist_ok=True)
        shutil.copy(whole(program), os.path.join(folder, WHOLE))
    return shutil.copy(program, folder)
