"""Local health: a node that is slow doubts itself before others (Lifeguard §IV.A, arXiv 1707.00788).

A saturating counter 0…S multiplies our own probe interval and time-outs by (value + 1). A successful probe lowers it;
a failed probe, each missing nack, refuting a suspicion about ourselves, and being late raise it.
"""

from __future__ import annotations


class LocalHealth:
    """Lifeguard's local health multiplier; 0 is healthy, `health_max` the worst."""

    def __init__(self, health_max: int) -> None:
        self._max = health_max
        self.value = 0

    def better(self) -> None:
        """A probe was answered in time."""
        self.value = max(0, self.value - 1)

    def worse(self, by: int = 1) -> None:
        """We may be the slow one."""
        self.value = min(self._max, self.value + by)

    @property
    def multiplier(self) -> int:
        """Factor of our own interval and time-outs, 1 to `health_max` + 1."""
        return self.value + 1
