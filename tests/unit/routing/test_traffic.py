"""What is in flight, how long it takes, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.ids import Life
from reachp2p.core.routing import traffic as module
from reachp2p.core.routing.breaker import BreakerInput
from reachp2p.core.routing.traffic import DECAY, Traffic

NEXT = Life(2, bytes(16))


def measured(*steps: tuple[float, float, bool]) -> Traffic:
    one = Traffic((None, "a/b"), NEXT)  # type: ignore[arg-type]
    for seconds, now, failed in steps:
        one.measure(seconds, now, failed=failed)
    return one


def test_the_peak_jumps_up_and_comes_down_slowly() -> None:
    one = measured((0.1, 0.0, False), (2.0, 1.0, False))
    assert one.peak == 2.0
    one.measure(0.1, 1.0 + DECAY, failed=False)
    assert one.peak == pytest.approx(2.0 / 2.718281828 + 0.1 * (1 - 1 / 2.718281828))
    assert one.latency is not None
    assert one.latency < one.peak


def test_a_quick_failure_is_no_speed_and_a_slow_one_is_slowness() -> None:
    one = measured((0.1, 0.0, False), (0.001, 1.0, True))
    assert (one.latency, one.peak) == (0.1, 0.1)
    one.measure(5.0, 1.0, failed=True)
    assert (one.latency, one.peak) == (0.1, 5.0)
    assert measured((0.001, 0.0, True)).peak is None


def test_attempts_are_in_flight_from_their_start_to_their_end(desk: Any) -> None:
    desk.offer(1)
    key = (desk.node(1), "nlp/summarizer")
    first, second = (desk.router.route(desk.query(), now=1.0) for _ in range(2))
    assert desk.router.measures.in_flight(key) == 0
    desk.router.start(first, 1.0)
    desk.router.start(second, 1.0)
    assert desk.router.measures.in_flight(key) == 2
    desk.router.end(first, 0, 1.5)
    desk.router.end(first, 0, 9.0)
    assert desk.router.measures.in_flight(key) == 1
    assert desk.router.measures.traffic.entries[key].latency == 0.5
    desk.router.end(second, 1402, 9.0)
    assert desk.router.measures.in_flight(key) == 0
    assert desk.router.measures.traffic.entries[key].latency == 0.5


def test_how_long_a_stream_takes_says_nothing(desk: Any) -> None:
    desk.offer(1)
    pick = desk.router.route(desk.query())
    pick.is_stream = True
    desk.router.start(pick, 1.0)
    traffic = pick.traffic
    desk.router.end(pick, 0, 500.0)
    assert (traffic.in_flight, traffic.latency, traffic.peak) == (0, None, None)


def test_a_pick_that_was_never_started_needs_no_end(desk: Any) -> None:
    desk.offer(1)
    desk.router.end(desk.router.route(desk.query()), 1403, 1.0)
    assert len(desk.router.measures.traffic) == 0


def test_a_new_life_begins_anew_and_old_attempts_end_in_the_old_one(desk: Any) -> None:
    desk.offer(1)
    key = (desk.node(1), "nlp/summarizer")
    old = desk.router.route(desk.query())
    desk.router.start(old, 0.0)
    desk.offer(1, life=NEXT)
    desk.believe(1, desk.table.instance(*key).state, life=NEXT)
    new = desk.router.route(desk.query())
    desk.router.start(new, 1.0)
    assert desk.router.measures.in_flight(key) == 1
    desk.router.end(old, 1411, 2.0)
    assert desk.router.measures.in_flight(key) == 1
    assert desk.router.measures.traffic.entries[key].peak is None


def test_beyond_the_bound_an_idle_one_is_forgotten(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRAFFIC_MAX", 3)
    table = module.TrafficTable(desk.counters)
    for number in range(1, 6):
        desk.offer(number)
    instances = [desk.table.instance(desk.node(number), "nlp/summarizer") for number in range(1, 6)]
    table.of(instances[0]).in_flight = 1
    table.of(instances[1]).breaker.move(BreakerInput.TRIPPED, 0.0)
    table.of(instances[2])
    table.of(instances[3])
    assert [key[0][0] for key in table.entries] == [1, 2, 4]
    assert desk.counters.value("routing.traffic_forgotten") == 1
    assert table.get(instances[4]) is None
    assert len(table) == 3
