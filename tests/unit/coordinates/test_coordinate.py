"""Coordinates: distances, and what another node may not claim."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import msgspec
import pytest

from reachp2p.core.coordinates.coordinate import (
    DIMENSIONS,
    ERROR_MAX,
    HEIGHT_MIN,
    PLACE_MAX,
    Coordinate,
    distance,
    raw_distance,
)


def at(*point: float, **fields: float) -> Coordinate:
    return Coordinate(point + (0.0,) * (DIMENSIONS - len(point)), **fields)


def test_a_distance_is_that_of_the_points_plus_heights_and_adjustments() -> None:
    left = at(0.03, height=0.001, adjustment=0.002)
    right = at(0.0, 0.04, height=0.003, adjustment=-0.001)
    assert raw_distance(left, right) == pytest.approx(0.054)
    assert distance(left, right) == pytest.approx(0.055)
    assert distance(left, right) == distance(right, left)


def test_adjustments_never_make_a_distance_nothing() -> None:
    left, right = at(0.01, adjustment=-0.02), at()
    assert distance(left, right) == raw_distance(left, right) > 0


def test_a_node_begins_at_the_origin_and_admits_it() -> None:
    assert Coordinate() == at(error=ERROR_MAX, height=HEIGHT_MIN)
    assert Coordinate().fault() is None


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"point": (0.0,) * 3}, "dimensions"),
        ({"point": ()}, "dimensions"),
        ({"point": (nan,) + (0.0,) * 7}, "not_finite"),
        ({"point": (0.0,) * 7 + (inf,)}, "not_finite"),
        ({"adjustment": nan}, "not_finite"),
        ({"height": -inf}, "not_finite"),
        ({"error": nan}, "not_finite"),
        ({"point": (-PLACE_MAX * 1.001,) + (0.0,) * 7}, "too_far"),
        ({"adjustment": 1e300}, "too_far"),
        ({"height": PLACE_MAX * 1.001}, "too_far"),
        ({"error": ERROR_MAX * 1.001}, "error"),
        ({"error": -0.001}, "error"),
        ({"height": HEIGHT_MIN * 0.999}, "height"),
        ({"height": -0.5}, "height"),
        ({"point": (1,) + (0.0,) * 7}, "not_finite"),
        ({"height": True}, "not_finite"),
    ],
)
def test_what_cannot_be_a_coordinate_has_a_fault(fields: dict[str, Any], fault: str) -> None:
    assert Coordinate(**fields).fault() == fault


def test_the_ends_of_the_bounds_are_within() -> None:
    far = Coordinate((PLACE_MAX,) * DIMENSIONS, 0.0, -PLACE_MAX, PLACE_MAX)
    assert far.fault() is None


def test_it_travels_as_an_array() -> None:
    coordinate = at(0.5, error=0.25)
    assert msgspec.convert(msgspec.to_builtins(coordinate), Coordinate) == coordinate
