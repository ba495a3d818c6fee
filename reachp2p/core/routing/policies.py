"""The policies that come with reachp2p, and the simple ones among them: by chance, or in turn.

An application adds its own under the entry point group `reachp2p.policies` (docs/protocol/routing.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from reachp2p.core.ids import Rng
from reachp2p.core.routing.hashing import ConsistentHash
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.least_loaded import LeastLoaded
from reachp2p.core.routing.nearest import Nearest
from reachp2p.core.routing.policy import Account, Choice, Policy, PolicyFactory
from reachp2p.core.routing.weighted import WeightedRoundRobin


class RandomPolicy(Policy):
    """Each candidate with the same chance. The number for the next call is drawn when one is used."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._next = rng.random()

    def choose(self, choice: Choice) -> Instance:
        """The candidate on which the number drawn ahead falls."""
        items = choice.candidates.items
        return items[int(self._next * len(items))]

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """Draw the next number."""
        self._next = self._rng.random()

    def account(self, choice: Choice, instance: Instance) -> Account:
        """Equal shares."""
        count = len(choice.candidates)
        because = "drawn at random for the next call" if count > 1 else "the only candidate"
        return Account(because, [1 / count] * count)


class RoundRobin(Policy):
    """The candidate after the last one in key order; who comes and goes shifts nobody's turn.

    It remembers whom it picked, not a number: an index would skip or repeat somebody at every change of the pool. Each
    router starts at a random place, so that many callers do not march in step.
    """

    def __init__(self, rng: Rng) -> None:
        self._start = rng.random()

    def choose(self, choice: Choice) -> Instance:
        """Whose turn it is."""
        candidates = choice.candidates
        last = choice.pool.notes.get("round_robin")
        count = len(candidates.items)
        place = int(self._start * count) if last is None else bisect_right(candidates.keys, last) % count
        return candidates.items[place]

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """Its turn is over."""
        choice.pool.notes["round_robin"] = instance.key

    def account(self, choice: Choice, instance: Instance) -> Account:
        """Equal shares."""
        count = len(choice.candidates)
        return Account("next in turn" if count > 1 else "the only candidate", [1 / count] * count)


class LimitedRandom(Policy):
    """By chance, but nobody who has `in_flight_max` attempts of this node in flight already; then the next one that has
    fewer. When all have, none takes the call (1305).
    """

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._next = rng.random()

    def choose(self, choice: Choice) -> Instance | None:
        """From the place on which the number falls, the first with room; with all of 1,000 full, a tenth of a ms."""
        items, traffic = choice.candidates.items, choice.measures.traffic.entries
        most = choice.query.in_flight_max
        count = len(items)
        place = int(self._next * count)
        for turn in range(count):
            instance = items[(place + turn) % count]
            sent = traffic.get(instance.key)
            if sent is None or sent.in_flight < most:
                return instance
        return None

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """Draw the next number."""
        self._next = self._rng.random()

    def account(self, choice: Choice, instance: Instance) -> Account:
        """Equal shares for those with room."""
        most = choice.query.in_flight_max
        room = [choice.measures.in_flight(key) < most for key in choice.candidates.keys]
        shares = [one / sum(room) for one in room]
        return Account(f"drawn at random among {sum(room)} with fewer than {most} in flight", shares)


BUILT_IN: Mapping[str, PolicyFactory] = {
    "random": RandomPolicy,
    "limited_random": LimitedRandom,
    "round_robin": RoundRobin,
    "weighted_round_robin": WeightedRoundRobin,
    "consistent_hash": ConsistentHash,
    "least_loaded": LeastLoaded,
    "nearest": Nearest,
}
