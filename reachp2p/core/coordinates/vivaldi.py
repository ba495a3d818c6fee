"""Keeps this node's own coordinate true to the round trips that it measures: Vivaldi (Dabek et al. 2004) as in Serf.

Each observation pulls our point towards the other one or pushes it away, like a spring whose rest length is the round
trip; who is less sure moves more. Round trips pass a short median filter first; the sum of recent misses becomes the
adjustment (Lee et al. 2010); a weak pull towards the origin keeps the whole cloud from drifting (Ledlie et al. 2007).
Two departures, in `_is_implausible` and `_forced`: lies are outliers, and heights do not run away.

Probes bring round trips and coordinates, and nearest-first routing asks for distances (`routing.places`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from math import hypot, isfinite, sqrt

from reachp2p.core.coordinates.coordinate import (
    DIMENSIONS,
    ERROR_MAX,
    HEIGHT_MIN,
    TOUCHING,
    Coordinate,
    distance,
    raw_distance,
)
from reachp2p.core.ids import NodeId, Rng

ERROR_SHARE = 0.25
"""c_e: the most that one observation changes our error (Dabek et al. §3.4; Serf)."""
FORCE_SHARE = 0.25
"""c_c: the most of a miss that one observation moves us (ibid.)."""
FORCE_MAX = 0.1
"""Seconds that one observation moves us at most."""
ADJUSTMENT_WINDOW = 20
"""Observations whose misses make the adjustment (Serf)."""
LATENCY_WINDOW = 3
"""Round trips to one node whose median counts (Serf; Ledlie et al. §4.2 want at least 3)."""
LATENCIES_MAX = 16_384
"""Nodes with remembered round trips, as many as a view may have members; then the one heard longest ago is dropped."""
OUTLIER_WINDOW = 20
"""Observations among whose misses an outlier stands out."""
OUTLIER_AFTER = 5
"""Observations before the first that can be an outlier."""
OUTLIER_FACTOR = 4.0
"""Times the median miss: 2.7 standard deviations of a normal one, which one honest observation in 150 exceeds."""
OUTLIER_PART = 0.5
"""And this part of what was expected or measured: small misses among tiny ones are no lies."""
GRAVITY_RHO = 150.0
"""Seconds; the pull towards the origin is (distance / ρ)², so that it never matters beside an observation (Serf)."""
ROUND_TRIP_MAX = 10.0
"""Seconds (Serf)."""
TOUCHING_SHARE = 0.1
"""Of the force, in a direction by chance, where two points lie on one another: enough to part them."""


class Vivaldi:
    """This node's coordinate. `observe` is the only input."""

    def __init__(self, rng: Rng, dimensions: int = DIMENSIONS) -> None:
        """`rng` gives a direction to leave a place that two nodes share, as all do at first."""
        self._rng = rng
        self._dimensions = dimensions
        self._origin = Coordinate((0.0,) * dimensions)
        self._latencies: dict[NodeId, deque[float]] = {}
        self._misses: deque[float] = deque(maxlen=ADJUSTMENT_WINDOW)
        self._recent: deque[float] = deque(maxlen=OUTLIER_WINDOW)
        self.coordinate = self._origin
        """Where we say that we are."""
        self.evicted = 0
        """Nodes whose round trips were dropped for others'."""

    def observe(self, node: NodeId, theirs: Coordinate, round_trip: float) -> str | None:
        """Learn from one round trip, in seconds, to a node with this coordinate.

        Returns None, or in one word why nothing was learnt: `dimensions`, `not_finite`, `too_far`, `error` and `height`
        name what was wrong with the coordinate, `round_trip` a time that cannot be one, and `implausible` says that
        the two do not go together.
        """
        fault = theirs.fault(self._dimensions)
        if fault is not None:
            return fault
        if not (isfinite(round_trip) and 0.0 < round_trip <= ROUND_TRIP_MAX):
            return "round_trip"
        filtered = max(self._filter(node, round_trip), TOUCHING)
        if self._is_implausible(theirs, filtered):
            return "implausible"
        moved = self._sprung(theirs, filtered)
        moved = self._adjusted(moved, theirs, filtered)
        moved = self._pulled(moved)
        if moved.fault(self._dimensions) is not None:  # pushed out of all bounds: begin anew
            self._misses.clear()
            moved = self._origin
        self.coordinate = moved
        return None

    def forget(self, node: NodeId) -> None:
        """The node is no member any more."""
        self._latencies.pop(node, None)

    def estimate(self, theirs: Coordinate) -> float | None:
        """The round trip to expect, in seconds; None if theirs is no coordinate."""
        return None if theirs.fault(self._dimensions) is not None else distance(self.coordinate, theirs)

    def _is_implausible(self, theirs: Coordinate, round_trip: float) -> bool:
        """Whether this misses by far more than others do. What is turned away still counts: if most observations miss,
        it is we who are in the wrong place, or the network has changed."""
        estimate = distance(self.coordinate, theirs)
        miss = abs(estimate - round_trip)
        usual = median(self._recent) if len(self._recent) >= OUTLIER_AFTER else None
        self._recent.append(miss)
        if usual is None:
            return False
        return miss > OUTLIER_FACTOR * usual and miss > OUTLIER_PART * max(estimate, round_trip)

    def _filter(self, node: NodeId, round_trip: float) -> float:
        latencies = self._latencies.pop(node, None)
        if latencies is None:
            latencies = deque(maxlen=LATENCY_WINDOW)
            if len(self._latencies) >= LATENCIES_MAX:
                del self._latencies[next(iter(self._latencies))]
                self.evicted += 1
        self._latencies[node] = latencies
        latencies.append(round_trip)
        return median(latencies)

    def _sprung(self, theirs: Coordinate, round_trip: float) -> Coordinate:
        ours = self.coordinate
        estimate = distance(ours, theirs)
        miss = abs(estimate - round_trip) / round_trip
        weight = ours.error / max(ours.error + theirs.error, TOUCHING)
        error = min(ERROR_MAX, miss * ERROR_SHARE * weight + ours.error * (1.0 - ERROR_SHARE * weight))
        force = FORCE_SHARE * weight * (round_trip - estimate)
        force = max(-FORCE_MAX, min(FORCE_MAX, force))
        return self._forced(Coordinate(ours.point, error, ours.adjustment, ours.height), theirs, force)

    def _adjusted(self, ours: Coordinate, theirs: Coordinate, round_trip: float) -> Coordinate:
        self._misses.append(round_trip - raw_distance(ours, theirs))
        adjustment = sum(self._misses) / (2.0 * ADJUSTMENT_WINDOW)
        return Coordinate(ours.point, ours.error, adjustment, ours.height)

    def _pulled(self, ours: Coordinate) -> Coordinate:
        away = distance(self._origin, ours)
        return self._forced(ours, self._origin, -((away / GRAVITY_RHO) ** 2))

    def _forced(self, ours: Coordinate, theirs: Coordinate, force: float) -> Coordinate:
        """Move along the line between the points, away from theirs if `force` is above 0; the height takes its part.

        Serf gives the height (sum of heights / distance of points) times the force, without end as points meet: nodes
        of one rack throw each other about. From where the heights are the larger part, neither point nor height moves
        by more than the force, in the proportion of Dabek et al. §5.4.
        """
        direction = [a - b for a, b in zip(ours.point, theirs.point, strict=True)]
        length = hypot(*direction)
        heights = ours.height + theirs.height
        height = ours.height
        if length > TOUCHING:
            part = force * min(1.0, length / heights)
            direction = [step * part / length for step in direction]
            height = max(HEIGHT_MIN, height + force * min(1.0, heights / length))
        else:
            part = force * TOUCHING_SHARE
            direction = [step * part for step in self._any_direction()]
        point = tuple(a + step for a, step in zip(ours.point, direction, strict=True))
        return Coordinate(point, ours.error, ours.adjustment, height)

    def _any_direction(self) -> list[float]:
        parts = [self._rng.random() - 0.5 for _ in range(self._dimensions)]
        length = sqrt(sum(part * part for part in parts))
        if length <= TOUCHING:
            return [1.0] + [0.0] * (self._dimensions - 1)
        return [part / length for part in parts]


def median(values: Collection[float]) -> float:
    """The middle one, or the mean of the two in the middle. (`statistics` would load ten modules for it.)"""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
