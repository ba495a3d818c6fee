"""Whom simulated programs call, how often, and with which keys."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import inf
from random import Random

from msgspec.structs import replace

from reachp2p.core.commands import RouteQuery


@dataclass(slots=True, frozen=True)
class Keys:
    """Routing keys of unequal popularity: the k-th of `count` is asked for in proportion to 1/k^`exponent` (Zipf)."""

    count: int
    exponent: float = 1.0

    def draw(self, chance: Random) -> str:
        """The key of one call: `key 1` is the most popular."""
        steps = _steps(self.count, self.exponent)
        return f"key {bisect_left(steps, chance.random() * steps[-1]) + 1}"


@lru_cache(maxsize=16)
def _steps(count: int, exponent: float) -> list[float]:
    return list(accumulate(rank**-exponent for rank in range(1, count + 1)))


@dataclass(slots=True, frozen=True)
class Loop:
    """One caller. In a closed loop it calls, waits for the end, thinks, and calls again; with a `rate` it calls whether
    or not earlier calls have ended (open loop)."""

    query: RouteQuery
    think_time: float = 1.0
    """Mean of an exponential, seconds."""
    timeout: float = 5.0
    waits: bool = False
    """Whether a process makes its first call only when there is an instance to rely on (`is_callable`)."""
    stream: bool = False
    """Whether the capability streams its results."""
    rate: float = 0.0
    """Calls a second, the time between two an exponential; 0: a closed loop."""
    keys: Keys | None = None
    """Drawn anew for each call."""
    ends_at: float = inf
    """Run time from which on it makes no more calls."""

    def pause(self, chance: Random) -> float:
        """Seconds to wait: after the end of a call, or in an open loop after its start."""
        return chance.expovariate(self.rate or 1.0 / self.think_time)

    def next_query(self, chance: Random) -> RouteQuery:
        """What the next call asks for."""
        return self.query if self.keys is None else replace(self.query, key=self.keys.draw(chance))
