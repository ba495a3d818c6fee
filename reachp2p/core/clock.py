"""Wall time for signed validity, derived from the steady clock.

The driver reports what the wall clock says; between reports wall time runs with the steady clock. Nothing but issue
times and validity is ever judged by it.
"""

from __future__ import annotations

STEP_NOTICED = 1.0
"""Seconds of difference between two reports that count as a step of the clock."""


class WallClock:
    """Unix seconds at a given monotonic time."""

    def __init__(self) -> None:
        self._offset: float | None = None

    def report(self, wall: float, now: float) -> float:
        """The wall clock says `wall` at `now`; returns by how many seconds it stepped, 0.0 if not noticeably."""
        offset = wall - now
        step = 0.0 if self._offset is None else offset - self._offset
        self._offset = offset
        return step if abs(step) >= STEP_NOTICED else 0.0

    def exactly_at(self, now: float) -> float:
        """Unix seconds at `now`, for records that only people compare."""
        assert self._offset is not None, "the driver reports the wall clock before anything else"
        return now + self._offset

    def milliseconds(self, now: float) -> int:
        """Whole Unix milliseconds at `now`, never negative."""
        assert self._offset is not None, "the driver reports the wall clock before anything else"
        return max(0, int((now + self._offset) * 1000))

    def at(self, now: float) -> int:
        """Whole Unix seconds at `now`, never negative."""
        assert self._offset is not None, "the driver reports the wall clock before anything else"
        return max(0, int(now + self._offset))
