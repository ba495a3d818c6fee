"""Demers et al., Epidemic Algorithms for Replicated Database Maintenance (PODC 1987; Xerox CSL-89-1).

First as pure processes, which validates the chance and the statistics of the simulator; then beside them how the core
that ships spreads one update.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log, log2
from statistics import fmean
from typing import Literal

import msgspec

from reachp2p_sim.measuring import confidence
from reachp2p_sim.papers.base import (
    Experiment,
    Figure,
    Findings,
    Paper,
    Row,
    Scale,
    around,
    at_least,
    at_most,
)
from reachp2p_sim.papers.figure import Axis, Series, chart
from reachp2p_sim.papers.rumours import Ending, Rumour, Source, draw_from, pull, push, spread_rumour
from reachp2p_sim.papers.spread import AT_ONCE, SpreadCase, measure_spread
from reachp2p_sim.world.randomness import Randomness

SITES = 1_000


def bound(nodes: int) -> float:
    """lg n + ln n: cycles in which a push epidemic infects everybody, but for a constant (§1.3)."""
    return log2(nodes) + log(nodes)


# Simple epidemics


class SimpleCase(msgspec.Struct, frozen=True):
    """Some runs of anti-entropy with one update."""

    seed: int
    direction: Literal["push", "pull"]
    source: Source
    sites: int
    runs: int
    first: int = 0


def simple_cases(scale: Scale) -> list[SimpleCase]:
    """Push at three sizes, and at one of them with the network's kind of chance, too."""
    batches = scale.pick(1, 10)
    sizes: list[tuple[int, Source, int]] = [
        (128, "streams", 100),
        (1_000, "streams", 50),
        (1_000, "paths", 50),
        (5_000, "streams", 25),
    ]
    return [
        SimpleCase(scale.seed, "push", source, sites, runs, batch * runs)
        for sites, source, runs in sizes
        for batch in range(batches)
    ]


def tail_cases(scale: Scale) -> list[SimpleCase]:
    """Both directions at a size at which fractions are fine-grained."""
    runs = scale.pick(10, 60)
    return [
        SimpleCase(scale.seed, "push", "streams", 10_000, runs),
        SimpleCase(scale.seed, "pull", "streams", 10_000, runs),
    ]


def measure_simple(case: SimpleCase) -> list[list[int]]:
    """Infected sites after each cycle, for each run."""
    draw = draw_from(case.source, case.seed, case.direction, case.sites, case.first)
    process = push if case.direction == "push" else pull
    return [process(case.sites, draw) for _ in range(case.runs)]


def judge_push(_: Scale, done: Sequence[tuple[SimpleCase, list[list[int]]]]) -> Findings:
    """R4.1, the length of an epidemic."""
    groups: dict[tuple[int, Source], list[list[int]]] = {}
    for case, runs in done:
        groups.setdefault((case.sites, case.source), []).extend(runs)
    findings = Findings()
    for (sites, source), runs in groups.items():
        chance = "" if source == "streams" else ", SplitMix64"
        findings.rows.append(
            Row(
                "R4.1",
                f"push, n = {sites}{chance}: last site infected, mean",
                confidence.mean([float(len(run) - 1) for run in runs]),
                bound(sites),
                accepted=around(bound(sites), absolute=1.5),
                unit="cycles",
            )
        )
    return findings


def judge_tails(scale: Scale, done: Sequence[tuple[SimpleCase, list[list[int]]]]) -> Findings:
    """R4.1, how the last sites are reached: pull squares what is left, push divides it by e."""
    (_, pushed), (case, pulled) = done
    sites = case.sites
    squares = [pair for run in pulled for pair in _left(run, sites, 0.05, 0.5)]
    exponent = confidence.slope([log(before) for before, _ in squares], [log(after) for _, after in squares])
    ends = [_left(run, sites, 0.002, 0.05) for run in pushed]
    factor = confidence.bootstrap(ends, _ratio, Randomness(scale.seed).stream("bootstrap", "push tail"))
    wanted = "1/e, from (1 − 1/n)^(n(1 − p)) for a small part p that is left"
    return Findings(
        [
            Row("R4.1", "pull: exponent of what is left", exponent, 2.0, accepted=around(2.0, absolute=0.2)),
            Row(
                "R4.1",
                "push: part of what is left after a cycle",
                factor,
                exp(-1),
                accepted=around(0.37, absolute=0.04),
                note=wanted,
            ),
        ]
    )


def _left(run: list[int], sites: int, low: float, high: float) -> list[tuple[float, float]]:
    """What was left before and after each cycle that began with a part between `low` and `high` left."""
    parts = [1.0 - infected / sites for infected in run]
    return [(before, after) for before, after in pairwise(parts) if low <= before <= high and after > 0]


def _ratio(runs: Sequence[Sequence[tuple[float, float]]]) -> float:
    before = sum(pair[0] for run in runs for pair in run)
    return sum(pair[1] for run in runs for pair in run) / before


# Rumours


PUBLISHED: tuple[tuple[Rumour, float, float, float], ...] = (
    *(
        (Rumour("push", k, counter=True, feedback=True), residue, traffic, last)
        for k, residue, traffic, last in (
            (1, 0.18, 1.7, 16.8),
            (2, 0.037, 3.3, 16.9),
            (3, 0.011, 4.5, 17.4),
            (4, 0.0036, 5.6, 17.5),
            (5, 0.0012, 6.7, 17.7),
        )
    ),
    *(
        (Rumour("push", k, counter=False, feedback=False), residue, traffic, last)
        for k, residue, traffic, last in (
            (1, 0.96, 0.04, 38.0),
            (2, 0.20, 1.6, 33.0),
            (3, 0.060, 2.8, 32.0),
            (4, 0.021, 3.9, 32.0),
            (5, 0.008, 4.9, 32.0),
        )
    ),
    *(
        (Rumour("pull", k, counter=True, feedback=True), residue, traffic, last)
        for k, residue, traffic, last in ((1, 3.1e-2, 2.7, 17.6), (2, 5.8e-4, 4.5, 15.4), (3, 4.0e-6, 6.1, 14.0))
    ),
)  # fmt: skip
"""Tables 1 to 3: residue, traffic, last cycle."""

THEORY: tuple[tuple[Rumour, float], ...] = (
    (Rumour("push", 1, counter=False, feedback=True, at_once=True), 0.2032),
    (Rumour("push", 2, counter=False, feedback=True, at_once=True), 0.0595),
)
"""Feedback and coin: the residue that solves s = e^(-(k + 1)(1 - s)) (§1.4)."""


class RumourCase(msgspec.Struct, frozen=True):
    """Some runs of one kind of rumour."""

    seed: int
    rumour: Rumour
    runs: int
    first: int


def rumour_cases(scale: Scale) -> list[RumourCase]:
    """All rows of the tables and of the theory."""
    kinds = [*(entry[0] for entry in PUBLISHED), *(entry[0] for entry in THEORY)]
    cases = []
    for rumour in kinds:
        runs = 40 if rumour.direction == "pull" else 100
        cases += [RumourCase(scale.seed, rumour, runs, batch * runs) for batch in range(scale.pick(1, 10))]
    return cases


def measure_rumours(case: RumourCase) -> list[Ending]:
    """One entry a run."""
    rumour = case.rumour
    kind = (rumour.direction, rumour.k, rumour.counter, rumour.feedback, rumour.at_once, case.first)
    draw = draw_from("streams", case.seed, "rumour", *kind)
    return [spread_rumour(SITES, rumour, draw) for _ in range(case.runs)]


def judge_rumours(_: Scale, done: Sequence[tuple[RumourCase, list[Ending]]]) -> Findings:
    """R4.2."""
    found: dict[Rumour, list[Ending]] = {}
    for case, endings in done:
        found.setdefault(case.rumour, []).extend(endings)
    findings = Findings()
    for rumour, residue, traffic, last in PUBLISHED:
        name, endings = _name(rumour), found[rumour]
        is_rare = residue < 1e-5
        findings.rows += [
            Row(
                "R4.2",
                f"{name}: residue",
                confidence.mean([ending.residue for ending in endings]),
                residue,
                accepted=None if is_rare else around(residue, relative=0.2),
                must_hold=rumour.k <= 4,
            ),
            Row(
                "R4.2",
                f"{name}: traffic m",
                confidence.mean([ending.traffic for ending in endings]),
                traffic,
                accepted=around(traffic, absolute=0.05, relative=0.02),
                must_hold=False,
            ),
            Row(
                "R4.2",
                f"{name}: last site",
                confidence.mean([float(ending.last) for ending in endings]),
                last,
                accepted=around(last, absolute=1.0),
                unit="cycles",
                must_hold=False,
            ),
        ]
    for rumour, residue in THEORY:
        findings.rows.append(
            Row(
                "R4.2",
                f"{_name(rumour)}: residue of the differential equations",
                confidence.mean([ending.residue for ending in found[rumour]]),
                residue,
                "computed",
                around(residue, relative=0.1),
            )
        )
    law = confidence.mean([_law(found[rumour]) for rumour, *_ in PUBLISHED[:4]])
    name = "push: −ln(residue) / m over k = 1 … 4"
    findings.rows.append(Row("R4.2", name, law, 1.0, accepted=around(1.0, absolute=0.1)))
    findings.remarks.append(
        "The tables come out with two conventions only: all contacts of a cycle happen at once, so that two sites "
        "which infect a third in one cycle both count it as a success, and a success sets the counter back to 0. "
        "With contacts one after the other the residues of table 1 are 0.20, 0.060, 0.020 and 0.0068, which is what "
        "the differential equations give."
    )
    return findings


def _law(endings: list[Ending]) -> float:
    """s = e^(-m) says 1."""
    return -log(fmean(e.residue for e in endings)) / fmean(e.traffic for e in endings)


def _name(rumour: Rumour) -> str:
    how = "feedback" if rumour.feedback else "blind"
    return f"{rumour.direction}, {how}, {'counter' if rumour.counter else 'coin'}, k = {rumour.k}"


# Ours


def spread_cases(scale: Scale) -> list[SpreadCase]:
    """Three loss rates."""
    nodes, worlds, batches = scale.pick(32, 128), scale.pick(1, 3), scale.pick(2, 8)
    return [
        SpreadCase(Randomness(scale.seed).number("spread", number) >> 32, nodes, loss, batches)
        for loss in (0.0, 0.1, 0.3)
        for number in range(worlds)
    ]


def judge_spread(scale: Scale, done: Sequence[tuple[SpreadCase, list[list[float]]]]) -> Findings:
    """R1.4."""
    findings = Findings()
    groups: dict[float, list[list[float]]] = {}
    for case, updates in done:
        groups.setdefault(case.loss, []).extend(updates)
    nodes = done[0][0].nodes
    for loss, updates in groups.items():
        limit = bound(nodes) * (1.5 if loss > 0.1 else 1.0)
        name = f"n = {nodes}, loss {loss:.0%}"
        reached = [times[-1] for times in updates if len(times) == nodes - 1]
        findings.rows += [
            Row(
                "R1.4",
                f"{name}: part of the updates that reach everybody",
                confidence.share(len(reached), len(updates)),
                0.99,
                "own",
                at_least(0.99),
                "beat",
            ),
            Row(
                "R1.4",
                f"{name}: last member, worst update",
                confidence.exact(max(reached), len(reached)),
                limit,
                "computed",
                at_most(limit),
                "beat",
                unit="periods",
            ),
            Row("R1.4", f"{name}: last member, mean", confidence.mean(reached), unit="periods", aim="report"),
        ]
    findings.figures.append(_spread_figure(scale.seed, nodes, groups))
    findings.remarks.append(
        f"{AT_ONCE} updates are under way at once. A node of ours tells three others every 200 ms and fills its "
        "probes: it is no push epidemic of one contact a period, and meant to be faster than the bound."
    )
    return findings


def _spread_figure(seed: int, nodes: int, groups: dict[float, list[list[float]]]) -> Figure:
    draw = draw_from("streams", seed, "figure")
    runs = [push(nodes, draw) for _ in range(200)]
    longest = max(map(len, runs))
    theory = [(float(t), fmean(run[min(t, len(run) - 1)] for run in runs) / nodes) for t in range(longest)]
    series = [Series("push, 1 a period", theory)]
    for loss, updates in groups.items():
        times = sorted(time for update in updates for time in update)
        every = max(1, len(times) // 300)
        total = len(updates) * nodes
        points = [
            (time, (place + 1 + len(updates)) / total)
            for place, time in enumerate(times)
            if place % every == 0
        ]
        series.append(Series(f"reachp2p, loss {loss:.0%}", [(0.0, 1 / nodes), *points]))
    title = f"Members that know an update, n = {nodes}"
    time = Axis("periods since it was made", is_log=True, low=0.02)
    svg = chart(title, time, Axis("part of all members", low=0.0, high=1.0), series)
    return Figure("spread", title, svg)


PAPER = Paper(
    "epidemic",
    "Epidemic algorithms",
    "Demers, Greene, Hauser, Irish, Larson, Shenker, Sturgis, Swinehart, Terry: Epidemic Algorithms for Replicated "
    "Database Maintenance (PODC 1987)",
    (
        Experiment(
            "push",
            ("R4.1",),
            "One update among n sites; in each cycle every site that has it tells one other, chosen uniformly.",
            simple_cases,
            measure_simple,
            judge_push,
        ),
        Experiment(
            "tails",
            ("R4.1",),
            "10,000 sites, pushes and pulls apart; cycles that begin with few sites left.",
            tail_cases,
            measure_simple,
            judge_tails,
        ),
        Experiment(
            "rumours",
            ("R4.2",),
            "1,000 sites spread a rumour until all have lost interest: after k needless contacts in a row (counter), "
            "or with chance 1/k (coin); only contacts with sites that knew it count (feedback), or all (blind).",
            rumour_cases,
            measure_rumours,
            judge_rumours,
        ),
        Experiment(
            "ours",
            ("R1.4",),
            "The core that ships, on paths of 5 ms with loss: a record is registered at one node, and the others "
            "note when they know it.",
            spread_cases,
            measure_spread,
            judge_spread,
        ),
    ),
)
