"""Where the others say that they are, and how far that is: coordinates as they travel on Acks.

A direct Ack to a probe of ours brings the coordinate of its sender, and the probe has measured the round trip; both
together move our own coordinate (`vivaldi`). Nothing is passed on.
"""

from __future__ import annotations

from reachp2p.core.coordinates.coordinate import DIMENSIONS, Coordinate, distance
from reachp2p.core.coordinates.vivaldi import Vivaldi
from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId, Rng

PLACES_MAX = 16_384
"""Nodes whose coordinate is kept, as many as a view may have members; then the one heard longest ago is forgotten."""
_MICROSECONDS = 1e6
_ERROR_UNIT = 1e3
_NUMBER_MAX = 2**31


def write_coordinate(coordinate: Coordinate) -> list[int]:
    """As it travels: the point, the height and the adjustment in microseconds, the error in thousandths."""
    seconds = (*coordinate.point, coordinate.height, coordinate.adjustment)
    return [*(round(one * _MICROSECONDS) for one in seconds), round(coordinate.error * _ERROR_UNIT)]


def read_coordinate(value: object) -> Coordinate | None:
    """The coordinate in an extension, or None: another node may send anything there."""
    if type(value) is not list or len(value) != DIMENSIONS + 3:
        return None
    if not all(type(number) is int and abs(number) <= _NUMBER_MAX for number in value):
        return None
    *point, height, adjustment = (number / _MICROSECONDS for number in value[:-1])
    coordinate = Coordinate(tuple(point), value[-1] / _ERROR_UNIT, adjustment, height)
    return coordinate if coordinate.fault() is None else None


class Places:
    """Our coordinate and those of others. Bound: `PLACES_MAX`, counter `coordinates.forgotten`."""

    def __init__(self, rng: Rng, counters: Counters) -> None:
        self._vivaldi = Vivaldi(rng)
        self._counters = counters
        self._places: dict[NodeId, Coordinate] = {}
        self.revision = 0
        """Grows with every coordinate that is heard."""

    @property
    def own(self) -> Coordinate:
        """Where we say that we are."""
        return self._vivaldi.coordinate

    def on_round_trip(self, node: NodeId, value: object, seconds: float) -> None:
        """A direct answer of a node has brought this coordinate, after so long."""
        coordinate = read_coordinate(value)
        if coordinate is None:
            self._counters.add("coordinates.unreadable")
            return
        fault = self._vivaldi.observe(node, coordinate, seconds)
        if fault is not None:
            self._counters.add(f"coordinates.{fault}")
        if self._places.pop(node, None) is None and len(self._places) >= PLACES_MAX:
            del self._places[next(iter(self._places))]
            self._counters.add("coordinates.forgotten")
        self._places[node] = coordinate
        self.revision += 1

    def round_trip(self, node: NodeId) -> float | None:
        """The round trip to expect, in seconds; None if the node has told no coordinate."""
        theirs = self._places.get(node)
        return None if theirs is None else distance(self._vivaldi.coordinate, theirs)

    def forget(self, node: NodeId) -> None:
        """The node is no member any more."""
        self._vivaldi.forget(node)
        self._places.pop(node, None)

    def __len__(self) -> int:
        return len(self._places)
