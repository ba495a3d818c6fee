"""The plain form: messages that are one byte string, read and written without a decoder.

A Ping or Ack for oneself, a Nack, and the updates in circulation are [number, {1: bytes}], and nearly every datagram
has nothing else in it. Their encoding is a constant and the bytes, so it is made by joining and read by comparing, at a
tenth of the cost. The form is that of `codec`, which reads and writes all others; what is not exactly this form is left
to it, bounds included.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

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
    if form is None or message.extensions or (form.other is not None and form.other(message) is not None):
        return None
    value = form.field(message)
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
        form = _BY_START.get(body[at : at + 4])
        at += 5
        if form is None or at > size:
            return None
        length = body[at - 1] - 0x40
        if length >= 24:
            if length > 25:
                return None
            start = at + length - 23
            length = int.from_bytes(body[at:start], "big")
            at = start
        end = at + length
        if end > size or not form.smallest <= length <= form.largest:
            return None
        messages.append(form.build(body[at:end]))
        at = end
    return messages if at == size else None


class _Form:
    """One kind of message whose key 1 is a byte string. A field besides it must have its default, None."""

    __slots__ = ("build", "field", "largest", "other", "smallest", "start")

    def __init__(self, kind: type[Message], build: Callable[[bytes], Message]) -> None:
        self.build = build
        self.start = bytes((0x82, kind.NUMBER, 0xA1, 0x01))
        names = list(kind.KEYS)
        self.field: Callable[[Any], bytes] = attrgetter(names[0])
        self.other: Callable[[Any], object] | None = attrgetter(names[1]) if names[1:] else None
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
