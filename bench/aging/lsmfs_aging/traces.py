"""Requests to a device, and what a scan's say about the layout.

A trace is text, a line for each request in the order in which the device got them:

    <seconds> <R|W|F|D> <offset in bytes> <length in bytes> ...

R reads, W writes, F flushes, D discards; lines that begin with # are comments. Both lsmfs-simdisk and `lsmfs layout` write it.
"""

import dataclasses

from shared.commands import Problem

BLOCK = 4096


@dataclasses.dataclass(frozen=True)
class Reads:
    """What the reads of a trace come to."""

    count: int
    bytes: int
    discontinuous: int
    score: float | None  # None: nothing was read


def parse(lines):
    """Yields (kind, offset, length). Problem: the trace is not whole."""
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            if "truncated" in line:
                raise Problem("the trace of the device is not whole: it was longer than what is kept of it")
            continue
        fields = line.split()
        try:
            yield fields[1], int(fields[2]), int(fields[3])
        except (IndexError, ValueError):
            raise Problem(f"line {number} of the device's trace is not one: {line.strip()!r}") from None


def reads(requests):
    """The dynamic layout score as in "File Systems Fated for Senescence? Nonsense, Says Science!" (FAST'17): 1 minus the
    share of blocks of 4 KiB at which the device had to begin elsewhere than where the read before ended. The first read
    is free."""
    count = total = discontinuous = 0
    end = None
    for kind, offset, length in requests:
        if kind != "R" or length == 0:
            continue
        if end is not None and offset != end:
            discontinuous += 1
        end = offset + length
        count += 1
        total += length
    blocks = total / BLOCK
    # Reads of less than a block may make more discontinuities than blocks.
    score = max(0.0, 1 - discontinuous / blocks) if blocks else None
    return Reads(count, total, discontinuous, score)
