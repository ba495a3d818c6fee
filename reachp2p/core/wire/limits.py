"""The outer wall: limits on what is read, checked before memory is reserved (LESSONS 12, cases B61 and B63).

Everything that arrives is CBOR (RFC 8949) read by `load`: definite lengths, no tags at all (so no bignums, dates or
shared references are ever built), bounded size, depth and number of data items, nothing behind the item. Whatever
is wrong, the caller sees one kind of error, `WireError`, whose `reason` is one of our own words and names a counter.

Cost: cbor2 builds small items at 40 ns each and refuses declared lengths that the input does not have. An input of
n bytes has at most n items, so only inputs longer than `elements_max` are walked first by `scan` (190 ns an item,
ending at the limit, strings skipped).
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, NoReturn

import cbor2

BYTES_MAX = 1_114_112
"""Of one message reassembled from chunks: a payload of 1 MiB and 64 KiB around it."""
DATAGRAM_BYTES_MAX = 1_400
"""Fits the path MTU of nearly every network with room for tunnels (DESIGN §5)."""
DEPTH_MAX = 8
"""Arrays and maps with content, inside one another. Our deepest message, a digest in a body, has six levels."""
ELEMENTS_MAX = 32_768
"""Data items in one input, keys and containers counted. A full page of digest entries has 5,200 in 30 kB."""
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
    if size > elements_max:
        scan(data, elements_max=elements_max, depth_max=depth_max)
    stream = BytesIO(data)
    try:
        item: object = cbor2.CBORDecoder(
            stream,
            max_depth=depth_max,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            semantic_decoders=_NO_TAGS,
        ).decode()
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        scan(
            data, elements_max=elements_max, depth_max=depth_max
        )  # says more exactly what is wrong, if it can
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
    elements = 0
    missing = 1
    outer: list[int] = []
    while True:
        elements += 1
        if elements > elements_max:
            raise WireError("elements", f"more than {elements_max} data items")
        if position >= size:
            raise WireError("truncated")
        major, argument = divmod(data[position], 32)
        position += 1
        if argument >= 24:
            argument, position = _long_argument(data, position, argument)
        if major == 2 or major == 3:
            position += argument
            if position > size:
                raise WireError("truncated", "a string is longer than the input")
        elif major == 6:
            raise WireError("tag", str(argument))
        elif major in (4, 5) and argument:
            if major == 5:
                argument *= 2
            if argument > size - position:
                raise WireError("truncated", "a container declares more items than the input has bytes")
            if len(outer) >= depth_max:
                raise WireError("depth", f"more than {depth_max} levels")
            outer.append(missing)
            missing = argument
            continue
        missing -= 1
        while not missing:
            if not outer:
                if position != size:
                    raise WireError("trailing")
                return
            missing = outer.pop() - 1


def _long_argument(data: bytes, position: int, info: int) -> tuple[int, int]:
    if info == 31:
        raise WireError("indefinite")
    if info > 27:
        raise WireError("malformed", "reserved length")
    end = position + (1 << (info - 24))
    if end > len(data):
        raise WireError("truncated")
    return int.from_bytes(data[position:end], "big"), end


class _NoTags(dict[int, Any]):
    """Decoders by tag, of which there are none: cbor2 asks here before it looks at what is tagged."""

    def __missing__(self, tag: int) -> NoReturn:
        raise ValueError("tags are not allowed")


_NO_TAGS = _NoTags()
