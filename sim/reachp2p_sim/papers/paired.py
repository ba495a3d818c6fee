"""Sums over runs, set beside the sums of another configuration that met the same anomalies of the same seeds.

What makes one run louder than another (who is blocked, for how long, with what chance) is the same for both, so it
cancels in their ratio: resamples draw runs, and of each drawn run both configurations. Runs come in strata (cells of a
grid, or its durations); that each stratum is there is no chance, so each resample has as much of it as the sample. Of m
runs m − 1 are drawn, which makes the variance right for small m (Rao and Wu 1988).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from random import Random

from reachp2p_sim.measuring.confidence import RESAMPLES, Estimate

Values = Sequence[float]


class Paired:
    """Resamples of the places of runs. Strata have equally many runs; if each has one, all are one stratum."""

    def __init__(self, strata: Sequence[Hashable], chance: Random) -> None:
        groups: dict[Hashable, list[int]] = {}
        for place, stratum in enumerate(strata):
            groups.setdefault(stratum, []).append(place)
        size = len(strata) // len(groups)
        if any(len(group) != size for group in groups.values()):
            raise ValueError("strata need equally many runs")
        parts = list(groups.values()) if size > 1 else [list(range(len(strata)))]
        self._whole = range(len(strata))
        self._draws = [
            [place for part in parts for place in chance.choices(part, k=max(1, len(part) - 1))]
            for _ in range(RESAMPLES)
        ]

    def percent(self, ours: Values, theirs: Values) -> Estimate:
        """The sum of one in percent of the other's (of 1, where the other has none)."""
        return self._estimate(lambda places: _percent(ours, theirs, places))

    def difference(self, below: Values, above: Values, theirs: Values) -> Estimate:
        """`below` less `above`, both in percent of the third."""
        return self._estimate(
            lambda places: _percent(below, theirs, places) - _percent(above, theirs, places)
        )

    def mean(self, values: Values) -> Estimate:
        """Of all runs."""
        return self._estimate(lambda places: sum(values[place] for place in places) / len(places))

    def _estimate(self, statistic: Callable[[Sequence[int]], float]) -> Estimate:
        found = sorted(statistic(draw) for draw in self._draws)
        cut = RESAMPLES // 40
        return Estimate(statistic(self._whole), found[cut], found[-1 - cut], len(self._whole))


def _percent(ours: Values, theirs: Values, places: Sequence[int]) -> float:
    return 100.0 * sum(ours[place] for place in places) / max(sum(theirs[place] for place in places), 1.0)
