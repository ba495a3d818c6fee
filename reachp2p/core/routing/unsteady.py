"""Nodes that are doubted and come back again and again: calls avoid them until they have been quiet for a while.

A member that hears nobody half of the time, or loses most packets, refutes every doubt and even its own death, for
ever. Membership has to believe it each time, since only the subject speaks for itself. A caller need not: each return
counts as a setback, setbacks are forgotten by halves, and whoever has had too many of late is skipped while another
candidate exists. This is route-flap damping (RFC 2439) for instances. It is a local judgement: it moves no key, and is
told to nobody.

If more nodes than a tenth are unsteady, it is not they but the network, and none is avoided.

Bounds: `RECORDS_MAX` nodes with setbacks, each forgotten when it has been quiet long enough.
"""

from __future__ import annotations

from math import exp2, log2

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.timers import Timers

RETURNED = 1.0
"""A setback: DEAD, and back in the same life."""
REFUTED = 0.25
"""A smaller one: SUSPECT, and ALIVE again."""
AVOIDED_FROM = 1.0
"""Setbacks from which a node is avoided: one return, or four refutations within moments. A healthy member on paths that
lose one of ten packets is suspected once in two minutes, and stands at 0.2 (SWIM §3.1 with k = 3)."""
STEADY_BELOW = 0.5
"""Setbacks below which it is asked again."""
FORGOTTEN_BELOW = 0.1
HALF_LIFE = 60.0
"""Seconds in which setbacks count half: whoever returned once is avoided for a minute."""
SETBACKS_MAX = 4.0
"""So that the worst is asked again three minutes after its last setback."""
PART_MAX = 0.1
"""Of all nodes, and at least one, that may be avoided (Envoy's outlier detection ejects as many)."""
RECORDS_MAX = 4_096
"""Nodes whose setbacks are counted; the one counted longest ago is forgotten first."""


class SteadyDue(msgspec.Struct, frozen=True, gc=False):
    """A node has been quiet for so long that it may be asked again, or forgotten here."""

    node: NodeId


class _Record(msgspec.Struct):
    """Setbacks of one life as they were at a moment."""

    setbacks: float
    at: float

    def left(self, now: float) -> float:
        """What is left of them."""
        return self.setbacks * exp2((self.at - now) / HALF_LIFE)


class Unsteady:
    """Keeps the marks of one routing table."""

    def __init__(self, table: RoutingTable, timers: Timers, counters: Counters, enabled: bool = True) -> None:
        self._table = table
        self._timers = timers
        self._counters = counters
        self._enabled = enabled
        self._records: dict[NodeId, _Record] = {}
        self._unsteady: dict[NodeId, None] = {}
        """Those that should be avoided."""

    def on_setback(self, node: NodeId, weight: float, now: float) -> None:
        """A node was doubted or buried, and is ALIVE again in the same life."""
        if not self._enabled:
            return
        record = self._records.pop(node, None)
        if record is None:
            record = _Record(0.0, now)
            if len(self._records) >= RECORDS_MAX:
                self.forget(next(iter(self._records)))
                self._counters.add("routing.unsteady_forgotten")
        self._records[node] = record
        record.setbacks, record.at = min(SETBACKS_MAX, record.left(now) + weight), now
        is_new = node not in self._unsteady and record.setbacks >= AVOIDED_FROM
        if is_new:
            self._unsteady[node] = None
            self._counters.add("routing.unsteady")
        self._plan(node, record, now)
        if is_new:
            self._mark()

    def on_timer(self, key: SteadyDue, now: float) -> None:
        """Half-lives have passed."""
        if key.node in self._unsteady:
            self._unmark(key.node)
            self._plan(key.node, self._records[key.node], now)
        else:
            del self._records[key.node]

    def forget(self, node: NodeId) -> None:
        """This life is over, or the node is no member any more."""
        if self._records.pop(node, None) is not None:
            self._timers.cancel(SteadyDue(node))
            if node in self._unsteady:
                self._unmark(node)

    def _plan(self, node: NodeId, record: _Record, now: float) -> None:
        floor = STEADY_BELOW if node in self._unsteady else FORGOTTEN_BELOW
        self._timers.set(SteadyDue(node), now + HALF_LIFE * log2(max(record.left(now) / floor, 1.0)))

    def _unmark(self, node: NodeId) -> None:
        del self._unsteady[node]
        self._table.set_unsteady(node, False)
        self._mark()

    def _mark(self) -> None:
        are_avoided = len(self._unsteady) <= max(1, int(self._table.nodes * PART_MAX))
        for node in self._unsteady:
            self._table.set_unsteady(node, are_avoided)

    def __len__(self) -> int:
        return len(self._records)
