"""The plain form of calls: requests and replies as nearly all of them are, written and read without a decoder.

A request that begins a trace, without session, key and path, and a reply with a result, are constants, a message id,
a few short texts and the payload; the texts of a request are the same with every call of one capability of one life.
So they are made by joining and read by comparing, at a quarter of the cost. The bytes are those of `codec`, which reads
and writes all others: what is not exactly this form is left to it, bounds and everything that is wrong included.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import cbor2

from reachp2p.core.ids import LIFE_ID_BYTES, MESSAGE_ID_BYTES, Life
from reachp2p.core.wire.cose import byte_string_head, head
from reachp2p.core.wire.limits import DEPTH_MAX, ELEMENTS_MAX, NO_TAGS, UNSCANNED_BYTES_MAX
from reachp2p.core.wire.messages import Message, Reply, Request

REMEMBERED_MAX = 1_024
"""Targets and texts whose bytes are remembered, in each direction; beyond it all are forgotten, and read once more."""
_ELEMENTS_MAX = 24
"""Data items in one call of the plain form, at most."""
_REMAINING_MAX = 86_400_000
_HOPS = 10
_CONTENT_TYPE = "application/cbor"
"""The defaults of a `Request`, which are left out; that of a `Reply` is the same."""
_REQUEST = bytes((0x82, 0x18, Request.NUMBER))
_REPLY = bytes((0x82, 0x18, Reply.NUMBER))
_ID = b"\x01\x50"
_ID_AT = len(_REQUEST) + 1
_FIELDS_AT = _ID_AT + len(_ID) + MESSAGE_ID_BYTES

_targets: dict[tuple[Life, str, str], bytes] = {}
_texts: dict[str, bytes] = {}
_known_targets: dict[bytes, tuple[Life, str, str]] = {}
"""What of a request names its target, and what it says; only what was read and checked by `codec`."""


def write_call(message: Message) -> bytes | None:
    """A request or a reply as it travels, or None if it has another form."""
    if type(message) is Request:
        return _write_request(message)
    return _write_reply(message) if type(message) is Reply else None


def _write_request(request: Request) -> bytes | None:
    if (
        request.attempt != 1
        or request.session_id is not None
        or request.traceparent is not None
        or request.idempotency_key is not None
        or request.path
        or request.stream
        or request.credit
        or request.asked_ms_ago
        or request.extensions
        or request.hops_left < 0  # `head` writes whole numbers
        or request.remaining_ms < 0
        or len(request.message_id) != MESSAGE_ID_BYTES
    ):
        return None
    payload, content_type, hops = request.payload, request.content_type, request.hops_left
    count, middle = 0xA6, b""
    if hops != _HOPS:
        count, middle = 0xA7, b"\x06" + head(0, hops)
    if content_type != _CONTENT_TYPE:
        count += 1
        middle += b"\x07" + _text(content_type)
    parts = (
        _REQUEST, _COUNTS[count], _ID, request.message_id, _target(request), b"\x05", head(0, request.remaining_ms),
        middle, b"\x08", byte_string_head(len(payload)), payload,
    )  # fmt: skip
    return b"".join(parts)


def _write_reply(reply: Reply) -> bytes | None:
    if (
        reply.code
        or reply.detail
        or not reply.executed
        or reply.items
        or reply.caller_fault
        or reply.retry_after_ms is not None
        or reply.extensions
        or len(reply.message_id) != MESSAGE_ID_BYTES
    ):
        return None
    payload, content_type = reply.payload, reply.content_type
    if not payload:
        return None
    if content_type == _CONTENT_TYPE:
        return b"".join(
            (_REPLY, b"\xa2", _ID, reply.message_id, b"\x04", byte_string_head(len(payload)), payload)
        )
    parts = (
        _REPLY, b"\xa3", _ID, reply.message_id, b"\x03", _text(content_type), b"\x04",
        byte_string_head(len(payload)), payload,
    )  # fmt: skip
    return b"".join(parts)


def _target(request: Request) -> bytes:
    key = (request.life, request.agent, request.capability)
    found = _targets.get(key)
    if found is None:
        life, agent, capability = key
        plain = cbor2.dumps({2: (life.epoch, life.life_id), 3: agent, 4: capability})[1:]
        if len(_targets) >= REMEMBERED_MAX:
            _targets.clear()
        found = _targets[key] = plain
    return found


def _text(text: str) -> bytes:
    found = _texts.get(text)
    if found is None:
        if len(_texts) >= REMEMBERED_MAX:
            _texts.clear()
        found = _texts[text] = cbor2.dumps(text)
    return found


def remember_target(request: Request) -> None:
    """Know the target of a request that was read: the next one for it is read by comparing."""
    if len(_known_targets) >= REMEMBERED_MAX:
        _known_targets.clear()
    _known_targets[_target(request)] = (request.life, request.agent, request.capability)


def read_calls(body: bytes, messages_max: int) -> list[Any] | None:
    """The items of a body, calls of the plain form as messages, others as plain values for `codec` to judge.

    None if it is not certain that `limits.load` would take all of it: each item that is not of the plain form has to
    fit into what is decoded unscanned, and all of them into the data items that one input may have.
    """
    size = len(body)
    if size < 2:
        return None
    count, at = body[0] - 0x80, 1
    if count == 24:
        count, at = body[1], 2
    if not 0 < count <= messages_max or body[0] > 0x98:
        return None
    items: list[Any] = []
    others = 0
    try:
        for _ in range(count):
            start = body[at : at + 3]
            read = _READERS.get(start)
            if read is not None:
                found = read(body, at)
                if found is not None:
                    items.append(found[0])
                    at = found[1]
                    if at > size:
                        return None
                    continue
            stream = BytesIO(body[at : at + UNSCANNED_BYTES_MAX])
            items.append(
                cbor2.CBORDecoder(
                    stream,
                    max_depth=DEPTH_MAX - 1,
                    allow_indefinite=False,
                    allow_duplicate_keys=False,
                    semantic_decoders=NO_TAGS,
                ).decode()
            )
            at += stream.tell()
            others += stream.tell()
    except (cbor2.CBORError, ValueError, TypeError, IndexError, OverflowError, RecursionError, MemoryError):
        return None
    return items if at == size and others + count * _ELEMENTS_MAX <= ELEMENTS_MAX else None


def _read_request(body: bytes, at: int) -> tuple[Request, int] | None:
    """A request of the plain form and where it ends, or None. Raises `IndexError` where the body ends too soon."""
    count, identity = body[at + 3], at + 6
    at += _FIELDS_AT
    if body[identity - 2 : identity] != _ID or body[at : at + 2] != b"\x02\x82":
        return None
    start = at
    at += 2
    at += _INTEGER_BYTES[body[at]]
    if body[at] != 0x40 + LIFE_ID_BYTES:
        return None
    at = _text_end(body, at + LIFE_ID_BYTES + 2)
    if body[at] != 0x04:
        return None
    at = _text_end(body, at + 1)
    target = _known_targets.get(body[start:at])
    if target is None or body[at] != 0x05:
        return None
    remaining, at = _integer(body, at + 1)
    hops, content_type, expected = _HOPS, _CONTENT_TYPE, 0xA6
    if body[at] == 0x06:
        hops, at = _integer(body, at + 1)
        expected = 0xA7
    if body[at] == 0x07:
        start = at + 1
        at = _text_end(body, start)
        content_type = body[start + (1 if body[start] < 0x78 else 2) : at].decode()
        expected += 1
    if body[at] != 0x08 or count != expected or not 0 < remaining <= _REMAINING_MAX or not 0 <= hops <= 64:
        return None
    begin, end = _byte_string(body, at + 1)
    life, agent, capability = target
    request = Request(
        message_id=body[identity : identity + MESSAGE_ID_BYTES],
        life=life,
        agent=agent,
        capability=capability,
        remaining_ms=remaining,
        payload=body[begin:end],
        hops_left=hops,
        content_type=content_type,
    )
    return request, end


def _read_reply(body: bytes, at: int) -> tuple[Reply, int] | None:
    """The same for a reply with a result."""
    count, identity = body[at + 3], at + 6
    at += _FIELDS_AT
    if body[identity - 2 : identity] != _ID:
        return None
    content_type = _CONTENT_TYPE
    if count == 0xA3 and body[at] == 0x03:
        start = at + 1
        at = _text_end(body, start)
        content_type = body[start + (1 if body[start] < 0x78 else 2) : at].decode()
    elif count != 0xA2:
        return None
    if body[at] != 0x04:
        return None
    begin, end = _byte_string(body, at + 1)
    reply = Reply(
        message_id=body[identity : identity + MESSAGE_ID_BYTES],
        content_type=content_type,
        payload=body[begin:end],
    )
    return reply, end


def _text_end(body: bytes, at: int) -> int:
    """Where a text of at most 255 bytes ends. Raises `IndexError` also for what is none."""
    length = body[at] - 0x60
    if 0 <= length < 24:
        return at + 1 + length
    if length == 24:
        return at + 2 + body[at + 1]
    raise IndexError


def _integer(body: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer of at most 32 bits, and where it ends."""
    first = body[at]
    if first < 24:
        return first, at + 1
    end = at + _INTEGER_BYTES[first]
    return int.from_bytes(body[at + 1 : end]), end


def _byte_string(body: bytes, at: int) -> tuple[int, int]:
    """Where the content of a byte string of at most 65,535 bytes begins and ends."""
    length = body[at] - 0x40
    if 0 <= length < 24:
        return at + 1, at + 1 + length
    if length == 24:
        return at + 2, at + 2 + body[at + 1]
    if length == 25:
        return at + 3, at + 3 + int.from_bytes(body[at + 1 : at + 3])
    raise IndexError


_INTEGER_BYTES = (1,) * 24 + (2, 3, 5)
"""By the first byte of an unsigned integer of at most 32 bits; others are left to `codec`."""
_COUNTS = {count: bytes((count,)) for count in range(0xA6, 0xA9)}
_READERS: dict[bytes, Callable[[bytes, int], tuple[Message, int] | None]] = {
    _REQUEST: _read_request,
    _REPLY: _read_reply,
}
