"""A made-up git repository with a long history: the same one for the same seed, made by git fast-import in seconds."""

import random
import subprocess

_WORDS = """buffer cache commit device entry extent frame granule header inode journal key ledger merge node offset
page queue record segment table update value volume window zone static const return while struct size count""".split()


def _text(rng, lines):
    return [" ".join(rng.choices(_WORDS, k=rng.randint(1, 9))) for _ in range(lines)]


def make(path, commits, files, seed, tags=10):
    """A bare repository at `path`: `files` files to start with, then `commits` changes of some of them each,
    with additions, removals and renames, and tags v0 to v<tags - 1> spread over the history."""
    rng = random.Random(seed)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", path], check=True)
    feed = subprocess.Popen(["git", "-C", path, "fast-import", "--quiet"], stdin=subprocess.PIPE)
    out = feed.stdin

    def data(text):
        raw = text.encode()
        out.write(b"data %d\n%s\n" % (len(raw), raw))

    def modify(name):
        out.write(f"M 100644 inline {name}\n".encode())
        data("\n".join(tree[name]) + "\n")

    def new_name():
        nonlocal serial
        serial += 1
        depth = rng.randint(1, 4)
        return "/".join([f"d{rng.randrange(12)}" for _ in range(depth)] + [f"f{serial:05}.c"])

    serial = 0
    tree = {}
    for number in range(commits):
        out.write(b"commit refs/heads/main\n")
        out.write(f"committer A U Thor <author@example.org> {1_000_000_000 + number * 3600} +0000\n".encode())
        data(f"Change {number}")
        if number == 0:
            for _ in range(files):
                name = new_name()
                tree[name] = _text(rng, rng.randint(5, 150))
                modify(name)
        else:
            names = rng.sample(list(tree), min(len(tree), rng.randint(1, 6)))
            for name in names:
                action = rng.random()
                if action < 0.05 and len(tree) > files // 2:
                    out.write(f"D {name}\n".encode())
                    del tree[name]
                elif action < 0.12:
                    other = new_name()
                    out.write(f"R {name} {other}\n".encode())
                    tree[other] = tree.pop(name)
                else:
                    lines = tree[name]
                    at = rng.randrange(len(lines) + 1)
                    lines[at:at + rng.randint(0, 3)] = _text(rng, rng.randint(1, 6))
                    modify(name)
            if rng.random() < 0.3:
                name = new_name()
                tree[name] = _text(rng, rng.randint(5, 150))
                modify(name)
        for tag in range(tags):
            if number == (tag + 1) * commits // tags - 1:
                out.write(f"reset refs/tags/v{tag}\nfrom refs/heads/main\n\n".encode())
    out.write(b"done\n")
    out.close()
    if feed.wait() != 0:
        raise RuntimeError("git fast-import failed")
