"""Counters by name: nothing is dropped, refused or retried in silence.

Names are dotted, the reason last: `dropped.datagram.bad_signature`. The set of names is bounded because every name is
written in our own source, never taken from input.
"""

from __future__ import annotations

from collections import defaultdict


class Counters:
    """Monotonic counters of one engine."""

    def __init__(self) -> None:
        self._values: defaultdict[str, int] = defaultdict(int)

    def add(self, name: str, amount: int = 1) -> None:
        """Count `amount` more."""
        self._values[name] += amount

    def add_sized(self, name: str, name_of_bytes: str, size: int) -> None:
        """Count one more thing of `size` bytes."""
        values = self._values
        values[name] += 1
        values[name_of_bytes] += size

    def value(self, name: str) -> int:
        """The count so far."""
        return self._values.get(name, 0)

    def snapshot(self) -> dict[str, int]:
        """All counters, sorted by name."""
        return dict(sorted(self._values.items()))
