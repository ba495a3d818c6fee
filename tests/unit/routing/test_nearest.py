"""Nearest, and random with a limit."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from reachp2p.core.coordinates.coordinate import HEIGHT_MIN, Coordinate
from reachp2p.core.counters import Counters
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.nearest import FRESH_FOR
from reachp2p.core.routing.places import Places


def away(desk: Any, milliseconds: dict[int, float], zone: str = "") -> Places:
    """Nodes that are so far from this one, on a line."""
    places = Places(Random(1), Counters())
    for number, one in milliseconds.items():
        far = one / 1000 - 2 * HEIGHT_MIN
        places._places[desk.node(number)] = Coordinate((far, *[0.0] * 7), 0.1, 0.0, HEIGHT_MIN)
    desk.router.measures = Measures(places=places, zone=zone)
    return places


def query(desk: Any) -> Any:
    return desk.query(policy="nearest")


def test_those_in_the_own_zone_come_before_nearer_ones_elsewhere(desk: Any) -> None:
    for number, zone in ((1, "a"), (2, "a"), (3, "b"), (4, "")):
        desk.offer(number, zone=zone)
    away(desk, {1: 50.0, 2: 80.0, 3: 1.0, 4: 1.0}, zone="a")
    assert set(desk.picks(50, query(desk))) == {1}
    away(desk, {}, zone="a")
    desk.offer(5, zone="a")
    assert set(desk.picks(100, query(desk))) == {1, 2, 5}, (
        "no distance is known: all of the zone are equally near"
    )


def test_those_about_as_near_as_the_nearest_share_the_calls(desk: Any) -> None:
    for number in range(1, 6):
        desk.offer(number)
    away(desk, {1: 20.0, 2: 24.0, 3: 26.5, 4: 60.0})
    counts = Counter(desk.picks(900, query(desk)))
    assert set(counts) == {1, 2}
    assert abs(counts[1] - 450) < 60
    for _ in range(10):
        desk.router.start(desk.router.route(query(desk), [desk.node(2)]), 0.0)
    assert set(desk.picks(50, query(desk))) == {2}, "of two equally near ones the less loaded"


def test_distances_are_looked_at_again_every_few_seconds_and_when_the_pool_changes(desk: Any) -> None:
    desk.offer(1)
    desk.offer(2)
    places = away(desk, {1: 5.0, 2: 50.0})
    assert desk.router.pick(query(desk), (), 100.0).node == desk.node(1)
    places._places = {desk.node(1): places._places[desk.node(2)], desk.node(2): places._places[desk.node(1)]}
    assert desk.router.pick(query(desk), (), 99.9 + FRESH_FOR).node == desk.node(1)
    assert desk.router.pick(query(desk), (), 100.0 + FRESH_FOR).node == desk.node(2)
    places._places = {}
    desk.offer(3)
    assert {desk.router.pick(query(desk), (), 101.0 + FRESH_FOR).node[0] for _ in range(60)} == {1, 2, 3}


def test_a_retry_goes_to_the_nearest_of_the_rest(desk: Any) -> None:
    for number in (1, 2, 3):
        desk.offer(number)
    away(desk, {1: 5.0, 2: 50.0, 3: 500.0})
    assert desk.router.pick(query(desk), [desk.node(1)]).node == desk.node(2)


def test_an_explanation_says_how_far_it_is(desk: Any) -> None:
    desk.offer(1, zone="a")
    desk.offer(2, zone="b")
    away(desk, {1: 5.0, 2: 50.0}, zone="a")
    told = explain(desk.router, query(desk))
    assert told.reason == "nlp/summarizer on n1: one of the 1 nearest, in this node's zone, 5 ms away"
    assert [candidate.share for candidate in told.candidates] == [1.0, 0.0]
    away(desk, {})
    told = explain(desk.router, query(desk), [desk.node(1)])
    assert told.reason == "nlp/summarizer on n2: one of the 1 nearest, in zone 'b', at an unknown distance"


def test_limited_random_asks_nobody_beyond_its_limit_and_then_nobody(desk: Any) -> None:
    for number in range(1, 5):
        desk.offer(number)
    asked = desk.query(policy="limited_random", in_flight_max=3)
    picks = []
    for _ in range(12):
        picks.append(desk.router.route(asked))
        desk.router.start(picks[-1], 0.0)
    assert set(Counter(pick.instance.node for pick in picks).values()) == {3}
    with pytest.raises(
        RouteFailed, match=r"lets none of the 4 instances of text.summarize take a call now \[1305\]"
    ):
        desk.router.route(asked)
    desk.router.end(picks[5], 0, 1.0)
    told = explain(desk.router, asked)
    assert told.picked == picks[5].instance.node
    assert "drawn at random among 1 with fewer than 3 in flight" in told.reason
    assert desk.router.route(asked).instance.node == picks[5].instance.node
