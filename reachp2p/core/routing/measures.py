"""What this node has measured and been told of those it may ask: what policies look at besides the candidates."""

from __future__ import annotations

from math import inf

from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.load import Loads, NodeLoad
from reachp2p.core.routing.places import Places
from reachp2p.core.routing.traffic import Traffic, TrafficTable
from reachp2p.core.timers import Timers


class Measures:
    """Read by policies, fed by the engine. `zone` is this node's own."""

    __slots__ = ("loads", "places", "traffic", "zone")

    def __init__(
        self,
        traffic: TrafficTable | None = None,
        loads: Loads | None = None,
        places: Places | None = None,
        *,
        zone: str = "",
    ) -> None:
        """What is left out has measured nothing."""
        self.traffic = TrafficTable(Counters()) if traffic is None else traffic
        self.loads = Loads(Timers(), Counters()) if loads is None else loads
        self.places = places
        self.zone = zone

    def in_flight(self, key: InstanceKey) -> int:
        """Attempts of this node at an instance that have not ended."""
        traffic = self.traffic.entries.get(key)
        return 0 if traffic is None else traffic.in_flight

    def traffic_of(self, instance: Instance) -> Traffic | None:
        """What this node has measured at an instance, in its present life; None: it has never called it."""
        return self.traffic.get(instance)

    def load_of(self, instance: Instance) -> NodeLoad | None:
        """What the node of an instance has told of its load, in the life that registered it."""
        return self.loads.get(instance)

    def round_trip(self, node: NodeId) -> float:
        """The round trip to expect, in seconds; infinite if the node has told no coordinate."""
        seconds = self.places.round_trip(node) if self.places is not None else None
        return inf if seconds is None else seconds
