"""Lifeguard's interval experiment (arXiv 1707.00788 §V): false positives and load under anomalies in lock-step.

Every configuration meets the same anomalies of the same seeds, and is compared with SWIM in sums over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from reachp2p_sim.measuring import confidence
from reachp2p_sim.papers.anomalies import AGENTS, Configuration, Disturbance, IntervalCase
from reachp2p_sim.papers.base import Findings, Row, Scale, at_most
from reachp2p_sim.papers.paired import Paired
from reachp2p_sim.world.randomness import Randomness

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
GRID_BLOCKED, GRID_DURATIONS, GRID_AWAKE = (4, 16, 32), (2.048, 8.192, 32.768), (0.001, 0.064, 4.096)
"""The grid of R2.2: agents of 128, seconds, seconds."""
SECONDS, SECONDS_QUICK = 120.0, 60.0
QUICK_CELLS = tuple(
    (count, duration, awake)
    for duration, awake in ((2.048, 0.001), (8.192, 0.001), (32.768, 0.001), (32.768, 0.064))
    for count in GRID_BLOCKED
)
"""Twelve of the 27: those in which SWIM has false positives. Whoever is awake for longer than it takes to hear the
refutations that wait for him misleads nobody, so the others say nothing about shares of SWIM's."""


def interval_cases(scale: Scale) -> list[IntervalCase]:
    """Every configuration meets the same anomalies of the same seeds; all but ours have the sizes of memberlist."""
    configurations = [configuration for configuration, _, _ in TABLE_4] + [ALPHA_4, OURS]
    grid = [
        (count, duration, awake)
        for count in GRID_BLOCKED
        for duration in GRID_DURATIONS
        for awake in GRID_AWAKE
    ]
    cells, seeds, seconds = scale.pick((QUICK_CELLS, 1, SECONDS_QUICK), (grid, 3, SECONDS))
    return [
        IntervalCase(
            configuration,
            AGENTS,
            *cell,
            seconds,
            scale.seed + number * len(cells) + place,
            memberlist_sizes=configuration != OURS,
        )
        for configuration in configurations
        for number in range(seeds)
        for place, cell in enumerate(cells)
    ]


MAGNITUDE = (
    "How many false positives there are depends on how fast an agent handles what has queued up while it was blocked, "
    "of which the paper says nothing. Here it takes 50 µs a datagram: one goroutine of memberlist reads datagrams one "
    "after the other, another decodes and handles their parts, which is some tens of microseconds on a host shared by "
    "128 agents. As the experiment on handling shows, which of the speeds from 20 µs to 1 ms it is hardly matters; if "
    "handling takes no time, an agent that is awake for a millisecond hears all refutations, and only anomalies longer "
    "than the suspicion time-out mislead anybody."
)
ORDER = (
    "Of the parts of Lifeguard, LHA-Suspicion does nearly all of the work, LHA-Probe saves some, and Buddy alone next "
    "to nothing, as in the paper. False positives come in bunches: one false death counts at each agent that believes "
    "it. So the intervals of shares come from resampled runs, the same for both configurations that are compared, and "
    "a quick run has only cells in which SWIM has false positives."
)


def judge_interval(scale: Scale, done: Sequence[tuple[IntervalCase, Disturbance]]) -> Findings:
    """R2.2, R2.4, the rest of R2.3 and B2.5."""
    runs: dict[Configuration, list[Disturbance]] = {}
    for case, found in done:
        runs.setdefault(case.configuration, []).append(found)
    swim = runs[SWIM]
    cells = [(case.blocked, case.duration, case.awake) for case, _ in done[: len(swim)]]
    paired = Paired(cells, Randomness(scale.seed).stream("interval"))
    rows: list[Row] = []
    for configuration, all_, healthy in TABLE_4[1:]:
        limits = {"Lifeguard": (at_most(5.0), at_most(6.0))}.get(configuration.preset, (None, None))
        rows += _shares("R2.2", paired, configuration, runs[configuration], swim, (all_, healthy), limits)
    for (above, *_), (below, *_) in pairwise(TABLE_4):
        is_sharp = below.preset in ("LHA-Suspicion", "Lifeguard")
        rows.append(
            Row(
                "R2.2",
                f"order of Table IV: FP of {below.preset} less {above.preset}'s, percent of SWIM's",
                paired.difference(_all(runs[below]), _all(runs[above]), _all(swim)),
                accepted=at_most(0.0),
                must_hold=is_sharp,
            )
        )
    rows += _shares("R2.3", paired, ALPHA_4, runs[ALPHA_4], swim, (6.0, 8.0), (at_most(6.0), at_most(8.0)))
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
            confidence.mean(_all(runs[configuration])),
            aim="beat",
        )
        for name, configuration in (("reachp2p", OURS), (ALPHA_4.label, ALPHA_4), ("SWIM", SWIM))
    ]
    return Findings(rows, remarks=[MAGNITUDE, ORDER])


def _all(runs: Sequence[Disturbance]) -> list[float]:
    return [float(run.false_positives) for run in runs]


def _healthy(runs: Sequence[Disturbance]) -> list[float]:
    return [float(run.at_healthy) for run in runs]


def _shares(
    row_id: str,
    paired: Paired,
    configuration: Configuration,
    runs: Sequence[Disturbance],
    swim: Sequence[Disturbance],
    published: tuple[float, float],
    limits: tuple[tuple[float, float] | None, tuple[float, float] | None],
) -> list[Row]:
    rows = [
        Row(
            row_id,
            f"{configuration.label}: FP, percent of SWIM's",
            paired.percent(_all(runs), _all(swim)),
            published[0],
            "text",
            limits[0],
        )
    ]
    if any(_healthy(swim)):  # else there is nothing to compare with
        rows.append(
            Row(
                row_id,
                f"{configuration.label}: FP−, percent of SWIM's",
                paired.percent(_healthy(runs), _healthy(swim)),
                published[1],
                "text",
                limits[1],
            )
        )
    return rows
