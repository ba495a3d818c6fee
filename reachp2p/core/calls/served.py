"""The accepted requests that have not ended, by number, by request and by the node that asks."""

from __future__ import annotations

from reachp2p.core.calls.invocation import Invocation, InvocationState
from reachp2p.core.ids import NodeId


class Served:
    """Size: what the bulkheads hold."""

    def __init__(self) -> None:
        self._by_number: dict[int, Invocation] = {}
        self._by_request: dict[tuple[NodeId, bytes], Invocation] = {}
        self._by_node: dict[NodeId, dict[int, Invocation]] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def get(self, number: int) -> Invocation | None:
        """By its number, or None if it has ended."""
        return self._by_number.get(number)

    def of_request(self, node: NodeId, message_id: bytes) -> Invocation | None:
        """The one that a node's request has begun, or None."""
        return self._by_request.get((node, message_id))

    def of_node(self, node: NodeId) -> list[Invocation]:
        """Those that a node has asked for."""
        return list(self._by_node.get(node, {}).values())

    def all(self) -> list[Invocation]:
        """All of them, in the order in which they came."""
        return list(self._by_number.values())

    def running_for(self, now: float) -> list[float]:
        """How long each handler that runs has run, in seconds; those of streams run as long as is asked of them."""
        return [
            now - one.begun_at
            for one in self._by_number.values()
            if one.state is InvocationState.RUNNING and one.begun_at is not None and not one.request.stream
        ]

    def is_asking(self, node: NodeId) -> bool:
        """Whether a node waits for one of them."""
        return node in self._by_node

    def add(self, invocation: Invocation) -> None:
        """A request was accepted."""
        self._by_number[invocation.number] = invocation
        self._by_request[invocation.node, invocation.request.message_id] = invocation
        self._by_node.setdefault(invocation.node, {})[invocation.number] = invocation

    def remove(self, invocation: Invocation) -> None:
        """It has ended."""
        del self._by_number[invocation.number]
        del self._by_request[invocation.node, invocation.request.message_id]
        of_node = self._by_node[invocation.node]
        del of_node[invocation.number]
        if not of_node:
            del self._by_node[invocation.node]
