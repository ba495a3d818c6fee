"""What waits for one link, and the frames it becomes (docs/protocol/links.md; one writer).

Small messages keep their order and go first. A large one is cut into chunks; every frame has room for one of them, so
neither blocks the other. The messages of an anti-entropy exchange keep their order among themselves whatever their
size. Nothing is delayed in order to fill a frame: a frame holds what waits when the driver takes the effects.
"""

from __future__ import annotations

from collections import deque

import msgspec

from reachp2p.core.links.incoming import ASSEMBLIES_MAX, message_bytes_max
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.messages import (
    Cancel,
    Chunk,
    Goodbye,
    HopPage,
    Message,
    Publication,
    Reply,
    Request,
    SchemaBodies,
    SchemaWant,
    StreamItem,
    SyncDelta,
    SyncDigest,
    SyncEnd,
    SyncOffer,
    SyncWant,
)

ORDERED = frozenset(
    {SyncOffer, SyncDigest, SyncWant, SyncDelta, SyncEnd, SchemaWant, SchemaBodies, HopPage, Publication}
)
"""Messages that keep their order among themselves even when some are large; other large ones may be overtaken."""

PIECE_MAX = 16_384
"""Bytes of a message that still travels whole, and of one chunk: a quarter of a frame."""
PIECE_MIN = 1_024
"""A chunk smaller than this waits for the next frame."""
CHUNK_OVERHEAD = 48
"""CBOR around the data of a chunk: at most 2 + 1 + 4 keys + 9 + 5 + 5 + 5 bytes."""
FRAME_OVERHEAD = 4
"""The array head of a frame."""
CREDIT_AT_OPENING = 1_048_576
"""Bytes that may be handed to the driver before it first says how much room it has."""
_WITH_PAYLOAD = (Request, Reply, StreamItem, Publication)
_SIZE_HINT = 1_024
"""Bytes around a payload that are promised before a message is encoded."""


class _Large(msgspec.Struct, eq=False):
    """A message on its way in chunks. `sequence` is given when the first one leaves."""

    data: bytes
    is_ordered: bool
    request: bytes = b""
    """Its message id, if it is a request."""
    cancel: bytes = b""
    """The `Cancel` that follows it."""
    sequence: int = 0
    offset: int = 0


class Outgoing:
    """The writing side of one link. Bound: `link_queue_max` bytes, then `put` refuses."""

    def __init__(self, protocol: Protocol, codec: Codec = CODEC) -> None:
        self._codec = codec
        self.credit = CREDIT_AT_OPENING
        """Bytes the driver has room for."""
        self.queued_bytes = 0
        self.sent_bytes = 0
        self.has_said_goodbye = False
        self._promised = 0
        self._queue_max = protocol.link_queue_max
        self._frame_max = protocol.frame_max
        self._frame_messages_max = protocol.frame_messages_max
        self._assembly_max = message_bytes_max(protocol)
        self._small: deque[bytes] = deque()
        self._ordered: deque[bytes] = deque()
        self._ordered_is_large = False
        """The first of the ordered messages is on its way in chunks; the others wait for its end."""
        self._backlog: deque[_Large] = deque()
        """Large messages that the other side has no room to assemble yet."""
        self._active: deque[_Large] = deque()
        self._active_bytes = 0
        self._sequence = 0
        self._goodbye: bytes | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self.queued_bytes

    @property
    def waiting_bytes(self) -> int:
        """What waits and what room is kept for."""
        return self.queued_bytes + self._promised

    def promise(self, message: Message) -> bool:
        """Keep room for a message that will be `put` later; false if there is none."""
        hint = _size_hint(message)
        if self.queued_bytes + self._promised + hint > self._queue_max:
            return False
        self._promised += hint
        return True

    def put(self, message: Message) -> bool:
        """Queue one message; false if there is no room or it is too large for any link."""
        self._promised = max(0, self._promised - _size_hint(message))
        encoded = self._codec.encode(message)
        size = len(encoded)
        if size > self._assembly_max or self.queued_bytes + size > self._queue_max:
            return False
        if isinstance(message, Cancel) and self._cancel(message.message_id, encoded):
            return True
        self.queued_bytes += size
        if type(message) in ORDERED:
            self._ordered.append(encoded)
        elif size <= PIECE_MAX:
            self._small.append(encoded)
        else:
            request = message.message_id if isinstance(message, Request) else b""
            self._backlog.append(_Large(encoded, is_ordered=False, request=request))
        return True

    def _cancel(self, request: bytes, cancel: bytes) -> bool:
        """A `Cancel` must not overtake its large request: one not begun is taken back, one begun is followed by it."""
        for large in self._backlog:
            if large.request == request:
                self._backlog.remove(large)
                self.queued_bytes -= len(large.data)
                return True
        for large in self._active:
            if large.request == request:
                large.cancel = cancel
                self.queued_bytes += len(cancel)
                return True
        return False

    def finish(self, goodbye: Goodbye) -> None:
        """Queue our Goodbye behind everything that waits, also if the queue is full. Only the first one counts."""
        if self._goodbye is None and not self.has_said_goodbye:
            self._goodbye = self._codec.encode(goodbye)
            self.queued_bytes += len(self._goodbye)

    def next_frame(self) -> bytes | None:
        """The next frame within the credit, or None."""
        if not self.queued_bytes:
            return None
        room = min(self._frame_max, self.credit) - FRAME_OVERHEAD
        parts: list[bytes] = []
        has_bulk = self._start_bulk()
        reserved = CHUNK_OVERHEAD + PIECE_MAX if has_bulk else 0
        count_max = self._frame_messages_max - 1 if has_bulk else self._frame_messages_max
        small = self._small
        while small and len(parts) < count_max:
            size = len(small[0])
            if size > room - reserved:
                break
            room -= size
            self.queued_bytes -= size
            parts.append(small.popleft())
        if has_bulk:
            self._add_bulk(parts, room)
        if not parts and small and len(small[0]) <= room:
            # The room kept for a chunk was the only obstacle, and no chunk has used it.
            self.queued_bytes -= len(small[0])
            parts.append(small.popleft())
        if not parts and self._goodbye is not None and self.queued_bytes == len(self._goodbye) <= room:
            parts.append(self._goodbye)
            self._goodbye = None
            self.queued_bytes = 0
            self.has_said_goodbye = True
        if not parts:
            return None
        frame = self._codec.pack(parts)
        self.note_sent(len(frame))
        return frame

    def note_sent(self, size: int) -> None:
        """A frame of this size was handed to the driver."""
        self.credit -= size
        self.sent_bytes += size

    # Large and ordered messages

    def _start_bulk(self) -> bool:
        """Begin what may begin; whether there is anything to send besides small messages."""
        if self._ordered and not self._ordered_is_large and len(self._ordered[0]) > PIECE_MAX:
            self._ordered_is_large = True
            self._backlog.append(_Large(self._ordered.popleft(), is_ordered=True))
        while self._backlog and len(self._active) < ASSEMBLIES_MAX:
            large = self._backlog[0]
            if self._active_bytes + len(large.data) > self._assembly_max:
                break
            self._sequence += 1
            large.sequence = self._sequence
            self._active_bytes += len(large.data)
            self._active.append(self._backlog.popleft())
        return bool(self._active) or bool(self._ordered and not self._ordered_is_large)

    def _add_bulk(self, parts: list[bytes], room: int) -> None:
        """Fill a frame: ordered messages that travel whole, then chunks, one message after the other."""
        if not self._ordered_is_large:
            ordered = self._ordered
            kept = CHUNK_OVERHEAD + PIECE_MIN if self._active else 0
            while (
                ordered
                and len(parts) < self._frame_messages_max
                and len(ordered[0]) <= min(room - kept, PIECE_MAX)
            ):
                room -= len(ordered[0])
                self.queued_bytes -= len(ordered[0])
                parts.append(ordered.popleft())
        while self._active and len(parts) < self._frame_messages_max:
            large = self._active[0]
            rest = len(large.data) - large.offset
            size = min(PIECE_MAX, rest, room - CHUNK_OVERHEAD)
            if size < min(PIECE_MIN, rest):
                return
            chunk = self._cut(large, size)
            room -= len(chunk)
            parts.append(chunk)

    def _cut(self, large: _Large, size: int) -> bytes:
        total = len(large.data)
        chunk = Chunk(
            sequence=large.sequence,
            offset=large.offset,
            total=total,
            data=large.data[large.offset : large.offset + size],
        )
        large.offset += size
        self.queued_bytes -= size
        self._active.popleft()
        if large.offset < total:
            self._active.append(large)
        else:
            self._active_bytes -= total
            if large.cancel:
                self._small.append(large.cancel)
            if large.is_ordered:
                self._ordered_is_large = False
        return self._codec.encode(chunk)


def _size_hint(message: Message) -> int:
    return len(message.payload) + _SIZE_HINT if isinstance(message, _WITH_PAYLOAD) else _SIZE_HINT
