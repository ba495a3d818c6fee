"""What ails a node although it answers probes: a late event loop, and handlers that fail, hang, or outlive their calls.

A node counts it for itself and tells it beside its load, so that it shows in the state of its agents at whoever has
heard it. Nothing is decided by it: whom calls avoid is the breakers' matter.
"""

from __future__ import annotations

import msgspec

WINDOW = 30.0
"""Seconds of a count; two of them are told together, so what happened is told for half a minute to a minute."""
COUNT_MAX = 2**31 - 1


class AgentTroubles(msgspec.Struct, frozen=True, gc=False):
    """Calls of one agent in the last minute. `agent` is a hash of its name (`load_report.agent_hash`)."""

    agent: int
    failed: int = 0
    """Handlers that raised, or returned what cannot be sent, through no fault of their callers."""
    stopped: int = 0
    """Handlers that their deadlines ended."""


class Troubles(msgspec.Struct, frozen=True):
    """What a node tells. The worst agents come first."""

    late: int = 0
    """How often its event loop was late in the last minute."""
    overdue: int = 0
    """Handlers that go on now although their calls have ended and they were cancelled."""
    agents: tuple[AgentTroubles, ...] = ()

    def of(self, agent: int) -> AgentTroubles:
        """Those of one of its agents; none if they were not told."""
        return next((one for one in self.agents if one.agent == agent), AgentTroubles(agent))


class Lately:
    """Counts of the last half to whole minute, by name. Names are of this node's own agents, so they are few."""

    def __init__(self) -> None:
        self._window = 0
        self._now: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def add(self, name: str, now: float) -> None:
        """It has happened once more."""
        self._turn(now)
        self._now[name] = self._now.get(name, 0) + 1

    def counts(self, now: float) -> dict[str, int]:
        """What has happened lately, and how often; each at most `COUNT_MAX`."""
        self._turn(now)
        counts = dict(self._before)
        for name, count in self._now.items():
            counts[name] = min(counts.get(name, 0) + count, COUNT_MAX)
        return counts

    def _turn(self, now: float) -> None:
        window = int(now // WINDOW)
        if window != self._window:
            self._before = self._now if window == self._window + 1 else {}
            self._now = {}
            self._window = window
