"""Which trace a call belongs to: W3C Trace Context (Recommendation of 23 November 2021), version 00.

The first call of a chain carries no trace context: its message id, 16 random bytes, is the trace id, and the spans of
its two sides are the halves of it. So a trace costs a call nothing until a handler calls somebody else
(docs/protocol/sessions.md). `tracestate` is not carried.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SPAN_BYTES = 8
TRACEPARENT_CHARACTERS = 55
"""Of version 00: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits."""
SAMPLED, NOT_SAMPLED = "01", "00"
"""Flags: whether somebody records the trace, as the nodes of a trace that begins here do. Others are not passed on."""
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


class TraceContext(NamedTuple):
    """The trace and the span that a call is made in, and its flags."""

    trace: bytes
    parent: bytes
    flags: str


def read_traceparent(text: str) -> TraceContext | None:
    """What a `traceparent` says; None if it is malformed, whereupon a new trace begins (W3C §3.2.2.3).

    Of a version above 00 only what version 00 has is read (§3.2.4).
    """
    form = _FORM.match(text)
    if form is None:
        return None
    if len(text) > TRACEPARENT_CHARACTERS and (text[:2] == "00" or text[TRACEPARENT_CHARACTERS] != "-"):
        return None
    return TraceContext(
        bytes.fromhex(text[3:35]),
        bytes.fromhex(text[36:52]),
        SAMPLED if int(text[54], 16) & 1 else NOT_SAMPLED,
    )


def write_traceparent(trace: bytes, span: bytes, flags: str = SAMPLED) -> str:
    """The `traceparent` of a call made in `span` of `trace`."""
    return f"00-{trace.hex()}-{span.hex()}-{flags}"


def asked_span(message_id: bytes, attempt: int) -> bytes:
    """The span of an attempt at its caller."""
    if attempt == 1:
        return message_id[:8]
    return message_id[:7] + bytes((message_id[7] ^ (attempt - 1) & 0xFF,))


def served_span(message_id: bytes, attempt: int) -> bytes:
    """The span of an attempt at its callee."""
    if attempt == 1:
        return message_id[8:]
    return message_id[8:15] + bytes((message_id[15] ^ (attempt - 1) & 0xFF,))
