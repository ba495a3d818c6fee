"""Dadgar, Phillips, Currey: Lifeguard: Local Health Awareness for More Accurate Failure Detection (arXiv 1707.00788).

Both of its experiments with the core that ships: Threshold, one long anomaly, for the time to detection; Interval,
anomalies in lock-step, for false positives and load. `anomalies` has the set-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from reachp2p_sim.measuring import confidence
from reachp2p_sim.measuring.confidence import Estimate
from reachp2p_sim.papers.anomalies import (
    AGENTS,
    Configuration,
    Detection,
    ThresholdCase,
    interval,
    threshold,
)
from reachp2p_sim.papers.base import Experiment, Findings, Paper, Row, Scale, around, at_most
from reachp2p_sim.papers.handling import EXPERIMENT as HANDLING
from reachp2p_sim.papers.interval import (
    ALPHA_4,
    OURS,
    SWIM,
    interval_cases,
    judge_interval,
)
from reachp2p_sim.papers.lifeguard_load import judge_load, load_cases
from reachp2p_sim.world.randomness import Randomness

# Threshold

FIRST_MEDIAN, FIRST_P99, FULL_AFTER_FIRST = 12.44, 16.96, 0.46
"""Table V, SWIM, seconds. A median may differ by 0.4, a p99 by 1.0, the last by 0.2."""


def threshold_cases(scale: Scale) -> list[ThresholdCase]:
    """The parameters of the paper whose anomalies outlast the suspicion: 16.4 and 32.8 s."""
    configurations = (SWIM, ALPHA_4, OURS)
    if scale.quick:
        return [
            ThresholdCase(configuration, AGENTS, count, 32.768, scale.seed + number)
            for configuration in configurations
            for number, count in enumerate((16, 24, 32))
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


PAPER = Paper(
    name="lifeguard",
    title="Lifeguard",
    citation="A. Dadgar, J. Phillips, J. Currey: Lifeguard: Local Health Awareness for More Accurate Failure "
    "Detection, arXiv 1707.00788 v2, 2018",
    experiments=(
        Experiment(
            "threshold",
            ("R2.1", "R2.3", "B2.5"),
            "Agents block once, for 16.4 or 32.8 s, until all others have buried them. 128 agents; α = 5, β = 1 for "
            "SWIM. A quick run has three runs of each configuration.",
            threshold_cases,
            threshold,
            judge_threshold,
        ),
        Experiment(
            "interval",
            ("R2.2", "R2.3", "B2.5"),
            "Agents block and are released again and again, in lock-step, for two minutes: 4, 16 or 32 of 128, for "
            "2.0, 8.2 or 32.8 s, with 1, 64 or 4,096 ms between, 3 seeds each. A quick run has one minute of twelve of "
            "the 27 cells, in which SWIM has false positives: 1 ms between, or 64 ms and 32.8 s.",
            interval_cases,
            interval,
            judge_interval,
        ),
        Experiment(
            "load",
            ("R2.4",),
            "128 agents in 74 cells drawn from the paper's own grid (9 numbers of agents, 6 durations from 0.1 to 32.8 "
            "s, 8 pauses from 1 ms to 16.4 s), for two minutes; a quick run has 14 cells for one. All durations count "
            "the same. Datagrams and their bytes are counted, as large as memberlist would send them.",
            load_cases,
            interval,
            judge_load,
        ),
        HANDLING,
    ),
)
