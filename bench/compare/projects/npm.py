"""A project that has its packages in npm's cache, and a lock file that names them:

    project/package.json, project/package-lock.json
    cache/   what npm keeps in ~/.npm

Most packages lie beside each other once installed. One in ten is another version of a package, inside the one that needs it.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile

from made_up import Text, files_of_package, some_size
from shared.commands import run

from .files import write

NESTED = 0.1
NEEDED_BY_ANOTHER = 0.85  # the others are needed by the project


class _Package:
    def __init__(self, name, version):
        self.name, self.version, self.needs, self.inside = name, version, {}, {}

    def facts(self):
        found = {"version": self.version}
        if self.needs:
            found["dependencies"] = self.needs
        return found


def make(folder, packages, rng):
    tops, project = _graph(packages, rng)
    text, lock, tars = Text(rng), {"": {**project}}, []
    for place, package in _placed(tops):
        data = _packed(package, rng, text)
        tars.append(write(data, folder, "tars", f"{len(tars):05}.tgz"))
        digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
        lock[place] = {**package.facts(), "resolved": f"https://registry.invalid/{package.name}/-/{package.name}-{package.version}.tgz",
                       "integrity": "sha512-" + digest}
    write(json.dumps(project, indent=2), folder, "project", "package.json")
    write(json.dumps({"name": project["name"], "version": project["version"], "lockfileVersion": 3, "requires": True, "packages": lock}, indent=2),
          folder, "project", "package-lock.json")
    for at in range(0, len(tars), 500):
        run("npm", "cache", "add", "--cache", os.path.join(folder, "cache"), "--logs-max=0", "--no-update-notifier", *tars[at:at + 500])
    shutil.rmtree(os.path.join(folder, "tars"))


def _graph(count, rng):
    """(packages that lie beside each other, what package.json says)"""
    tops, needed = [], {}
    while count > 0:
        count -= 1
        parent = rng.choice(tops) if tops and rng.random() < NEEDED_BY_ANOTHER else None
        if parent and rng.random() < NESTED:
            twin = rng.choice(tops).name
            if twin != parent.name and twin not in parent.needs:
                parent.needs[twin] = "^2.0.0"
                parent.inside[twin] = _Package(twin, "2.0.0")
                continue
        package = _Package(f"{rng.choice('abcdefghijklmnopqrstuvwxyz')}-package-{len(tops):05}", "1.0.0")
        (parent.needs if parent else needed)[package.name] = "^1.0.0"
        tops.append(package)
    return tops, {"name": "project", "version": "1.0.0", "dependencies": needed}


def _placed(tops):
    for package in tops:
        yield f"node_modules/{package.name}", package
        for inner in package.inside.values():
            yield f"node_modules/{package.name}/node_modules/{inner.name}", inner


def _packed(package, rng, text):
    """The package as registries have it."""
    packed = io.BytesIO()
    head = {"name": package.name, **package.facts(), "description": text.take(some_size(rng, 512, 0.5)).decode()}
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in (("package.json", json.dumps(head, indent=2).encode()), *files_of_package(rng, text)):
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mtime = len(data), 500_000_000
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
