"""Least loaded: own attempts first, then what is reported and sent since, and what is old says less than what is
seen."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.least_loaded import STALE_AFTER, is_better, two_of
from reachp2p.core.routing.load_report import LoadReport
from tests.unit.routing.conftest import FIRST, Desk


class Pair(Desk):
    """Two instances, and everything that is known of them."""

    def __init__(self) -> None:
        super().__init__()
        self.offer(1)
        self.offer(2)
        self.one, self.two = self.table.instances()

    def known(self, number: int, *, in_flight: int = 0, latency: float | None = None) -> None:
        traffic = self.router.measures.traffic.of((self.one, self.two)[number - 1])
        traffic.in_flight = in_flight
        traffic.latency = traffic.peak = latency

    def told(self, number: int, busy: int, *, at: float = 0.0, sent: int = 0, p95: float = 0.1) -> None:
        loads = self.router.measures.loads
        sequence = len(loads.entries) + 1
        loads.on_report(self.node(number), FIRST, LoadReport(sequence, busy, 0, p95).write(), at)
        loads.entries[self.node(number)].sent = {"nlp/summarizer": sent} if sent else {}

    def better(self, now: float = 0.0) -> list[int]:
        """The better one; both if neither is."""
        measures = self.router.measures
        first = is_better(self.one, self.two, measures, now)
        second = is_better(self.two, self.one, measures, now)
        assert not (first and second)
        return [1] if first else [2] if second else [1, 2]


def test_own_attempts_come_first_however_busy_the_other_says_it_is() -> None:
    world = Pair()
    world.told(1, 0)
    world.told(2, 50)
    world.known(1, in_flight=2, latency=0.1)
    world.known(2, in_flight=1, latency=0.1)
    assert world.better() == [2]


@pytest.mark.parametrize(
    ("one", "sent_one", "two", "sent_two", "better"),
    [(3, 0, 4, 0, [1]), (3, 2, 4, 0, [2]), (3, 1, 4, 0, [1, 2]), (0, 0, 0, 0, [1, 2])],
)
def test_then_what_is_reported_and_what_was_sent_since(
    one: int, sent_one: int, two: int, sent_two: int, better: list[int]
) -> None:
    world = Pair()
    world.told(1, one, sent=sent_one)
    world.told(2, two, sent=sent_two)
    assert world.better() == better


def test_a_report_older_than_eight_service_times_is_ignored_for_what_was_measured() -> None:
    world = Pair()
    world.told(1, 9, at=10.0)
    world.told(2, 1, at=10.0)
    world.known(1, latency=0.1)
    world.known(2, latency=0.2)
    assert world.better(10.0 + STALE_AFTER * 0.099) == [2]
    assert world.better(10.1 + STALE_AFTER * 0.1) == [1]
    world.known(1, in_flight=3, latency=0.1)
    world.known(2, in_flight=0, latency=0.2)
    assert world.better(99.0) == [2], "0.2 s once is less than 0.1 s four times"


def test_whoever_was_never_called_is_taken_to_be_as_quick_as_the_other() -> None:
    world = Pair()
    world.known(1, in_flight=1, latency=0.001)
    assert world.better() == [2]
    world.known(2, in_flight=1)
    assert world.better() == [1, 2]
    world.known(2, in_flight=2)
    assert world.better() == [1]


def test_the_two_are_drawn_from_all_pairs_alike() -> None:
    items: list[Any] = list(range(5))
    pairs = Counter(two_of(items, a / 40, b / 40) for a in range(40) for b in range(40))
    assert set(pairs.values()) == {80}
    assert len(pairs) == 20
    assert two_of([7], 0.5, 0.5) == (7, 7)  # type: ignore[list-item, comparison-overlap]


def test_attempts_spread_by_what_is_in_flight(desk: Any) -> None:
    for number in range(1, 11):
        desk.offer(number)
    query = desk.query(policy="least_loaded")
    picks = []
    for _ in range(1_000):
        picks.append(desk.router.route(query))
        desk.router.start(picks[-1], 0.0)
    counts = Counter(pick.instance.node[0] for pick in picks)
    assert max(counts.values()) - min(counts.values()) <= 8, "by chance alone it would be 60 or so"


def test_an_explanation_names_both_with_their_numbers() -> None:
    world = Pair()
    world.told(1, 7, at=1.0, sent=2)
    world.known(1, latency=0.05)
    told = explain(world.router, world.query(policy="least_loaded"), now=3.0)
    assert told.picked is not None
    assert "7 reported 2.0 s ago and 2 sent since, too old to count, peak 50 ms" in told.reason
    assert "the other one drawn" in told.reason
    assert [candidate.share for candidate in told.candidates] == [0.5, 0.5]
    world.known(1, in_flight=5, latency=0.05)
    told = explain(world.router, world.query(policy="least_loaded"), now=3.0)
    assert [candidate.share for candidate in told.candidates] == [0.0, 1.0]
    assert (
        told.candidates[0].load
        == "5 in flight, 7 reported 2.0 s ago and 2 sent since, too old to count, peak 50 ms"
    )
    assert told.candidates[1].load == "0 in flight"
