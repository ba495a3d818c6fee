"""The plain form of calls is the form of the codec, faster: the same bytes, the same messages, the same refusals."""

from __future__ import annotations

from typing import Any

import cbor2
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reachp2p.core.ids import Life
from reachp2p.core.wire import codec
from reachp2p.core.wire.codec import decode_messages, encode_message, pack_messages
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import Cancel, Message, Reply, Request
from reachp2p.core.wire.plain_calls import read_calls, write_call

IDS = st.binary(min_size=16, max_size=16)
TEXTS = st.sampled_from(
    ["", "nlp/summarizer", "text.summarize", "application/cbor", "text/plain", "ä" * 120, "x" * 256]
)
PAYLOADS = st.one_of(st.binary(max_size=40), st.integers(0, 5_000).map(bytes))
REQUESTS = st.builds(
    Request,
    message_id=IDS,
    life=st.builds(Life, epoch=st.sampled_from([0, 23, 24, 255, 256, 70_000, 2**40]), life_id=IDS),
    agent=TEXTS,
    capability=TEXTS,
    remaining_ms=st.sampled_from([1, 23, 24, 256, 29_999, 65_536, 86_400_000]),
    payload=PAYLOADS,
    hops_left=st.sampled_from([0, 9, 10, 64]),
    content_type=TEXTS,
    session_id=st.none() | IDS,
    attempt=st.sampled_from([1, 1, 1, 2]),
    path=st.sampled_from([[], [], ["nlp/summarizer"]]),
)
REPLIES = st.builds(
    Reply,
    message_id=IDS,
    code=st.sampled_from([0, 0, 0, 1403]),
    content_type=TEXTS,
    payload=PAYLOADS,
    detail=st.sampled_from(["", "", "why"]),
    extensions=st.sampled_from([{}, {128: [1, 0, 0, 5, None]}]),
)
CALLS = st.lists(st.one_of(REQUESTS, REPLIES, st.builds(Cancel, message_id=IDS)), min_size=1, max_size=30)


def by_codec(message: Message) -> bytes:
    """The bytes of the general form."""
    return cbor2.dumps((message.NUMBER, codec._LAYOUTS[type(message)].to_map(message)))


def outcome(read: Any, body: bytes) -> Any:
    """Messages, or the reason why there are none."""
    rejected: list[str] = []
    try:
        return read(body, rejected), rejected
    except WireError as error:
        return error.reason


def read_with_plain_form(body: bytes, rejected: list[str]) -> Any:
    return decode_messages(body, bytes_max=65_536, messages_max=256, on_rejected=rejected.append)


def read_by_codec(body: bytes, rejected: list[str]) -> Any:
    messages, skipped = [], 0
    for item in codec._load_body(body, 65_536, 256):
        try:
            message = codec._read_message(item, datagram=False)
        except WireError as error:
            rejected.append(error.reason)
            continue
        if message is None:
            skipped += 1
        else:
            messages.append(message)
    return messages, skipped


@settings(max_examples=150)
@given(CALLS)
def test_bytes_and_messages_are_those_of_the_codec(calls: list[Message]) -> None:
    encoded = [encode_message(call) for call in calls]
    assert encoded == [by_codec(call) for call in calls]
    body = pack_messages(encoded)
    if len(body) <= 65_536:
        assert outcome(read_with_plain_form, body) == outcome(read_by_codec, body) == ((calls, 0), [])


@settings(max_examples=300)
@given(
    CALLS,
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_damaged_bodies_are_judged_as_by_the_codec(
    calls: list[Message], damage: list[tuple[int, int]], cut: int
) -> None:
    body = bytearray(pack_messages([encode_message(call) for call in calls]))
    read_with_plain_form(bytes(body), [])  # so that its targets are known
    for place, value in damage:
        body[place % len(body)] = value
    damaged = bytes(body[: len(body) - cut])
    assert outcome(read_with_plain_form, damaged) == outcome(read_by_codec, damaged)


def test_the_usual_calls_need_no_decoder() -> None:
    life = Life(3, bytes(16))
    request = Request(
        message_id=bytes(16),
        life=life,
        agent="a/b",
        capability="c.d",
        remaining_ms=30_000,
        payload=b"x" * 300,
    )
    reply = Reply(message_id=bytes(16), payload=b"y" * 300)
    assert write_call(request) is not None
    assert write_call(reply) is not None
    body = pack_messages([encode_message(request), encode_message(reply)])
    read_with_plain_form(body, [])
    assert read_calls(body, 256) == [request, reply]
    assert read_calls(body, 1) is None


def test_what_has_more_to_say_is_left_to_the_codec() -> None:
    reply = Reply(message_id=bytes(16), payload=b"y", extensions={128: [1, 0, 0, 5, None]})
    assert write_call(reply) is None
    assert write_call(Cancel(message_id=bytes(16))) is None


def test_many_data_items_are_refused_as_before() -> None:
    body = pack_messages([cbor2.dumps([0] * 3_000)] * 6)
    assert outcome(read_with_plain_form, body) == outcome(read_by_codec, body) == "elements"


def test_a_negative_number_is_left_to_the_general_form() -> None:
    """Its receiver refuses it and answers; bytes that are none of ours would end the link."""
    plain = Request(
        message_id=bytes(16),
        life=Life(epoch=1, life_id=bytes(16)),
        agent="a/b",
        capability="a.b",
        remaining_ms=1,
        payload=b"x",
    )
    assert write_call(plain) == by_codec(plain)
    for wrong in (replace(plain, hops_left=-1), replace(plain, remaining_ms=-1)):
        assert write_call(wrong) is None
        assert encode_message(wrong) == by_codec(wrong)
