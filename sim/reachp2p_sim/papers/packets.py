"""Datagrams as large as those of memberlist's agents, for experiments that count bytes.

Our updates are signed, memberlist's are not: of ours six or seven fit into a datagram, of memberlist's up to thirty. So
not only bytes depend on sizes, but also how many datagrams it takes until a queue of news is empty. Here messages are
handed over as they are (`codec=off`), beside as many blank bytes as memberlist would send in their place: a type and a
msgpack map each, put together with their lengths, compressed with LZW if that makes them shorter (memberlist 0.1, as
its `net.go` does by default before it counts), and with a checksum in front of gossip.

The agents of the paper are Consul's: a member's head has tags, and an Ack has a network coordinate. What memberlist
has no message for keeps its size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from uuid import UUID

import msgspec

from reachp2p.core.ids import Life, NodeId
from reachp2p.core.wire.datagram import OVERHEAD_BYTES, Datagram, DatagramWriter
from reachp2p.core.wire.messages import (
    AccusationUpdate,
    Ack,
    HeadUpdate,
    Message,
    Nack,
    Ping,
    PingReq,
    RelayedAck,
)
from reachp2p_sim.network.handing import (
    EncodedMessage,
    HandedBody,
    HandedDatagram,
    HandingCodec,
    HandingWriter,
)
from reachp2p_sim.world.randomness import Randomness

LENGTH_BYTES, COMPOUND_BYTES, COMPRESSED_BYTES, CHECKSUM_BYTES = 2, 2, 15, 5
"""Before each of several messages, before all of them, around what is compressed, and in front of gossip."""
PACKET_BYTES = 1_400
ARRAY_HEAD_BYTES = 3
DATAGRAM_MAX = PACKET_BYTES - COMPOUND_BYTES + OVERHEAD_BYTES + ARRAY_HEAD_BYTES
"""For `Protocol.datagram_max`: what leaves `PACKET_BYTES` for messages after our own overhead, which is not sent."""
SAMPLES = 3
"""Packets of one composition whose compressed sizes are averaged: they differ by a few bytes."""
Fields = dict[str, object]


class PacketCodec(HandingCodec):
    """Hands messages over beside as many blank bytes as memberlist would send."""

    def encode(self, message: Message) -> bytes:
        """Its length is what it takes of a datagram that it shares."""
        kind = _KINDS.get(type(message))
        if kind is None:
            return super().encode(message)
        encoded = EncodedMessage(_size(kind) + LENGTH_BYTES)
        encoded.message = message
        return encoded

    def pack(self, encoded: Sequence[bytes]) -> bytes:
        """Its length is that of the whole datagram."""
        messages: list[Message] = [one.message for one in encoded if isinstance(one, EncodedMessage)]
        assert len(messages) == len(encoded), "`encode` has made them"
        counts = Counter(_KINDS[type(message)] for message in messages if type(message) in _KINDS)
        others = sum(
            len(one) for one, message in zip(encoded, messages, strict=True) if type(message) not in _KINDS
        )
        body = HandedBody(others + packet_bytes(tuple(sorted(counts.items()))))
        body.messages = messages
        return body

    def writer(
        self, cluster_id: str, node: NodeId, life: Life, sign: Callable[[bytes], bytes], counter: int
    ) -> DatagramWriter:
        """What makes the datagrams of a life."""
        return _PacketWriter(cluster_id, node, life, sign, counter=counter)


class _PacketWriter(HandingWriter):
    """The datagram is as long as its body; nobody reads its bytes, so nobody has to be convinced by them."""

    __slots__ = ()

    def write(self, body: bytes, audience: NodeId | None) -> bytes:
        assert type(body) is HandedBody
        data = HandedDatagram(len(body))
        data.opened = Datagram(self.next_header(audience), self._node, self._life, body, b"")
        data.audience = audience
        return data


@lru_cache(maxsize=8_192)
def packet_bytes(counts: tuple[tuple[str, int], ...]) -> int:
    """How large a packet of so many messages of each kind is: the mean of some with names and numbers at random."""
    if not counts:
        return 0
    chance = Randomness(0).stream("packets", *(f"{kind} {count}" for kind, count in counts))
    return round(sum(_one_packet(counts, chance) for _ in range(SAMPLES)) / SAMPLES)


def _one_packet(counts: tuple[tuple[str, int], ...], chance: Random) -> int:
    parts = [_message(kind, chance) for kind, count in counts for _ in range(count)]
    chance.shuffle(parts)
    plain = b"".join(parts)
    if len(parts) > 1:
        plain = bytes((7, len(parts))) + b"".join(len(part).to_bytes(2, "big") for part in parts) + plain
    is_gossip = all(kind in ("alive", "suspect") for kind, _ in counts)
    return min(len(plain), lzw_bytes(plain) + COMPRESSED_BYTES) + is_gossip * CHECKSUM_BYTES


def lzw_bytes(data: bytes) -> int:
    """How many bytes LZW makes of up to 3,800, as Go's `compress/lzw` does: codes of nine bits and more, a clear code
    first, an end code last."""
    codes: dict[tuple[int, int], int] = {}
    following, width, bits = 258, 9, 9
    code = -1
    for byte in data:
        if code < 0:
            code = byte
            continue
        known = codes.get((code, byte))
        if known is not None:
            code = known
            continue
        bits += width
        codes[code, byte] = following
        following += 1
        if following > 1 << width:
            width += 1
        code = byte
    return (bits + 2 * width + 7) // 8


# What memberlist writes

_KINDS: dict[type[Message], str] = {
    Ping: "ping",
    Ack: "ack",
    RelayedAck: "ack",
    Nack: "nack",
    PingReq: "indirect ping",
    HeadUpdate: "alive",
    AccusationUpdate: "suspect",  # its `dead` has the same fields
}


@lru_cache(maxsize=16)
def _size(kind: str) -> int:
    return len(_message(kind, Random(0)))


def _message(kind: str, chance: Random) -> bytes:
    """A type and a map. All of one kind are equally long."""
    fields = _FIELDS[kind](chance)
    return bytes((list(_FIELDS).index(kind),)) + msgspec.msgpack.encode(fields)


def _name(chance: Random) -> str:
    return f"agent-{chance.randrange(128):03}"


def _sequence(chance: Random) -> int:
    return chance.randrange(256, 1_000)


def _ack(chance: Random) -> Fields:
    numbers = [chance.gauss(0.0, 0.01) for _ in range(11)]
    coordinate = dict(zip(("Error", "Adjustment", "Height"), numbers, strict=False)) | {"Vec": numbers[3:]}
    return {"SeqNo": _sequence(chance), "Payload": b"\x01" + msgspec.msgpack.encode(coordinate)}


def _alive(chance: Random) -> Fields:
    number = chance.randrange(128)
    tags = {
        "role": "node",
        "dc": "dc1",
        "vsn": "2",
        "vsn_min": "2",
        "vsn_max": "3",
        "build": "0.9.0:b598cd2f",
        "id": str(UUID(int=Random(number).getrandbits(128))),
    }
    return {
        "Incarnation": chance.randrange(1, 100),
        "Node": f"agent-{number:03}",
        "Addr": b"\x7f\x00\x00\x01",
        "Port": 9_000 + number,
        "Meta": b"\xff" + msgspec.msgpack.encode(tags),
        "Vsn": bytes((1, 5, 2, 2, 4, 4)),
    }


_FIELDS: dict[str, Callable[[Random], Fields]] = {
    "ping": lambda chance: {"SeqNo": _sequence(chance), "Node": _name(chance)},
    "indirect ping": lambda chance: {
        "SeqNo": _sequence(chance),
        "Target": b"\x7f\x00\x00\x01",
        "Port": 9_000,
        "Node": _name(chance),
        "Nack": True,
    },
    "ack": _ack,
    "suspect": lambda chance: {
        "Incarnation": chance.randrange(1, 100),
        "Node": _name(chance),
        "From": _name(chance),
    },
    "alive": _alive,
    "nack": lambda chance: {"SeqNo": _sequence(chance)},
}
