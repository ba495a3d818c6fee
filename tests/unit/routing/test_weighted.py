"""Weighted round robin: turns by weight, smoothly, whatever comes and goes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.events import MemberState
from tests.unit.routing.conftest import Desk


def query(desk: Desk) -> Any:
    return desk.query(policy="weighted_round_robin")


@given(st.lists(st.integers(10, 1_000), min_size=1, max_size=12), st.integers(1, 400))
def test_two_instances_are_never_further_apart_than_one_turn_of_each(weights: list[int], calls: int) -> None:
    desk = Desk()
    for number, weight in enumerate(weights, 1):
        desk.offer(number, weight=weight)
    turns = [0] * len(weights)
    asked = query(desk)
    for _ in range(calls):
        turns[desk.router.pick(asked).node[0] - 1] += 1
        times = [(turn / weight, 1 / weight) for turn, weight in zip(turns, weights, strict=True)]
        ahead, behind = max(times), min(times)
        assert ahead[0] - behind[0] <= ahead[1] + behind[1] + 1e-9


def test_turns_do_not_come_in_bursts(desk: Any) -> None:
    desk.offer(1, weight=500)
    for number in range(2, 7):
        desk.offer(number, weight=100)
    picks = desk.picks(1_000, query(desk))
    assert abs(picks.count(1) - 500) <= 5
    assert max(len(run) for run in "".join("x" if one == 1 else " " for one in picks).split()) <= 3


def test_who_comes_or_comes_back_gets_no_burst(desk: Any) -> None:
    for number in (1, 2, 3):
        desk.offer(number)
    desk.picks(300, query(desk))
    desk.offer(4)
    assert max(Counter(desk.picks(40, query(desk))).values()) <= 12
    desk.believe(1, MemberState.SUSPECT)
    desk.picks(300, query(desk))
    desk.believe(1, MemberState.ALIVE)
    counts = Counter(desk.picks(40, query(desk)))
    assert counts[1] <= 12
    assert min(counts.values()) >= 8


def test_a_new_weight_counts_from_the_next_turn(desk: Any) -> None:
    desk.offer(1)
    desk.offer(2)
    desk.picks(10, query(desk))
    desk.offer(2, weight=400)
    assert Counter(desk.picks(100, query(desk)))[2] == pytest.approx(80, abs=2)


def test_a_retry_takes_the_next_in_turn_and_disturbs_the_others_little(desk: Any) -> None:
    for number in (1, 2, 3, 4):
        desk.offer(number)
    asked = query(desk)
    counts: Counter[int] = Counter()
    for _ in range(500):
        first = desk.router.pick(asked).node
        second = desk.router.pick(asked, [first]).node
        assert second != first
        counts.update((first[0], second[0]))
    assert all(abs(count - 250) <= 3 for count in counts.values())


def test_after_a_retry_the_last_resort_has_no_turn(desk: Any) -> None:
    desk.offer(1)
    desk.offer(2, state=MemberState.SUSPECT)
    assert desk.router.pick(query(desk), [desk.node(1)]).node == desk.node(2)
    assert desk.picks(2, query(desk)) == [1, 1]
