"""Header, body, signature; and what the signature is about."""

from __future__ import annotations

import pytest

from reachp2p.core.ids import EPOCH_MAX, Life, NodeId
from reachp2p.core.trust.ed25519 import Ed25519Signer, Ed25519Verifier
from reachp2p.core.wire.datagram import (
    BODY_BYTES_MAX,
    HEADER_BYTES,
    OVERHEAD_BYTES,
    DatagramReader,
    DatagramWriter,
    cluster_tag,
    parse_datagram,
)
from reachp2p.core.wire.limits import DATAGRAM_BYTES_MAX, WireError

SIGNER = Ed25519Signer(bytes(range(32)))
VERIFIER = Ed25519Verifier()
LIFE = Life(258, bytes(range(16)))
AUDIENCE = NodeId(b"a" * 32)


def pack(
    *, body: bytes = b"\x80", audience: NodeId | None = None, cluster_id: str = "demo", life: Life = LIFE
) -> bytes:
    """A datagram of our signer."""
    return DatagramWriter(cluster_id, SIGNER.node, life, SIGNER.sign, counter=6).write(body, audience)


def verifies(data: bytes, *, cluster_id: str = "demo", audience: NodeId = AUDIENCE) -> bool:
    """Whether a receiver in this cluster accepts it."""
    try:
        read = DatagramReader(cluster_id, audience, VERIFIER.verify).read(data)
    except WireError:
        return False
    assert read == parse_datagram(data)
    return True


def reason(data: bytes) -> str:
    """Why a datagram is refused."""
    with pytest.raises(WireError) as caught:
        parse_datagram(data)
    with pytest.raises(WireError, match=caught.value.reason):
        DatagramReader("demo", AUDIENCE, VERIFIER.verify).read(data)
    return caught.value.reason


def test_the_layout_is_as_documented() -> None:
    data = pack(audience=AUDIENCE)
    assert data[:2] == b"\x01\x01"
    assert data[2:6] == cluster_tag("demo")
    assert data[6:38] == SIGNER.node
    assert data[38:44] == b"\x00\x00\x00\x00\x01\x02"
    assert data[44:60] == LIFE.life_id
    assert data[60:68] == b"\x00" * 7 + b"\x07"
    assert data[68:-64] == b"\x80"
    assert len(data) == OVERHEAD_BYTES + 1


@pytest.mark.parametrize("audience", [None, AUDIENCE])
def test_what_is_packed_is_parsed(audience: NodeId | None) -> None:
    data = pack(audience=audience, body=b"body")
    datagram = parse_datagram(data)
    assert datagram.addressed == (audience is not None)
    assert (datagram.node, datagram.life, datagram.counter) == (SIGNER.node, LIFE, 7)
    assert datagram.cluster_tag == cluster_tag("demo")
    assert datagram.body == b"body"
    assert verifies(data)


def test_the_highest_epoch_fits() -> None:
    life = Life(EPOCH_MAX, b"\xff" * 16)
    assert parse_datagram(pack(life=life)).life == life


def test_an_addressed_datagram_convinces_nobody_else() -> None:
    data = pack(audience=AUDIENCE)
    assert verifies(data)
    assert not verifies(data, audience=NodeId(b"b" * 32))
    other = DatagramReader("demo", NodeId(b"b" * 32), VERIFIER.verify)
    assert other.read(data, AUDIENCE).body == b"\x80"  # who forwards it says whom it was meant for


def test_an_open_datagram_convinces_everybody() -> None:
    assert verifies(pack(), audience=NodeId(b"b" * 32))


def test_another_cluster_does_not_accept_it() -> None:
    assert not verifies(pack(), cluster_id="demo2")


@pytest.mark.parametrize("position", [1, 2, 6, 38, 44, 60, HEADER_BYTES, HEADER_BYTES + 1])
def test_every_byte_is_signed(position: int) -> None:
    data = bytearray(pack(body=b"\x81\x00", audience=AUDIENCE))
    data[position] ^= 1
    assert not verifies(bytes(data))


def test_each_datagram_of_a_life_has_the_next_number() -> None:
    writer = DatagramWriter("demo", SIGNER.node, LIFE, SIGNER.sign)
    assert [parse_datagram(writer.write(b"\x80", None)).counter for _ in range(3)] == [1, 2, 3]


def test_size_limits() -> None:
    full = pack(body=b"x" * BODY_BYTES_MAX)
    assert len(full) == DATAGRAM_BYTES_MAX
    assert parse_datagram(full).body == b"x" * BODY_BYTES_MAX
    assert reason(full + b"x") == "oversized"
    for body in (b"", b"x" * (BODY_BYTES_MAX + 1)):
        with pytest.raises(ValueError, match="body"):
            pack(body=body)


def test_every_shorter_datagram_is_truncated_or_not_verified() -> None:
    data = pack(body=b"x")
    for size in range(len(data)):
        assert reason(data[:size]) == "truncated"


def test_another_wire_version_is_named_whatever_follows() -> None:
    for data in (b"\x00", b"\x02", b"\x02" + pack()[1:], b"\xff" * 20):
        assert reason(data) == "wire_version"


@pytest.mark.parametrize("flags", [0x02, 0x03, 0x04, 0x80])
def test_unknown_flags_and_sealed_are_refused(flags: int) -> None:
    data = pack()
    assert reason(data[:1] + bytes((flags,)) + data[2:]) == "flags"
