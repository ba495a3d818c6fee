"""The next release of the node program, as far as this one has to live with it (docs/protocol/wire.md, "Growing").

It writes the present wire version, says that it understands the next one too, and uses what may be added meanwhile: an
optional key (from 128 on) in each message and each signed fact, messages with a number that nobody knows yet, and
messages with a new mandatory key. It does so as long as its datagrams stay small enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cbor2
import msgspec

from reachp2p.core.engine import Engine
from reachp2p.core.ids import NodeId
from reachp2p.core.settings import Settings
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.datagram import DatagramReader
from reachp2p.core.wire.engine_codec import Codec
from reachp2p.core.wire.facts import Fact, Head
from reachp2p.core.wire.messages import WIRE_VERSION, Ack, Message, Ping

NEW_KEY = 200
"""Optional: whoever does not know it keeps it."""
NEW_VALUE = b"of the next release"
NEW_MANDATORY_KEY = 100
"""Whoever does not know it must not act on the message."""
NEW_MESSAGE = cbor2.dumps([30, {1: NEW_VALUE}])
NEW_DEMAND = cbor2.dumps([Ping.NUMBER, {Ping.KEYS["nonce"]: bytes(8), NEW_MANDATORY_KEY: NEW_VALUE}])
ROOM = 1_000
"""Bytes of messages beside which the new ones still fit into a datagram, with its header and signature."""
MESSAGES_MAX = 16


class _Alone(bytes):
    """A message beside which there may be no other: a third node will read this datagram."""


class NextCodec(Codec):
    """Writes what the present release does not know, and reads as the codec does that the others use."""

    def __init__(self, others: Codec) -> None:
        self._others = others
        self.opened = others.opened

    def encode(self, message: Message) -> bytes:
        """With the optional key."""
        encoded = encode_message(
            msgspec.structs.replace(message, extensions={**message.extensions, NEW_KEY: NEW_VALUE})
        )
        return _Alone(encoded) if isinstance(message, Ack) and message.origin is not None else encoded

    def pack(self, encoded: Sequence[bytes]) -> bytes:
        """With an unknown message and one with an unknown mandatory key behind the others."""
        is_alone = any(isinstance(one, _Alone) for one in encoded)
        if not is_alone and len(encoded) <= MESSAGES_MAX and sum(map(len, encoded)) <= ROOM:
            encoded = [*encoded, NEW_MESSAGE, NEW_DEMAND]
        return pack_messages(encoded)

    def unpack(self, data: bytes, **limits: Any) -> tuple[list[Message], int]:
        """As the others."""
        return self._others.unpack(data, **limits)

    def reader(
        self, cluster_id: str, own: NodeId, verify: Callable[[NodeId, bytes, bytes], bool]
    ) -> DatagramReader:
        """As the others."""
        return self._others.reader(cluster_id, own, verify)


class NextEngine(Engine):
    """An engine of the next release."""

    def __init__(self, settings: Settings, *, codec: Codec, **others: Any) -> None:
        super().__init__(settings, codec=NextCodec(codec), **others)
        signer = self._parts.fact_signer
        sign = signer.sign

        def sign_more(fact: Fact) -> bytes:
            fact = msgspec.structs.replace(fact, extensions={NEW_KEY: NEW_VALUE})
            if isinstance(fact, Head):
                fact = msgspec.structs.replace(fact, wire_max=WIRE_VERSION + 1)
            return sign(fact)

        signer.sign = sign_more  # type: ignore[method-assign]  # what is signed differs, how it is signed does not


def held_head(engine: Engine, node: NodeId) -> Head | None:
    """The head that a node holds of another, with the keys that it does not know."""
    member = engine._parts.table.get(node)
    return None if member is None else member.head.fact
