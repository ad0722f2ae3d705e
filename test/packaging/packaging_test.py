"""The files of debian/ agree with what `cmake --install` installs and with the project's version, and systemd takes the units."""

import fnmatch
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD, LSMFS = os.environ["LSMFS_BUILD"], os.environ["LSMFS"]


def read(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def run(*words, **more):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


def covers(pattern, path):
    """As dh_install reads a line of debian/*.install: a file, or a folder with all that is in it."""
    return fnmatch.fnmatch(path, pattern) or path.startswith(pattern + "/")


class Packaging(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(dir=os.environ.get("LSMFS_TMPDIR"))
        self.addCleanup(self.place.cleanup)

    def installed(self, *more):
        """What is installed under /usr; an empty file stands for lsmfs-simdisk where it was not built."""
        folder = os.path.join(self.place.name, "-".join(("installed", *more)).replace("/", "-"))
        run("cmake", "--install", BUILD, "--prefix", "/usr", *more, env=dict(os.environ, DESTDIR=folder))
        return {os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder) for name in names}

    def agree(self, package, paths):
        patterns = read("debian", package + ".install").split()
        self.assertEqual({path for path in paths if not any(covers(pattern, path) for pattern in patterns)}, set())
        self.assertEqual({pattern for pattern in patterns if not any(covers(pattern, path) for path in paths)}, set())

    def test_the_package_has_what_is_installed(self):
        paths = self.installed()
        self.assertIn("usr/sbin/mount.lsmfs", paths)
        self.assertTrue(all(path.startswith("usr/") for path in paths), "/lib and /sbin lead to /usr since Debian 12")
        if not shutil.which("scdoc"):
            self.skipTest("without scdoc there are no pages")
        self.agree("lsmfs", paths)

    def test_the_package_of_the_benchmarks_has_what_is_installed_of_them(self):
        if not os.path.exists(os.path.join(BUILD, "lsmfs-simdisk")) or not shutil.which("scdoc"):
            self.skipTest("lsmfs-simdisk or scdoc are not there")
        paths = self.installed("--component", "bench")
        self.agree("lsmfs-bench", paths)
        self.assertEqual(paths & self.installed(), set())

    def test_installed_benchmarks_find_their_parts_and_the_programs(self):
        if not os.path.exists(os.path.join(BUILD, "lsmfs-simdisk")) or not shutil.which("scdoc"):
            self.skipTest("lsmfs-simdisk or scdoc are not there")
        self.installed("--component", "bench")
        folder = os.path.join(self.place.name, "installed---component-bench", "usr")
        pages = os.listdir(os.path.join(folder, "share", "man", "man1"))
        self.assertEqual({name + ".1" for name in os.listdir(os.path.join(folder, "bin"))}, set(pages))
        for name in ("compare", "aging"):
            words = ["run", "git"] if name == "aging" else []
            if name == "aging" and subprocess.run(["/usr/bin/python3", "-c", "import rich"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
                continue
            said = run(os.path.join(folder, "bin", "lsmfs-" + name), *words, "--help", env=dict(os.environ, COLUMNS="1000"))
            self.assertIn(f"default: {os.path.realpath(folder)}/bin/lsmfs-simdisk", said)
        left = [place for place, _, _ in os.walk(folder) if place.endswith("__pycache__")]
        self.assertEqual(left, [], "nobody would remove it")

    def test_the_page_of_the_simulated_disk_has_its_options(self):
        simdisk = os.path.join(BUILD, "lsmfs-simdisk")
        if not os.path.exists(simdisk):
            self.skipTest("lsmfs-simdisk is not there")
        for words in ([], ["model"]):
            options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", run(simdisk, *words, "--help")))
            self.assertGreater(len(options), 2)
            self.assertEqual({option for option in options if f"*{option}*" not in read("bench", "man", "lsmfs-simdisk.1.scd")}, set())

    def test_the_version_is_that_of_the_project(self):
        version = re.search(r"^project\(lsmfs VERSION ([0-9.]+)", read("CMakeLists.txt"), re.MULTILINE).group(1)
        self.assertEqual(re.match(r"lsmfs \(([^)]+)\) ", read("debian", "changelog")).group(1), version)
        self.assertEqual(run(LSMFS, "--version").splitlines()[0], f"lsmfs {version}")

    def test_what_building_needs_is_what_install_deps_installs(self):
        listed = re.search(r"^build=\((.*?)\)", read("scripts", "install-deps"), re.MULTILINE | re.DOTALL).group(1).split()
        wanted = re.search(r"^Build-Depends: (.*?)\n\w", read("debian", "control"), re.MULTILINE | re.DOTALL).group(1)
        needed = {re.match(r"[\w.+-]+", part.strip()).group(0) for part in wanted.split(",")}
        called = {"pkgconf": "pkg-config"}
        self.assertEqual({called.get(name, name) for name in needed} - {"debhelper-compat", "scdoc"}, set(listed) - {"fuse3"})

    def test_systemd_takes_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd is not here")
        self.installed()
        units = os.path.join(self.place.name, "units")
        shutil.copytree(os.path.join(self.place.name, "installed", "usr", "lib", "systemd", "system"), units)
        names = os.listdir(units)
        for name in ("lsmfs-scrub@.timer", "lsmfs-snapshot@.service", "lsmfs-snapshot@.timer"):
            self.assertIn(name, names)
        for name in names:
            path = os.path.join(units, name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertNotRegex(text, r"@\w+@")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("/usr/bin/lsmfs", LSMFS))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(os.path.join(units, name.replace("@.", "@data.")) for name in names)],
                              capture_output=True, text=True, check=False)
        ours = [line for line in done.stderr.splitlines() if "lsmfs" in line]
        self.assertEqual((done.returncode, ours), (0, []), done.stderr)


if __name__ == "__main__":
    unittest.main()
