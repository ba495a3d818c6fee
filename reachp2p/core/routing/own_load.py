"""What a node tells of itself: what runs, waits and ails it, how long handlers take, how busy the processors are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil

from reachp2p.core.ids import NodeId
from reachp2p.core.routing.load_report import AGENTS_TOLD, SECONDS_MAX, AgentLoad, LoadReport, agent_hash
from reachp2p.core.routing.troubles import AgentTroubles, Lately, Troubles

SERVED_MAX = 128
"""Durations that the 95th percentile is taken of."""
P95_AGE = 0.5
"""Seconds for which it is not worked out again."""
TOLD_EVERY = 0.001
"""Seconds between two reports with replies to one node, at least."""
TOLD_MAX = 1_024
"""Nodes of which is remembered when they were told last; beyond it all are forgotten, and told once more."""
_LONG_AGO = float("-inf")
TOLD_FOR = 60.0
"""Seconds after its last request for which a node still tells its load: before, and later, it has none."""


class OwnLoad:
    """What this node says about itself. The callee tells it what it serves and what runs, the driver how busy
    the processors are."""

    def __init__(self, *, is_told: bool) -> None:
        """`is_told`: whether anybody is told."""
        self._is_told = is_told
        self._sequence = 0
        self._served: deque[float] = deque(maxlen=SERVED_MAX)
        self._p95 = 0.0
        self._p95_at = float("-inf")
        self._asked_at = float("-inf")
        self._told: dict[NodeId, float] = {}
        """When each of those that ask was told last."""
        self.cpu: int | None = None
        """Percent of the processors that this node may use, measured by its driver."""
        self.overdue = 0
        """Handlers that go on although they were cancelled, counted by the driver."""
        self._failed, self._stopped, self._late = Lately(), Lately(), Lately()
        self.numbers: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Handlers that run, and requests that wait; given by the callee."""
        self.agents: Callable[[], list[tuple[str, int, int]]] = list
        """Name, handlers that run, and requests that wait, of each agent with any, if several are offered; given by the
        callee."""
        self.running: Callable[[float], list[float]] = lambda now: []
        """How long each handler that runs has run, in seconds; given by the callee."""

    def on_request(self, now: float) -> None:
        """Somebody asks for something."""
        self._asked_at = now

    def on_served(self, seconds: float) -> None:
        """A handler took so long."""
        if not self._served:
            self._p95_at = _LONG_AGO
        self._served.append(seconds)

    def on_cut_short(self, seconds: float) -> None:
        """A handler was ended by its deadline or its caller: it would have taken longer than that.

        It counts if it ran longer than most do; how long it would have taken otherwise, nobody knows.
        """
        if seconds > self._p95:
            self.on_served(seconds)

    def on_failed(self, agent: str, now: float) -> None:
        """A handler has failed."""
        self._failed.add(agent, now)

    def on_stopped(self, agent: str, now: float) -> None:
        """A handler was ended by its deadline."""
        self._stopped.add(agent, now)

    def on_late(self, now: float) -> None:
        """The event loop was late."""
        self._late.add("", now)

    def troubles(self, now: float) -> Troubles | None:
        """What ails this node lately, or None if nothing does."""
        failed, stopped = self._failed.counts(now), self._stopped.counts(now)
        late = self._late.counts(now).get("", 0)
        if not (failed or stopped or late or self.overdue):
            return None
        agents = [
            AgentTroubles(agent_hash(name), failed.get(name, 0), stopped.get(name, 0))
            for name in {**failed, **stopped}
        ]
        agents.sort(key=lambda one: one.failed + one.stopped, reverse=True)
        return Troubles(late, self.overdue, tuple(agents))

    def report_to(self, node: NodeId, now: float) -> LoadReport | None:
        """The next report for whoever has asked for a call, or None if there is nothing to tell, or it has been told a
        moment ago: at thousands of replies a second a report on each would say nothing new."""
        if not self._is_told or now - self._told.get(node, _LONG_AGO) < TOLD_EVERY:
            return None
        if len(self._told) >= TOLD_MAX and node not in self._told:
            self._told.clear()
        self._told[node] = now
        return self.report(now)

    def report(self, now: float) -> LoadReport | None:
        """The next report, or None if there is nothing to tell."""
        troubles = self.troubles(now)
        if not self._is_told or (now - self._asked_at > TOLD_FOR and troubles is None):
            return None
        if troubles is not None and len(troubles.agents) > AGENTS_TOLD:
            troubles = Troubles(troubles.late, troubles.overdue, troubles.agents[:AGENTS_TOLD])
        self._sequence += 1
        in_flight, queued = self.numbers()
        p95 = self._percentile(now)
        return LoadReport(self._sequence, in_flight, queued, p95, self.cpu, self._parts(), troubles)

    def _parts(self) -> tuple[AgentLoad, ...]:
        agents = [AgentLoad(agent_hash(name), running, waiting) for name, running, waiting in self.agents()]
        agents.sort(key=lambda part: part.requests, reverse=True)
        return tuple(agents[:AGENTS_TOLD])

    def _percentile(self, now: float) -> float:
        """The 95th percentile of what handlers take: of those that have ended, and of those that run longer already.

        Without the latter, a node whose handlers hang would seem to be quick.
        """
        if now - self._p95_at >= P95_AGE:
            self._p95_at = now
            ended = _p95(sorted(self._served))
            longer = [seconds for seconds in self.running(now) if seconds > ended]
            self._p95 = min(_p95(sorted([*self._served, *longer])) if longer else ended, SECONDS_MAX)
        return self._p95


def _p95(ordered: list[float]) -> float:
    return ordered[ceil(0.95 * len(ordered)) - 1] if ordered else 0.0
