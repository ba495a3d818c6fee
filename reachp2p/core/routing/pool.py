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
from reachp2p.core.routing.release import CANDIDATE, PERCENT_DEFAULT
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


EJECTED_PART = 10
"""At most one of so many of a pool is ejected, and one at least (Envoy's outlier detection ejects as many)."""


def ejected_max(sound: int) -> int:
    """How many of `sound` instances, those that nothing else speaks against, may be ejected: never the last."""
    return min(max(1, sound // EJECTED_PART), sound - 1) if sound else 0


class Pool:
    """The instances for one selector.

    `placed`: all that no stage removes (they make the ring). `preferred`: those that are asked as long as there are
    any; then come the `busy`, whom nobody doubts, and in the end all that are not withheld. `notes` is where a policy
    keeps what it remembers about this pool, under its own name; it lasts as long as the pool is cached. `revision`
    grows with every change. `split`: the percentage that its release candidates announce; None if there is nothing to
    split.
    """

    __slots__ = (
        "_ejected",
        "_in_line",
        "_pending",
        "_resort",
        "_ring",
        "_shares",
        "_stages",
        "_virtual_nodes",
        "_withheld",
        "busy",
        "has_candidates",
        "notes",
        "placed",
        "preferred",
        "revision",
        "selector",
        "split",
    )

    def __init__(
        self, selector: Selector, stages: tuple[Stage, ...], virtual_nodes: int, instances: Iterable[Instance]
    ) -> None:
        self.selector = selector
        self.placed = Candidates([], [], last_resort=True)
        self.preferred = Candidates([], [], last_resort=False)
        self.busy = Candidates([], [], last_resort=True)
        self.notes: dict[str, Any] = {}
        self.revision = 0
        self.split: int | None = None
        self.has_candidates = False
        """Whether a release candidate is placed."""
        self._stages = stages
        self._virtual_nodes = virtual_nodes
        self._ring: Ring | None = None
        self._pending: dict[InstanceKey, int | None] = {}
        self._shares: dict[InstanceKey, int] = {}
        """What the release candidates that are placed announce, in percent."""
        self._withheld: dict[InstanceKey, None] = {}
        self._resort: Candidates | None = None
        """Whom to ask when nobody is preferred, if that is not all that are placed; made when needed."""
        self._ejected: dict[InstanceKey, Instance] = {}
        """Skipped for an open breaker, the longest first."""
        self._in_line: dict[InstanceKey, Instance] = {}
        """They should be, and are preferred all the same: enough are."""
        for instance in sorted(instances, key=lambda instance: instance.key):
            verdict, _ = judge(stages, selector, instance)
            if verdict is not Verdict.REMOVE:
                self.placed.keys.append(instance.key)
                self.placed.items.append(instance)
                self._note_release(instance.key, instance)
            if verdict <= Verdict.EJECT:
                self.preferred.keys.append(instance.key)
                self.preferred.items.append(instance)
            if verdict is Verdict.EJECT:
                self._in_line[instance.key] = instance
            elif verdict is Verdict.BUSY:
                self.busy.keys.append(instance.key)
                self.busy.items.append(instance)
            elif verdict is Verdict.WITHHOLD:
                self._withheld[instance.key] = None
        if self._in_line:
            self._balance()
        if self._shares:
            self._set_split()

    def update(self, key: InstanceKey, instance: Instance | None) -> None:
        """`instance` is what `key` names now; None: it is gone."""
        verdict = Verdict.REMOVE if instance is None else judge(self._stages, self.selector, instance)[0]
        self.revision += 1
        self._resort = None
        if instance is None or verdict is Verdict.REMOVE:
            self.placed.drop(key)
            self._shares.pop(key, None)
        else:
            self.placed.put(instance)
            self._note_release(key, instance)
        if self._shares or self.has_candidates:
            self._set_split()
        if instance is not None and verdict is Verdict.BUSY:
            self.busy.put(instance)
        elif self.busy.keys:
            self.busy.drop(key)
        if verdict is Verdict.WITHHOLD:
            self._withheld[key] = None
        elif self._withheld:
            self._withheld.pop(key, None)
        if instance is not None and verdict is Verdict.EJECT:
            if key in self._ejected:
                self._ejected[key] = instance
            else:
                self._in_line[key] = instance
                self.preferred.put(instance)
        else:
            if self._ejected or self._in_line:
                self._ejected.pop(key, None)
                self._in_line.pop(key, None)
            if instance is not None and verdict is Verdict.PASS:
                self.preferred.put(instance)
            else:
                self.preferred.drop(key)
        if self._ejected or self._in_line:
            self._balance()
        if self._ring is not None:
            removed = instance is None or verdict is Verdict.REMOVE
            self._pending[key] = None if removed or instance is None else instance.info.weight_percent
            if len(self._pending) > _PENDING_MIN + len(self.placed) // 8:
                self._ring = None
                self._pending.clear()

    def _note_release(self, key: InstanceKey, instance: Instance) -> None:
        if instance.info.side == CANDIDATE:
            announced = instance.info.candidate_percent
            self._shares[key] = PERCENT_DEFAULT if announced is None else announced
        elif self._shares:
            self._shares.pop(key, None)

    def _set_split(self) -> None:
        """The smallest share that a candidate announces. Where all are candidates, only 0 % still says something."""
        share = min(self._shares.values(), default=None)
        self.has_candidates = share is not None
        self.split = None if share and len(self._shares) == len(self.placed) else share

    def _balance(self) -> None:
        """Eject as many as may be, of those that should be."""
        limit = ejected_max(len(self.preferred) + len(self._ejected))
        while len(self._ejected) > limit:
            key, instance = self._ejected.popitem()
            self._in_line[key] = instance
            self.preferred.put(instance)
        while self._in_line and len(self._ejected) < limit:
            key = next(iter(self._in_line))
            self._ejected[key] = self._in_line.pop(key)
            self.preferred.drop(key)

    def is_withheld(self, key: InstanceKey) -> bool:
        """Whether an instance may not be asked now, not even as a last resort."""
        return key in self._withheld

    @property
    def ejected(self) -> Collection[InstanceKey]:
        """Those that are skipped for an open breaker."""
        return self._ejected.keys()

    def candidates(self, exclude: Collection[NodeId] = ()) -> Candidates:
        """Who may be asked: the preferred, or when there are none left, the busy, or all that are not withheld; without
        `exclude`."""
        preferred = self.preferred.without(exclude)
        if preferred.keys:
            return preferred
        busy = self.busy.without(exclude)
        return busy if busy.keys else self._last_resort().without(exclude)

    def _last_resort(self) -> Candidates:
        if not self._withheld:
            return self.placed
        if self._resort is None:
            items = [instance for instance in self.placed.items if instance.key not in self._withheld]
            self._resort = Candidates([instance.key for instance in items], items, last_resort=True)
        return self._resort

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
