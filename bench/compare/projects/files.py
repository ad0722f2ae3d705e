"""Writing the files of projects."""

import os


def write(data, *names):
    """Text, or bytes. Makes the folders above the file, too."""
    path = os.path.join(*names)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path
