"""The calls of this node that have not ended, by id and by the node that is being asked."""

from __future__ import annotations

from reachp2p.core.calls.call import Call
from reachp2p.core.ids import NodeId

PENDING_BYTES_MAX = 268_435_456
"""Payloads of pending calls, which are kept for a retry: 256 of the largest, or 65,536 of 4 kB."""


class PendingCalls:
    """Bounds: `calls_max` calls and `PENDING_BYTES_MAX` of payload; whoever adds asks `has_room` before."""

    def __init__(self, calls_max: int) -> None:
        self._max = calls_max
        self._calls: dict[bytes, Call] = {}
        self._by_node: dict[NodeId, dict[bytes, Call]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    def has_room(self, size: int) -> bool:
        """Whether one more call fits, with a payload of so many bytes."""
        return len(self._calls) < self._max and self._bytes + size <= PENDING_BYTES_MAX

    def get(self, call: bytes) -> Call | None:
        """A call by its id, or None if it has ended."""
        return self._calls.get(call)

    def all(self) -> list[Call]:
        """All of them, in the order in which they came."""
        return list(self._calls.values())

    def at(self, node: NodeId) -> list[Call]:
        """Those for which this node is being asked."""
        return list(self._by_node.get(node, {}).values())

    def is_asked(self, node: NodeId) -> bool:
        """Whether a node is being asked for one of them."""
        return node in self._by_node

    def add(self, call: Call) -> None:
        """A call has begun."""
        self._calls[call.id] = call
        self._bytes += len(call.spec.payload)

    def remove(self, call: Call) -> None:
        """A call has ended."""
        del self._calls[call.id]
        self._bytes -= len(call.spec.payload)
        self.unlist(call)

    def list_at_node(self, call: Call) -> None:
        """`call.node` is being asked now."""
        self._by_node.setdefault(call.node, {})[call.id] = call

    def unlist(self, call: Call) -> None:
        """`call.node` is not asked any more."""
        calls = self._by_node[call.node]
        del calls[call.id]
        if not calls:
            del self._by_node[call.node]
