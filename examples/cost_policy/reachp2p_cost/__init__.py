"""A routing policy of one's own: the cheapest instances first, dearer ones when those are busy.

Agents say what they cost with a tag, `cost_tier="low"`, `"medium"` or `"high"`. A call goes to one of the cheapest that
have fewer than `in_flight_max` calls of this node in flight; when all are busy, it is refused (1305).
"""

from __future__ import annotations

from reachp2p.core.ids import Rng
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.policy import Account, Choice, Policy

TIERS = {"low": 0, "medium": 1, "high": 2}
UNKNOWN = 3
"""Who does not say what it costs is asked last."""


class Cheapest(Policy):
    """Of the cheapest with room, one by chance."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._next = rng.random()

    def choose(self, choice: Choice) -> Instance | None:
        """Looks, and changes nothing: an explanation asks the same question."""
        able = cheapest_with_room(choice)
        return able[int(self._next * len(able))] if able else None

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """The number for the next call is drawn when one is used."""
        self._next = self._rng.random()

    def account(self, choice: Choice, instance: Instance) -> Account:
        """What `reachp2p route explain` says."""
        able = {one.key: None for one in cheapest_with_room(choice)}
        tier = instance.info.tags.get("cost_tier", "unknown")
        shares = [(key in able) / len(able) for key in choice.candidates.keys]
        return Account(f"one of {len(able)} with room in the cheapest tier, {tier}", shares)


def cheapest_with_room(choice: Choice) -> list[Instance]:
    """The candidates of the lowest tier in which somebody has room."""
    most = choice.query.in_flight_max
    tiers: dict[int, list[Instance]] = {}
    for instance in choice.candidates.items:
        if choice.measures.in_flight(instance.key) < most:
            tier = TIERS.get(instance.info.tags.get("cost_tier", ""), UNKNOWN)
            tiers.setdefault(tier, []).append(instance)
    return tiers[min(tiers)] if tiers else []
