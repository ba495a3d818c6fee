"""Messages of an open WebSocket: the examples of the standard, any pieces, and everything a hostile side can send."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Ping
from wsproto.frame_protocol import CloseReason, FrameProtocol

from reachp2p.runtime.ws_frames import FrameRefused, Frames, Item

MAX = 70_000
SIZES = st.sampled_from([0, 1, 125, 126, 127, 65_535, 65_536, MAX])


def frames(*, is_client: bool = True, message_max: int = MAX) -> Frames:
    side = ConnectionType.CLIENT if is_client else ConnectionType.SERVER
    return Frames(Connection(side), message_max=message_max)


def read(data: bytes, *, is_client: bool = True, message_max: int = MAX, piece: int = 1 << 30) -> list[Item]:
    """Everything we make of `data` when it comes in pieces."""
    reader = frames(is_client=is_client, message_max=message_max)
    pieces = [data[start : start + piece] for start in range(0, len(data), piece)]
    return [item for one in pieces for item in reader.receive(one)]


@pytest.mark.parametrize(
    ("data", "is_client", "items"),
    [  # RFC 6455 §5.7, its text messages made binary
        (b"\x82\x05Hello", True, [b"Hello"]),
        (b"\x82\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", False, [b"Hello"]),
        (b"\x02\x03Hel\x80\x02lo", True, [b"Hello"]),
        (b"\x89\x05Hello", True, [Ping(b"Hello")]),
        (b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", False, []),
        (b"\x82\x7e\x01\x00" + bytes(256), True, [bytes(256)]),
        (b"\x82\x7f" + (65_536).to_bytes(8, "big") + bytes(65_536), True, [bytes(65_536)]),
        (b"\x88\x02\x03\xe8", True, [CloseConnection(1000, "")]),
    ],
)
def test_the_examples_of_the_standard(data: bytes, is_client: bool, items: list[Item]) -> None:
    assert read(data, is_client=is_client) == items
    assert read(data, is_client=is_client, piece=1) == items


def test_what_we_send_is_in_the_form_of_the_standard() -> None:
    server = frames(is_client=False)
    assert server.message(b"Hello") == b"\x82\x05Hello"
    assert server.pong(Ping(b"Hello")) == b"\x8a\x05Hello"
    assert server.close(CloseReason.NORMAL_CLOSURE) == b"\x88\x02\x03\xe8"
    client = frames()
    masked = [client.message(b"Hello") for _ in range(2)]
    assert masked[0][:2] == b"\x82\x85"
    assert masked[0] != masked[1], "each frame has a mask of its own"
    assert bytes(byte ^ masked[0][2 + i % 4] for i, byte in enumerate(masked[0][6:])) == b"Hello"


@given(payload=st.binary(max_size=300), size=SIZES, piece=st.integers(1, 40_000), is_client=st.booleans())
def test_what_one_side_sends_the_other_reads_in_any_pieces(
    payload: bytes, size: int, piece: int, is_client: bool
) -> None:
    payload = ((payload or b"x") * (size + 1))[:size]
    sender = frames(is_client=is_client)
    data = sender.message(payload) + sender.message(b"next") + sender.close(CloseReason.GOING_AWAY)
    assert read(data, is_client=not is_client, piece=piece) == [payload, b"next", CloseConnection(1001, "")]


@given(parts=st.lists(st.binary(max_size=100), min_size=2, max_size=5), piece=st.integers(1, 200))
def test_fragments_become_one_message_with_control_frames_between(parts: list[bytes], piece: int) -> None:
    remote = FrameProtocol(client=False, extensions=[])
    data = b""
    for index, part in enumerate(parts):
        data += remote.send_data(part, fin=index == len(parts) - 1)
        data += remote.ping(b"%d" % index)
    items = read(data, piece=piece)
    assert [item for item in items if isinstance(item, bytes)] == [b"".join(parts)]
    assert [item.payload for item in items if isinstance(item, Ping)] == [
        b"%d" % i for i in range(len(parts))
    ]


@given(data=st.binary(max_size=400), piece=st.integers(1, 400), is_client=st.booleans())
def test_no_bytes_raise_anything_but_a_refusal(data: bytes, piece: int, is_client: bool) -> None:
    with contextlib.suppress(FrameRefused):
        read(data, is_client=is_client, message_max=100, piece=piece)


def test_whatever_the_library_stumbles_over_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbles(_: Connection) -> None:
        raise AssertionError("a defect")

    monkeypatch.setattr(Connection, "events", stumbles)
    with pytest.raises(FrameRefused, match="AssertionError: a defect"):
        read(b"\x82\x00")


PROTOCOL = CloseReason.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (b"\x82\x80" + bytes(4), PROTOCOL, "unexpected masked frame"),
        (b"\xc2\x01", PROTOCOL, "Reserved bit"),
        (b"\x83\x01", PROTOCOL, "Invalid opcode 0x3"),
        (b"\x8b\x01", PROTOCOL, "Invalid opcode 0xb"),
        (b"\x81\x01a", CloseReason.UNSUPPORTED_DATA, "text message"),
        (b"\x81\x00", CloseReason.UNSUPPORTED_DATA, "text message"),
        (b"\x81\x01\xff", CloseReason.INVALID_FRAME_PAYLOAD_DATA, "utf-8"),
        (b"\x80\x01a", PROTOCOL, "unexpected CONTINUATION"),
        (b"\x02\x01a\x82\x01a", PROTOCOL, "expected CONTINUATION"),
        (b"\x82\x7e\x00\x7d", PROTOCOL, "2 bytes when 1"),
        (b"\x82\x7f" + (65_535).to_bytes(8, "big"), PROTOCOL, "8 bytes when 2"),
        (b"\x82\x7f" + (2**63).to_bytes(8, "big"), PROTOCOL, "non-zero MSB"),
        (b"\x89\x7e\x00\x7e", PROTOCOL, "Control frame with payload len > 125"),
        (b"\x09\x01", PROTOCOL, "fragment control frame"),
        (b"\x88\x01x", PROTOCOL, "CLOSE with 1 byte"),
        (b"\x88\x02\x03\xed", PROTOCOL, "local-only reason"),
        (b"\x88\x02\x00\x01", PROTOCOL, "invalid code"),
        (b"\x88\x03\x03\xe8\xff", CloseReason.INVALID_FRAME_PAYLOAD_DATA, "CLOSE reason"),
        (b"\x82\x7e\x00\xff" + bytes(101), CloseReason.MESSAGE_TOO_BIG, "more than 100 bytes"),
        (
            b"\x02\x40" + bytes(64) + b"\x00\x25" + bytes(37),
            CloseReason.MESSAGE_TOO_BIG,
            "more than 100 bytes",
        ),
    ],
)
def test_a_fault_is_refused_with_its_code_in_any_pieces(data: bytes, code: CloseReason, reason: str) -> None:
    for piece in (1 << 30, 1):
        with pytest.raises(FrameRefused, match=reason) as caught:
            read(data, message_max=100, piece=piece)
        assert caught.value.code is code


def test_an_unmasked_frame_of_a_client_is_refused() -> None:
    with pytest.raises(FrameRefused, match="unmasked"):
        read(b"\x82\x01a", is_client=False)


def test_what_came_whole_before_a_fault_is_delivered() -> None:
    items = frames().receive(b"\x82\x02ok\x83\x00")
    assert next(items) == b"ok"
    with pytest.raises(FrameRefused):
        next(items)


def test_nothing_is_read_after_a_close() -> None:
    reader = frames()
    assert list(reader.receive(b"\x88\x00\x82\x01x\xff\xff")) == [
        CloseConnection(CloseReason.NO_STATUS_RCVD, "")
    ]
    assert list(reader.receive(b"\xff\xff\xff")) == []


@pytest.mark.parametrize(
    "header", [b"\x82\x7f" + (2**62).to_bytes(8, "big"), b"\x02\x7f" + (2**40).to_bytes(8, "big")]
)
def test_no_more_is_held_than_a_message_and_a_read(header: bytes) -> None:
    """A gigantic frame is announced and comes in reads of 64 KiB, of which no more than one is held too many."""
    reader, read_bytes, message_max = frames(message_max=1 << 20), bytes(65_536), 1 << 20
    assert list(reader.receive(header)) == []
    tracemalloc.start()
    try:
        for _ in range(message_max // len(read_bytes)):
            assert list(reader.receive(read_bytes)) == []
        with pytest.raises(FrameRefused, match="more than"):
            list(reader.receive(read_bytes))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * message_max
