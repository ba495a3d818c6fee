"""SWIM's experiments: small set-ups that show what the large ones measure."""

from __future__ import annotations

import pytest
from reachp2p_sim.papers.joins import JoinCase, measure_joins
from reachp2p_sim.papers.probing import (
    LoadCase,
    NewsCase,
    ProbingCase,
    RateCase,
    measure_load,
    measure_news,
    measure_probing,
    measure_rate,
    over_all_moments,
)
from reachp2p_sim.papers.swim import ROUNDS, bound, expected_rounds, expected_wait, false_rate


def test_the_formulas_have_the_limits_of_the_paper() -> None:
    assert expected_rounds(10_000) == pytest.approx(ROUNDS, abs=0.001)
    assert expected_wait(10_000) == pytest.approx(1.0, abs=0.001)
    assert false_rate(0.1, 1) == pytest.approx(0.0653, abs=0.0001)
    assert false_rate(0.2, 3) == pytest.approx(0.0741, abs=0.0001)


def test_waits_are_averaged_over_all_moments() -> None:
    # Moments from 0 to 2: half of them wait for less than a period, those of the first half for up to 1.5.
    assert over_all_moments([1.5, 2.0, 9.0], 0.0, 2.0) == pytest.approx(
        ((0.5 * 2 + 1.5) / 2, (1.125 + 0.125) / 2)
    )
    assert over_all_moments([1.5, 2.0, 9.0], 2.0, 1.0) == pytest.approx((7.0, 6.5))
    assert over_all_moments([1.5], 1.0, 1.0) is None


def test_a_member_is_probed_within_2n_minus_1_own_periods_by_everyone() -> None:
    shuffled = measure_probing(ProbingCase(seed=1, nodes=6, periods=120, round_robin=True))
    assert 6 <= shuffled.longest <= 11
    assert shuffled.gaps > 500
    assert len(shuffled.waits) == len(shuffled.rounds) == 6 * 5
    assert sum(shuffled.rounds) > sum(shuffled.waits)
    drawn = measure_probing(ProbingCase(seed=1, nodes=6, periods=120, round_robin=False))
    assert drawn.longest > 11  # which a list of members never lets happen


def test_a_quiet_group_costs_two_datagrams_a_member_and_period() -> None:
    found = measure_load(LoadCase(seed=1, nodes=6, periods=30))
    assert sum(found) / len(found) == pytest.approx(2.0, abs=0.05)


def test_rounds_fail_as_often_as_the_formula_says() -> None:
    found = measure_rate(RateCase(seed=1, nodes=8, loss=0.2, helpers=1, periods=80))
    assert found.rounds == pytest.approx(8 * 80, abs=8)
    assert found.failed / found.rounds == pytest.approx(false_rate(0.2, 1), abs=0.05)


def test_piggyback_alone_reaches_everybody_within_the_bound() -> None:
    updates = measure_news(NewsCase(seed=1, nodes=8, loss=0.0, updates=5))
    assert [len(times) for times in updates] == [7] * 5
    assert max(times[-1] for times in updates) < bound(8)


def test_joins_under_loss_need_the_suspicion() -> None:
    assert measure_joins(JoinCase(seed=1, variant="+Inf")).size < 6
    ours = measure_joins(JoinCase(seed=1, variant="reachp2p"))
    assert (ours.size, ours.drops) == (17.0, 0)
