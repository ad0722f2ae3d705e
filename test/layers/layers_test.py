"""Keeps the layers honest: no include against their order, or against that of a layer's folders, no library's header outside
of the layer that owns it, no source file that its CMakeLists.txt does not name."""

import os
import re
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop()) if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
# The lowest first: each may use only those before it.
LAYERS = ["base", "device", "volume", "kv", "tree", "fuse", "cli"]
FURTHER = {"clock": "base", "mutex": "base", "counters": "base", "channel": "base", "nbd": "device", "lease": "volume", "differences": "tree", "import": "tree", "changes": "tree", "control": "fuse"}  # public headers that are not called as their layer
# The same of the folders of a layer that has some.
FOLDERS = {"fuse": ["control", "transport", "nearness", "serving", "mounting"]}
OWNERS = {"rocksdb/": "kv", "fuse": "fuse", "fuse3/": "fuse", "linux/fuse.h": "fuse", "CLI/": "cli", "spdlog/": "cli",
          "nlohmann/": "cli", "blkid/": "cli", "seccomp.h": "cli", "libnbd.h": "device"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def files_below(folder, *endings):
    for place, _, names in os.walk(os.path.join(ROOT, folder)):
        for name in names:
            if name.endswith(endings):
                yield os.path.join(place, name)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def layer_of(header):
    """The layer that a header of this project belongs to; None for one of a library."""
    match = re.fullmatch(r"lsmfs/(\w+)\.h", header) or re.match(r"(\w+)/.*\.h$", header)
    name = FURTHER.get(match.group(1), match.group(1)) if match else None
    return name if name in LAYERS else None


def owner_of(header):
    for start, owner in OWNERS.items():
        if header == start or (start.endswith("/") and header.startswith(start)) or \
                (start == "fuse" and re.match(r"fuse(_\w+)?\.h$", header)):
            return owner
    return None


class Layers(unittest.TestCase):
    def check(self, path, layer):
        problems = []
        for quote, header in INCLUDE.findall(read(path)):
            used = layer_of(header) if quote == '"' else None
            if used and LAYERS.index(used) > LAYERS.index(layer):
                problems.append(f"{os.path.relpath(path, ROOT)}: {layer} uses {header} of the higher layer {used}")
            if used and used != layer and not header.startswith("lsmfs/"):
                problems.append(f"{os.path.relpath(path, ROOT)}: {layer} uses {header}, which is inside of {used}")
            owner = owner_of(header) if quote == "<" else None
            if owner and owner != layer:
                problems.append(f"{os.path.relpath(path, ROOT)}: only {owner} may use {header}")
        return problems

    def test_no_source_includes_a_higher_layer_or_a_foreign_library(self):
        problems = []
        seen = 0
        for layer in LAYERS:
            for path in files_below(f"src/{layer}", ".h", ".cc"):
                seen += 1
                problems += self.check(path, layer)
        self.assertGreater(seen, 0, "no sources found: wrong folder?")
        self.assertEqual(problems, [])

    def test_no_folder_includes_a_higher_one_of_its_layer(self):
        problems = []
        for layer, folders in FOLDERS.items():
            files = list(files_below(f"src/{layer}", ".h", ".cc"))
            self.assertEqual({os.path.basename(os.path.dirname(path)) for path in files}, set(folders))
            for path in files:
                folder = os.path.basename(os.path.dirname(path))
                for header in re.findall(rf'#include "({layer}/[^"]+)"', read(path)):
                    if folders.index(header.split("/")[1]) > folders.index(folder):
                        problems.append(f"{os.path.relpath(path, ROOT)}: {folder} uses {header}")
        self.assertEqual(problems, [])

    def test_no_public_header_includes_a_higher_layer_or_a_foreign_library(self):
        problems = []
        for path in files_below("include/lsmfs", ".h"):
            name = os.path.basename(path).removesuffix(".h")
            layer = FURTHER.get(name, name)
            self.assertIn(layer, LAYERS, f"{path}: a header of no layer")
            problems += self.check(path, layer)
        self.assertEqual(problems, [])

    def test_every_source_is_named_in_its_list(self):
        forgotten = []
        for path in files_below("src", ".cc"):
            folder = os.path.dirname(path)
            while not os.path.exists(os.path.join(folder, "CMakeLists.txt")):
                folder = os.path.dirname(folder)
            if os.path.relpath(path, folder) not in read(os.path.join(folder, "CMakeLists.txt")).replace(")", " ").split():
                forgotten.append(os.path.relpath(path, ROOT))
        self.assertEqual(forgotten, [])

    def test_this_test_sees_what_it_is_to_see(self):
        self.assertEqual(layer_of("lsmfs/tree.h"), "tree")
        self.assertEqual(layer_of("kv/status.h"), "kv")
        self.assertEqual(layer_of("lsmfs/clock.h"), "base")
        self.assertIsNone(layer_of("sys/types.h"))
        self.assertEqual(owner_of("rocksdb/db.h"), "kv")
        self.assertEqual(owner_of("fuse_lowlevel.h"), "fuse")
        self.assertIsNone(owner_of("vector"))


if __name__ == "__main__":
    unittest.main()
