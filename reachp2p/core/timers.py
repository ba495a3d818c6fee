"""The timers of one engine: a heap of (time, order, key), cancelled by a dict delete.

Timers live in the core so that they fire in the same order under every driver and can be cancelled without
telling anybody. A key is a frozen struct that names what is due; setting a key again moves it.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

TimerKey: TypeAlias = Hashable

_REBUILD_AT_LEAST = 64
"""Below this many stale entries a rebuild costs more than it frees."""


class Timers:
    """Deadlines by key. Size: one live entry a key, plus at most as many stale heap entries (then rebuilt)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TimerKey]] = []
        self._live: dict[TimerKey, tuple[float, int]] = {}
        self._order = 0

    def set(self, key: TimerKey, at: float) -> None:
        """Let `key` fire at `at` (monotonic seconds); an earlier setting of the same key is forgotten."""
        self._order += 1
        self._live[key] = (at, self._order)
        heappush(self._heap, (at, self._order, key))
        if len(self._heap) > 2 * len(self._live) + _REBUILD_AT_LEAST:
            self._heap = [(when, order, k) for k, (when, order) in self._live.items()]
            heapify(self._heap)

    def cancel(self, key: TimerKey) -> bool:
        """Forget `key`; true if it was set."""
        return self._live.pop(key, None) is not None

    def due_at(self, key: TimerKey) -> float | None:
        """When `key` fires, or None."""
        entry = self._live.get(key)
        return entry[0] if entry else None

    def pop_due(self, now: float) -> TimerKey | None:
        """Remove and return the earliest key that is due at `now`; ties fire in the order they were set."""
        while self._heap and self._heap[0][0] <= now:
            at, order, key = heappop(self._heap)
            if self._live.get(key) == (at, order):
                del self._live[key]
                return key
        return None

    def next_deadline(self) -> float | None:
        """The earliest time at which something is due, or None."""
        while self._heap:
            at, order, key = self._heap[0]
            if self._live.get(key) == (at, order):
                return at
            heappop(self._heap)
        return None

    def __len__(self) -> int:
        return len(self._live)
