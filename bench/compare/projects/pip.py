"""Wheels of Python packages, a file that asks for all of them, and a virtual environment to install them into:

    requirements.txt
    wheels/
    venv/

A copy of the environment is as good as the environment, for its pip is only called as `venv/bin/python -m pip`.
"""

import base64
import hashlib
import os
import sys
import zipfile

from made_up import Text, some_size
from shared.commands import run

from .files import write


def make(folder, packages, rng):
    text, names = Text(rng), [f"made-up-{number:05}" for number in range(packages)]
    os.makedirs(os.path.join(folder, "wheels"))
    for name in names:
        _make_wheel(folder, name, rng, text)
    write("".join(f"{name}==1.0\n" for name in names), folder, "requirements.txt")
    run(sys.executable, "-m", "venv", os.path.join(folder, "venv"))


def _make_wheel(folder, name, rng, text):
    package = name.replace("-", "_")
    files = {f"{package}/__init__.py": "VALUE = 1\n"}
    for number in range(some_size(rng, 20, 0.8, most=300)):
        inside = rng.choice(("", "", "core/", "core/parts/", "data/"))
        if inside == "data/":
            files[f"{package}/data/file{number:03}.txt"] = text.take(some_size(rng, 2048, 1.3))
        else:
            files[f"{package}/{inside}module{number:03}.py"] = _source(rng, text)
    about = f"{package}-1.0.dist-info"
    files[about + "/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\n".encode() + text.take(some_size(rng, 2048, 0.8))
    files[about + "/WHEEL"] = "Wheel-Version: 1.0\nGenerator: made up\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
    files[about + "/RECORD"] = "".join(_recorded(path, data) for path, data in files.items()).encode() + f"{about}/RECORD,,\n".encode()
    with zipfile.ZipFile(os.path.join(folder, "wheels", f"{package}-1.0-py3-none-any.whl"), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)


def _recorded(path, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{path},sha256={digest},{len(data)}\n"


def _source(rng, text):
    """A module of functions, which is compiled when it is installed."""
    lines = [f'"""{_words(rng, text)}"""\n']
    for number in range(some_size(rng, 16, 0.8, most=200) // 4):
        lines.append(f'def step{number}(values, start={rng.randrange(1 << 16)}):\n    """{_words(rng, text)}"""\n    found = {{}}\n'
                     f"    for at, value in enumerate(values, start):\n        if value % {rng.randrange(2, 99)}:\n            found[at] = value + {rng.randrange(1 << 16)}\n"
                     f"        else:\n            found[value] = str(at) * {rng.randrange(1, 9)}\n    return found\n")
    return "\n".join(lines)


def _words(rng, text):
    return text.take(some_size(rng, 100, 0.8)).decode().strip()
