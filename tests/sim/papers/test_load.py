"""Queues behind old boards, and the policy that ships beside its rivals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reachp2p_sim.papers.balancing import (
    RIVALS,
    BalanceCase,
    Rival,
    balance_cases,
    judge_balance,
    measure_balance,
)
from reachp2p_sim.papers.base import Scale
from reachp2p_sim.papers.stale_board import (
    TABLE,
    QueueCase,
    Times,
    Way,
    judge_fresh,
    judge_stale,
    measure_queue,
    stale_cases,
    supermarket,
)


@pytest.mark.parametrize(
    ("load", "choices", "expected"),
    [(0.9, 1, 10.0), (0.5, 2, 1.27), (0.9, 2, 2.61), (0.99, 2, 5.43), (0.7, 3, 1.36), (0.99, 3, 3.86)],
)
def test_the_supermarket_model_has_its_published_values(load: float, choices: int, expected: float) -> None:
    assert supermarket(load, choices) == pytest.approx(expected, rel=0.004)


def mean(way: Way, load: float = 0.9, period: float = 0.0, servers: int = 100) -> float:
    return measure_queue(QueueCase(1, 0, load, period, way, jobs=8_000, servers=servers)).mean


def test_one_server_is_a_queue_of_theory() -> None:
    assert mean("random", 0.5, servers=1) == pytest.approx(2.0, rel=0.1)


def test_two_fresh_choices_are_better_than_chance_and_three_than_two() -> None:
    assert mean("three") < mean("two") < 0.6 * mean("random")


def test_the_least_of_all_by_an_old_board_is_worse_than_chance_and_own_numbers_mend_it() -> None:
    old = mean("least", period=10.0)
    assert old > 1.2 * mean("random")
    assert mean("local least", period=10.0) < 0.5 * old
    assert mean("local two", period=10.0) < mean("two", period=10.0)


def test_rows_fail_for_times_that_are_not_those_of_the_table() -> None:
    scale = Scale(quick=True, seed=1)
    expected = {
        (load, period, way): value for (load, period), ways in TABLE.items() for way, value in ways.items()
    } | {(0.9, 0.0, "random"): 9.6, (0.5, 0.0, "random"): 1.98}
    cases = stale_cases(scale)
    done = [(case, Times(expected[case.load, case.period, case.way], 0.0)) for case in cases]
    assert {row.verdict for row in judge_stale(scale, done).rows} == {"holds", "reported"}
    wrong = [(case, Times(times.mean * 1.2, 0.0)) for case, times in done]
    low = [
        row for row in judge_stale(scale, wrong).rows if row.accepted is not None and "over" not in row.what
    ]
    assert {row.verdict for row in low} == {"open"}, "one sample has no interval"
    fresh = [
        (QueueCase(1, number, load, 0.0, way), Times(supermarket(load, 2 if way == "two" else 3), 0.0))
        for number in range(3)
        for load in (0.5, 0.7, 0.9, 0.95)
        for way in ("two", "three")
    ]
    assert {row.verdict for row in judge_fresh(scale, fresh).rows} == {"holds", "reported"}


def test_all_rivals_meet_the_same_jobs_and_ours_is_ahead() -> None:
    found = {rival: measure_balance(BalanceCase(1, 0, rival, 5.0, 0.9, 8, 6_000)) for rival in RIVALS}
    assert found["reachp2p"].mean < found["old reports"].mean < found["random"].mean
    assert found["reachp2p"].mean < found["own only"].mean
    alone = {rival: measure_balance(BalanceCase(1, 0, rival, 5.0, 0.01, 1, 500)) for rival in RIVALS}
    assert max(times.mean for times in alone.values()) == pytest.approx(alone["random"].mean, rel=0.05)


def judged(times: Callable[[Rival], Times]) -> set[str]:
    scale = Scale(quick=True, seed=1)
    done = [(case, times(case.rival)) for case in balance_cases(scale)]
    return {row.verdict for row in judge_balance(scale, done).rows}


def test_a_policy_that_is_no_better_than_chance_does_not_hold() -> None:
    good, bad = Times(3.0, 11.0), Times(4.0, 13.0)
    assert judged(lambda rival: good if rival == "reachp2p" else bad) == {"holds", "reported"}
    assert "open" in judged(lambda rival: bad if rival == "reachp2p" else good)
