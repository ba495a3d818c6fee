"""How far views agree with each other and with what is true, looked at again and again, and when they settled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf

from reachp2p.core.ids import NodeId
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.view import fingerprint
from reachp2p_sim.measuring import budgets
from reachp2p_sim.recording.beliefs import Beliefs
from reachp2p_sim.recording.series import Samples
from reachp2p_sim.world.world import World

SAMPLE_INTERVAL = 0.25
"""Seconds of run time between two looks at all views, up to `SAMPLED_FULLY` nodes; above them in proportion."""
SAMPLED_FULLY = 64
BELIEFS_OBSERVERS_MAX = 128
"""With more nodes than this the share of single beliefs is not sampled: it costs n² at each look."""
SAMPLE_NAMES = (
    "running",
    "views_right",
    "beliefs_right",
    "views_equal",
    "routes_equal",
    "routes_right",
    "suspected",
    "datagrams",
    "bytes",
)


@dataclass(slots=True, frozen=True)
class Settled:
    """Views that became equal, with no doubt left in them, after a disturbance. `budget`: the seconds allowed."""

    equal_until: float
    """When they were last seen to be equal before; 0 if never."""
    disturbed_at: float
    at: float
    budget: float


class Agreement:
    """All looks at a world: `samples` holds a row for each."""

    def __init__(self, beliefs: Beliefs) -> None:
        self._beliefs = beliefs
        self.samples = Samples(SAMPLE_NAMES)
        self.settled: list[Settled] = []
        self._is_settled = False
        self._equal_at = 0.0
        self._looked_at = -inf

    def is_due(self, world: World) -> bool:
        """Whether it is time for the next look: they are rarer the more nodes there are, since one costs n² at
        worst."""
        interval = SAMPLE_INTERVAL * max(1.0, len(world.nodes) / SAMPLED_FULLY)
        return world.now - self._looked_at >= interval - 1e-9

    def look(self, world: World) -> bool:
        """Look at all views; whether they have settled since the last look."""
        self._looked_at = world.now
        running = world.running
        count = len(running)
        views_right, beliefs_right, views_equal = self._views(world, running) if count else (0.0, 0.0, 0.0)
        routes_equal, routes_right = _routes(running)
        suspected = sum(self._beliefs.counts(host.index)[1] for host in world.nodes)
        self.samples.add(
            round(world.now, 6),
            count,
            views_right,
            beliefs_right,
            views_equal,
            routes_equal,
            routes_right,
            suspected,
            world.network.sent,
            world.network.sent_bytes,
        )
        has_settled = False
        if views_equal < 1.0 or suspected:
            self._is_settled = False
        elif count > 1 and not self._is_settled:
            self._is_settled = has_settled = True
            budget = budgets.healing(count, world.protocol, world.network.paths.worst()[0])
            self.settled.append(Settled(self._equal_at, world.history.last_change_at, world.now, budget))
        if self._is_settled:
            self._equal_at = world.now
        return has_settled

    @staticmethod
    def _views(world: World, running: list[Host]) -> tuple[float, float, float]:
        """Shares of views that are right, of beliefs that are right, and of views that are equal, as far as sampled."""
        truth = world.alive_fingerprint()
        right = [
            truth is not None
            and (life := host.life) is not None
            and host.view.alive ^ fingerprint(life) == truth
            for host in running
        ]
        views_right = sum(right) / len(running)
        if all(right):
            hashes = Counter(host.engine.view_hash() for host in running)
            return views_right, 1.0, max(hashes.values()) / len(running)
        if len(world.nodes) <= BELIEFS_OBSERVERS_MAX:
            return views_right, _beliefs_right(world, running), 0.0
        return views_right, 0.0, 0.0


def _beliefs_right(world: World, running: list[Host]) -> float:
    """Share of beliefs (one view, one machine) that are ALIVE exactly if the machine runs that life."""
    right = total = 0
    lives = [(host.node, host.life) for host in world.nodes]
    for observer in running:
        members = observer.view.members
        for node, life in lives:
            if node == observer.node:
                continue
            held = members.get(node)
            is_alive = held is not None and held.state.value == "ALIVE"
            if life is None:
                right += not is_alive
            else:
                right += is_alive and held is not None and held.life == life
            total += 1
    return right / total if total else 1.0


def _routes(running: list[Host]) -> tuple[float, float]:
    """Share of nodes that would offer the same instances as most do, and the right ones, over all capabilities."""
    offered: dict[str, list[NodeId]] = {}
    for host in running:
        for offer in host.application.offers:
            for capability in offer.spec.capabilities:
                offered.setdefault(capability.name, []).append(host.node)
    if not offered or not running:
        return 1.0, 1.0
    equal = right = 0
    for name, nodes in offered.items():
        answers = [tuple(host.engine.routable(name)) for host in running]
        equal += max(Counter(answers).values())
        right += answers.count(tuple(sorted(set(nodes))))
    total = len(offered) * len(running)
    return equal / total, right / total
