"""What arrives is read within limits; chunks that do not fit together end the link, a bad message only itself."""

from __future__ import annotations

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.links.incoming import ASSEMBLIES_MAX, Incoming, message_bytes_max
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import Cancel, Chunk, Goodbye, Message, Reply

PROTOCOL = Protocol(payload_max=50_000)
REPLY = Reply(message_id=bytes(16), payload=b"p" * 300)
ENCODED = encode_message(REPLY)


def incoming() -> tuple[Incoming, Counters]:
    counters = Counters()
    return Incoming(PROTOCOL, counters), counters


def chunks(encoded: bytes, sequence: int = 1, size: int = 100) -> list[Chunk]:
    total = len(encoded)
    return [
        Chunk(sequence=sequence, offset=offset, total=total, data=encoded[offset : offset + size])
        for offset in range(0, total, size)
    ]


def test_chunks_of_several_messages_may_interleave() -> None:
    reader, _ = incoming()
    first, second = chunks(ENCODED, 1), chunks(encode_message(Cancel(message_id=b"c" * 16)), 2, size=9)
    order = [first[0], second[0], *first[1:], *second[1:]]
    assert [whole for chunk in order if (whole := reader.add_chunk(chunk)) is not None] == [
        REPLY,
        Cancel(message_id=b"c" * 16),
    ]
    assert reader.assembling == 0


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (Chunk(sequence=1, offset=101, total=len(ENCODED), data=b"x"), "chunk_offset"),
        (Chunk(sequence=1, offset=0, total=len(ENCODED), data=b"x"), "chunk_offset"),
        (Chunk(sequence=1, offset=100, total=len(ENCODED) + 1, data=b"x"), "chunk_total"),
        (Chunk(sequence=1, offset=100, total=len(ENCODED), data=b"x" * len(ENCODED)), "chunk_overrun"),
        (Chunk(sequence=2, offset=5, total=10, data=b"x"), "chunk_offset"),
        (Chunk(sequence=0, offset=0, total=10, data=b"x"), "chunk_sequence"),
        (Chunk(sequence=2, offset=0, total=message_bytes_max(PROTOCOL), data=b"x"), "chunk_bytes"),
        (Chunk(sequence=2, offset=0, total=2**31, data=b"x"), "chunk_bytes"),
    ],
)
def test_chunks_that_do_not_fit_together_are_refused(second: Chunk, reason: str) -> None:
    reader, _ = incoming()
    reader.add_chunk(chunks(ENCODED)[0])
    with pytest.raises(WireError) as caught:
        reader.add_chunk(second)
    assert caught.value.reason == reason


def test_a_finished_sequence_number_is_not_used_again() -> None:
    reader, _ = incoming()
    for chunk in chunks(ENCODED):
        reader.add_chunk(chunk)
    with pytest.raises(WireError, match="chunk_sequence"):
        reader.add_chunk(chunks(ENCODED)[0])


def test_only_so_many_messages_are_assembled_at_once() -> None:
    reader, _ = incoming()
    for sequence in range(1, ASSEMBLIES_MAX + 1):
        reader.add_chunk(Chunk(sequence=sequence, offset=0, total=10, data=b"x"))
    with pytest.raises(WireError, match="chunk_assemblies"):
        reader.add_chunk(Chunk(sequence=99, offset=0, total=10, data=b"x"))


@pytest.mark.parametrize("inner", [chunks(ENCODED)[0], Goodbye()])
def test_chunks_do_not_nest_and_carry_no_control_messages(inner: Message) -> None:
    reader, _ = incoming()
    encoded = encode_message(inner)
    with pytest.raises(WireError, match="chunk_nested"):
        reader.add_chunk(Chunk(sequence=1, offset=0, total=len(encoded), data=encoded))


def test_a_bad_message_costs_only_itself_also_in_chunks() -> None:
    reader, counters = incoming()
    unknown_key = b"\x82\x18\x34\xa2\x01\x50" + b"c" * 16 + b"\x18\x20\x00"
    unknown_number = b"\x82\x19\x03\xe7\xa0"
    good = encode_message(Cancel(message_id=b"c" * 16))
    frame = pack_messages([unknown_key, good, unknown_number])
    assert reader.decode(frame) == [Cancel(message_id=b"c" * 16)]
    for sequence, bad in enumerate((unknown_key, unknown_number, b"\xff"), 1):
        assert reader.add_chunk(Chunk(sequence=sequence, offset=0, total=len(bad), data=bad)) is None
    assert counters.value("dropped.message.unknown_key") == 2
    assert counters.value("skipped.message.unknown_number") == 2
    assert reader.assembling == 0


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"\x80\x80", b"\xa0", b"\x9b" + b"\xff" * 8, b"\x81" * 100, b"\x40" * 65_537]
)
def test_a_bad_frame_is_refused(data: bytes) -> None:
    reader, _ = incoming()
    with pytest.raises(WireError):
        reader.decode(data)
