"""Series of numbers over time that cannot grow without limit: old detail is given up, nothing is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

POINTS_MAX = 1_200
SPACING_FIRST = 0.05
"""Seconds between two points at first; doubled whenever there are too many."""


@dataclass(slots=True)
class Point:
    """What was true from `at` until the next point: at the worst moment in it, and at its end."""

    at: float
    worst: tuple[int, ...]
    last: tuple[int, ...]


@dataclass(slots=True)
class StateSeries:
    """How many observers hold a subject (ALIVE, SUSPECT, DEAD, LEFT), as steps.

    Changes that lie closer together than `spacing` share a point, which keeps the worst of them (the most SUSPECT and
    DEAD) and the last. With more than `POINTS_MAX` points the spacing doubles and neighbours are put together, so a
    short suspicion is seen however long the run was.
    """

    points: list[Point] = field(default_factory=list)
    spacing: float = SPACING_FIRST

    def note(self, at: float, counts: Sequence[int]) -> None:
        """From now on these counts are true."""
        value = tuple(counts)
        point = self.points[-1] if self.points else None
        if point is not None and at - point.at < self.spacing:
            point.last = value
            if _trouble(value) > _trouble(point.worst):
                point.worst = value
            return
        if point is not None and point.last == value:
            return
        self.points.append(Point(at, value, value))
        if len(self.points) > POINTS_MAX:
            self._thin()

    def _thin(self) -> None:
        self.spacing *= 2
        kept: list[Point] = []
        for point in self.points:
            if kept and point.at - kept[-1].at < self.spacing:
                kept[-1].last = point.last
                if _trouble(point.worst) > _trouble(kept[-1].worst):
                    kept[-1].worst = point.worst
            else:
                kept.append(point)
        self.points = kept


def _trouble(counts: tuple[int, ...]) -> int:
    return counts[1] + 2 * counts[2] if len(counts) > 2 else 0


@dataclass(slots=True)
class Samples:
    """Rows of numbers taken at a steady interval. At `POINTS_MAX` rows every second one is dropped."""

    names: tuple[str, ...]
    rows: list[tuple[float, ...]] = field(default_factory=list)
    """The time in seconds, then a value for each name."""
    skip: int = 1
    _seen: int = 0

    def add(self, at: float, *values: float) -> None:
        """One more row, unless the interval has grown and this one lies between."""
        self._seen += 1
        if (self._seen - 1) % self.skip:
            return
        self.rows.append((at, *values))
        if len(self.rows) > POINTS_MAX:
            self.rows = self.rows[::2]
            self.skip *= 2
