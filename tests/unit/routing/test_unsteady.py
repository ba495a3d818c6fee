"""Nodes that come and go are avoided until they have been quiet; many at once are the network's doing."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.routing import unsteady
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.unsteady import HALF_LIFE, REFUTED, RETURNED, SETBACKS_MAX, SteadyDue, Unsteady
from reachp2p.core.timers import Timers
from tests.unit.routing.conftest import SECOND, Desk


class Marks:
    """Some instances, and the marks of their nodes."""

    def __init__(self, desk: Desk, nodes: int = 10, enabled: bool = True) -> None:
        self.desk = desk
        self.timers = Timers()
        self.counters = Counters()
        self.unsteady = Unsteady(desk.table, self.timers, self.counters, enabled)
        for number in range(1, nodes + 1):
            desk.offer(number)

    def setback(self, number: int, weight: float = RETURNED, now: float = 0.0) -> None:
        self.fire(now)
        self.unsteady.on_setback(self.desk.node(number), weight, now)

    def fire(self, now: float) -> None:
        while (key := self.timers.pop_due(now)) is not None:
            assert isinstance(key, SteadyDue)
            self.unsteady.on_timer(key, now)

    def avoided(self) -> list[int]:
        return [i.node[0] for i in self.desk.table.instances() if i.unsteady]


def test_who_came_back_from_the_dead_is_avoided_for_a_minute_and_keeps_its_place(desk: Any) -> None:
    marks = Marks(desk, nodes=2)
    before = desk.table.fingerprint()
    marks.setback(1)
    assert set(desk.picks(20)) == {2}
    assert desk.table.fingerprint() == before
    assert marks.counters.value("routing.unsteady") == 1
    (first, _) = explain(desk.router, desk.query()).candidates
    assert (first.removed_by, first.why) == (
        "liveness",
        "comes and goes: skipped while another candidate exists",
    )
    marks.fire(HALF_LIFE - 0.01)
    assert set(desk.picks(20)) == {2}
    marks.fire(HALF_LIFE)
    assert set(desk.picks(20)) == {1, 2}


def test_one_refutation_is_nothing_and_four_in_a_row_are_too_many(desk: Any) -> None:
    marks = Marks(desk)
    for now in (0.0, 0.1, 0.2):
        marks.setback(1, REFUTED, now)
    assert marks.avoided() == []
    marks.setback(1, REFUTED, 0.3)
    marks.setback(1, REFUTED, 0.4)
    assert marks.avoided() == [1]


def test_refutations_at_the_rate_of_a_lossy_network_are_forgotten(desk: Any) -> None:
    marks = Marks(desk)
    for number in range(50):
        marks.setback(1, REFUTED, number * 1 / 0.0077)  # P(suspected in a period) at 10 % loss and k = 3
    assert marks.avoided() == []


def test_who_never_rests_is_asked_again_three_minutes_after_its_last_setback(desk: Any) -> None:
    marks = Marks(desk)
    for number in range(30):
        marks.setback(1, RETURNED, number * 40.0)
        assert marks.avoided() == [1]
    for number in range(10):
        marks.setback(1, RETURNED, 1_160.0 + number)
    marks.fire(1_169.0 + 3 * HALF_LIFE - 0.01)
    assert marks.avoided() == [1]
    marks.fire(1_169.0 + 3 * HALF_LIFE)
    assert marks.avoided() == []
    assert SETBACKS_MAX == 4.0


def test_a_quiet_node_is_forgotten(desk: Any) -> None:
    marks = Marks(desk)
    marks.setback(1, REFUTED)
    marks.setback(2, RETURNED)
    assert len(marks.unsteady) == 2
    marks.fire(10 * HALF_LIFE)
    assert len(marks.unsteady) == 0
    assert marks.avoided() == []


@pytest.mark.parametrize(("nodes", "at_most"), [(5, 1), (10, 1), (39, 3)])
def test_more_than_a_tenth_are_not_avoided(desk: Any, nodes: int, at_most: int) -> None:
    marks = Marks(desk, nodes)
    for number in range(1, at_most + 1):
        marks.setback(number)
    assert marks.avoided() == list(range(1, at_most + 1))
    marks.setback(at_most + 1)
    assert marks.avoided() == []
    marks.unsteady.forget(desk.node(1))
    assert marks.avoided() == list(range(2, at_most + 2))


def test_another_life_begins_without_setbacks(desk: Any) -> None:
    marks = Marks(desk)
    marks.setback(1)
    marks.unsteady.forget(desk.node(1))
    desk.believe(1, MemberState.ALIVE, life=SECOND)
    assert marks.avoided() == []
    assert marks.timers.next_deadline() is None
    marks.unsteady.forget(desk.node(1))


def test_a_life_that_ends_takes_its_mark_along(desk: Any) -> None:
    marks = Marks(desk)
    marks.setback(1)
    desk.believe(1, MemberState.ALIVE, life=SECOND)
    assert marks.avoided() == []


def test_the_node_counted_longest_ago_is_forgotten_for_another(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsteady, "RECORDS_MAX", 2)
    marks = Marks(desk)
    for number in (1, 2, 3):
        marks.setback(number, REFUTED, float(number))
    assert len(marks.unsteady) == 2
    assert marks.counters.value("routing.unsteady_forgotten") == 1
    marks.fire(1_000.0)
    assert len(marks.unsteady) == 0


def test_switched_off_it_counts_nothing(desk: Any) -> None:
    marks = Marks(desk, enabled=False)
    marks.setback(1)
    assert marks.avoided() == []
    assert len(marks.unsteady) == 0
