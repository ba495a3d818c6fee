"""Dadgar, Phillips, Currey: Lifeguard: Local Health Awareness for More Accurate Failure Detection (arXiv 1707.00788).

Both of its experiments with the core that ships: Threshold, one long anomaly, for the time to detection; Interval,
anomalies in lock-step, for false positives and load. `anomalies` has the set-up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from random import Random

from reachp2p_sim.measuring import confidence
from reachp2p_sim.measuring.confidence import Estimate
from reachp2p_sim.papers.anomalies import (
    AGENTS,
    Configuration,
    Detection,
    Disturbance,
    IntervalCase,
    ThresholdCase,
    interval,
    threshold,
)
from reachp2p_sim.papers.base import Experiment, Findings, Paper, Row, Scale, around, at_most
from reachp2p_sim.world.randomness import Randomness

SMALL = 32
"""Agents of a quick run, with the time-outs of 128."""

SWIM = Configuration("SWIM")
LIFEGUARD = Configuration("Lifeguard")
TABLE_4: tuple[tuple[Configuration, float, float], ...] = (
    (SWIM, 100.0, 100.0),
    (Configuration("Buddy"), 94.08, 44.57),
    (Configuration("LHA-Probe"), 67.72, 32.88),
    (Configuration("LHA-Suspicion"), 3.00, 6.71),
    (LIFEGUARD, 1.53, 1.89),
)
"""FP and FP− in percent of SWIM's, most first."""
ALPHA_4 = Configuration("Lifeguard", 4.0, 6.0)
"""memberlist's own default, the column to beat."""
OURS = Configuration("reachp2p")

# Threshold

FIRST_MEDIAN, FIRST_P99, FULL_AFTER_FIRST = 12.44, 16.96, 0.46
"""Table V, SWIM, seconds. A median may differ by 0.4, a p99 by 1.0, the last by 0.2."""


def threshold_cases(scale: Scale) -> list[ThresholdCase]:
    """The parameters of the paper whose anomalies outlast the suspicion: 16.4 and 32.8 s."""
    configurations = (SWIM, ALPHA_4, OURS)
    if scale.quick:
        blocked = (4, 8, 4, 8, 4, 8, 8)
        return [
            ThresholdCase(configuration, SMALL, count, 32.768, scale.seed + number)
            for configuration in configurations
            for number, count in enumerate(blocked)
        ]
    return [
        ThresholdCase(configuration, AGENTS, count, duration, scale.seed + number)
        for configuration in configurations
        for count in (1, 4, 8, 12, 16, 20, 24, 28, 32)
        for duration in (16.384, 32.768)
        for number in range(10)
    ]


def judge_threshold(scale: Scale, done: Sequence[tuple[ThresholdCase, list[Detection]]]) -> Findings:
    """R2.1, and the medians of R2.3 and B2.5."""
    seen: dict[Configuration, list[Detection]] = {}
    for case, found in done:
        seen.setdefault(case.configuration, []).extend(found)
    first = {configuration: _firsts(found) for configuration, found in seen.items()}
    gaps = [d.full - d.first for d in seen[SWIM] if d.first is not None and d.full is not None]
    swim = confidence.median(first[SWIM])
    return Findings(
        rows=[
            Row(
                "R2.1",
                "SWIM: first detection, median",
                swim,
                FIRST_MEDIAN,
                "text",
                around(FIRST_MEDIAN, 0.4),
                unit="s",
            ),
            Row(
                "R2.1",
                "SWIM: first detection, 99 %",
                confidence.quantile(first[SWIM], 0.99),
                FIRST_P99,
                "text",
                around(FIRST_P99, 1.0),
                unit="s",
                must_hold=not scale.quick,
                note="" if not scale.quick else "a quick run has too few detections for a 99 % point",
            ),
            Row(
                "R2.1",
                "SWIM: from the first to everyone, median",
                confidence.median(gaps),
                FULL_AFTER_FIRST,
                "text",
                around(FULL_AFTER_FIRST, 0.2),
                unit="s",
                note="" if not scale.quick else "news takes longer to reach 128 agents than 32",
            ),
            Row(
                "R2.3",
                f"{ALPHA_4.label}: median first detection, part of SWIM's",
                _ratio(first[ALPHA_4], first[SWIM], scale.seed),
                0.814,
                "computed",
                at_most(0.85),
            ),
            Row(
                "B2.5",
                "reachp2p: first detection, median",
                confidence.median(first[OURS]),
                10.4,
                "own",
                at_most(10.4),
                "beat",
                unit="s",
            ),
            Row(
                "B2.5",
                "reachp2p: everyone has its own verdict, median",
                confidence.median([d.full for d in seen[OURS] if d.full is not None]),
                unit="s",
                aim="beat",
            ),
        ]
    )


def _firsts(found: Sequence[Detection]) -> list[float]:
    """Who was not detected at all counts as never: a quantile may be endless, but is not too small."""
    return [inf if detection.first is None else detection.first for detection in found]


def _ratio(ours: list[float], theirs: list[float], seed: int) -> Estimate:
    """Ratio of two medians, with its bootstrap interval."""
    chance = Randomness(seed).stream("ratio of medians")
    found = sorted(
        _middle(chance.choices(ours, k=len(ours))) / _middle(chance.choices(theirs, k=len(theirs)))
        for _ in range(confidence.RESAMPLES)
    )
    cut = confidence.RESAMPLES // 40
    return Estimate(_middle(ours) / _middle(theirs), found[cut], found[-1 - cut], len(ours))


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


# Interval

GRID_BLOCKED, GRID_DURATIONS, GRID_AWAKE = (4, 16, 32), (2.048, 8.192, 32.768), (0.001, 0.064, 4.096)
"""The grid of R2.2: agents of 128, seconds, seconds."""
SECONDS = 120.0
QUICK_CELLS = ((8, 8.192, 0.001, SECONDS), (8, 16.384, 0.001, SECONDS / 2))
"""Agents of 32, seconds of each anomaly, seconds between two, seconds in all: where most false positives are."""


def interval_cases(scale: Scale) -> list[IntervalCase]:
    """Every configuration meets the same anomalies of the same seeds."""
    configurations = [configuration for configuration, _, _ in TABLE_4] + [ALPHA_4, OURS]
    if scale.quick:
        return [
            IntervalCase(configuration, SMALL, count, duration, awake, seconds, scale.seed)
            for configuration in configurations
            for count, duration, awake, seconds in QUICK_CELLS
        ]
    return [
        IntervalCase(configuration, AGENTS, count, duration, awake, SECONDS, scale.seed + number)
        for configuration in configurations
        for number in range(3)
        for count in GRID_BLOCKED
        for duration in GRID_DURATIONS
        for awake in GRID_AWAKE
    ]


MAGNITUDE = (
    "How many false positives there are depends on how fast an agent handles what has queued up while it was blocked, "
    "of which the paper says nothing. If that takes no time, an agent that is awake for a millisecond hears all "
    "refutations, and only anomalies longer than the suspicion time-out (10.5 s) mislead it; at 20 µs a message, as "
    "here, it falls behind where anomalies of 8 s follow each other closely; at a millisecond it never catches up, "
    "and not even Lifeguard helps. What the configurations are to each other is what is compared."
)
ORDER = (
    "Of the parts of Lifeguard, LHA-Suspicion does nearly all of the work, as in the paper. LHA-Probe and Buddy alone "
    "help little: an agent that blocks has one probe under way until its health multiplier has made its rounds longer "
    "than the anomaly, and its accusation is out as soon as it is released."
)
LOAD = (
    "R2.4 is a sum over 432 combinations in the paper, many of them quiet: there all configurations send the same. "
    "These cells are the disturbed ones, in which accusers add news, so the ratio of messages is above the paper's. "
    "That of bytes is so besides because an accusation of ours is signed by its accuser: about 200 bytes, a multiple "
    "of memberlist's."
)
Runs = Sequence[Disturbance]


def judge_interval(scale: Scale, done: Sequence[tuple[IntervalCase, Disturbance]]) -> Findings:
    """R2.2, R2.4, the rest of R2.3 and B2.5."""
    runs: dict[Configuration, list[Disturbance]] = {}
    for case, found in done:
        runs.setdefault(case.configuration, []).append(found)
    against = _Against(runs[SWIM], Randomness(scale.seed).stream("interval"))
    rows: list[Row] = []
    for configuration, all_, healthy in TABLE_4[1:]:
        limits = {"Lifeguard": (at_most(5.0), at_most(6.0))}.get(configuration.preset, (None, None))
        rows += _shares("R2.2", against, configuration, runs[configuration], (all_, healthy), limits)
    for (above, *_), (below, *_) in pairwise(TABLE_4):
        is_sharp = below.preset in ("LHA-Suspicion", "Lifeguard")
        rows.append(
            Row(
                "R2.2",
                f"order of Table IV: FP of {below.preset} less {above.preset}'s, percent of SWIM's",
                against.difference(runs[below], runs[above], _all),
                accepted=at_most(0.0),
                must_hold=is_sharp,
            )
        )
    rows += _shares("R2.3", against, ALPHA_4, runs[ALPHA_4], (6.0, 8.0), (at_most(6.0), at_most(8.0)))
    rows.append(
        Row(
            "R2.4",
            "Lifeguard: messages, percent of SWIM's",
            against.percent(runs[LIFEGUARD], lambda run: run.messages),
            110.6,
            "text",
            at_most(115.0),
            must_hold=False,
        )
    )
    rows.append(
        Row(
            "R2.4",
            "Lifeguard: bytes, percent of SWIM's",
            against.percent(runs[LIFEGUARD], lambda run: run.bytes),
            98.0,
            "text",
            at_most(102.0),
            must_hold=False,
        )
    )
    ours = runs[OURS]
    at_healthy = sum(run.at_healthy for run in ours)
    rows.append(
        Row(
            "B2.5",
            "reachp2p: FP− over all runs, each",
            confidence.rate(at_healthy, len(ours)),
            0.0,
            "own",
            at_most(0.0),
            "beat",
        )
    )
    rows += [
        Row(
            "B2.5",
            f"{name}: FP, each run",
            confidence.mean([float(_all(run)) for run in runs[configuration]]),
            aim="beat",
        )
        for name, configuration in (("reachp2p", OURS), (ALPHA_4.label, ALPHA_4), ("SWIM", SWIM))
    ]
    return Findings(rows=rows, remarks=[MAGNITUDE, ORDER, LOAD])


def _all(run: Disturbance) -> float:
    return run.false_positives


def _healthy(run: Disturbance) -> float:
    return run.at_healthy


class _Against:
    """Sums over runs in percent of SWIM's, with intervals from resampled cells: configurations stay paired."""

    def __init__(self, swim: Runs, chance: Random) -> None:
        self._swim = swim
        self._draws = [chance.choices(range(len(swim)), k=len(swim)) for _ in range(confidence.RESAMPLES)]

    def swim_sum(self, count: Callable[[Disturbance], float]) -> float:
        """Of all runs."""
        return sum(count(run) for run in self._swim)

    def percent(self, runs: Runs, count: Callable[[Disturbance], float]) -> Estimate:
        """Of SWIM's sum; endless above if SWIM has none in a resample."""
        return self._estimate(lambda cells: _percent(runs, self._swim, cells, count))

    def difference(self, below: Runs, above: Runs, count: Callable[[Disturbance], float]) -> Estimate:
        """`below` less `above`, both in percent of SWIM's sum."""
        return self._estimate(
            lambda cells: (
                _percent(below, self._swim, cells, count) - _percent(above, self._swim, cells, count)
            )
        )

    def _estimate(self, statistic: Callable[[Sequence[int]], float]) -> Estimate:
        found = sorted(statistic(draw) for draw in self._draws)
        cut = len(found) // 40
        return Estimate(statistic(range(len(self._swim))), found[cut], found[-1 - cut], len(self._swim))


def _percent(runs: Runs, swim: Runs, cells: Sequence[int], count: Callable[[Disturbance], float]) -> float:
    theirs = sum(count(swim[cell]) for cell in cells)
    ours = sum(count(runs[cell]) for cell in cells)
    return 100.0 * ours / max(theirs, 1.0)


def _shares(
    row_id: str,
    against: _Against,
    configuration: Configuration,
    runs: Runs,
    published: tuple[float, float],
    limits: tuple[tuple[float, float] | None, tuple[float, float] | None],
) -> list[Row]:
    rows = [
        Row(
            row_id,
            f"{configuration.label}: FP, percent of SWIM's",
            against.percent(runs, _all),
            published[0],
            "text",
            limits[0],
        )
    ]
    if against.swim_sum(_healthy) > 0:  # else there is nothing to compare with
        rows.append(
            Row(
                row_id,
                f"{configuration.label}: FP−, percent of SWIM's",
                against.percent(runs, _healthy),
                published[1],
                "text",
                limits[1],
            )
        )
    return rows


PAPER = Paper(
    name="lifeguard",
    title="Lifeguard",
    citation="A. Dadgar, J. Phillips, J. Currey: Lifeguard: Local Health Awareness for More Accurate Failure "
    "Detection, arXiv 1707.00788 v2, 2018",
    experiments=(
        Experiment(
            "threshold",
            ("R2.1", "R2.3", "B2.5"),
            "Agents block once, for 16.4 or 32.8 s, until all others have buried them. α = 5, β = 1 for SWIM. A quick "
            "run has 32 agents with the time-outs of 128 instead of 128.",
            threshold_cases,
            threshold,
            judge_threshold,
        ),
        Experiment(
            "interval",
            ("R2.2", "R2.3", "R2.4", "B2.5"),
            "Agents block and are released again and again, in lock-step, for two minutes: 4, 16 or 32 of 128, for "
            "2.0, 8.2 or 32.8 s, with 1, 64 or 4,096 ms between, 3 seeds each. A quick run has 32 agents and two runs "
            "of each configuration (8 agents for 8.2 and for 16.4 s, 1 ms between), on which its intervals rest.",
            interval_cases,
            interval,
            judge_interval,
        ),
    ),
)
