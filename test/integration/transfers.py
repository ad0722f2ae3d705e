"""The bytes between lsmfs send and lsmfs receive: docs/streams.md has the format."""

import os

MAGIC_BYTES, HEADER_BYTES = 16, 16


def ends_of_frames(data):
    """Where each record of a stream ends; the first is that which says what it is."""
    at, ends = MAGIC_BYTES, []
    while at < len(data):
        at += HEADER_BYTES + int.from_bytes(data[at:at + 4], "little")
        ends.append(at)
    if at != len(data):
        raise AssertionError(f"a stream that ends at {len(data)}, and not at {at}")
    return ends


def records_of(token):
    """How many records a receive has that goes on with this token."""
    payload, at = bytes.fromhex(token.removeprefix("lsmfs1-")), 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = payload[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def snapshot():
        nonlocal at
        at += 16
        for _ in range(3):
            number()
        name = number()
        at += name

    snapshot()
    what = payload[at]
    at += 1
    if what & 1:
        snapshot()
    return number()


def parts_in(folder):
    """What receives that are not complete have left there."""
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(".receiving-")]
