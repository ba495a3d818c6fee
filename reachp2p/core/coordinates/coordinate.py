"""Network coordinates: a place for each node such that distances between places estimate round trips.

A coordinate is a point, a height above it for the access link (Dabek et al. 2004, §5.4), an adjustment for what the
space cannot express (Lee et al. 2010) and the error its owner ascribes to it. All but the error are in seconds. It
comes from another node, so nothing is believed before `fault` has looked at it.
"""

from __future__ import annotations

from math import dist, isfinite

import msgspec

DIMENSIONS = 8
"""Of the point (Serf; more than seven gain nothing on the Internet, Ledlie et al. 2007)."""
ERROR_MAX = 1.5
"""A relative error: what a node begins with, and the most it admits (Serf)."""
HEIGHT_MIN = 10e-6
"""Seconds; a height must stay above 0, and far below a round trip (Serf)."""
PLACE_MAX = 10.0
"""Seconds, of each number: no round trip that we would use is longer (Serf refuses those above 10 s)."""
TOUCHING = 1e-6
"""Seconds; points closer than this lie on one another and have no direction (Serf)."""


class Coordinate(msgspec.Struct, frozen=True, array_like=True):
    """Where a node says that it is. `error` is relative, the rest seconds."""

    point: tuple[float, ...] = (0.0,) * DIMENSIONS
    error: float = ERROR_MAX
    adjustment: float = 0.0
    height: float = HEIGHT_MIN

    def fault(self, dimensions: int = DIMENSIONS) -> str | None:
        """Why this cannot be a coordinate, in one word for a counter, or None: another node may send anything."""
        if len(self.point) != dimensions:
            return "dimensions"
        numbers = (*self.point, self.adjustment, self.height, self.error)
        if not all(isinstance(number, float) and isfinite(number) for number in numbers):
            return "not_finite"
        if any(abs(number) > PLACE_MAX for number in numbers):
            return "too_far"
        if not 0.0 <= self.error <= ERROR_MAX:
            return "error"
        if self.height < HEIGHT_MIN:
            return "height"
        return None


def raw_distance(left: Coordinate, right: Coordinate) -> float:
    """Seconds between two points and over their heights, without adjustments."""
    return dist(left.point, right.point) + left.height + right.height


def distance(left: Coordinate, right: Coordinate) -> float:
    """The estimated round trip in seconds, above 0. Both must be without `fault`."""
    raw = raw_distance(left, right)
    adjusted = raw + left.adjustment + right.adjustment
    return adjusted if adjusted > 0.0 else raw
