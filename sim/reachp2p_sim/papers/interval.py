"""Lifeguard's interval experiment (arXiv 1707.00788 §V): false positives and load under anomalies in lock-step.

Every configuration meets the same anomalies of the same seeds, and is compared with SWIM in sums over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

from reachp2p_sim.measuring import confidence
from reachp2p_sim.measuring.confidence import Estimate
from reachp2p_sim.papers.anomalies import AGENTS, Configuration, Disturbance, IntervalCase
from reachp2p_sim.papers.base import Findings, Row, Scale, at_most
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
TELLING_SWIM = Configuration("LHA-Suspicion", 5.0, 1.0)
"""SWIM with its fixed timer that passes on the first K confirmations all the same. That is what memberlist does if β is
set to 1 and nothing else: in its `suspicion.go` K alone decides whether a confirmation is news."""
GRID_BLOCKED, GRID_DURATIONS, GRID_AWAKE = (4, 16, 32), (2.048, 8.192, 32.768), (0.001, 0.064, 4.096)
"""The grid of R2.2: agents of 128, seconds, seconds."""
SECONDS, SECONDS_QUICK = 120.0, 60.0
QUICK_CELLS = tuple(
    (count * SMALL // AGENTS, duration, GRID_AWAKE[(row + column) % 3])
    for row, count in enumerate(GRID_BLOCKED)
    for column, duration in enumerate(GRID_DURATIONS)
)
"""Nine of the 27: a Latin square, in which each two levels of different parameters meet once."""


LOAD_AWAKE = (GRID_AWAKE[0], GRID_AWAKE[2], GRID_AWAKE[1])
"""Three cells of the square that have each level of each parameter once."""
SECONDS_LOAD_QUICK = 30.0


def interval_cases(scale: Scale) -> list[IntervalCase]:
    """Every configuration meets the same anomalies of the same seeds."""
    configurations = [configuration for configuration, _, _ in TABLE_4] + [ALPHA_4, OURS]
    if scale.quick:
        return [
            IntervalCase(configuration, SMALL, count, duration, awake, SECONDS_QUICK, scale.seed + cell)
            for configuration in configurations
            for cell, (count, duration, awake) in enumerate(QUICK_CELLS)
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
    "of which the paper says nothing. Here it takes 50 µs a datagram: one goroutine of memberlist reads datagrams one "
    "after the other, another decodes and handles their parts, which is some tens of microseconds on a host shared by "
    "128 agents. As the experiment on handling shows, which of the speeds from 20 µs to 1 ms it is hardly matters; if "
    "handling takes no time, an agent that is awake for a millisecond hears all refutations, and only anomalies longer "
    "than the suspicion time-out mislead anybody."
)
ORDER = (
    "Of the parts of Lifeguard, LHA-Suspicion does nearly all of the work, LHA-Probe saves about a third, and Buddy "
    "alone next to nothing, as in the paper. False positives come in bunches: one false death counts at each agent "
    "that believes it. So the shares of a quick run rest on a few dozen of them (α = 4: two runs of nine have any), "
    "and their intervals are wide."
)
LOAD = (
    "What Lifeguard adds are accusations: of each suspect up to K + 1 accusers are passed on instead of one, and each "
    "of them keeps everybody's gossip going for another half second. (A minute of 32 agents, eight blocked for 8.2 s "
    "with 1 ms between: SWIM sends 12,949 accusations and 10,541 heads, Lifeguard 23,028 and 8,344, and 588 nacks; "
    "pings and Acks are equally many.) Bytes grow more than messages because each accusation is signed by its accuser, "
    "about 200 bytes where memberlist has some 60."
)
BASELINE = (
    "Which SWIM the paper compares with decides about R2.4. In memberlist K alone decides whether a confirmation is "
    "passed on, so a memberlist whose time-outs are fixed by β = 1, and nothing else, passes on as many as Lifeguard. "
    "The published shares lie between those against either kind of SWIM, that of bytes near the second."
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
    return Findings(rows, remarks=[MAGNITUDE, ORDER])


def load_cases(scale: Scale) -> list[IntervalCase]:
    """128 agents in a quick run, too: how often news is under way at the same time depends on their number."""
    seconds, seeds = scale.pick((SECONDS_LOAD_QUICK, 1), (SECONDS, 3))
    return [
        IntervalCase(configuration, AGENTS, count, duration, awake, seconds, scale.seed + number)
        for configuration in (SWIM, LIFEGUARD, TELLING_SWIM)
        for number in range(seeds)
        for count, duration, awake in zip(GRID_BLOCKED, GRID_DURATIONS, LOAD_AWAKE, strict=True)
    ]


def judge_load(scale: Scale, done: Sequence[tuple[IntervalCase, Disturbance]]) -> Findings:
    """R2.4."""
    runs: dict[Configuration, list[Disturbance]] = {}
    for case, found in done:
        runs.setdefault(case.configuration, []).append(found)
    against, against_telling = (
        _Against(runs[swim], Randomness(scale.seed).stream("load")) for swim in (SWIM, TELLING_SWIM)
    )
    rows = []
    lifeguard = [(case, found) for case, found in done if case.configuration == LIFEGUARD]
    for what, count, published, limit in (
        ("messages", _messages, 110.6, 115.0),
        ("bytes", _bytes, 98.0, 102.0),
    ):
        share = against.percent(runs[LIFEGUARD], count)
        name = f"Lifeguard: {what}, percent of SWIM's"
        rows.append(Row("R2.4", name, share, published, "text", at_most(limit), must_hold=False))
        told = against_telling.percent(runs[LIFEGUARD], count)
        rows.append(Row("R2.4", f"{name} if SWIM passes on confirmations, too", told, published, "text"))
        rows += [
            Row(
                "R2.4",
                f"{name}: {case.blocked} blocked for {case.duration:.1f} s, awake for {case.awake * 1e3:.0f} ms",
                confidence.exact(100.0 * count(found) / count(swim)),
            )
            for (case, found), swim in zip(lifeguard, runs[SWIM], strict=True)
            if scale.quick
        ]
    return Findings(rows, remarks=[LOAD, BASELINE])


def _messages(run: Disturbance) -> float:
    return run.messages


def _bytes(run: Disturbance) -> float:
    return run.bytes


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
