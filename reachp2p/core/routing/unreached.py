"""Nodes to which no link opens from here: calls avoid them for a while, whatever others believe.

This is no evidence about a member: a dial may fail for reasons of our own, and a refusal speaks against a process only
where it has answered before (`membership.detector`). It says where the next call should rather not go. It ends when a
link to the node is proven, when the node tells news of itself, or by itself.

Bound: one mark for each node of the routing table.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.timers import Timers

AVOIDED_FOR = 10.0
"""Seconds. The detector's own probe of a member that is gone comes within 2n-1 periods: for small clusters it has
spoken by then; in large ones a call loses one more dial to a dead instance every ten seconds."""


class UnreachedEnds(msgspec.Struct, frozen=True, gc=False):
    """A node was avoided long enough: the next call may try it again."""

    node: NodeId


class Unreached:
    """Keeps the marks of one routing table."""

    def __init__(self, table: RoutingTable, timers: Timers, counters: Counters) -> None:
        self._table = table
        self._timers = timers
        self._counters = counters

    def on_failed(self, node: NodeId, now: float) -> None:
        """No link to a node could be opened, and there is no other."""
        if self._table.set_unreached(node, True):
            self._counters.add("routing.unreached")
        if self._table.is_unreached(node):
            self._timers.set(UnreachedEnds(node), now + AVOIDED_FOR)

    def on_reached(self, node: NodeId) -> None:
        """A link to a node is proven."""
        if self._table.set_unreached(node, False):
            self._timers.cancel(UnreachedEnds(node))

    def on_timer(self, key: UnreachedEnds) -> None:
        """The time of a mark is over."""
        self._table.set_unreached(key.node, False)
