"""Has clang check who holds which mutex (include/lsmfs/mutex.h) in all of src: the sources of a layer at once, and no code is made."""

import concurrent.futures
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.environ["LSMFS_ROOT"]
COMMANDS = os.environ["LSMFS_COMMANDS"]  # how the compiler is called: compile_commands.json of a build
NOT_OURS = {"src/cli/log.cc"}  # its mutex is spdlog's
LANGUAGE = ["-std=c++20"]
CHECKS = ["-fsyntax-only", "-Wthread-safety", "-Werror"]
# Headers of others, which are read once for all sources: that takes most of the time.
HEADERS = ("algorithm", "atomic", "chrono", "condition_variable", "filesystem", "functional", "map", "memory", "mutex", "optional", "random", "set", "shared_mutex",
           "span", "sstream", "string", "thread", "unordered_map", "vector", "fmt/format.h", "nlohmann/json.hpp", "rocksdb/db.h")

# Each line breaks a rule of its own when it is put into the class below.
WRONG = {
    "reads without it": "int f() { return value_; }",
    "calls without it": "void f() { needs(); }",
    "takes it twice": "void f() { MutexLock lock(mutex_); MutexLock again(mutex_); }",
    "uses what it let go of": "void f() { MutexLock lock(mutex_); Unlocked unlocked(mutex_); value_ = 1; }",
    "changes what it may read": "void f() { SharedLock lock(shared_); other_ = 1; }",
    "keeps it": "void f() { mutex_.lock(); value_ = 1; }",
}
CLASS = """
#include "lsmfs/mutex.h"
namespace lsmfs {
class Example {
 public:
  void right() { MutexLock lock(mutex_); { Unlocked unlocked(mutex_); } lock.unlock(); lock.lock(); needs(); }
  void shared() { { SharedLock lock(shared_); needs_shared(); } ExclusiveLock lock(shared_); other_ = 1; }
  %s
 private:
  void needs() LSMFS_REQUIRES(mutex_) { value_ = 1; }
  int needs_shared() LSMFS_REQUIRES_SHARED(shared_) { return other_; }
  Mutex mutex_;
  SharedMutex shared_;
  int value_ LSMFS_GUARDED_BY(mutex_) = 0;
  int other_ LSMFS_GUARDED_BY(shared_) = 0;
};
inline Example example;
}
"""


def sources():
    """The sources of src as a build has them, each with where the headers are and what is defined."""
    with open(COMMANDS, encoding="utf-8") as file:
        commands = json.load(file)
    for command in commands:
        if not command["directory"].startswith(ROOT) or "/src/" not in command["file"] or "cmake_pch" in command["file"]:
            continue
        words = shlex.split(command["command"])
        options = [word for word in words if re.match(r"-[ID]", word)]
        options += ["-isystem" + words[index + 1] for index, word in enumerate(words) if word == "-isystem"]
        yield command["file"], options


def said(path, options):
    """What clang says of a source, '' for nothing."""
    run = subprocess.run(["clang++", *LANGUAGE, *CHECKS, *options, path], capture_output=True, text=True, check=False)
    return run.stderr if run.returncode != 0 else ""


def precompiled(folder, options):
    """The options by which clang knows HEADERS. All that is compiled with them needs the same `options`."""
    header, made = os.path.join(folder, "headers.h"), os.path.join(folder, "headers.pch")
    with open(header, "w", encoding="ascii") as file:
        file.writelines(f"#include <{name}>\n" for name in HEADERS)
    subprocess.run(["clang++", *LANGUAGE, *options, "-fpch-instantiate-templates", "-x", "c++-header", header, "-o", made], check=True)
    return [*options, "-include-pch", made]


def said_of_example(member, options):
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
        file.write(CLASS % member)
        file.flush()
        return said(file.name, options)


class Locks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("clang++"):
            raise AssertionError("clang++ is missing: scripts/install-deps --test installs it")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.sources = list(sources())
        cls.options = precompiled(folder.name, list(dict.fromkeys(option for _, options in cls.sources for option in options)))

    def test_each_mutex_is_held_where_it_must_be(self):
        paths = [path for path, _ in self.sources]
        of_layers = {re.search(r"/src/(\w+)/", path)[1] for path in paths}
        self.assertEqual({"base", "device", "volume", "kv", "tree", "fuse", "cli"}, of_layers)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda path: said(path, self.options), paths))
        problems = [text for text in found if text]
        if problems:
            self.fail("\n".join(problems))

    def test_no_mutex_is_of_a_kind_that_is_not_checked(self):
        other = re.compile(r"std::(recursive_|shared_|timed_)*mutex \w+|std::(lock_guard|unique_lock|scoped_lock|shared_lock) ")
        for path in glob.glob(f"{ROOT}/src/**/*.*", recursive=True):
            if os.path.relpath(path, ROOT) in NOT_OURS:
                continue
            with open(path, encoding="utf-8") as file:
                self.assertIsNone(other.search(file.read()), path)

    def test_what_is_wrong_is_found(self):
        self.assertEqual("", said_of_example("", self.options))
        for what, line in WRONG.items():
            with self.subTest(what):
                self.assertIn("-Wthread-safety", said_of_example(line, self.options))


if __name__ == "__main__":
    unittest.main()
