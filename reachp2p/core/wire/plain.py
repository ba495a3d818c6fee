"""The plain form: messages that are one byte string or two, read and written without a decoder.

Pings, Acks, Nacks and the updates in circulation are [number, {1: bytes}], Pings and Acks for others
[number, {1: bytes, 2: bytes}], and nearly every datagram has nothing else in it. Their encoding is a constant and the
bytes, so it is made by joining and read by comparing, at a tenth of the cost. The form is that of `codec`, which reads
and writes all others; what is not exactly this form is left to it, bounds included.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from reachp2p.core.ids import NODE_ID_BYTES, NONCE_BYTES
from reachp2p.core.wire.cose import byte_string_head
from reachp2p.core.wire.messages import (
    AccusationUpdate,
    Ack,
    HeadUpdate,
    Message,
    Nack,
    Ping,
    RecordUpdate,
)

COUNT_MAX = 23
"""Messages in one body, as many as its first byte tells."""


def write_plain(message: Message) -> bytes | None:
    """The message as it travels, or None if it has another form."""
    form = _FORMS.get(type(message))
    if form is None or message.extensions:
        return None
    value = form.field(message)
    if form.other is not None and (origin := form.other(message)) is not None:
        if len(value) != NONCE_BYTES or len(origin) != NODE_ID_BYTES:
            return None
        return b"".join((form.start_for_other, value, _ORIGIN, origin))
    return form.start + byte_string_head(len(value)) + value


def read_plain(body: bytes) -> list[Message] | None:
    """The messages of a body that has nothing but messages of this form within their bounds, else None."""
    count = body[0] - 0x80 if body else 0
    if not 0 < count <= COUNT_MAX:
        return None
    size = len(body)
    messages: list[Message] = []
    at = 1
    for _ in range(count):
        start = body[at : at + 4]
        form = _BY_START.get(start)
        if form is None:
            read = _for_others(start, body, at)
            if read is None:
                return None
            message, at = read
            messages.append(message)
            continue
        at += 5
        if at > size:
            return None
        length = body[at - 1] - 0x40
        if length >= 24:
            if length > 25:
                return None
            value_at = at + length - 23
            length = int.from_bytes(body[at:value_at], "big")
            at = value_at
        end = at + length
        if end > size or not form.smallest <= length <= form.largest:
            return None
        messages.append(form.build(body[at:end]))
        at = end
    return messages if at == size else None


def _for_others(start: bytes, body: bytes, at: int) -> tuple[Message, int] | None:
    """A Ping or Ack with an origin, and where it ends; both fields have one size."""
    kind = _WITH_ORIGIN.get(start)
    nonce, origin = at + 5, at + 5 + NONCE_BYTES + len(_ORIGIN)
    end = origin + NODE_ID_BYTES
    if kind is None or end > len(body) or body[at + 4] != _NONCE_HEAD:
        return None
    if body[nonce + NONCE_BYTES : origin] != _ORIGIN:
        return None
    return kind(nonce=body[nonce : nonce + NONCE_BYTES], origin=body[origin:end]), end


_NONCE_HEAD = 0x40 + NONCE_BYTES
_ORIGIN = b"\x02" + byte_string_head(NODE_ID_BYTES)


class _Form:
    """One kind of message whose key 1 is a byte string. One field besides it may be another, an origin, or None."""

    __slots__ = ("build", "field", "largest", "other", "smallest", "start", "start_for_other")

    def __init__(self, kind: type[Message], build: Callable[[bytes], Message]) -> None:
        self.build = build
        self.start = bytes((0x82, kind.NUMBER, 0xA1, 0x01))
        names = list(kind.KEYS)
        self.field: Callable[[Any], bytes] = attrgetter(names[0])
        self.other: Callable[[Any], bytes | None] | None = attrgetter(names[1]) if names[1:] else None
        self.start_for_other = bytes((0x82, kind.NUMBER, 0xA2, 0x01, _NONCE_HEAD))
        bounds = next(f for f in msgspec.structs.fields(kind) if f.name == names[0]).type.__metadata__[0]
        self.smallest: int = bounds.min_length
        self.largest: int = bounds.max_length


_FORMS: dict[type[Message], _Form] = {
    kind: _Form(kind, build)
    for kind, build in (
        (Ping, lambda value: Ping(nonce=value)),
        (Ack, lambda value: Ack(nonce=value)),
        (Nack, lambda value: Nack(nonce=value)),
        (HeadUpdate, lambda value: HeadUpdate(head=value)),
        (AccusationUpdate, lambda value: AccusationUpdate(accusation=value)),
        (RecordUpdate, lambda value: RecordUpdate(record=value)),
    )
}
_BY_START = {form.start: form for form in _FORMS.values()}
_WITH_ORIGIN: dict[bytes, type[Ping] | type[Ack]] = {
    _FORMS[kind].start_for_other[:4]: kind for kind in (Ping, Ack)
}
