"""The retry budget: second attempts may be a part of the first ones, so that retries never become the load.

Finagle's shape: each request puts a credit of 20 % of a retry in, each retry takes a whole one out, both are
forgotten after 10 s, and 10 retries a second are free, so that a quiet caller may retry, too. So in any 10 s there
are at most 20 % of the requests of those 10 s, and 100 more.
"""

from __future__ import annotations

PERCENT = 20
FREE_PER_SECOND = 10
CREDIT_SECONDS = 10
"""How long a credit lives (Finagle's defaults, all three)."""
_RETRY = 100
"""A retry, in the hundredths that credits are counted in: integers, so that sums are exact."""


class RetryBudget:
    """The budget of one node, over all its calls. Ten slots of a second each, whatever the rate."""

    def __init__(
        self,
        percent: int = PERCENT,
        free_per_second: int = FREE_PER_SECOND,
        credit_seconds: int = CREDIT_SECONDS,
    ) -> None:
        self._percent = percent
        self._reserve = free_per_second * credit_seconds * _RETRY
        self._slots = [0] * credit_seconds
        self._slot = 0
        """The slot that is written now, by its number since time began."""
        self._balance = self._reserve

    def on_request(self, now: float) -> None:
        """A call begins."""
        self._roll(now)
        self._slots[self._slot % len(self._slots)] += self._percent
        self._balance += self._percent

    def take(self, now: float) -> bool:
        """Take what one retry costs; false, and nothing is taken, if too little is left."""
        self._roll(now)
        if self._balance < _RETRY:
            return False
        self._slots[self._slot % len(self._slots)] -= _RETRY
        self._balance -= _RETRY
        return True

    def left(self, now: float) -> int:
        """Retries that could be made at once."""
        self._roll(now)
        return max(0, self._balance // _RETRY)

    def _roll(self, now: float) -> None:
        slot = int(now // 1.0)
        if slot <= self._slot:
            return
        count = len(self._slots)
        for passed in range(min(count, slot - self._slot)):
            place = (slot - passed) % count
            self._balance -= self._slots[place]
            self._slots[place] = 0
        self._slot = slot
