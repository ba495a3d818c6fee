"""A consistent-hash ring with virtual nodes (Karger et al. 1997; Dynamo §6.2, strategy 1), changed in place.

The ring is a pure function of its instances and weights: the same set gives the same ring whatever the history, because
tokens come from `placement` alone and equal tokens are ordered by instance. Two flat arrays hold it (12 bytes a token,
1.8 MB for 1,000 instances of 150); a change copies the slices between the tokens that come or go, which takes about
half a millisecond at that size, where sorting anew takes a tenth of a second.

With V virtual nodes the share of an instance has a standard deviation of sqrt((1 - 1/n)/V) of its mean: 8 % for 150.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain, islice

from reachp2p.core.ring.placement import InstanceKey, fingerprint, instance_tokens, key_position, token_count

_REBUILD_FRACTION = 0.3
"""Of the tokens: from here on a build costs less than a splice (3 µs a token that moves; 0.9 µs a token of a build)."""
_BUCKET_TOKENS = 128
"""A build deals its tokens into buckets of about this many, each sorted within the cache: half the time of one sort."""


class Ring:
    """Instances on a circle of 2**64 positions. Its size is that of the pool it serves, which the table bounds."""

    def __init__(
        self, virtual_nodes: int, tokens: Callable[[InstanceKey, int], list[int]] = instance_tokens
    ) -> None:
        """`tokens(instance, count)` must be pure and prefix-stable; only tests give another than the default."""
        self._virtual_nodes = virtual_nodes
        self._tokens_of = tokens
        self._weights: dict[InstanceKey, int] = {}
        self._numbers: dict[InstanceKey, int] = {}
        self._keys: list[InstanceKey | None] = []
        self._free: list[int] = []
        self._tokens = array("Q")
        self._owners = array("I")

    # Changes

    def add(self, instance: InstanceKey, weight_percent: int = 100) -> None:
        """Place an instance, or give a placed one another weight."""
        self.update({instance: weight_percent})

    def remove(self, instance: InstanceKey) -> None:
        """Take an instance off the ring; nothing happens if it is not on it."""
        self.update({instance: None})

    def update(self, weights: Mapping[InstanceKey, int | None]) -> None:
        """Apply many changes in one pass: a weight in percent places or changes an instance, None removes it."""
        moves: list[tuple[InstanceKey, int, int]] = []
        gone: list[InstanceKey] = []
        for instance, weight in weights.items():
            old, new = self._count(self._weights.get(instance)), self._count(weight)
            if weight is not None:
                self._weights[instance] = weight
            elif self._weights.pop(instance, None) is not None:
                gone.append(instance)
            if new != old:
                moves.append((instance, old, new))
        moving = sum(abs(new - old) for _, old, new in moves)
        if moving > len(self._tokens) * _REBUILD_FRACTION:
            self._build()
        elif moves:
            self._splice(moves)
            for instance in gone:
                self._release(instance)

    def _count(self, weight: int | None) -> int:
        return 0 if weight is None else token_count(self._virtual_nodes, weight)

    def _build(self) -> None:
        """Sort everything anew. Numbers follow the order of instances, so that equal tokens fall in that order."""
        instances = sorted(self._weights)
        total = sum(self._count(weight) for weight in self._weights.values())
        bits = min(16, max(0, (total // _BUCKET_TOKENS).bit_length()))
        shift = 64 - bits
        buckets: list[list[int]] = [[] for _ in range(1 << bits)]
        for number, instance in enumerate(instances):
            for token in self._tokens_of(instance, self._count(self._weights[instance])):
                buckets[token >> shift].append(token << 32 | number)
        tokens, owners = array("Q"), array("I")
        for bucket in buckets:
            bucket.sort()
            tokens.extend([entry >> 32 for entry in bucket])
            owners.extend([entry & 0xFFFF_FFFF for entry in bucket])
        self._tokens, self._owners = tokens, owners
        self._keys = list(instances)
        self._numbers = {instance: number for number, instance in enumerate(instances)}
        self._free = []

    def _splice(self, moves: list[tuple[InstanceKey, int, int]]) -> None:
        """Copy the arrays once; what lies between the old and the new count of an instance comes or goes."""
        coming: list[tuple[int, InstanceKey]] = []
        going: list[tuple[int, InstanceKey]] = []
        for instance, old, new in moves:
            tokens_of = self._tokens_of(instance, max(old, new))[min(old, new) :]
            (coming if new > old else going).extend([(token, instance) for token in tokens_of])
        edits = self._places_to_insert(sorted(coming)) + self._places_to_drop(sorted(going))
        edits.sort(key=lambda edit: edit[0])  # stable: at one place what comes stands before what goes
        old_tokens, old_owners = self._tokens, self._owners
        tokens, owners = array("Q"), array("I")
        done = 0
        for place, token, number in edits:
            tokens += old_tokens[done:place]
            owners += old_owners[done:place]
            done = place
            if token is None:
                done += 1
            else:
                tokens.append(token)
                owners.append(number)
        tokens += old_tokens[done:]
        owners += old_owners[done:]
        self._tokens, self._owners = tokens, owners

    def _places_to_insert(self, coming: list[tuple[int, InstanceKey]]) -> list[tuple[int, int | None, int]]:
        edits: list[tuple[int, int | None, int]] = []
        place, end = 0, len(self._tokens)
        for token, instance in coming:
            place = bisect_left(self._tokens, token, place)
            while place < end and self._tokens[place] == token and self._key_at(place) < instance:
                place += 1
            edits.append((place, token, self._number(instance)))
        return edits

    def _places_to_drop(self, going: list[tuple[int, InstanceKey]]) -> list[tuple[int, int | None, int]]:
        edits: list[tuple[int, int | None, int]] = []
        start = 0
        for token, instance in going:
            place = bisect_left(self._tokens, token, start)
            number = self._numbers[instance]
            while self._owners[place] != number:
                place += 1
            assert self._tokens[place] == token, "a token of a placed instance is on the ring"
            edits.append((place, None, number))
            start = place + 1
        return edits

    def _number(self, instance: InstanceKey) -> int:
        number = self._numbers.get(instance)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._keys[number] = instance
            else:
                number = len(self._keys)
                self._keys.append(instance)
            self._numbers[instance] = number
        return number

    def _release(self, instance: InstanceKey) -> None:
        number = self._numbers.pop(instance)
        self._keys[number] = None
        self._free.append(number)

    def _key_at(self, place: int) -> InstanceKey:
        key = self._keys[self._owners[place]]
        assert key is not None, "a number in use names an instance"
        return key

    # Questions

    def successors(self, key: str) -> Iterator[InstanceKey]:
        """The instances in the order of the circle from `key` on, each once. Change nothing meanwhile."""
        start = bisect_left(self._tokens, key_position(key))
        owners, total = self._owners, len(self._numbers)
        seen: set[int] = set()
        for place in chain(range(start, len(owners)), range(start)):
            number = owners[place]
            if number not in seen:
                seen.add(number)
                yield self._key_at(place)
                if len(seen) == total:
                    return

    def owner(self, key: str) -> InstanceKey | None:
        """The first instance for a key, or None on an empty ring: the first of `successors`, in half the time."""
        if not self._weights:
            return None
        place = bisect_left(self._tokens, key_position(key))
        return self._key_at(place if place < len(self._tokens) else 0)

    def preference_list(self, key: str, count: int) -> list[InstanceKey]:
        """The first `count` distinct instances for a key (all of them if there are fewer)."""
        return list(islice(self.successors(key), count))

    def shares(self, among: Collection[InstanceKey] | None = None) -> dict[InstanceKey, float]:
        """The part of all keys that each instance owns, when only those `among` can be asked (default: all).

        One pass over the tokens (tens of milliseconds for 1,000 instances): for people, not for a call.
        """
        wanted = self._weights if among is None else among
        shares = {instance: 0 for instance in sorted(wanted) if instance in self._numbers}
        by_number = {self._numbers[instance]: 0 for instance in shares}
        last = next((t for t, number in self._backwards() if number in by_number), 0)
        before = last - 2**64
        for token, number in zip(self._tokens, self._owners, strict=True):
            if number in by_number:
                by_number[number] += token - before
                before = token
        return {instance: by_number[self._numbers[instance]] / 2**64 for instance in shares}

    def _backwards(self) -> Iterator[tuple[int, int]]:
        return zip(reversed(self._tokens), reversed(self._owners), strict=True)

    def entries(self) -> list[tuple[int, InstanceKey]]:
        """All (token, instance) in the order of the circle: equal lists, equal rings."""
        return [(token, self._key_at(place)) for place, token in enumerate(self._tokens)]

    @property
    def weights(self) -> Mapping[InstanceKey, int]:
        """The instances and their weights in percent: what decides the ring."""
        return self._weights

    def fingerprint(self) -> str:
        """See `placement.fingerprint`."""
        return fingerprint(self._weights, self._virtual_nodes)

    def __contains__(self, instance: InstanceKey) -> bool:
        return instance in self._weights

    def __len__(self) -> int:
        return len(self._weights)
