"""Nodes to which no link opens from here are avoided for a while, and never for longer than there is reason."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.unreached import AVOIDED_FIRST, AVOIDED_MAX, Unreached, UnreachedEnds
from reachp2p.core.timers import Timers
from tests.unit.routing.conftest import SECOND, Desk

ALIVE, SUSPECT = MemberState.ALIVE, MemberState.SUSPECT


class Marks:
    """Two instances, and the marks of their nodes."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.timers = Timers()
        self.counters = Counters()
        self.unreached = Unreached(desk.table, self.timers, self.counters)
        desk.offer(1)
        desk.offer(2)

    def fail(self, number: int, now: float = 0.0) -> None:
        self.unreached.on_failed(self.desk.node(number), now)

    def fire(self, now: float) -> None:
        while (key := self.timers.pop_due(now)) is not None:
            assert isinstance(key, UnreachedEnds)
            self.unreached.on_timer(key)


def test_calls_go_elsewhere_and_placement_stays(desk: Any) -> None:
    marks = Marks(desk)
    before = desk.table.fingerprint()
    marks.fail(1)
    assert set(desk.picks(20)) == {2}
    assert desk.table.fingerprint() == before
    assert marks.counters.value("routing.unreached") == 1
    (first, _) = explain(desk.router, desk.query()).candidates
    assert (first.removed_by, first.why) == (
        "liveness",
        "not reached from here: skipped while another candidate exists",
    )


def test_when_nobody_better_is_left_it_is_asked_after_all(desk: Any) -> None:
    marks = Marks(desk)
    marks.fail(1)
    marks.fail(2)
    assert set(desk.picks(20)) == {1, 2}


def test_a_mark_ends_by_itself(desk: Any) -> None:
    marks = Marks(desk)
    marks.fail(1)
    marks.fire(AVOIDED_FIRST - 0.1)
    assert set(desk.picks(20)) == {2}
    marks.fire(AVOIDED_FIRST)
    assert set(desk.picks(20)) == {1, 2}


def test_each_further_failure_doubles_the_time_until_a_link_is_proven(desk: Any) -> None:
    marks = Marks(desk)
    now, avoided_for = 0.0, []
    for _ in range(8):
        marks.fail(1, now=now)
        end = marks.timers.next_deadline()
        assert end is not None
        avoided_for.append(end - now)
        now = end
        marks.fire(now)
    assert avoided_for == [2.0, 4.0, 8.0, 16.0, 32.0, AVOIDED_MAX, AVOIDED_MAX, AVOIDED_MAX]
    marks.unreached.on_reached(desk.node(1))
    marks.fail(1, now=now)
    assert marks.timers.next_deadline() == now + AVOIDED_FIRST


def test_failures_are_counted_for_a_bounded_number_of_nodes(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reachp2p.core.routing.unreached.FAILURES_MAX", 2)
    marks = Marks(desk)
    for number in (1, 2, 3):
        desk.offer(number)
        marks.fail(number)
    assert marks.counters.value("routing.unreached_forgotten") == 1
    marks.unreached.on_timer(UnreachedEnds(desk.node(1)))
    marks.fail(1, now=10.0)
    assert marks.timers.next_deadline() == AVOIDED_FIRST, "that of the others"
    marks.fire(AVOIDED_FIRST)
    assert marks.timers.next_deadline() == 10.0 + AVOIDED_FIRST, "the first one begins anew"


def test_a_proven_link_ends_a_mark(desk: Any) -> None:
    marks = Marks(desk)
    marks.fail(1)
    marks.unreached.on_reached(desk.node(1))
    assert set(desk.picks(20)) == {1, 2}
    assert marks.timers.next_deadline() is None


def test_what_a_node_tells_of_itself_ends_a_mark_and_what_others_say_does_not(desk: Any) -> None:
    marks = Marks(desk)
    marks.fail(1)
    desk.believe(1, SUSPECT)
    assert desk.table.is_unreached(desk.node(1))
    desk.believe(1, ALIVE)  # it has refuted
    assert not desk.table.is_unreached(desk.node(1))
    marks.fail(1)
    desk.believe(1, ALIVE, life=SECOND)
    assert not desk.table.is_unreached(desk.node(1))


def test_a_node_that_is_not_known_leaves_no_mark_and_a_forgotten_one_takes_its_with_it(desk: Any) -> None:
    marks = Marks(desk)
    marks.fail(9)
    assert marks.timers.next_deadline() is None
    marks.fail(1)
    desk.table.remove_instance(desk.node(1), "nlp/summarizer")
    desk.believe(1, None)
    desk.offer(1, life=Life(1, bytes(16)))
    assert not desk.table.is_unreached(desk.node(1))
    marks.fire(AVOIDED_MAX)
