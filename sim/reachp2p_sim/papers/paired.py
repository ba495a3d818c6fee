"""Sums over runs, set beside the sums of another configuration that met the same anomalies of the same seeds.

What makes one run louder than another (who is blocked, for how long, with what chance) is the same for both, so it
cancels in their ratio: resamples draw runs, and of each drawn run both configurations. Runs come in strata (cells of a
grid, or its durations). All strata count the same, however many runs they have; and as it is no chance that there is
each of them, each resample has all of them. Of m runs m − 1 are drawn, which makes the variance right for small m (Rao
and Wu 1988); a stratum with one run shows none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import inf
from random import Random

from reachp2p_sim.measuring.confidence import RESAMPLES, Estimate

Values = Sequence[float]
Places = Sequence[tuple[int, float]]
"""Runs with what each counts."""


class Paired:
    """Resamples of the places of runs, by stratum. If each stratum has one run, all are taken for one stratum."""

    def __init__(self, strata: Sequence[Hashable], chance: Random) -> None:
        groups: dict[Hashable, list[int]] = {}
        for place, stratum in enumerate(strata):
            groups.setdefault(stratum, []).append(place)
        parts = list(groups.values())
        if len(parts) == len(strata):
            parts = [list(range(len(strata)))]
        self._count = len(strata)
        self._whole = _weighted(parts)
        self._draws = [
            _weighted([chance.choices(part, k=max(1, len(part) - 1)) for part in parts])
            for _ in range(RESAMPLES)
        ]

    def percent(self, ours: Values, theirs: Values) -> Estimate:
        """One in percent of the other; 0 if both are nothing, endless if only the other is."""
        return self._estimate(lambda places: _percent(ours, theirs, places))

    def difference(self, below: Values, above: Values, theirs: Values) -> Estimate:
        """`below` less `above`, both in percent of the third."""
        return self._estimate(
            lambda places: _percent(below, theirs, places) - _percent(above, theirs, places)
        )

    def mean(self, values: Values) -> Estimate:
        """Over all strata."""
        return self._estimate(lambda places: _sum(values, places) / sum(weight for _, weight in places))

    def _estimate(self, statistic: Callable[[Places], float]) -> Estimate:
        found = sorted(statistic(draw) for draw in self._draws)
        cut = RESAMPLES // 40
        return Estimate(statistic(self._whole), found[cut], found[-1 - cut], self._count)


def _weighted(parts: Sequence[Sequence[int]]) -> Places:
    return [(place, 1.0 / len(part)) for part in parts for place in part]


def _sum(values: Values, places: Places) -> float:
    return sum(values[place] * weight for place, weight in places)


def _percent(ours: Values, theirs: Values, places: Places) -> float:
    above, below = _sum(ours, places), _sum(theirs, places)
    if below == 0.0:
        return 0.0 if above == 0.0 else inf
    return 100.0 * above / below
