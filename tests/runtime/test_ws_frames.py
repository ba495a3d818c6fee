"""WebSocket framing against wsproto as the oracle, and against everything a hostile side can send."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping
from wsproto.frame_protocol import FrameProtocol
from wsproto.frame_protocol import Opcode as WsOpcode

from reachp2p.runtime.ws_frames import (
    CloseCode,
    Control,
    FrameReader,
    FrameRefused,
    FrameWriter,
    Item,
    Opcode,
    mask,
)

MAX = 70_000
SIZES = st.sampled_from([0, 1, 125, 126, 127, 65_535, 65_536, MAX])


def read(data: bytes, *, is_masked: bool, message_max: int = MAX, piece: int = 1 << 30) -> list[Item]:
    """Everything a reader makes of `data` when it comes in pieces."""
    reader = FrameReader(is_masked=is_masked, message_max=message_max)
    items: list[Item] = []
    for start in range(0, len(data), piece):
        reader.feed(data[start : start + piece], items)
    return items


def refused(data: bytes, *, is_masked: bool = False, message_max: int = MAX) -> FrameRefused:
    with pytest.raises(FrameRefused) as caught:
        read(data, is_masked=is_masked, message_max=message_max)
    return caught.value


@given(payload=st.binary(max_size=300), size=SIZES, piece=st.integers(1, 40_000), is_client=st.booleans())
def test_what_we_send_is_what_wsproto_and_we_read(
    payload: bytes, size: int, piece: int, is_client: bool
) -> None:
    payload = (payload or b"x") * (size // max(1, len(payload)) + 1)
    payload = payload[:size]
    data = FrameWriter(is_masked=is_client).message(payload)
    assert read(data, is_masked=is_client, piece=piece) == [payload]
    oracle = Connection(ConnectionType.SERVER if is_client else ConnectionType.CLIENT)
    oracle.receive_data(data)
    assert b"".join(event.data for event in oracle.events()) == payload


@given(
    messages=st.lists(st.binary(max_size=200), max_size=8), piece=st.integers(1, 300), is_client=st.booleans()
)
def test_what_wsproto_sends_is_what_we_read(messages: list[bytes], piece: int, is_client: bool) -> None:
    oracle = Connection(ConnectionType.CLIENT if is_client else ConnectionType.SERVER)
    data = b"".join(oracle.send(BytesMessage(data=message)) for message in messages)
    data += oracle.send(Ping(payload=b"there?")) + oracle.send(CloseConnection(code=1001, reason="bye"))
    assert read(data, is_masked=is_client, piece=piece) == [
        *messages,
        Control(Opcode.PING, b"there?"),
        Control(Opcode.CLOSE, b"\x03\xe9bye", 1001),
    ]


@given(parts=st.lists(st.binary(max_size=100), min_size=2, max_size=5), piece=st.integers(1, 200))
def test_fragments_become_one_message_with_control_frames_between(parts: list[bytes], piece: int) -> None:
    oracle = FrameProtocol(client=False, extensions=[])
    data = b""
    for index, part in enumerate(parts):
        data += oracle.send_data(part, fin=index == len(parts) - 1)
        data += oracle.ping(b"%d" % index)
    items = read(data, is_masked=False, piece=piece)
    assert [item for item in items if isinstance(item, bytes)] == [b"".join(parts)]
    assert [item.payload for item in items if isinstance(item, Control)] == [
        b"%d" % i for i in range(len(parts))
    ]


@given(data=st.binary(max_size=400), piece=st.integers(1, 400), is_masked=st.booleans())
def test_no_bytes_raise_anything_but_a_refusal(data: bytes, piece: int, is_masked: bool) -> None:
    with contextlib.suppress(FrameRefused):
        read(data, is_masked=is_masked, message_max=100, piece=piece)


@given(data=st.binary(max_size=5_000), key=st.binary(min_size=4, max_size=4))
def test_mask_undoes_itself_and_follows_the_standard(data: bytes, key: bytes) -> None:
    masked = mask(data, key)
    assert masked == bytes(byte ^ key[index % 4] for index, byte in enumerate(data))
    assert mask(masked, key) == data


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (b"\x82\x80" + bytes(4), CloseCode.PROTOCOL_ERROR, "masked the wrong way"),
        (b"\xc2\x01", CloseCode.PROTOCOL_ERROR, "reserved bits set"),
        (b"\x83\x01", CloseCode.PROTOCOL_ERROR, "unknown opcode 3"),
        (b"\x8b\x01", CloseCode.PROTOCOL_ERROR, "unknown opcode 11"),
        (b"\x81\x01", CloseCode.UNSUPPORTED_DATA, "text message"),
        (b"\x80\x01", CloseCode.PROTOCOL_ERROR, "fragments out of order"),
        (b"\x02\x01a\x82\x01", CloseCode.PROTOCOL_ERROR, "fragments out of order"),
        (b"\x82\x7e\x00\x7d", CloseCode.PROTOCOL_ERROR, "length not in its shortest form"),
        (
            b"\x82\x7f" + (65_535).to_bytes(8, "big"),
            CloseCode.PROTOCOL_ERROR,
            "length not in its shortest form",
        ),
        (b"\x89\x7e\x00\x7e", CloseCode.PROTOCOL_ERROR, "control frame too long or fragmented"),
        (b"\x09\x01", CloseCode.PROTOCOL_ERROR, "control frame too long or fragmented"),
        (b"\x82\x7e\x00\xff", CloseCode.MESSAGE_TOO_BIG, "message of more than 100 bytes"),
        (
            b"\x82\x7f" + (2**63).to_bytes(8, "big"),
            CloseCode.MESSAGE_TOO_BIG,
            "message of more than 100 bytes",
        ),
        (b"\x02\x40" + bytes(64) + b"\x00\x40", CloseCode.MESSAGE_TOO_BIG, "message of more than 100 bytes"),
        (b"\x88\x01x", CloseCode.PROTOCOL_ERROR, "close frame of one byte"),
        (b"\x88\x02\x03\xed", CloseCode.PROTOCOL_ERROR, "close code 1005"),
        (b"\x88\x02\x00\x01", CloseCode.PROTOCOL_ERROR, "close code 1"),
    ],
)
def test_a_fault_is_refused_before_its_payload_is_waited_for(
    data: bytes, code: CloseCode, reason: str
) -> None:
    error = refused(data, message_max=100)
    assert (error.code, error.reason) == (code, reason)


def test_what_came_whole_before_a_fault_is_delivered() -> None:
    reader = FrameReader(is_masked=False, message_max=MAX)
    items: list[Item] = []
    with pytest.raises(FrameRefused):
        reader.feed(b"\x82\x02ok\x83\x00", items)
    assert items == [b"ok"]


def test_nothing_is_read_after_a_close() -> None:
    reader = FrameReader(is_masked=False, message_max=MAX)
    items: list[Item] = []
    reader.feed(b"\x88\x00\x82\x01x\xff\xff", items)
    reader.feed(b"\xff\xff\xff", items)
    assert items == [Control(Opcode.CLOSE, b"", CloseCode.NO_STATUS)]


def test_our_close_and_pong_are_understood_by_wsproto() -> None:
    writer = FrameWriter(is_masked=True)
    oracle = FrameProtocol(client=False, extensions=[])
    oracle.receive_bytes(writer.pong(b"here") + writer.close(CloseCode.NORMAL))
    pong, close = oracle.received_frames()
    assert (pong.opcode, pong.payload) == (WsOpcode.PONG, b"here")
    assert (close.opcode, close.payload[0]) == (WsOpcode.CLOSE, 1000)
