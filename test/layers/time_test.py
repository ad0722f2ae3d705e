"""Keeps time an argument: one file of src/ reads clocks and sleeps, and tests wait in one place of each language."""

import os
import re
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop()) if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
# Of C++: what reads a clock, sleeps, or waits for a time.
SLEEPS = re.compile(r"::sleep_(for|until)\(|(?<!\w)::(u|nano)?sleep\(\w|(?<![\w.>:])(u|nano)?sleep\(\w")
CLOCKS = re.compile(r"_clock::now\(|clock_gettime\(|gettimeofday\(|\.wait_(for|until)\(\w*lock\b|\btime\((NULL|nullptr|0)\)|" + SLEEPS.pattern)
PYTHON_SLEEPS = re.compile(r"\btime\.sleep\(|from time import")
# What says that something took long or short. assertX(..., time.monotonic() ...) and EXPECT_X(... now() ...).
ASSERTS = re.compile(r"(EXPECT|ASSERT)_[A-Z]+\(.*_clock::now\(\)|assert\w*\(.*time\.(monotonic|perf_counter)\(")

SOURCES_THAT_MAY = {"src/base/clock.cc", "include/lsmfs/clock.h"}
TESTS_THAT_MAY = {"test/until.h", "test/clock.h"}
PYTHON_THAT_MAY = {"test/until.py", "test/soak/workers.py"}  # the latter paces a load


def files_below(*folders, endings):
    for folder in folders:
        for place, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith(endings) and name != os.path.basename(__file__):
                    yield os.path.relpath(os.path.join(place, name), ROOT)


def lines_with(pattern, path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            code = line.split("//")[0] if not path.endswith(".py") else line.split("#")[0]
            if pattern.search(code):
                yield f"{path}:{number}: {line.strip()}"


class Time(unittest.TestCase):
    def none_but(self, pattern, allowed, files):
        files = list(files)
        self.assertGreater(len(files), 10, "no sources found: wrong folder?")
        self.assertEqual([found for path in files if path not in allowed for found in lines_with(pattern, path)], [])

    def test_one_source_reads_clocks_and_sleeps(self):
        self.none_but(CLOCKS, SOURCES_THAT_MAY, files_below("src", "include", endings=(".h", ".cc")))

    def test_tests_sleep_in_one_place(self):
        self.none_but(SLEEPS, TESTS_THAT_MAY, files_below("test", "bench/aging/simdisk/test", endings=(".h", ".cc")))
        self.none_but(PYTHON_SLEEPS, PYTHON_THAT_MAY, files_below("test", "bench/aging/simdisk/test", endings=(".py",)))

    def test_no_test_asserts_how_long_something_takes(self):
        self.none_but(ASSERTS, set(), files_below("test", "bench/aging/simdisk/test", endings=(".h", ".cc", ".py")))

    def test_this_test_sees_what_it_is_to_see(self):
        for text in ("auto t = steady_clock::now();", "::usleep(10);", "this_thread::sleep_for(1ms);", "wake_.wait_until(lock, due);", "clock_gettime(CLOCK_REALTIME, &t);"):
            self.assertRegex(text, CLOCKS)
        for text in ("clock.now()", "asleep_.wait(true)", "while (sleep()) {", "walk->wait_for(lock, end);", "int wait_for(pid_t pid);", "clock.sleep(1ms)"):
            self.assertNotRegex(text, CLOCKS)
        self.assertRegex("    time.sleep(0.1)", PYTHON_SLEEPS)
        self.assertRegex("EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);", ASSERTS)
        self.assertRegex("self.assertLess(time.monotonic() - begin, 30)", ASSERTS)


if __name__ == "__main__":
    unittest.main()
