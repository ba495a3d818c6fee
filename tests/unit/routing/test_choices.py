"""Choices between pools: one's own zone first, fallbacks when the first pool is empty, and the owner or nobody."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.events import MemberState
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.measures import Measures


@pytest.fixture
def home(desk: Any) -> Any:
    """A desk in zone `a`, with instances 1 and 2 there, 3 and 4 in `b`, and 5 in none."""
    desk.router.measures = Measures(zone="a")
    for number, zone in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "")):
        desk.offer(number, zone=zone)
    return desk


def test_ones_own_zone_comes_first_while_somebody_there_is_undoubted(home: Any) -> None:
    query = home.query(prefer="zone")
    assert set(home.picks(200, query)) == {1, 2}
    assert set(home.picks(200)) == {1, 2, 3, 4, 5}
    home.table.set_node(home.node(1), MemberState.SUSPECT, False, "n1", home.table.instances()[0].life, "a")
    assert set(home.picks(50, query)) == {2}
    assert {home.router.pick(query, [home.node(2)]).node[0] for _ in range(100)} == {3, 4, 5}


def test_a_key_has_its_owner_in_the_zone(home: Any) -> None:
    picks = {
        home.picks(1, home.query(policy="consistent_hash", key=f"k{k}", prefer="zone"))[0] for k in range(99)
    }
    assert picks == {1, 2}
    told = explain(home.router, home.query(prefer="zone"))
    assert told.target == "text.summarize, in zone a"
    assert [(c.node[0], c.removed_by, c.why) for c in told.candidates[2:]] == [
        (3, "zone", "in zone b"),
        (4, "zone", "in zone b"),
        (5, "zone", "in no zone"),
    ]


def test_a_node_without_a_zone_prefers_nobody(home: Any) -> None:
    home.router.measures = Measures()
    assert set(home.picks(200, home.query(prefer="zone"))) == {1, 2, 3, 4, 5}
    with pytest.raises(RouteFailed, match=r"prefer 'rack': there is only 'zone' \[1704\]"):
        home.router.pick(home.query(prefer="rack"))


def test_fallbacks_are_tried_in_their_order_when_nobody_else_can_be_asked(desk: Any) -> None:
    desk.offer(1, state=MemberState.DEAD)
    desk.offer(2, "nlp/small", version="1.4.0")
    desk.offer(3, "nlp/other", "text.shorten")
    query = desk.query(
        agent="nlp/summarizer", fallback=("nlp/gone", "nlp/small@^2", "text.shorten", "nlp/small")
    )
    pick = desk.router.route(query)
    assert (pick.instance.node[0], pick.query.capability, pick.query.agent) == (3, "text.shorten", None)
    assert desk.counters.snapshot() == {"routing.fell_back": 1}
    told = explain(desk.router, query)
    assert (told.target, told.fell_back, told.picked) == ("text.shorten", True, desk.node(3))
    desk.believe(3, MemberState.LEFT)
    assert desk.router.route(query).query.agent == "nlp/small"
    desk.believe(1, MemberState.ALIVE)
    assert desk.router.route(query).query is query
    assert not explain(desk.router, query).fell_back


def test_without_leave_of_the_caller_nobody_else_is_asked(desk: Any) -> None:
    desk.offer(1, state=MemberState.DEAD)
    desk.offer(2, "nlp/small")
    with pytest.raises(RouteFailed, match=r"\[1303\]"):
        desk.router.pick(desk.query(agent="nlp/summarizer"))


def test_the_first_reason_is_told_when_no_fallback_helps(desk: Any) -> None:
    desk.offer(1, state=MemberState.DEAD)
    with pytest.raises(
        RouteFailed, match=r"1 known \(1 DEAD\); nor can any fallback be asked \(a/b, c.d\) \[1303\]"
    ):
        desk.router.pick(desk.query(fallback=("a/b", "c.d")))
    assert desk.counters.snapshot() == {"routing.failed.no_healthy_instance": 1}
    with pytest.raises(RouteFailed, match=r"fallback 'a/b@latest': version range 'latest'.* \[1707\]"):
        desk.router.pick(desk.query(fallback=("a/b@latest",)))
    with pytest.raises(RouteFailed, match=r"\[1302\]"):
        desk.router.pick(desk.query(None, fallback=("a/b",)))


def test_a_strict_call_goes_to_the_owner_or_to_nobody(desk: Any) -> None:
    for number in (1, 2, 3):
        desk.offer(number)
    query = desk.query(policy="consistent_hash", key="k", strict=True)
    owner = desk.router.pick(query).node
    desk.believe(owner[0], MemberState.SUSPECT)
    assert desk.router.pick(query).node == owner
    assert explain(desk.router, query).picked == owner
    with pytest.raises(
        RouteFailed, match=r"the owner of key 'k' among text.summarize cannot be asked.*\[1303\]"
    ):
        desk.router.pick(query, [owner])
    desk.believe(owner[0], MemberState.DEAD)
    assert desk.router.pick(query).node != owner


def test_a_key_alone_finds_the_same_instance_each_time_unless_another_policy_is_named(desk: Any) -> None:
    for number in range(1, 9):
        desk.offer(number)
    for key in ("a", "b", "c"):
        assert len(set(desk.picks(20, desk.query(key=key)))) == 1
    assert len(set(desk.picks(60, desk.query(key="a", policy="random")))) > 4
    assert len(set(desk.picks(60))) > 4
