"""Nodes to which no link opens from here: calls avoid them for a while, whatever others believe.

This is no evidence about a member: a dial may fail for reasons of our own, and a refusal speaks against a process only
where it has answered before (`membership.detector`). It says where the next call should rather not go. It ends when a
link to the node is proven, when the node tells news of itself, or by itself.

Bounds: one mark for each node of the routing table, `FAILURES_MAX` counts.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.timers import Timers

AVOIDED_FIRST, AVOIDED_MAX = 2.0, 60.0
"""Seconds that a node is avoided after the first failure; doubled with each further one until a link to it is proven. A
dial also fails because either side has too little processor time for a moment: that should cost moments. A host that is
really gone takes a call's dial after 2, 4, 8, ... seconds, until the detector has spoken."""
FAILURES_MAX = 4_096
"""Nodes whose failures are counted; the longest counted is forgotten first, and begins anew."""


class UnreachedEnds(msgspec.Struct, frozen=True, gc=False):
    """A node was avoided long enough: the next call may try it again."""

    node: NodeId


class Unreached:
    """Keeps the marks of one routing table."""

    def __init__(self, table: RoutingTable, timers: Timers, counters: Counters) -> None:
        self._table = table
        self._timers = timers
        self._counters = counters
        self._failures: dict[NodeId, int] = {}
        """Dials in a row that have failed."""

    def on_failed(self, node: NodeId, now: float) -> None:
        """No link to a node could be opened, and there is no other."""
        if self._table.set_unreached(node, True):
            self._counters.add("routing.unreached")
        if not self._table.is_unreached(node):
            return  # it is in no routing table
        failures = self._failures.pop(node, 0) + 1
        self._failures[node] = failures
        if len(self._failures) > FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
            self._counters.add("routing.unreached_forgotten")
        avoided_for = min(AVOIDED_MAX, AVOIDED_FIRST * 2.0 ** min(failures - 1, 10))
        self._timers.set(UnreachedEnds(node), now + avoided_for)

    def on_reached(self, node: NodeId) -> None:
        """A link to a node is proven."""
        self._failures.pop(node, None)
        if self._table.set_unreached(node, False):
            self._timers.cancel(UnreachedEnds(node))

    def on_timer(self, key: UnreachedEnds) -> None:
        """The time of a mark is over."""
        self._table.set_unreached(key.node, False)
