"""Intervals: known values, limits, and that they cover the truth as often as they say."""

from __future__ import annotations

from math import inf
from random import Random
from statistics import fmean

import pytest
from reachp2p_sim.measuring import confidence


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_a_share_has_wilsons_interval(hits: int, trials: int, low: float, high: float) -> None:
    found = confidence.share(hits, trials)
    assert (found.low, found.high) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))
    assert (found.value, found.samples) == (hits / trials, trials)


@pytest.mark.parametrize(
    ("events", "low", "high"), [(0, 0.0, 3.689), (2, 0.242, 7.225), (10, 4.795, 18.390), (100, 81.36, 121.63)]
)
def test_a_rate_has_the_interval_of_a_poisson_number(events: int, low: float, high: float) -> None:
    found = confidence.rate(events, 2.0)
    assert found.value == events / 2
    assert found.low == pytest.approx(low / 2, rel=0.1)  # exact values from chi-square; Byar's is close
    assert found.high == pytest.approx(high / 2, rel=0.02)


@pytest.mark.parametrize(
    ("freedom", "wanted"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)]
)
def test_students_t(freedom: int, wanted: float) -> None:
    assert confidence._student_quantile(0.95, freedom) == pytest.approx(wanted, rel=2e-3)


def test_a_mean_has_students_interval() -> None:
    found = confidence.mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.value == 3.0
    assert found.high - found.value == pytest.approx(1.963, abs=2e-3)
    assert found.value - found.low == pytest.approx(1.963, abs=2e-3)
    assert confidence.mean([7.0]) == confidence.Estimate(7.0, -inf, inf, 1)


@pytest.mark.parametrize(("count", "at"), [(41, 0.5), (100, 0.5), (500, 0.99), (150, 0.1)])
def test_a_quantiles_interval_is_what_resampling_finds(count: int, at: float) -> None:
    chance = Random(count)
    values = [chance.expovariate(1.0) for _ in range(count)]
    found = confidence.quantile(values, at)
    rank = sorted(values).index(found.value)
    resampled = confidence.bootstrap(values, lambda sample: sorted(sample)[rank], chance, resamples=4_000)
    assert resampled.value == found.value
    position = sorted(values).index
    assert position(found.low) == pytest.approx(position(resampled.low), abs=1 + count // 200)
    assert position(found.high) == pytest.approx(position(resampled.high), abs=1 + count // 200)


def test_quantiles_of_many_and_of_one() -> None:
    found = confidence.quantile([float(number) for number in range(100_000)], 0.99)
    assert found.value == 98_999
    assert found.low == pytest.approx(98_999 - 1.96 * 31.46, abs=3)
    assert found.high == pytest.approx(98_999 + 1.96 * 31.46, abs=3)
    assert confidence.median([4.0]) == confidence.Estimate(4.0, 4.0, 4.0, 1)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    chance = Random(11)
    covered = {"mean": 0, "median": 0}
    for _ in range(400):
        values = [chance.gauss(5.0, 2.0) for _ in range(40)]
        for name, found in (("mean", confidence.mean(values)), ("median", confidence.median(values))):
            covered[name] += found.low <= 5.0 <= found.high
    assert 0.92 <= covered["mean"] / 400 <= 0.98
    assert 0.91 <= covered["median"] / 400 <= 0.99


def test_a_slope_and_its_interval() -> None:
    assert confidence.slope([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]).value == pytest.approx(2.0)
    found = confidence.slope([0.0, 1.0, 2.0, 3.0], [0.0, 1.2, 1.8, 3.1])
    assert found.low < 1.0 < found.high


def test_a_bootstrap_follows_its_chance_alone() -> None:
    values = [1.0, 5.0, 2.0, 8.0, 3.0]
    assert confidence.bootstrap(values, fmean, Random(3)) == confidence.bootstrap(values, fmean, Random(3))


def test_a_scaled_estimate_is_the_same_in_another_unit() -> None:
    assert confidence.Estimate(1.0, 0.5, 2.0, 9).scaled(1_000) == confidence.Estimate(1_000, 500, 2_000, 9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: confidence.share(3, 2),
        lambda: confidence.share(0, 0),
        lambda: confidence.rate(1, 0.0),
        lambda: confidence.mean([]),
        lambda: confidence.quantile([], 0.5),
        lambda: confidence.quantile([1.0], 1.0),
        lambda: confidence.share(1, 2, level=1.0),
        lambda: confidence.bootstrap([], len, Random(1)),
        lambda: confidence.slope([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
        lambda: confidence.slope([1.0, 2.0], [1.0, 2.0]),
    ],
)
def test_what_has_no_interval_raises(call: object) -> None:
    with pytest.raises(ValueError, match=r"no|level|needs"):
        call()  # type: ignore[operator]
