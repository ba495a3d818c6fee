"""The streams of this node, by key, by message and by node; what they hold together."""

from __future__ import annotations

from reachp2p.core.calls.stream import Stream
from reachp2p.core.commands import StreamKey
from reachp2p.core.ids import NodeId


class StreamTable:
    """Bound: `streams_max`; whoever adds asks `has_room` before. `bytes` is what all streams hold."""

    def __init__(self, streams_max: int) -> None:
        self._max = streams_max
        self._streams: dict[StreamKey, Stream] = {}
        self._by_message: dict[tuple[NodeId, bytes, bool], Stream] = {}
        self._by_node: dict[NodeId, dict[StreamKey, Stream]] = {}
        self.bytes = 0
        """Read only; `account` keeps it."""

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def has_room(self) -> bool:
        """Whether one more stream may begin."""
        return len(self._streams) < self._max

    def get(self, key: StreamKey) -> Stream | None:
        """A stream by its key, or None if it has ended."""
        return self._streams.get(key)

    def of_message(self, node: NodeId, message_id: bytes, *, is_caller: bool) -> Stream | None:
        """Our side of the stream that we or (not `is_caller`) `node` has begun with this message id."""
        return self._by_message.get((node, message_id, is_caller))

    def of_node(self, node: NodeId) -> list[Stream]:
        """All whose other side is at this node."""
        return list(self._by_node.get(node, {}).values())

    def is_linked(self, node: NodeId) -> bool:
        """Whether any stream's other side is at this node."""
        return node in self._by_node

    def all(self) -> list[Stream]:
        """All of them, in the order in which they began."""
        return list(self._streams.values())

    def add(self, stream: Stream) -> None:
        """A stream begins. One that knows its node is listed there."""
        self._streams[stream.key] = stream
        self.list_at_node(stream)

    def remove(self, stream: Stream) -> None:
        """A stream has ended."""
        del self._streams[stream.key]
        self.unlist(stream)
        self.bytes -= stream.accounted_bytes
        stream.accounted_bytes = 0

    def list_at_node(self, stream: Stream) -> None:
        """The other side is known."""
        if stream.node is not None:
            self._by_message[stream.node, stream.message_id, stream.is_caller] = stream
            self._by_node.setdefault(stream.node, {})[stream.key] = stream

    def unlist(self, stream: Stream) -> None:
        """There is no other side any more."""
        node = stream.node
        if node is None:
            return
        del self._by_message[node, stream.message_id, stream.is_caller]
        of_node = self._by_node[node]
        del of_node[stream.key]
        if not of_node:
            del self._by_node[node]

    def account(self, stream: Stream) -> None:
        """What a stream holds has changed."""
        held = stream.held_bytes
        self.bytes += held - stream.accounted_bytes
        stream.accounted_bytes = held

    def longest_unmoved(self) -> Stream:
        """Of those that hold anything, the one in which nothing has moved for longest."""
        return min((s for s in self._streams.values() if s.accounted_bytes), key=lambda s: s.moved_at)
