"""fio, for calls that overlap, or that go through a mapping."""

import json

from shared.commands import read


def fio(session, *words):
    """Runs one job, which is measured. Returns what fio's JSON has of it, of all of its processes together."""
    with session.measured():
        text = read("fio", "--output-format=json", "--name=job", "--group_reporting", f"--randseed={session.rng.randrange(1, 1 << 31)}", *words)
    return json.loads(text[text.index("{"):])["jobs"][0]  # lines of other kinds may come before


def rate(side):
    """Bytes a second. `side`: the job's "read" or "write"."""
    return side["io_bytes"] / max(side["runtime"] / 1000, 0.001)
