"""Confidence intervals: how far a measured number may be from the truth, and nothing more than the standard library.

Shares by Wilson's score, means by Student's t, medians and other quantiles by the bootstrap. The bootstrap distribution
of an order statistic is known in closed form, so a quantile needs no resampling, no chance and no patience; `bootstrap`
resamples for any other statistic. All intervals are two-sided at 95 % unless another level is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, isfinite, lgamma, log, pi, sqrt, tan
from random import Random
from statistics import NormalDist, fmean, stdev
from typing import TypeVar

LEVEL = 0.95
"""The share of intervals that cover the truth."""
RESAMPLES = 2_000
"""Of a bootstrap: the ends of a 95 % interval then rest on 50 resamples each."""
_TERMS_END = 1e-17
"""Binomial terms below this share of the sum are left out."""

Sample = TypeVar("Sample")


@dataclass(slots=True, frozen=True)
class Estimate:
    """A measured number with its interval; `samples` says how many observations it rests on."""

    value: float
    low: float
    high: float
    samples: int

    def scaled(self, factor: float) -> Estimate:
        """The same in another unit; the factor is above 0."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.samples)


def exact(value: float, samples: int = 1) -> Estimate:
    """A number without doubt about it: a maximum, a count of violations, something computed."""
    return Estimate(value, value, value, samples)


def share(hits: int, trials: int, level: float = LEVEL) -> Estimate:
    """The share of hits in independent trials, with Wilson's score interval (1927).

    It stays within 0 and 1 and says something even at 0 hits: of 0 in 200 the upper end is 1.9 %.
    """
    if not 0 <= hits <= trials or trials == 0:
        raise ValueError(f"{hits} of {trials} is no share")
    z = _normal_quantile(level)
    observed = hits / trials
    scale = 1.0 + z * z / trials
    middle = (observed + z * z / (2 * trials)) / scale
    half = z / scale * sqrt(observed * (1.0 - observed) / trials + z * z / (4 * trials * trials))
    low = 0.0 if hits == 0 else middle - half  # exactly, where rounding would leave a hair
    high = 1.0 if hits == trials else middle + half
    return Estimate(observed, low, high, trials)


def rate(events: int, exposure: float, level: float = LEVEL) -> Estimate:
    """Events a unit of exposure, if they come independently (Poisson).

    Byar's approximation of the exact interval, within 1 % of it from 2 events on (Breslow and Day 1987, §2.3).
    """
    if events < 0 or not 0 < exposure < inf:
        raise ValueError(f"{events} events in {exposure} is no rate")
    z = _normal_quantile(level)
    low = 0.0
    if events:
        low = events * (1 - 1 / (9 * events) - z / (3 * sqrt(events))) ** 3
    above = events + 1
    high = above * (1 - 1 / (9 * above) + z / (3 * sqrt(above))) ** 3
    return Estimate(events / exposure, max(0.0, low) / exposure, high / exposure, events)


def mean(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """The mean of independent observations, by Student's t. One alone has an endless interval."""
    if not values:
        raise ValueError("no observations have no mean")
    value = fmean(values)
    if len(values) == 1:
        return Estimate(value, -inf, inf, 1)
    half = _student_quantile(level, len(values) - 1) * stdev(values) / sqrt(len(values))
    return Estimate(value, value - half, value + half, len(values))


def quantile(values: Sequence[float], at: float, level: float = LEVEL) -> Estimate:
    """The smallest observation that at least the share `at` of all do not exceed, with its bootstrap interval.

    A resample's k-th smallest is at most the j-th smallest of n observations with the chance that k or more of n draws
    fall among those j: a binomial tail (Efron 1979, §3). The interval's ends are observations, so no interval
    reaches beyond the largest: with fewer than about 3/(1 - at) observations it is too narrow.
    """
    if not values or not 0 < at < 1:
        raise ValueError(f"no quantile {at} of {len(values)} observations")
    ordered = sorted(values)
    count = len(ordered)
    rank = max(1, ceil(at * count - 1e-9))
    tail = (1.0 - level) / 2
    low = _first_rank(count, rank, tail)
    high = _first_rank(count, rank, 1.0 - tail)
    return Estimate(ordered[rank - 1], ordered[low - 1], ordered[high - 1], count)


def median(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """`quantile` at one half."""
    return quantile(values, 0.5, level)


def bootstrap(
    samples: Sequence[Sample],
    statistic: Callable[[Sequence[Sample]], float],
    chance: Random,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Estimate:
    """Any statistic of independent observations, with the percentile interval of its resamples.

    Resample runs, not events within a run: what happens within one run is not independent.
    """
    if not samples:
        raise ValueError("no observations have no statistic")
    found = sorted(statistic(chance.choices(samples, k=len(samples))) for _ in range(resamples))
    cut = int(resamples * (1.0 - level) / 2)
    return Estimate(statistic(samples), found[cut], found[-1 - cut], len(samples))


def slope(xs: Sequence[float], ys: Sequence[float], level: float = LEVEL) -> Estimate:
    """The slope of the line of least squares through the points, with its interval by Student's t."""
    count = len(xs)
    if count != len(ys) or count < 3:
        raise ValueError("a slope with an interval needs at least three points")
    middle_x, middle_y = fmean(xs), fmean(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    if spread == 0:
        raise ValueError("all points have one x: there is no slope")
    value = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread
    rest = sum((y - middle_y - value * (x - middle_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    half = _student_quantile(level, count - 2) * sqrt(rest / (count - 2) / spread)
    return Estimate(value, value - half, value + half, count)


def _normal_quantile(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1, not {level}")
    return NormalDist().inv_cdf((1.0 + level) / 2)


def _student_quantile(level: float, freedom: int) -> float:
    """Student's t at (1 + level)/2. Exact for 1 and 2 degrees of freedom, else the expansion of Abramowitz and Stegun
    26.7.5, right to 0.2 % from 3 degrees on at 95 %."""
    x = _normal_quantile(level)
    if freedom == 1:
        return tan(pi * level / 2)
    if freedom == 2:
        return level * sqrt(2 / (1 - level * level))
    first = (x**3 + x) / 4
    second = (5 * x**5 + 16 * x**3 + 3 * x) / 96
    third = (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384
    fourth = (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160
    return x + first / freedom + second / freedom**2 + third / freedom**3 + fourth / freedom**4


def _first_rank(count: int, rank: int, chance: float) -> int:
    """The smallest j for which a resample's `rank`-th smallest is at most the j-th with at least this chance."""
    low, high = 1, count
    while low < high:
        middle = (low + high) // 2
        if _at_least(count, rank, middle / count) >= chance:
            high = middle
        else:
            low = middle + 1
    return low


def _at_least(trials: int, hits: int, chance: float) -> float:
    """P(a binomial number is `hits` or more). Sums the shorter side from its largest term outwards."""
    if chance >= 1:
        return 1.0
    if hits > trials * chance:
        return _tail(trials, hits, chance)
    return 1.0 - _tail(trials, trials - hits + 1, 1.0 - chance)


def _tail(trials: int, hits: int, chance: float) -> float:
    """P(`hits` or more), for `hits` at or above the mean: the terms fall from the first on."""
    logarithm = lgamma(trials + 1) - lgamma(hits + 1) - lgamma(trials - hits + 1)
    term = exp(logarithm + hits * log(chance) + (trials - hits) * log(1.0 - chance))
    assert isfinite(term)
    total, odds = 0.0, chance / (1.0 - chance)
    for k in range(hits, trials + 1):
        total += term
        term *= (trials - k) / (k + 1) * odds
        if term < total * _TERMS_END:
            break
    return min(1.0, total)
