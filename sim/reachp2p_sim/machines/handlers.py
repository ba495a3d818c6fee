"""What a simulated program offers, and how its handlers behave."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

from reachp2p.core.commands import AgentSpec, CapabilitySpec, StreamKind

ServiceTimes: TypeAlias = Literal["exponential", "constant", "heavy"]
"""How service times are spread around their mean."""
HEAVY_SHAPE = 1.5
"""Of the Pareto distribution of `heavy` times: a finite mean, an infinite variance."""
HEAVY_MAX = 100.0
"""No `heavy` time is longer than so many means: a hundredth of the mean is lost by that."""


@dataclass(slots=True, frozen=True)
class Handler:
    """How a simulated handler behaves. Times in seconds, shares 0 to 1."""

    service_time: float = 0.005
    """The mean."""
    fails: float = 0.0
    """Share of calls that raise (1403)."""
    hangs: float = 0.0
    """Share of calls that never return."""
    items: int = 0
    """Items that a call of a streaming capability yields, each after a service time."""
    item_bytes: int = 100
    times: ServiceTimes = "exponential"
    calls: str = ""
    """A capability that each call calls in turn, after its service time; it ends when that call has."""

    def draw(self, chance: Random) -> float:
        """The service time of one call."""
        if not self.service_time:
            return 0.0
        if self.times == "exponential":
            return chance.expovariate(1.0 / self.service_time)
        if self.times == "constant":
            return self.service_time
        least = self.service_time * (HEAVY_SHAPE - 1.0) / HEAVY_SHAPE
        return min(least * chance.paretovariate(HEAVY_SHAPE), HEAVY_MAX * self.service_time)


@dataclass(slots=True, frozen=True)
class Offer:
    """One agent that a host offers, and how its handlers behave."""

    spec: AgentSpec
    handler: Handler

    @classmethod
    def simple(
        cls,
        agent: str,
        capability: str,
        handler: Handler,
        repeatable: bool = True,
        *,
        exclusive: bool = False,
    ) -> Offer:
        """An agent with one capability, which streams its results if its handler yields items."""
        stream = StreamKind.RESULTS if handler.items else StreamKind.NONE
        offered = CapabilitySpec(name=capability, repeatable=repeatable, stream=stream)
        spec = AgentSpec(agent=agent, capabilities=(offered,), exclusive=exclusive)
        return cls(spec, handler)
