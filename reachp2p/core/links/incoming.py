"""From frames to messages: limits first, then chunks put together again.

Everything wrong raises `WireError` with a reason of our own; the table of links turns that into a counter and a
goodbye.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.codec import RejectedCall
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import Chunk, Goodbye, Hello, HelloProof, Message

FRAME_MESSAGES_READ_MAX = 256
"""Messages read from one frame. We send at most 32; a later version may send more without being refused by this one."""
ASSEMBLIES_MAX = 16
"""Messages of one link that may be under assembly at once."""
MESSAGE_OVERHEAD_MAX = 65_536
"""Around a payload: the longest texts of a request come to 40 kB, the rest is for extensions."""
_NEVER_CHUNKED = (Chunk, Hello, HelloProof, Goodbye)


def message_bytes_max(protocol: Protocol) -> int:
    """The largest message that a link carries, and all that one link may have under assembly, in bytes."""
    return protocol.payload_max + MESSAGE_OVERHEAD_MAX


class _Assembly(msgspec.Struct):
    total: int
    data: bytearray = msgspec.field(default_factory=bytearray)


class Incoming:
    """The reading side of one link. Memory grows with what has arrived, never with what is announced."""

    def __init__(self, protocol: Protocol, counters: Counters, codec: Codec = CODEC) -> None:
        self._codec = codec
        self._frame_max = protocol.frame_max
        self._assembly_max = message_bytes_max(protocol)
        self._counters = counters
        self._assemblies: dict[int, _Assembly] = {}
        self._announced = 0
        self._last_sequence = -1
        self._rejected_calls: list[RejectedCall] = []
        """Of the frame being read; at most one a message."""

    @property
    def assembling(self) -> int:
        """Messages under assembly."""
        return len(self._assemblies)

    def decode(self, frame: bytes) -> list[Message]:
        """The messages of a frame, in order, chunks included. Raises `WireError`."""
        messages, skipped = self._codec.unpack(
            frame,
            bytes_max=self._frame_max,
            messages_max=FRAME_MESSAGES_READ_MAX,
            on_rejected=self._on_rejected,
            on_call_rejected=self._rejected_calls.append,
        )
        if skipped:
            self._counters.add("skipped.message.unknown_number", skipped)
        return messages

    def add_chunk(self, chunk: Chunk) -> Message | None:
        """Put a slice where it belongs; the message if that was its last. Raises `WireError`.

        The slices of a message come in order without gaps, and messages begin in the order of their sequence numbers.
        """
        assembly = self._assemblies.get(chunk.sequence)
        if assembly is None:
            assembly = self._begin(chunk)
        if chunk.total != assembly.total:
            raise WireError("chunk_total")
        if chunk.offset != len(assembly.data):
            raise WireError("chunk_offset")
        if chunk.offset + len(chunk.data) > assembly.total:
            raise WireError("chunk_overrun")
        assembly.data += chunk.data
        if len(assembly.data) < assembly.total:
            return None
        del self._assemblies[chunk.sequence]
        self._announced -= assembly.total
        try:
            message = self._codec.join(
                bytes(assembly.data),
                bytes_max=self._assembly_max,
                on_call_rejected=self._rejected_calls.append,
            )
        except WireError as error:  # as in a frame, a bad message costs only itself
            self._on_rejected(error.reason)
            return None
        if message is None:
            self._counters.add("skipped.message.unknown_number")
        elif isinstance(message, _NEVER_CHUNKED):
            raise WireError("chunk_nested")
        return message

    def take_rejected_calls(self) -> list[RejectedCall]:
        """The requests and replies among what was just read that were not understood."""
        rejected, self._rejected_calls = self._rejected_calls, []
        return rejected

    def _begin(self, chunk: Chunk) -> _Assembly:
        if chunk.sequence <= self._last_sequence:
            raise WireError("chunk_sequence")
        if len(self._assemblies) >= ASSEMBLIES_MAX:
            raise WireError("chunk_assemblies")
        if self._announced + chunk.total > self._assembly_max:
            raise WireError("chunk_bytes")
        self._last_sequence = chunk.sequence
        self._announced += chunk.total
        assembly = self._assemblies[chunk.sequence] = _Assembly(chunk.total)
        return assembly

    def _on_rejected(self, reason: str) -> None:
        self._counters.add(f"dropped.message.{reason}")
