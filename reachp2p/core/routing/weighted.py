"""Weighted round robin, smoothly: who weighs twice as much has its turn twice as often, and turns do not come in
bursts.

This is stride scheduling (Waldspurger & Weihl 1995): each instance has a virtual time at which its next turn comes, the
earliest is next, and a turn moves it on by its stride, the reciprocal of its weight. Two instances are never further
apart than one turn of each. A heap makes a turn a matter of microseconds among a thousand.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

import msgspec

from reachp2p.core.ids import Rng
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.policy import Account, Choice, Policy
from reachp2p.core.routing.pool import Candidates

_NOTE = "weighted_round_robin"
_GOLDEN = 0.6180339887498949
"""First turns are spread over a stride by multiples of the golden ratio: as even as any number of them can be."""

_STALE_MIN = 64
"""Stale entries of a heap, besides as many as it has others, from which on it is made anew."""


class _Turns(msgspec.Struct):
    """Whose turn comes when, among the candidates of one pool. An entry of `heap` that `at` contradicts is stale."""

    candidates: Candidates
    revision: int
    now: float
    """Virtual time: that of the last turn."""
    at: dict[InstanceKey, float]
    heap: list[tuple[float, InstanceKey]]


class WeightedRoundRobin(Policy):
    """Turns in proportion to weights. Each router starts elsewhere, so that many callers do not march in step."""

    def __init__(self, rng: Rng) -> None:
        self._start = rng.random()

    def choose(self, choice: Choice) -> Instance:
        """Whose turn it is; of those that are left, if some were tried before."""
        turns = self._turns(choice)
        heap, at, get = turns.heap, turns.at, choice.candidates.get
        while heap[0][0] != at[heap[0][1]]:  # it has had a turn out of order, and has another entry since
            heappop(heap)
        instance = get(heap[0][1])
        if instance is not None:
            return instance
        rest = heap.copy()
        while rest:
            time, key = heappop(rest)
            instance = get(key) if time == at[key] else None
            if instance is not None:
                return instance
        return choice.candidates.items[0]  # a last resort after all others were tried has no turn

    def on_picked(self, choice: Choice, instance: Instance) -> None:
        """It waits for its next turn. A turn out of order, in a retry, is one of its own, too."""
        turns = self._turns(choice)
        key, before = instance.key, turns.at.get(instance.key)
        if before is None:
            return
        turns.at[key] = after = before + 100.0 / instance.info.weight_percent
        if turns.heap[0] == (before, key):
            turns.now = before
            heapreplace(turns.heap, (after, key))
        else:
            heappush(turns.heap, (after, key))
            if len(turns.heap) > 2 * len(turns.at) + _STALE_MIN:
                turns.heap = [(time, one) for one, time in turns.at.items()]
                heapify(turns.heap)

    def _turns(self, choice: Choice) -> _Turns:
        """The turns of a pool, worked out anew if its candidates have changed; who comes waits a part of a stride."""
        pool = choice.pool
        candidates = pool.candidates() if choice.tried else choice.candidates
        turns: _Turns | None = pool.notes.get(_NOTE)
        if turns is not None and turns.candidates is candidates and turns.revision == pool.revision:
            return turns
        now = turns.now if turns is not None else 0.0
        known = turns.at if turns is not None else {}
        at: dict[InstanceKey, float] = {}
        for place, instance in enumerate(candidates.items):
            time = known.get(instance.key, -1.0)
            if time < now:
                wait = (self._start + place * _GOLDEN) % 1.0
                time = now + wait * 100.0 / instance.info.weight_percent
            at[instance.key] = time
        heap = [(time, key) for key, time in at.items()]
        heapify(heap)
        turns = pool.notes[_NOTE] = _Turns(candidates, pool.revision, now, at, heap)
        return turns

    def account(self, choice: Choice, instance: Instance) -> Account:
        """Shares by weight."""
        weights = [one.info.weight_percent for one in choice.candidates.items]
        because = "next in turn, by weight" if len(weights) > 1 else "the only candidate"
        return Account(because, [weight / sum(weights) for weight in weights])
