"""W3C Trace Context (Recommendation of 23 November 2021): `traceparent` in, out and through.

A call is one span, and each of its attempts has an id of its own: it is drawn from the random id of the call, so that a
trace costs no further randomness. A trace that is begun here takes the id of its first call (16 random bytes). What is
not well formed is ignored, as the Recommendation has it (section 3.2.2), and the trace begins anew.
"""

from __future__ import annotations

import re

import msgspec

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_SPAN_BITS = 64
SAMPLED = 1
"""The only flag that is passed on: the trace is recorded by somebody."""


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """Which trace a call belongs to, and which span it was made in (None: it is the first)."""

    trace_id: str
    """32 lower-case hexadecimal digits."""
    parent_id: str | None
    """16 of them."""
    flags: int = SAMPLED

    def for_attempt(self, call: bytes, attempt: int) -> str:
        """The `traceparent` of the request that an attempt of a call (16 random bytes) sends, counted from 1."""
        span = (int.from_bytes(call[8:]) + attempt) % (1 << _SPAN_BITS)
        return f"00-{self.trace_id}-{span or 1:016x}-{self.flags:02x}"


def read_traceparent(text: str) -> TraceContext | None:
    """What a `traceparent` says, or None if it is not well formed. A later version is read as far as it is known."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    if not trace_id.strip("0") or not parent_id.strip("0"):
        return None
    return TraceContext(trace_id, parent_id, int(flags, 16) & SAMPLED)


def new_trace(call: bytes) -> TraceContext:
    """A trace that begins with a call."""
    return TraceContext(call.hex(), None)
