"""The plain form is the codec's form, read and written another way; everything else is left to the codec."""

from __future__ import annotations

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.messages import (
    AccusationUpdate,
    Ack,
    Challenge,
    HeadUpdate,
    Message,
    Nack,
    Ping,
    RecordUpdate,
)
from reachp2p.core.wire.plain import COUNT_MAX, read_plain, write_plain
from tests.support import life

NONCE = b"8 bytes."
SIGNED = st.binary(min_size=70, max_size=80) | st.binary(min_size=250, max_size=260)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.binary(min_size=8, max_size=8).map(lambda nonce: Ping(nonce=nonce)),
    st.binary(min_size=8, max_size=8).map(lambda nonce: Ack(nonce=nonce)),
    st.binary(min_size=8, max_size=8).map(lambda nonce: Nack(nonce=nonce)),
    st.binary(min_size=32, max_size=32).map(lambda origin: Ping(nonce=NONCE, origin=origin)),
    st.binary(min_size=32, max_size=32).map(lambda origin: Ack(nonce=NONCE, origin=origin)),
    SIGNED.map(lambda signed: HeadUpdate(head=signed)),
    SIGNED.map(lambda signed: AccusationUpdate(accusation=signed)),
    SIGNED.map(lambda signed: RecordUpdate(record=signed)),
)


def fields(message: Message) -> dict[int, object]:
    """What is under its keys."""
    given = {key: getattr(message, name) for name, key in message.KEYS.items()}
    return {key: value for key, value in given.items() if value is not None}


@given(MESSAGES)
def test_what_is_written_is_the_one_encoding(message: Message) -> None:
    plain = write_plain(message)
    assert plain == cbor2.dumps([message.NUMBER, fields(message)], canonical=True) == encode_message(message)


@pytest.mark.parametrize(
    "message",
    [
        Ping(nonce=NONCE, origin=b"o" * 31),
        Ack(nonce=NONCE, extensions={200: 1}),
        Challenge(nonce=NONCE, life=life(1)),
    ],
)
def test_other_messages_are_left_to_the_codec(message: Message) -> None:
    assert write_plain(message) is None
    assert read_plain(pack_messages([encode_message(message)])) is None


@given(st.lists(MESSAGES, min_size=1, max_size=COUNT_MAX))
def test_a_body_reads_back(messages: list[Message]) -> None:
    body = pack_messages([encode_message(message) for message in messages])
    assert read_plain(body) == messages
    assert read_plain(body + b"\x00") is None
    assert read_plain(body[:-1]) is None


def test_a_longer_body_is_left_to_the_codec() -> None:
    assert read_plain(pack_messages([encode_message(Ping(nonce=NONCE))] * (COUNT_MAX + 1))) is None


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.integers(0, 300), st.integers(0, 255))
def test_a_damaged_body_is_read_as_the_decoder_reads_it_or_not_at_all(
    messages: list[Message], position: int, byte: int
) -> None:
    body = bytearray(pack_messages([encode_message(message) for message in messages]))
    body[position % len(body)] = byte
    read = read_plain(bytes(body))
    if read is None:
        return
    assert cbor2.loads(bytes(body)) == [[message.NUMBER, fields(message)] for message in read]
    for message in read:  # within its bounds
        assert msgspec.convert(msgspec.to_builtins(message), type(message)) == message


@given(st.binary(max_size=60))
def test_any_bytes_raise_nothing(data: bytes) -> None:
    read_plain(data)


@pytest.mark.parametrize("size", [0, 7, 9, 24, 300])
def test_a_nonce_of_another_size_is_left_to_the_codec(size: int) -> None:
    assert read_plain(pack_messages([cbor2.dumps([1, {1: bytes(size)}])])) is None
