"""A C program is built inside of the mount with make -j2, run there, and rebuilt after changes."""

import os

import harness

MODULES = 40
MAKEFILE = """\
objects = $(patsubst %%.c,%%.o,$(wildcard *.c))
program: $(objects)
\tcc -o $@ $^
%%.o: %%.c common.h
\tcc -O1 -g -c -o $@ $<
"""


class Build(harness.MountCase):
    def test_make_builds_a_program_that_runs_and_rebuilds_only_what_changed(self):
        volume = self.volume()
        volume.mount()
        place = volume.path("program")
        os.mkdir(place)

        def write(name, text):
            with open(os.path.join(place, name), "w", encoding="ascii") as file:
                file.write(text)

        write("Makefile", MAKEFILE.replace("%%", "%"))
        write("common.h", "#include <stdio.h>\n" + "".join(f"int f{i}(int);\n" for i in range(MODULES)))
        for i in range(MODULES):
            write(f"m{i}.c", f'#include "common.h"\nint f{i}(int x) {{ return x * 3 + {i}; }}\n')
        calls = "".join(f"x += f{i}({i});" for i in range(MODULES))
        write("main.c", f'#include "common.h"\nint main(void) {{ int x = 0; {calls} printf("%d\\n", x); return 0; }}\n')
        expected = str(sum(3 * i + i for i in range(MODULES)))

        self.assertEqual(self.must("make", "-j2", cwd=place).count("-c -o"), MODULES + 1)
        self.assertEqual(self.must("./program", cwd=place).strip(), expected)
        self.assertIn("up to date", self.must("make", "-j2", cwd=place))
        volume.remount()
        self.assertEqual(self.must("./program", cwd=place).strip(), expected)
        self.assertIn("up to date", self.must("make", "-j2", cwd=place))
        write("m7.c", '#include "common.h"\nint f7(int x) { return x * 3 + 1007; }\n')
        self.assertEqual(self.must("make", "-j2", cwd=place).count("-c -o"), 1)
        self.assertEqual(self.must("./program", cwd=place).strip(), str(int(expected) + 1000))
        self.must("strip", "program", cwd=place)
        self.assertEqual(self.must("./program", cwd=place).strip(), str(int(expected) + 1000))


if __name__ == "__main__":
    harness.main()
