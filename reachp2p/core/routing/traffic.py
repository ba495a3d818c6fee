"""What this node has sent to each instance, and how it went: its own measurements, which nobody has to be believed for.

An attempt begins with a request's way to an instance and ends with its answer, or without one. Between the two it is
*in flight*. Latencies are remembered in two ways: the mean of those that ended well, and the peak, which jumps up
with a slow one and comes down slowly (Finagle's peak EWMA); both forget with a time constant of `DECAY` seconds.

All of it belongs to one life of the instance's node, and begins anew with the next.
"""

from __future__ import annotations

from math import exp

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.breaker import Breaker, BreakerState
from reachp2p.core.routing.instance import Instance

DECAY = 10.0
"""Seconds (Finagle's default for peak EWMA)."""
TRAFFIC_MAX = 16_384
"""Instances with remembered traffic, as many as a view may have members; then the one first called among those with
nothing in flight is forgotten, unless its breaker is OPEN, which it is for five minutes at most."""


class Traffic(msgspec.Struct, eq=False):
    """One instance in one life of its node. Seconds; `latency` and `peak` are None before the first answer."""

    key: InstanceKey
    life: Life
    in_flight: int = 0
    """Attempts that have begun and not ended."""
    latency: float | None = None
    """Mean of the attempts that ended well: what a call takes there."""
    peak: float | None = None
    """The worst of late, or better."""
    measured_at: float = 0.0
    breaker: Breaker = msgspec.field(default_factory=Breaker)

    def measure(self, seconds: float, now: float, *, failed: bool) -> None:
        """An attempt took so long. One that failed fast says nothing: a broken instance is not a quick one."""
        peak, latency = self.peak, self.latency
        if failed and (peak is None or seconds < peak):
            return
        keep = exp((self.measured_at - now) / DECAY)
        self.measured_at = now
        self.peak = seconds if peak is None or seconds > peak else peak * keep + seconds * (1.0 - keep)
        if not failed:
            self.latency = seconds if latency is None else latency * keep + seconds * (1.0 - keep)


class TrafficTable:
    """The traffic of all instances called lately. Bound: `TRAFFIC_MAX`, counter `routing.traffic_forgotten`."""

    __slots__ = ("_counters", "entries")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.entries: dict[InstanceKey, Traffic] = {}
        """By instance, in the order of their first calls. Read only."""

    def of(self, instance: Instance) -> Traffic:
        """The traffic of an instance in its present life; begins it if there was none."""
        traffic = self.entries.get(instance.key)
        if traffic is None or traffic.life != instance.info.life:
            if traffic is not None:
                del self.entries[instance.key]
            elif len(self.entries) >= TRAFFIC_MAX:
                self._forget_one()
            traffic = self.entries[instance.key] = Traffic(instance.key, instance.info.life)
        return traffic

    def get(self, instance: Instance) -> Traffic | None:
        """The same, if there has been any."""
        traffic = self.entries.get(instance.key)
        return traffic if traffic is not None and traffic.life == instance.info.life else None

    def in_flight(self, key: InstanceKey) -> int:
        """Attempts at an instance that have not ended."""
        traffic = self.entries.get(key)
        return 0 if traffic is None else traffic.in_flight

    def _forget_one(self) -> None:
        for key, traffic in self.entries.items():
            if not traffic.in_flight and traffic.breaker.state is not BreakerState.OPEN:
                del self.entries[key]
                self._counters.add("routing.traffic_forgotten")
                return

    def __len__(self) -> int:
        return len(self.entries)
