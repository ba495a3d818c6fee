"""`codec=off`: messages are handed from engine to engine as they are, beside the bytes that they would travel as.

What travels has the same bytes as with the codec, so sizes, packing and traces are the same; only the signature of a
datagram is left blank. What is saved is what a run seldom asks about: signing and verifying each datagram, and
decoding. A signed fact is opened once for all nodes, which then hold it together. An Ack that its receiver forwards
whole is signed all the same, because a third node has to be convinced by its bytes; a message that was cut into chunks
is found by the bytes that they make. Bytes that nobody has handed over (damaged, forged, recorded and changed) are read
as the codec reads them, and fail as they would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reachp2p.core.ids import Life, NodeId
from reachp2p.core.links.outgoing import PIECE_MAX
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.cose import SIGNATURE_BYTES
from reachp2p.core.wire.datagram import BODY_BYTES_MAX, Datagram, DatagramReader, DatagramWriter
from reachp2p.core.wire.engine_codec import Codec
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import Ack, HeadUpdate, Message

_BLANK = bytes(SIGNATURE_BYTES)
UPDATES_MAX = 65_536
"""Encoded heads that are remembered; beyond it all are forgotten, which costs encoding them again."""

LARGE_MAX = 1_024
"""Large messages under way that are remembered; the oldest of more are decoded from their bytes."""


class EncodedMessage(bytes):
    """The bytes of one message, and the message."""

    message: Message


class HandedBody(bytes):
    """The bytes of a body or frame, and its messages. Whoever is handed them only reads them."""

    messages: list[Message]


class HandedDatagram(bytes):
    """The bytes of a datagram with a blank signature, what a reader would make of them, and whom it is for."""

    opened: Datagram
    audience: NodeId | None


class HandingWriter(DatagramWriter):
    """Makes datagrams that carry their messages."""

    __slots__ = ("_life", "_node")

    def __init__(
        self, cluster_id: str, node: NodeId, life: Life, sign: Callable[[bytes], bytes], *, counter: int
    ) -> None:
        super().__init__(cluster_id, node, life, sign, counter=counter)
        self._node = node
        self._life = life

    def write(self, body: bytes, audience: NodeId | None) -> bytes:
        """As the codec's, without a signature unless somebody else has to be convinced."""
        assert type(body) is HandedBody
        first = body.messages[0]
        if (type(first) is Ack and first.origin is not None) or len(body) > BODY_BYTES_MAX:
            return super().write(bytes(body), audience)
        header = self.next_header(audience)
        data = HandedDatagram(b"".join((header, body, _BLANK)))
        data.opened = Datagram(header, self._node, self._life, body, _BLANK)
        data.audience = audience
        return data


class HandingReader(DatagramReader):
    """Takes what was handed over, and reads what was not."""

    __slots__ = ()

    def read(self, data: bytes, audience: NodeId | None = None) -> Datagram:
        """As the codec's."""
        if type(data) is not HandedDatagram:
            return super().read(data, audience)
        self.check_cluster(data.opened.header)
        if data.audience is not None and data.audience != (audience or self.own):
            raise WireError("bad_signature")
        return data.opened


class HandingCodec(Codec):
    """The codec of `codec=off`."""

    def __init__(self) -> None:
        self.opened = {}
        self._updates: dict[bytes, EncodedMessage] = {}
        """By the signed bytes in them: what circulates is held once, too."""
        self._large: dict[bytes, Message] = {}
        """Messages that will be cut into chunks, by their bytes, until they arrive."""

    def encode(self, message: Message) -> bytes:
        """The bytes, with the message."""
        if type(message) is HeadUpdate:
            known = self._updates.get(message.head)
            if known is not None:
                return known
        encoded = EncodedMessage(encode_message(message))
        encoded.message = message
        if type(message) is HeadUpdate:
            if len(self._updates) >= UPDATES_MAX:
                self._updates.clear()
            self._updates[message.head] = encoded
        elif len(encoded) > PIECE_MAX:
            self._large[encoded] = message
            if len(self._large) > LARGE_MAX:
                del self._large[next(iter(self._large))]
        return encoded

    def pack(self, encoded: Sequence[bytes]) -> bytes:
        """The bytes, with the messages."""
        body = HandedBody(pack_messages(encoded))
        body.messages = [one.message for one in encoded]  # type: ignore[attr-defined]  # `encode` has made them
        return body

    def unpack(self, data: bytes, **limits: Any) -> tuple[list[Message], int]:
        """The messages that were handed over, or those that are read."""
        if type(data) is HandedBody:
            return data.messages, 0
        return super().unpack(data, **limits)

    def join(self, data: bytes, **limits: Any) -> Message | None:
        """The message that was handed over in chunks, or the one that is read."""
        return self._large.pop(data, None) or super().join(data, **limits)

    def writer(
        self, cluster_id: str, node: NodeId, life: Life, sign: Callable[[bytes], bytes], counter: int
    ) -> DatagramWriter:
        """What makes the datagrams of a life."""
        return HandingWriter(cluster_id, node, life, sign, counter=counter)

    def reader(
        self, cluster_id: str, own: NodeId, verify: Callable[[NodeId, bytes, bytes], bool]
    ) -> DatagramReader:
        """What takes datagrams apart for a node."""
        return HandingReader(cluster_id, own, verify)
