"""How a node's own coordinate follows what it measures."""

from __future__ import annotations

from math import inf, nan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.coordinates import vivaldi
from reachp2p.core.coordinates.coordinate import ERROR_MAX, HEIGHT_MIN, Coordinate, distance
from reachp2p.core.coordinates.vivaldi import FORCE_MAX, LATENCY_WINDOW, OUTLIER_AFTER, Vivaldi
from reachp2p.core.ids import NodeId

ONE, TWO = NodeId(bytes([1]) * 32), NodeId(bytes([2]) * 32)


def machine(seed: int = 1, dimensions: int = 8) -> Vivaldi:
    return Vivaldi(Random(seed), dimensions)


def sure(*point: float, height: float = HEIGHT_MIN) -> Coordinate:
    return Coordinate(point + (0.0,) * (8 - len(point)), 0.01, 0.0, height)


def learn(own: Vivaldi, theirs: Coordinate, round_trip: float, times: int, node: NodeId = ONE) -> None:
    for _ in range(times):
        assert own.observe(node, theirs, round_trip) is None


def test_two_nodes_that_start_at_one_place_part_until_their_distance_is_the_round_trip() -> None:
    left, right = machine(1), machine(2)
    for _ in range(200):
        assert left.observe(TWO, right.coordinate, 0.05) is None
        assert right.observe(ONE, left.coordinate, 0.05) is None
    assert distance(left.coordinate, right.coordinate) == pytest.approx(0.05, rel=0.01)
    assert left.coordinate.error < 0.05
    assert left.estimate(right.coordinate) == distance(left.coordinate, right.coordinate)


def test_a_node_that_is_too_near_is_pushed_away_along_the_line() -> None:
    own = machine()
    own.coordinate = sure(0.01)
    learn(own, sure(0.0), 0.03, 1)
    assert own.coordinate.point[0] > 0.01
    assert own.coordinate.point[1:] == pytest.approx((0.0,) * 7, abs=1e-12)


def test_who_is_less_sure_moves_more() -> None:
    moved = []
    for error in (0.01, 1.0):
        own = machine()
        own.coordinate = Coordinate((0.01, *(0.0,) * 7), error)
        learn(own, Coordinate((0.0,) * 8, 0.1), 0.03, 1)
        moved.append(own.coordinate.point[0] - 0.01)
    assert 0 < moved[0] < moved[1]


def test_the_error_becomes_small_where_all_fits_and_never_grows_past_its_bound() -> None:
    own = machine()
    learn(own, sure(0.02), 0.02, 100)
    assert own.coordinate.error < 0.02
    for number in range(60):
        own.observe(ONE, sure(0.02), 0.001 if number % 2 else 9.0)
        assert own.coordinate.error <= ERROR_MAX


def test_one_slow_round_trip_is_filtered() -> None:
    spiked, steady = machine(), machine()
    for own, odd in ((spiked, 0.9), (steady, 0.02)):
        learn(own, sure(0.02), 0.02, 30)
        learn(own, sure(0.02), odd, 1)
        learn(own, sure(0.02), 0.02, LATENCY_WINDOW)
    assert spiked.coordinate == steady.coordinate


def test_the_filter_is_each_nodes_own_and_forgotten_with_it() -> None:
    own = machine()
    learn(own, sure(0.02), 0.02, 5, ONE)
    learn(own, sure(0.02), 0.02, 5, TWO)
    own.forget(ONE)
    own.forget(ONE)
    assert list(own._latencies) == [TWO]


def test_the_node_heard_longest_ago_is_dropped_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vivaldi, "LATENCIES_MAX", 3)
    own = machine()
    nodes = [NodeId(bytes([number]) * 32) for number in range(5)]
    for node in (*nodes[:3], nodes[0], *nodes[3:]):
        own.observe(node, sure(0.02), 0.02)
    assert list(own._latencies) == [nodes[0], nodes[3], nodes[4]]
    assert own.evicted == 2


@pytest.mark.parametrize(
    ("theirs", "round_trip", "reason"),
    [
        (Coordinate((0.0,) * 3), 0.02, "dimensions"),
        (Coordinate((nan,) * 8), 0.02, "not_finite"),
        (Coordinate((11.0,) * 8), 0.02, "too_far"),
        (Coordinate(error=2.0), 0.02, "error"),
        (Coordinate(height=0.0), 0.02, "height"),
        (sure(0.02), 0.0, "round_trip"),
        (sure(0.02), -1.0, "round_trip"),
        (sure(0.02), 10.5, "round_trip"),
        (sure(0.02), nan, "round_trip"),
        (sure(0.02), inf, "round_trip"),
    ],
)
def test_nonsense_teaches_nothing(theirs: Coordinate, round_trip: float, reason: str) -> None:
    own = machine()
    learn(own, sure(0.02), 0.02, 3)
    before = own.coordinate
    assert own.observe(TWO, theirs, round_trip) == reason
    assert own.coordinate == before
    assert TWO not in own._latencies


def test_no_distance_to_what_is_no_coordinate() -> None:
    assert machine().estimate(Coordinate((nan,) * 8)) is None


def test_a_lie_among_many_truths_is_implausible() -> None:
    own = machine()
    learn(own, sure(0.02), 0.02, 30)
    before = own.coordinate
    assert own.observe(TWO, sure(-5.0), 0.02) == "implausible"
    assert own.coordinate == before


def test_when_most_observations_miss_they_count_again() -> None:
    own = machine()
    learn(own, sure(0.02), 0.02, 30)
    reasons = [own.observe(ONE, sure(0.02), 0.2) for _ in range(300)]
    assert "implausible" in reasons
    assert reasons[-100:] == [None] * 100
    assert own.estimate(sure(0.02)) == pytest.approx(0.2, rel=0.1)


def test_nothing_is_implausible_to_a_newcomer_and_no_observation_throws_it_far() -> None:
    own = machine()
    for _ in range(OUTLIER_AFTER):
        before = own.coordinate
        learn(own, sure(9.0), 0.02, 1)
        assert abs(own.coordinate.point[0] - before.point[0]) <= FORCE_MAX * 1.01


def test_points_closer_than_their_heights_do_not_throw_each_other_about() -> None:
    own = machine()
    own.coordinate = Coordinate((2e-6, *(0.0,) * 7), 0.5, 0.0, 0.001)
    learn(own, sure(0.0, height=0.001), 0.004, 1)
    force = 0.25 * (0.5 / 0.51) * 0.002
    assert own.coordinate.height == pytest.approx(0.001 + force, rel=0.01)
    assert own.coordinate.point[0] < 1e-4


def test_a_drifted_cloud_is_pulled_back() -> None:
    left, right = machine(1, 2), machine(2, 2)
    left.coordinate, right.coordinate = Coordinate((5.0, 5.0), 0.1), Coordinate((5.0, 5.5), 0.1)
    for _ in range(500):
        left.observe(TWO, right.coordinate, 0.5)
        right.observe(ONE, left.coordinate, 0.5)
    assert left.coordinate.point[0] < 4.5


@given(
    st.lists(
        st.tuples(
            st.lists(st.floats(-10, 10), min_size=8, max_size=8),
            st.floats(0, 1.5),
            st.floats(-10, 10),
            st.floats(1e-5, 10),
            st.floats(1e-9, 10),
        ),
        max_size=40,
    )
)
def test_whatever_is_observed_our_own_coordinate_is_one(
    observations: list[tuple[list[float], float, float, float, float]],
) -> None:
    own = machine()
    for number, (point, error, adjustment, height, round_trip) in enumerate(observations):
        own.observe(
            NodeId(bytes([number % 3]) * 32), Coordinate(tuple(point), error, adjustment, height), round_trip
        )
        assert own.coordinate.fault() is None
