"""A program in Rust that needs crates, each of which needs up to three of the others. They lie in its folder, as
`cargo vendor` puts them there:

    Cargo.toml, Cargo.lock, .cargo/config.toml, src/main.rs
    vendor/   the crates
"""

import hashlib
import json
import os
import pwd

from made_up import Text, some_size
from shared.commands import run

from .files import write

NEEDS = 3


def make(folder, packages, rng):
    text, names = Text(rng), []
    for number in range(packages):
        name = f"crate-{number:05}"
        _make_crate(folder, name, rng.sample(names, min(len(names), rng.randint(0, NEEDS))), rng, text)
        names.append(name)
    write(_manifest("program", names), folder, "Cargo.toml")
    write('[source.crates-io]\nreplace-with = "vendor"\n[source.vendor]\ndirectory = "vendor"\n', folder, ".cargo", "config.toml")
    write("fn main() {\n    let mut sum = 0u64;\n" + _calls(names) + '    println!("{sum}");\n}\n', folder, "src", "main.rs")
    run("cargo", "generate-lockfile", "--offline", cwd=folder, environment=environment(folder))


def environment(folder):
    """For cargo in this project. If it is rustup's, that keeps it in the home folder, wherever $HOME points."""
    rustup = os.environ.get("RUSTUP_HOME", os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".rustup"))
    return {"CARGO_HOME": os.path.join(folder, "home"), "RUSTUP_HOME": rustup, "RUST_BACKTRACE": "0"}


def _manifest(name, needs):
    return "\n".join((f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n\n[dependencies]', *(f'{need} = "1"' for need in needs), ""))


def _calls(names):
    return "".join(f"    sum = sum.wrapping_add({name.replace('-', '_')}::value());\n" for name in names)


def _make_crate(folder, name, needs, rng, text):
    modules = [f"part{number:03}" for number in range(some_size(rng, 24, 0.6, most=160) // 4)]
    files = {"Cargo.toml": _manifest(name, needs), "README.md": text.take(some_size(rng, 2048, 0.8)),
             "src/lib.rs": "".join(f"pub mod {module};\n" for module in modules) + "\npub fn value() -> u64 {\n    let mut sum = 0u64;\n" + _calls(needs)
                           + "".join(f"    sum = sum.wrapping_add({module}::value(sum));\n" for module in modules) + "    sum\n}\n"}
    for module in modules:
        files[f"src/{module}.rs"] = _source(rng, text)
    for number in range(rng.randint(0, 4)):
        files[f"tests/test{number}.rs"] = _source(rng, text)
    files = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
    for path, data in files.items():
        write(data, folder, "vendor", name, path)
    sums = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    write(json.dumps({"files": sums, "package": hashlib.sha256(name.encode()).hexdigest()}), folder, "vendor", name, ".cargo-checksum.json")


def _source(rng, text):
    """A module of some structures with some functions each."""
    lines, kinds = [], range(rng.randint(1, 4))
    for kind in kinds:
        lines += _comment(rng, text, "///")
        lines.append(f"#[derive(Clone, Debug, Default, PartialEq)]\npub struct Kind{kind} {{\n    pub name: String,\n    pub values: Vec<u64>,\n}}\n\nimpl Kind{kind} {{")
        for number in range(rng.randint(2, 6)):
            lines += ["    " + line for line in _comment(rng, text, "///")]
            lines.append(f"    pub fn step{number}(&mut self, from: u64) -> u64 {{\n        self.values.push(from ^ {rng.randrange(1 << 32)});\n"
                         f"        self.name = format!(\"{{}}{{}}\", self.name.len(), from);\n"
                         f"        self.values.iter().map(|value| value.rotate_left({rng.randrange(64)})).fold({rng.randrange(1 << 32)}, u64::wrapping_add)\n    }}\n")
        lines.append("}\n")
    lines.append("pub fn value(from: u64) -> u64 {\n    let mut sum = from;")
    lines += [f"    sum ^= Kind{kind}::default().step0(sum);" for kind in kinds]
    return "\n".join((*lines, "    sum\n}\n"))


def _comment(rng, text, mark):
    return [f"{mark} {line}" for line in text.take(some_size(rng, 80, 0.8)).decode().splitlines()]
