"""The timers of one engine: a heap of (time, order, key), cancelled by a dict delete.

Timers live in the core so that they fire in the same order under every driver and can be cancelled without
telling anybody. A key is a frozen struct that names what is due; setting a key again moves it. The first entry of the
heap is always a live one, so that asking for the next deadline, which every driver does after every input, is a look.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from math import inf
from typing import TypeAlias

TimerKey: TypeAlias = Hashable

_REBUILD_AT_LEAST = 64
"""Below this many stale entries a rebuild costs more than it frees."""


class Timers:
    """Deadlines by key. Size: one live entry a key, plus at most as many stale heap entries (then rebuilt)."""

    __slots__ = ("_heap", "_live", "_order", "first")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TimerKey]] = []
        self._live: dict[TimerKey, tuple[float, int, TimerKey]] = {}
        """The entry of the heap that counts, by key; the others of that key are stale."""
        self._order = 0
        self.first = inf
        """When the earliest of them is due; infinity if there is none. Read only."""

    def set(self, key: TimerKey, at: float) -> None:
        """Let `key` fire at `at` (monotonic seconds); an earlier setting of the same key is forgotten."""
        self._order = order = self._order + 1
        heap, live = self._heap, self._live
        former = live.get(key)
        live[key] = entry = (at, order, key)
        heappush(heap, entry)
        if heap[0] is former:
            self._prune()
        self.first = heap[0][0]
        if len(heap) > 2 * len(live) + _REBUILD_AT_LEAST:
            heap[:] = live.values()
            heapify(heap)

    def cancel(self, key: TimerKey) -> bool:
        """Forget `key`; true if it was set."""
        entry = self._live.pop(key, None)
        if entry is None:
            return False
        if self._heap[0] is entry:
            self._prune()
        return True

    def due_at(self, key: TimerKey) -> float | None:
        """When `key` fires, or None."""
        entry = self._live.get(key)
        return entry[0] if entry else None

    def pop_due(self, now: float) -> TimerKey | None:
        """Remove and return the earliest key that is due at `now`; ties fire in the order they were set."""
        if self.first > now:
            return None
        key = heappop(self._heap)[2]
        del self._live[key]
        self._prune()
        return key

    def next_deadline(self) -> float | None:
        """The earliest time at which something is due, or None."""
        return self.first if self._heap else None

    def _prune(self) -> None:
        """Remove stale entries from the front."""
        heap, live = self._heap, self._live
        while heap and live.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        self.first = heap[0][0] if heap else inf

    def __len__(self) -> int:
        return len(self._live)
