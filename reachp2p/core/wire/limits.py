"""The outer wall: limits on what is read, checked before memory is reserved (cases B61 and B63).

Everything that arrives is CBOR (RFC 8949) read by `load`: definite lengths, no tags at all (so no bignums, dates or
shared references are ever built), bounded size, depth and number of data items, nothing behind the item. Whatever
is wrong, the caller sees one kind of error, `WireError`, whose `reason` is one of our own words and names a counter.

Cost: cbor2 builds small items at 40 ns each and refuses declared lengths that the input does not have, so inputs of
at most `UNSCANNED_BYTES_MAX` go to it at once. Longer ones are walked first by `scan` (100 ns an item, strings
skipped), which ends at the limit, and which refuses arrays and maps as map keys: their hashes can be made to collide,
and then a map of n keys costs n² comparisons (64 kB: two seconds; 4 kB: ten milliseconds).
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, NoReturn

import cbor2

BYTES_MAX = 1_114_112
"""Of one message reassembled from chunks: a payload of 1 MiB and 64 KiB around it."""
DATAGRAM_BYTES_MAX = 1_400
"""Fits the path MTU of nearly every network with room for tunnels (docs/protocol/wire.md)."""
DEPTH_MAX = 8
"""Arrays and maps with content, inside one another. Our deepest message, a digest in a body, has six levels."""
ELEMENTS_MAX = 16_384
"""Data items in one input, keys and containers counted. A full page of digest entries has 5,200 in 30 kB."""
UNSCANNED_BYTES_MAX = 4_096
"""Any datagram, and most frames."""
INTEGER_MAX = 2**64 - 1
"""The largest CBOR integer without a tag; fields narrow it further."""


class WireError(Exception):
    """Input that no correct node sends; it changed nothing. `reason` is a word of our own, fit for a counter's name."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


def load(
    data: bytes, *, bytes_max: int, elements_max: int = ELEMENTS_MAX, depth_max: int = DEPTH_MAX
) -> object:
    """Decode exactly one CBOR data item into plain Python values. Raises only `WireError`.

    Whether floats, `undefined` or simple values fit is for the caller's schema to say.
    """
    size = len(data)
    if size > bytes_max:
        raise WireError("too_large", f"{size} bytes, at most {bytes_max}")
    if size > UNSCANNED_BYTES_MAX or size > elements_max:
        scan(data, elements_max=elements_max, depth_max=depth_max)
    stream = BytesIO(data)
    try:
        item: object = cbor2.CBORDecoder(
            stream,
            max_depth=depth_max,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            semantic_decoders=NO_TAGS,
        ).decode()
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        # The walk says more exactly what is wrong, if it is one of our rules.
        scan(data, elements_max=elements_max, depth_max=depth_max)
        raise WireError("malformed", type(error).__name__) from error
    if stream.tell() != size:
        raise WireError("trailing")
    return item


def scan(data: bytes, *, elements_max: int = ELEMENTS_MAX, depth_max: int = DEPTH_MAX) -> None:
    """Walk one CBOR item without building it. Raises `WireError` with the first limit or rule that it breaks.

    It checks structure only: bad UTF-8 and duplicate keys are left to the decoder.
    """
    size = len(data)
    position = 0
    elements = 1
    missing = 1  # items of the container we are in, keys counted
    in_map = False
    outer: list[tuple[int, bool]] = []
    while True:
        if position >= size:
            raise WireError("truncated")
        head = data[position]
        step = _STEPS[head]
        if step:
            position += step
        else:
            argument, position = _argument(data, position)
            if head < 0x80:
                position += argument
            elif head >= 0xC0:
                raise WireError("tag", str(argument))
            elif in_map and not missing & 1:
                raise WireError("bad_key", "an array or map as a key")
            elif argument:
                if len(outer) >= depth_max:
                    raise WireError("depth", f"more than {depth_max} levels")
                outer.append((missing, in_map))
                in_map = head >= 0xA0
                missing = argument * 2 if in_map else argument
                if missing > size - position:
                    raise WireError("truncated", "a container declares more items than the input has bytes")
                elements += missing
                if elements > elements_max:
                    raise WireError("elements", f"more than {elements_max} data items")
                continue
        missing -= 1
        while not missing:
            if not outer:
                if position != size:
                    raise WireError("trailing" if position < size else "truncated")
                return
            missing, in_map = outer.pop()
            missing -= 1


def _argument(data: bytes, position: int) -> tuple[int, int]:
    """The argument of the head at `position` (RFC 8949 §3), and where the head ends."""
    info = data[position] & 31
    position += 1
    if info < 24:
        return info, position
    if info == 31:
        raise WireError("indefinite")
    if info > 27:
        raise WireError("malformed", "reserved length")
    end = position + (1 << (info - 24))
    if end > len(data):
        raise WireError("truncated")
    return int.from_bytes(data[position:end], "big"), end


def _step(head: int) -> int:
    """The size of a whole item that its first byte tells: numbers, simple values and short strings; else 0."""
    major, info = divmod(head, 32)
    if major in (2, 3):
        return 1 + info if info < 24 else 0
    if major in (4, 5, 6) or info > 27:
        return 0
    return 1 if info < 24 else 1 + (1 << (info - 24))


_STEPS = bytes(map(_step, range(256)))


class _NoTags(dict[int, Any]):
    """Decoders by tag, of which there are none: cbor2 asks here before it looks at what is tagged."""

    def __missing__(self, tag: int) -> NoReturn:
        raise ValueError("tags are not allowed")


NO_TAGS = _NoTags()
