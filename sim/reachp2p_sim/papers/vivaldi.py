"""Vivaldi (Dabek et al. 2004) as in Serf: Serf's own acceptance tests, and coordinates among jitter and lies.

Serf fixes limits that one seed of Go's generator meets; here each matrix is tried with many seeds of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, hypot
from random import Random
from statistics import fmean

import msgspec

from reachp2p.core.coordinates.coordinate import ERROR_MAX, HEIGHT_MIN, Coordinate, distance
from reachp2p.core.coordinates.vivaldi import Vivaldi
from reachp2p.core.ids import NodeId
from reachp2p_sim.measuring import confidence
from reachp2p_sim.papers import matrices
from reachp2p_sim.papers.base import Experiment, Figure, Findings, Paper, Row, Scale, at_least, at_most
from reachp2p_sim.papers.figure import Axis, Series, chart
from reachp2p_sim.papers.matrices import Matrix
from reachp2p_sim.world.randomness import Randomness

CYCLES = 1_000


def machines(count: int, dimensions: int, seed: int) -> tuple[list[NodeId], list[Vivaldi]]:
    """Nodes that know nothing yet, with names and chance of their own."""
    randomness = Randomness(seed)
    names = [NodeId(number.to_bytes(32, "big")) for number in range(count)]
    return names, [Vivaldi(randomness.stream("direction", number), dimensions) for number in range(count)]


def errors(nodes: Sequence[Vivaldi], truth: Matrix) -> list[float]:
    """The relative error of each pair's estimate."""
    places = [node.coordinate for node in nodes]
    return [
        abs(distance(places[i], places[j]) - truth[i][j]) / truth[i][j]
        for i in range(len(places))
        for j in range(i + 1, len(places))
    ]


# Serf's matrices


class MatrixCase(msgspec.Struct, frozen=True):
    """One matrix with one seed."""

    seed: int
    matrix: str


class Fit(msgspec.Struct, frozen=True):
    """How well coordinates fit: relative errors over all pairs; heights and drift where the matrix is about them."""

    average: float
    worst: float
    centre_height: float = 0.0
    other_height: float = 0.0
    drift: float = 0.0


MATRICES: dict[str, tuple[str, int, int, Callable[[Random], Matrix]]] = {
    "line": ("10 nodes on a line, 10 ms apart", 10, 8, lambda _: matrices.line(10, 0.010)),
    "grid": ("grid of 25, 10 ms apart", 25, 8, lambda _: matrices.grid(25, 0.010)),
    "split": ("two places of 25, 1 ms and 10 ms more", 25, 8, lambda _: matrices.split(25, 0.001, 0.010)),
    "circle": ("circle of 100 ms, one node above", 25, 2, lambda _: matrices.circle(25, 0.100)),
    "random": ("25 nodes, 100 ± 10 ms at random", 25, 8, lambda chance: matrices.normal(25, 0.1, 0.01, chance)),
    "drift": ("square of 500 ms, away from the origin", 4, 2, lambda _: matrices.square(0.5)),
}  # fmt: skip
"""Name: in words, nodes, dimensions, round trips."""

LIMITS: dict[str, tuple[float, float]] = {
    "line": (0.0031, 0.0130),
    "grid": (0.0016, 0.0230),
    "split": (0.000060, 0.00048),
    "circle": (0.0028, 0.064),
    "random": (0.075, 0.33),
}
"""Average and largest relative error (Serf, coordinate/performance_test.go)."""
MISSED = ("line", "grid", "circle")
"""Where seeds lie on both sides of a limit that one seed of Go's generator meets."""


def matrix_cases(scale: Scale) -> list[MatrixCase]:
    """Each matrix, some seeds."""
    numbers = [Randomness(scale.seed).number("matrix", number) for number in range(scale.pick(3, 25))]
    return [MatrixCase(number, matrix) for matrix in MATRICES for number in numbers]


def measure_matrix(case: MatrixCase) -> Fit:
    """A thousand cycles, in each of which every node observes a random one; the square goes on for ten thousand."""
    _, count, dimensions, build = MATRICES[case.matrix]
    randomness = Randomness(case.seed)
    truth = build(randomness.stream("round trips"))
    names, nodes = machines(count, dimensions, case.seed)
    chance = randomness.stream("partners")
    if case.matrix == "drift":
        for node, point in zip(nodes, ((0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (0.5, 0.5)), strict=True):
            node.coordinate = Coordinate(point)
        _observe(names, nodes, truth, CYCLES, chance)
        before = _off_centre(nodes)
        _observe(names, nodes, truth, 10 * CYCLES, chance)
        return Fit(0.0, 0.0, drift=_off_centre(nodes) / before)
    _observe(names, nodes, truth, CYCLES, chance)
    found = errors(nodes, truth)
    heights = [node.coordinate.height for node in nodes]
    return Fit(fmean(found), max(found), heights[0], max(heights[1:]))


def _observe(names: list[NodeId], nodes: list[Vivaldi], truth: Matrix, cycles: int, chance: Random) -> None:
    for _ in range(cycles):
        for number, node in enumerate(nodes):
            other = chance.randrange(len(nodes))
            if other != number:
                node.observe(names[other], nodes[other].coordinate, truth[number][other])


def _off_centre(nodes: list[Vivaldi]) -> float:
    points = list(zip(*(node.coordinate.point for node in nodes), strict=True))
    return hypot(*((min(values) + max(values)) / 2 for values in points))


def judge_matrices(_: Scale, done: Sequence[tuple[MatrixCase, Fit]]) -> Findings:
    """R9.1."""
    fits: dict[str, list[Fit]] = {}
    for case, fit in done:
        fits.setdefault(case.matrix, []).append(fit)
    findings = Findings()
    for matrix, (average, worst) in LIMITS.items():
        name, found = MATRICES[matrix][0], fits[matrix]
        within = sum(fit.average <= average and fit.worst <= worst for fit in found)
        must_hold = matrix not in MISSED
        findings.rows += [
            Row(
                "R9.1",
                f"{name}: average error, median of the seeds",
                confidence.median([fit.average for fit in found]),
                average,
                accepted=at_most(average),
                must_hold=must_hold,
            ),
            Row(
                "R9.1",
                f"{name}: largest error, median of the seeds",
                confidence.median([fit.worst for fit in found]),
                worst,
                accepted=at_most(worst),
                must_hold=must_hold,
            ),
            Row(
                "R9.1",
                f"{name}: seeds within both limits",
                confidence.share(within, len(found)),
                aim="report",
            ),
        ]
    circle = fits["circle"]
    findings.rows += [
        Row(
            "R9.1",
            "circle: height of the centre, lowest of the seeds",
            confidence.exact(min(fit.centre_height for fit in circle) * 1_000, len(circle)),
            97.0,
            accepted=at_least(97.0),
            unit="ms",
        ),
        Row(
            "R9.1",
            "circle: height of the others, median of the seeds",
            confidence.median([fit.other_height * 1_000 for fit in circle]),
            3.0,
            accepted=at_most(3.0),
            unit="ms",
        ),
        Row(
            "R9.1",
            "drift of the square: distance from the origin after 10,000 cycles / before",
            confidence.median([fit.drift for fit in fits["drift"]]),
            0.8,
            accepted=at_most(0.8),
        ),
    ]
    findings.remarks.append(
        "Serf's limits are set just above what one seed of Go's generator gives. With Serf's rule for heights twelve "
        "of our seeds gave average errors of 0.0009 to 0.0022 on the grid and 0.0023 to 0.0034 on the circle, on "
        "both sides of the limits as ours do; and in three of twelve on the two places the errors ran away (0.0009 "
        "to 0.0034, growing). Ours bounds a height's part of a move, and none runs away."
    )
    return findings


# Jitter and lies


NODES = 128
PERIODS = 60
JITTER = 0.2
"""Standard deviation of the logarithm of a round trip."""
LIARS = 0.05
LOOKS = (5, 10, 20, 30, 40, 60)
"""Periods after which errors are taken."""
LIES = ("none", "near", "far")
"""Coordinates at random among the honest ones, or anywhere that is allowed; both claim any error."""


class RegionCase(msgspec.Struct, frozen=True):
    """One network of three regions."""

    seed: int
    lies: str


class Look(msgspec.Struct, frozen=True):
    """Median relative error after some periods: of all honest pairs, and of those within a region."""

    periods: int
    all_pairs: float
    within: float
    nearest: float
    """Part of the honest nodes to whom some node of their own region seems the nearest."""


def region_cases(scale: Scale) -> list[RegionCase]:
    """Each kind of lie on the same networks."""
    numbers = [Randomness(scale.seed).number("regions", number) for number in range(scale.pick(3, 25))]
    return [RegionCase(number, lies) for lies in LIES for number in numbers]


def measure_regions(case: RegionCase) -> list[Look]:
    """Each node probes one other a period, in an order of its own, as the failure detector does."""
    randomness = Randomness(case.seed)
    truth = matrices.regions(NODES, 0.002, 0.040, 0.120)
    names, nodes = machines(NODES, 8, case.seed)
    chance, lies = randomness.stream("probes"), randomness.stream("lies")
    liars = set() if case.lies == "none" else set(chance.sample(range(NODES), round(LIARS * NODES)))
    honest = [number for number in range(NODES) if number not in liars]
    orders = [chance.sample([j for j in range(NODES) if j != i], NODES - 1) for i in range(NODES)]
    looks = []
    for period in range(PERIODS):
        for number in honest:
            other = orders[number][period]
            round_trip = truth[number][other] * exp(chance.gauss(0.0, JITTER))
            told = _lie(case.lies, lies) if other in liars else nodes[other].coordinate
            nodes[number].observe(names[other], told, round_trip)
        if period + 1 in LOOKS:
            looks.append(_look(period + 1, [nodes[i] for i in honest], truth, honest))
    return looks


def _lie(kind: str, chance: Random) -> Coordinate:
    reach = 0.15 if kind == "near" else 10.0
    point = tuple(chance.uniform(-reach, reach) for _ in range(8))
    return Coordinate(point, chance.uniform(0.0, ERROR_MAX), 0.0, chance.uniform(HEIGHT_MIN, reach / 3))


def _look(periods: int, nodes: list[Vivaldi], truth: Matrix, numbers: list[int]) -> Look:
    rows = [[truth[i][j] for j in numbers] for i in numbers]
    found = errors(nodes, rows)
    pairs = [rows[i][j] for i in range(len(numbers)) for j in range(i + 1, len(numbers))]
    within = [error for error, pair in zip(found, pairs, strict=True) if pair == 0.002]
    places = [node.coordinate for node in nodes]
    right = 0
    for i, place in enumerate(places):
        others = [j for j in range(len(places)) if j != i]
        right += rows[i][min(others, key=lambda j: distance(place, places[j]))] == 0.002
    return Look(periods, confidence.median(found).value, confidence.median(within).value, right / len(places))


def judge_regions(_: Scale, done: Sequence[tuple[RegionCase, list[Look]]]) -> Findings:
    """R9.2."""
    groups: dict[str, list[list[Look]]] = {}
    for case, looks in done:
        groups.setdefault(case.lies, []).append(looks)
    findings = Findings()
    words = {"none": "nobody lies", "near": "5 % lie, near", "far": "5 % lie, anywhere"}
    for lies, limit in (("none", 0.15), ("near", 0.25), ("far", 0.25)):
        last = [looks[-1] for looks in groups[lies]]
        name = f"{words[lies]}, after {PERIODS} periods"
        findings.rows += [
            Row(
                "R9.2",
                f"{name}: median error, worst network",
                confidence.exact(max(look.all_pairs for look in last), len(last)),
                limit,
                "own",
                at_most(limit),
            ),
        ]
        for what, values in (
            ("median error, mean", [look.all_pairs for look in last]),
            ("median error of pairs within a region, mean", [look.within for look in last]),
            ("nodes whose nearest seems to be in their own region", [look.nearest for look in last]),
        ):
            findings.rows.append(Row("R9.2", f"{name}: {what}", confidence.mean(values), aim="report"))
    findings.figures.append(_region_figure(groups, words))
    findings.remarks.append(
        "Within a region estimates are several times too long at first: to a coordinate 10 ms are nothing beside "
        "120, and two neighbours seldom probe each other. Who is nearest is right all the same."
    )
    return findings


def _region_figure(groups: dict[str, list[list[Look]]], words: dict[str, str]) -> Figure:
    series = []
    for lies, runs in groups.items():
        points = [
            (float(at[0].periods), fmean(look.all_pairs for look in at)) for at in zip(*runs, strict=True)
        ]
        series.append(Series(words[lies], points))
    title = f"Median error of estimated round trips, {NODES} nodes in three regions"
    axis = Axis("relative error", is_log=True, low=0.05)
    return Figure("regions", title, chart(title, Axis("periods, one probe each", low=0.0), axis, series))


PAPER = Paper(
    "vivaldi",
    "Network coordinates",
    "Dabek, Cox, Kaashoek, Morris: Vivaldi (SIGCOMM 2004); Serf, coordinate/performance_test.go",
    (
        Experiment(
            "matrices",
            ("R9.1",),
            "Serf's six matrices; in each of 1,000 cycles every node observes the true round trip to a random one.",
            matrix_cases,
            measure_matrix,
            judge_matrices,
        ),
        Experiment(
            "regions",
            ("R9.2",),
            "128 nodes in three regions (2 ms within, 40 ms between two, 120 ms to the third), log-normal jitter of "
            "20 %; each probes one other a period. Liars report another random coordinate each time.",
            region_cases,
            measure_regions,
            judge_regions,
        ),
    ),
)
