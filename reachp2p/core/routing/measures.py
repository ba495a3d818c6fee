"""What this node has measured and been told of those it may ask: what policies look at besides the candidates."""

from __future__ import annotations

from reachp2p.core.counters import Counters
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.traffic import TrafficTable


class Measures:
    """Read by policies, fed by the engine. `zone` is this node's own."""

    __slots__ = ("traffic", "zone")

    def __init__(self, traffic: TrafficTable | None = None, zone: str = "") -> None:
        self.traffic = TrafficTable(Counters()) if traffic is None else traffic
        self.zone = zone

    def in_flight(self, key: InstanceKey) -> int:
        """Attempts of this node at an instance that have not ended."""
        traffic = self.traffic.entries.get(key)
        return 0 if traffic is None else traffic.in_flight
