"""How one engine's messages become bytes and come back: the codec that an engine is built with.

Every real node has `CODEC`. The simulator may bring another, which hands the messages over beside their bytes and saves
itself the signing, verifying and decoding; sizes and contents of what travels are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reachp2p.core.ids import Life, NodeId
from reachp2p.core.wire.codec import (
    RejectedCall,
    decode_message,
    decode_messages,
    encode_message,
    pack_messages,
)
from reachp2p.core.wire.datagram import DatagramReader, DatagramWriter
from reachp2p.core.wire.messages import Message


class Codec:
    """The functions of `codec` and `datagram` behind one object. Engines may share it."""

    opened: dict[bytes, Any] | None = None
    """Facts by their bytes that any of the engines has opened, for all of them; None: each opens them for itself."""

    def encode(self, message: Message) -> bytes:
        """One message; see `encode_message`."""
        return encode_message(message)

    def pack(self, encoded: Sequence[bytes]) -> bytes:
        """The body of a datagram, or a frame, from what `encode` made; see `pack_messages`."""
        return pack_messages(encoded)

    def unpack(
        self,
        data: bytes,
        *,
        bytes_max: int,
        messages_max: int,
        datagram: bool = False,
        on_rejected: Callable[[str], None] | None = None,
        on_call_rejected: Callable[[RejectedCall], None] | None = None,
    ) -> tuple[list[Message], int]:
        """The messages of a body, and how many were skipped; see `decode_messages`."""
        return decode_messages(
            data,
            bytes_max=bytes_max,
            messages_max=messages_max,
            datagram=datagram,
            on_rejected=on_rejected,
            on_call_rejected=on_call_rejected,
        )

    def join(
        self,
        data: bytes,
        *,
        bytes_max: int,
        on_call_rejected: Callable[[RejectedCall], None] | None = None,
    ) -> Message | None:
        """The message that was put together from chunks; see `decode_message`."""
        return decode_message(data, bytes_max=bytes_max, on_call_rejected=on_call_rejected)

    def writer(
        self, cluster_id: str, node: NodeId, life: Life, sign: Callable[[bytes], bytes], counter: int
    ) -> DatagramWriter:
        """What makes the datagrams of a life."""
        return DatagramWriter(cluster_id, node, life, sign, counter=counter)

    def reader(
        self, cluster_id: str, own: NodeId, verify: Callable[[NodeId, bytes, bytes], bool]
    ) -> DatagramReader:
        """What takes datagrams apart for a node."""
        return DatagramReader(cluster_id, own, verify)


CODEC = Codec()
"""The one that ships."""
