"""Nearest: those in this node's own zone, and of them those with the shortest round trips to expect.

Not the single nearest one, which would get everything: all whose estimate is close to the best one are equally near,
and of two of them, drawn by chance, the less loaded is picked. Who has told no coordinate is as far as the furthest,
unless nobody has: then all of the zone are equally near. Distances are worked out when the pool changes, and every
few seconds.
"""

from __future__ import annotations

from math import inf

import msgspec

from reachp2p.core.ids import NodeId, Rng
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.least_loaded import is_better, two_of
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.policy import Account, Choice, Policy
from reachp2p.core.routing.pool import Candidates

NEAR_FACTOR, NEAR_MARGIN = 1.25, 0.001
"""As near as the best: up to a quarter further, and a millisecond; estimates are no better than that."""
FRESH_FOR = 5.0
"""Seconds after which distances are worked out again: three ms for 1,000 candidates."""
_NOTE = "nearest"


class _Near(msgspec.Struct):
    """The nearest of one list of candidates, as of one time."""

    candidates: Candidates
    revision: int
    at: float
    items: list[Instance]


class Nearest(Policy):
    """One of the nearest."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._first, self._second = rng.random(), rng.random()

    def choose(self, choice: Choice) -> Instance:
        """The less loaded of two of them."""
        one, other = two_of(self._near(choice), self._first, self._second)
        return one if one is other or not is_better(other, one, choice.measures, choice.now) else other

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """Draw the next two numbers."""
        self._first, self._second = self._rng.random(), self._rng.random()

    def _near(self, choice: Choice) -> list[Instance]:
        if choice.tried:
            return nearest(choice.candidates.items, choice.measures)
        pool = choice.pool
        near: _Near | None = pool.notes.get(_NOTE)
        if (
            near is None
            or near.candidates is not choice.candidates
            or near.revision != pool.revision
            or not 0.0 <= choice.now - near.at < FRESH_FOR
        ):
            items = nearest(choice.candidates.items, choice.measures)
            near = pool.notes[_NOTE] = _Near(choice.candidates, pool.revision, choice.now, items)
        return near.items

    def account(self, choice: Choice, instance: Instance) -> Account:
        """Equal shares for the nearest."""
        near = {one.key: None for one in self._near(choice)}
        seconds = choice.measures.round_trip(instance.node)
        where = "in this node's zone" if _is_home(instance, choice.measures) else f"in zone {instance.zone!r}"
        far = "at an unknown distance" if seconds == inf else f"{seconds * 1000:.3g} ms away"
        because = f"one of the {len(near)} nearest, {where}, {far}"
        shares = [(key in near) / len(near) for key in choice.candidates.keys]
        return Account(because, shares)


def nearest(items: list[Instance], measures: Measures) -> list[Instance]:
    """Those of a list that are about as near as its nearest; in its order."""
    home = [instance for instance in items if _is_home(instance, measures)] or items
    away: dict[NodeId, float] = {instance.node: measures.round_trip(instance.node) for instance in home}
    best = min(away.values())
    if best == inf:
        return home
    limit = best * NEAR_FACTOR + NEAR_MARGIN
    return [instance for instance in home if away[instance.node] <= limit]


def _is_home(instance: Instance, measures: Measures) -> bool:
    return bool(measures.zone) and instance.zone == measures.zone
