"""A pool: the instances that can serve one selector, kept in order while the table changes.

Order is that of instance keys, so that a pool is the same whatever the history of its table, and a choice depends on
the pool and the chance given, nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import Any

from reachp2p.core.ids import NodeId
from reachp2p.core.ring.placement import InstanceKey, fingerprint
from reachp2p.core.ring.ring import Ring
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.stages import Selector, Stage, Verdict, judge

_PENDING_MIN = 64
"""A ring that nobody asks collects so many changes, and an eighth of its pool; then it is dropped, to be built anew."""


class Candidates:
    """Instances in key order: `keys` and `items` run in parallel. Policies read them, only pools change them.

    `last_resort`: each of them is avoided by some stage, and asked only because nobody better is left.
    """

    __slots__ = ("items", "keys", "last_resort")

    def __init__(self, keys: list[InstanceKey], items: list[Instance], *, last_resort: bool) -> None:
        self.keys = keys
        self.items = items
        self.last_resort = last_resort

    def get(self, key: InstanceKey) -> Instance | None:
        """The instance named `key`, if it is among them."""
        place = bisect_left(self.keys, key)
        return self.items[place] if place < len(self.keys) and self.keys[place] == key else None

    def put(self, instance: Instance) -> None:
        """Add an instance or put it in the place of its former self."""
        place = bisect_left(self.keys, instance.key)
        if place < len(self.keys) and self.keys[place] == instance.key:
            self.items[place] = instance
        else:
            self.keys.insert(place, instance.key)
            self.items.insert(place, instance)

    def drop(self, key: InstanceKey) -> None:
        """Remove an instance if it is there."""
        place = bisect_left(self.keys, key)
        if place < len(self.keys) and self.keys[place] == key:
            del self.keys[place]
            del self.items[place]

    def without(self, nodes: Collection[NodeId]) -> Candidates:
        """Those on other nodes: a copy (a few µs for 1,000), or itself when `nodes` is empty."""
        if not nodes:
            return self
        keys, items = self.keys.copy(), self.items.copy()
        for node in nodes:
            start = end = bisect_left(keys, (node, ""))
            while end < len(keys) and keys[end][0] == node:
                end += 1
            del keys[start:end]
            del items[start:end]
        return Candidates(keys, items, last_resort=self.last_resort)

    def __len__(self) -> int:
        return len(self.keys)


NOBODY = Candidates([], [], last_resort=True)
"""No candidate; never written to."""


class Pool:
    """The instances for one selector.

    `placed`: all that no stage removes (they make the ring). `preferred`: those that no stage avoids either. `notes` is
    where a policy keeps what it remembers about this pool, under its own name; it lasts as long as the pool is cached.
    """

    __slots__ = ("_pending", "_ring", "_stages", "_virtual_nodes", "notes", "placed", "preferred", "selector")

    def __init__(
        self, selector: Selector, stages: tuple[Stage, ...], virtual_nodes: int, instances: Iterable[Instance]
    ) -> None:
        self.selector = selector
        self.placed = Candidates([], [], last_resort=True)
        self.preferred = Candidates([], [], last_resort=False)
        self.notes: dict[str, Any] = {}
        self._stages = stages
        self._virtual_nodes = virtual_nodes
        self._ring: Ring | None = None
        self._pending: dict[InstanceKey, int | None] = {}
        for instance in sorted(instances, key=lambda instance: instance.key):
            verdict, _ = judge(stages, selector, instance)
            if verdict is not Verdict.REMOVE:
                self.placed.keys.append(instance.key)
                self.placed.items.append(instance)
            if verdict is Verdict.PASS:
                self.preferred.keys.append(instance.key)
                self.preferred.items.append(instance)

    def update(self, key: InstanceKey, instance: Instance | None) -> None:
        """`instance` is what `key` names now; None: it is gone."""
        verdict = Verdict.REMOVE if instance is None else judge(self._stages, self.selector, instance)[0]
        if instance is None or verdict is Verdict.REMOVE:
            self.placed.drop(key)
        else:
            self.placed.put(instance)
        if instance is None or verdict is not Verdict.PASS:
            self.preferred.drop(key)
        else:
            self.preferred.put(instance)
        if self._ring is not None:
            removed = instance is None or verdict is Verdict.REMOVE
            self._pending[key] = None if removed or instance is None else instance.info.weight_percent
            if len(self._pending) > _PENDING_MIN + len(self.placed) // 8:
                self._ring = None
                self._pending.clear()

    def candidates(self, exclude: Collection[NodeId] = ()) -> Candidates:
        """Who may be asked: the preferred, or when there are none left, all that are placed; without `exclude`."""
        preferred = self.preferred.without(exclude)
        return preferred if preferred.keys else self.placed.without(exclude)

    def ring(self) -> Ring:
        """The ring of all placed instances, built when first asked for and brought up to date here."""
        if self._ring is None:
            self._ring = Ring(self._virtual_nodes)
            self._ring.update({instance.key: instance.info.weight_percent for instance in self.placed.items})
        elif self._pending:
            self._ring.update(self._pending)
            self._pending.clear()
        return self._ring

    def fingerprint(self) -> str:
        """The fingerprint of `ring()`, without building it."""
        return fingerprint(
            {instance.key: instance.info.weight_percent for instance in self.placed.items},
            self._virtual_nodes,
        )
