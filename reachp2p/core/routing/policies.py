"""Policies: which of the candidates a call goes to. One small protocol, so that more can be added beside these.

A policy decides in two steps. `choose` is a pure function of the choice and of what the policy has remembered;
`on_picked` remembers. So an explanation can ask `choose` what the next call would get and change nothing: even chance
is drawn ahead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeAlias

import msgspec

from reachp2p.core.commands import RouteQuery
from reachp2p.core.ids import NodeId, Rng
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.pool import Candidates, Pool

NOTHING_MEASURED = Measures()


class Choice(msgspec.Struct, frozen=True):
    """What a policy sees: the query, its pool, who is left after all stages and earlier attempts (never empty), the
    time, and what this node has measured.
    """

    query: RouteQuery
    pool: Pool
    candidates: Candidates
    now: float = 0.0
    measures: Measures = NOTHING_MEASURED
    tried: Collection[NodeId] = ()
    """Nodes that were asked before."""


class Account(msgspec.Struct, frozen=True):
    """A policy's account of a choice: why this instance; each candidate's expected share; places in a preference list.

    `shares` runs in parallel to the candidates and sums to 1. `positions` counts from 1, over all that are placed.
    """

    because: str
    shares: list[float]
    positions: dict[InstanceKey, int] = {}


class Policy(Protocol):
    """Chooses one candidate. Built once for a router, with its random numbers; only `choose` must be written."""

    def missing(self, query: RouteQuery) -> str | None:
        """What a query lacks for this policy, in words, or None (1704 otherwise)."""
        return None

    def choose(self, choice: Choice) -> Instance | None:
        """One of the candidates, or None when none may take a call now (1305). Changes nothing."""

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """The call goes to `instance`: remember it, draw the next number."""

    def on_started(self, choice: Choice, instance: Instance) -> None:
        """The attempt that a pick has led to begins."""

    def on_ended(self, choice: Choice, instance: Instance) -> None:
        """It has ended, in whatever way; once for each `on_started`."""

    def account(self, choice: Choice, instance: Instance) -> Account:
        """Why `choose` gives `instance`. For people: may take its time."""
        count = len(choice.candidates)
        return Account(f"chosen from {count}", [1 / count] * count)


PolicyFactory: TypeAlias = Callable[[Rng], Policy]


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


class ConsistentHash(Policy):
    """The owner of the routing key on the pool's ring, or the next in its preference list that is a candidate."""

    def __init__(self, rng: Rng) -> None:
        """Leaves nothing to chance; the parameter is that of every policy."""

    def missing(self, query: RouteQuery) -> str | None:
        """A key."""
        return None if query.key is not None else "a routing key (key=…)"

    def choose(self, choice: Choice) -> Instance | None:
        """Walks the ring from the key until it meets a candidate; usually the owner is one."""
        ring, get = choice.pool.ring(), choice.candidates.get
        routing_key = _key(choice)
        owner = ring.owner(routing_key)
        if choice.query.strict:
            return _strictly(choice, owner)
        instance = get(owner) if owner is not None else None
        if instance is not None:
            return instance
        for key in ring.successors(routing_key):
            instance = get(key)
            if instance is not None:
                return instance
        raise AssertionError("every candidate is on the ring")

    def account(self, choice: Choice, instance: Instance) -> Account:
        """Places in the preference list, and the part of all keys that each candidate would get now."""
        ring = choice.pool.ring()
        order = ring.preference_list(_key(choice), len(ring))
        positions = {key: place for place, key in enumerate(order, 1)}
        shares = ring.shares(choice.candidates.keys)
        place = positions[instance.key]
        because = f"owns key {choice.query.key!r}"
        if place > 1:
            because = f"number {place} in the preference list of key {choice.query.key!r}, those before it are skipped"
        return Account(because, [shares[key] for key in choice.candidates.keys], positions)


def _strictly(choice: Choice, owner: InstanceKey | None) -> Instance | None:
    """The owner, avoided or not, unless it was tried before or has too much to do."""
    if owner is None or owner[0] in choice.tried or choice.pool.is_withheld(owner):
        return None
    return choice.pool.placed.get(owner)


def _key(choice: Choice) -> str:
    assert choice.query.key is not None, "the router refuses a query that lacks what its policy needs"
    return choice.query.key


BUILT_IN: Mapping[str, PolicyFactory] = {
    "random": RandomPolicy,
    "round_robin": RoundRobin,
    "consistent_hash": ConsistentHash,
}
