"""Coordinates as they travel: whole, in bounds, and only with a round trip that was measured."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.coordinates.coordinate import DIMENSIONS, HEIGHT_MIN, Coordinate
from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.routing import places as module
from reachp2p.core.routing.places import Places, read_coordinate, write_coordinate

ANN, BOB = NodeId(bytes([1]) * 32), NodeId(bytes([2]) * 32)
seconds = st.integers(-10_000_000, 10_000_000).map(lambda n: n / 1e6)
coordinates = st.builds(
    Coordinate,
    point=st.lists(seconds, min_size=DIMENSIONS, max_size=DIMENSIONS).map(tuple),
    error=st.integers(0, 1_500).map(lambda n: n / 1e3),
    adjustment=seconds,
    height=st.integers(10, 10_000_000).map(lambda n: n / 1e6),
)


@given(coordinates)
def test_a_coordinate_is_read_as_it_was_written_to_the_microsecond(coordinate: Coordinate) -> None:
    assert read_coordinate(write_coordinate(coordinate)) == coordinate


@pytest.mark.parametrize(
    "value",
    [
        None,
        "place",
        [],
        [0] * 10,
        [0] * 12,
        [0.0] * 11,
        [True] * 11,
        [*[0] * 8, 0, 0, 100],
        [*[0] * 8, 10, 0, 1_501],
        [10**8, *[0] * 7, 10, 0, 100],
        [2**40, *[0] * 7, 10, 0, 100],
    ],
)
def test_anything_else_is_none_and_counted(value: object) -> None:
    assert read_coordinate(value) is None
    places = Places(Random(1), counters := Counters())
    places.on_round_trip(ANN, value, 0.01)
    assert counters.snapshot() == {"coordinates.unreadable": 1}
    assert places.round_trip(ANN) is None


def test_round_trips_are_learnt() -> None:
    """Two nodes that tell each other where they are come to agree on how far that is."""
    one, other = (Places(Random(seed), Counters()) for seed in (1, 2))
    for _ in range(200):
        one.on_round_trip(BOB, write_coordinate(other.own), 0.08)
        other.on_round_trip(ANN, write_coordinate(one.own), 0.08)
    assert one.round_trip(BOB) == pytest.approx(0.08, rel=0.1)
    assert other.round_trip(ANN) == pytest.approx(0.08, rel=0.1)
    assert one.revision == 200


def test_what_does_not_fit_teaches_nothing_and_is_counted() -> None:
    places = Places(Random(1), counters := Counters())
    before = places.own
    places.on_round_trip(ANN, write_coordinate(Coordinate(height=HEIGHT_MIN)), 11.0)
    assert counters.snapshot() == {"coordinates.round_trip": 1}
    assert places.own == before


def test_those_who_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLACES_MAX", 2)
    places = Places(Random(1), counters := Counters())
    for number in (1, 2, 3):
        places.on_round_trip(NodeId(bytes([number]) * 32), write_coordinate(Coordinate()), 0.01)
    assert places.round_trip(ANN) is None
    assert len(places) == 2
    assert counters.value("coordinates.forgotten") == 1
    places.forget(BOB)
    assert len(places) == 1
