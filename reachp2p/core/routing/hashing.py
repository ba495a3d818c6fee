"""Consistent hashing with bounded loads (Karger et al. 1997; Mirrokni, Thorup, Zadimoghaddam 2018).

A key goes to its owner on the pool's ring, or to the next in its preference list that is a candidate and has room: no
instance gets more than `BOUND_FACTOR` times its part, by weight, of the keyed attempts that this node has in flight
in the pool, so that a hot key cannot bury its owner. A few are always allowed (`BOUND_FROM`): two calls at once for
one key are no hot key, and should find the same instance.
"""

from __future__ import annotations

from math import ceil

import msgspec

from reachp2p.core.commands import RouteQuery
from reachp2p.core.ids import Rng
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.policy import Account, Choice, Policy
from reachp2p.core.routing.pool import Candidates

BOUND_FACTOR = 1.25
"""c: with 150 virtual nodes no key is forwarded at even load, and 2.1 % of keys move where 2.0 % must."""
BOUND_FROM = 8
"""Attempts in flight that an instance may have whatever its part is."""
_NOTE = "consistent_hash"


def bound(in_flight: int, weight: int, weights: int) -> int:
    """Attempts that an instance of this weight, out of all `weights`, may have when there are `in_flight`, the one to
    be placed included."""
    return max(BOUND_FROM, ceil(BOUND_FACTOR * in_flight * weight / weights))


class _Sent(msgspec.Struct):
    """Keyed attempts in flight of one pool, and the weight of its candidates."""

    total: int = 0
    by_key: dict[InstanceKey, int] = {}
    weights: int = 0
    weighed: tuple[int, int] = (-1, 0)
    """Of which revision of the pool, and of which list of candidates, `weights` is."""

    def weigh(self, revision: int, candidates: Candidates) -> int:
        """The sum of the weights of all candidates; added up when they have changed."""
        if self.weighed != (revision, id(candidates)):
            self.weights = sum(instance.info.weight_percent for instance in candidates.items)
            self.weighed = (revision, id(candidates))
        return self.weights


class ConsistentHash(Policy):
    """The owner of the routing key on the pool's ring, or the next in its preference list that is a candidate."""

    def __init__(self, rng: Rng) -> None:
        """Leaves nothing to chance; the parameter is that of every policy."""

    def missing(self, query: RouteQuery) -> str | None:
        """A key."""
        return None if query.key is not None else "a routing key (key=…)"

    def choose(self, choice: Choice) -> Instance | None:
        """Walks the ring from the key until it meets a candidate with room; usually the owner is one."""
        ring, get = choice.pool.ring(), choice.candidates.get
        routing_key = _key(choice)
        owner = ring.owner(routing_key)
        if choice.query.strict:
            return _strictly(choice, owner)
        instance = get(owner) if owner is not None else None
        sent: _Sent | None = choice.pool.notes.get(_NOTE)
        if (
            sent is None or sent.total < BOUND_FROM or choice.tried
        ):  # nobody is bounded; a retry takes who is next
            if instance is not None:
                return instance
            sent = None
        elif instance is not None and _has_room(choice, sent, instance):
            return instance
        for key in ring.successors(routing_key):
            instance = get(key)
            if instance is not None and (sent is None or _has_room(choice, sent, instance)):
                return instance
        raise AssertionError("every candidate is on the ring, and all together have more room than is needed")

    def on_started(self, choice: Choice, instance: Instance) -> None:
        """One more is in flight."""
        sent: _Sent | None = choice.pool.notes.get(_NOTE)
        if sent is None:
            sent = choice.pool.notes[_NOTE] = _Sent()
        sent.total += 1
        sent.by_key[instance.key] = sent.by_key.get(instance.key, 0) + 1

    def on_ended(self, choice: Choice, instance: Instance) -> None:
        """One less."""
        sent: _Sent = choice.pool.notes[_NOTE]
        sent.total -= 1
        left = sent.by_key[instance.key] - 1
        if left:
            sent.by_key[instance.key] = left
        else:
            del sent.by_key[instance.key]

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
            if any(choice.candidates.get(key) is not None for key in order[: place - 1]):
                because += " or have their part of the load"
        return Account(because, [shares[key] for key in choice.candidates.keys], positions)


def _has_room(choice: Choice, sent: _Sent, instance: Instance) -> bool:
    has = sent.by_key.get(instance.key, 0)
    if has < BOUND_FROM:
        return True
    weights = sent.weigh(choice.pool.revision, choice.candidates)
    return has < bound(sent.total + 1, instance.info.weight_percent, weights)


def _strictly(choice: Choice, owner: InstanceKey | None) -> Instance | None:
    """The owner, avoided or not, unless it was tried before or has too much to do."""
    if owner is None or owner[0] in choice.tried or choice.pool.is_withheld(owner):
        return None
    return choice.pool.placed.get(owner)


def _key(choice: Choice) -> str:
    assert choice.query.key is not None, "the router refuses a query that lacks what its policy needs"
    return choice.query.key
