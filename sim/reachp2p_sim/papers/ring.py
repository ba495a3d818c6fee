"""Consistent hashing: balance, movement and bounded loads of the ring that ships.

The theory: with V tokens each, the shares of n instances have a standard deviation of sqrt((1 - 1/n)/V) of their mean
(arcs between uniform points are exchangeable; Karger et al. 1997, Dynamo §6.2). The measured Karger rings are those of
Lamping and Veach 2014, figure 2. Limits for the largest share are our own Monte-Carlo over 200 ideal random rings.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

import msgspec

from reachp2p.core.ids import NodeId
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.ring.ring import Ring
from reachp2p_sim import intervals
from reachp2p_sim.intervals import Estimate
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
from reachp2p_sim.randomness import Randomness

VIRTUAL_NODES = 150
AGENT = "papers/ring"
RINGS_PER_CASE = 25

LIMITS: dict[tuple[int, int], tuple[float, float, float]] = {
    (10, 100): (1.157, 1.293, 0.85),
    (10, 150): (1.132, 1.257, 0.87),
    (10, 200): (1.113, 1.200, 0.89),
    (32, 100): (1.216, 1.398, 0.80),
    (32, 150): (1.177, 1.299, 0.84),
    (32, 200): (1.153, 1.250, 0.86),
    (100, 100): (1.263, 1.378, 0.77),
    (100, 150): (1.214, 1.316, 0.80),
    (100, 200): (1.187, 1.271, 0.83),
    (1_000, 100): (1.359, 1.483, 0.71),
    (1_000, 150): (1.285, 1.372, 0.76),
    (1_000, 200): (1.251, 1.303, 0.79),
}
"""(instances, tokens each): mean of the largest share over the mean share, its p99, mean of the smallest."""

KARGER: dict[int, tuple[float, float, float]] = {
    1: (0.998, 0.005, 5.25),
    10: (0.315, 0.37, 1.98),
    100: (0.0997, 0.76, 1.28),
    1_000: (0.0316, 0.92, 1.09),
}
"""Points an instance: standard deviation over mean of the share, and the ends of its 99 % interval."""


def instances(count: int, *name: str | int) -> list[InstanceKey]:
    """That many random instances; their names decide which."""
    chance = Randomness(0).stream("ring instances", *name)
    return [(NodeId(chance.randbytes(32)), AGENT) for _ in range(count)]


def ring_of(members: Sequence[InstanceKey], virtual_nodes: int) -> Ring:
    """The ring of these instances, all of weight 1."""
    ring = Ring(virtual_nodes)
    ring.update(dict.fromkeys(members, 100))
    return ring


# Balance


class BalanceCase(msgspec.Struct, frozen=True):
    """Some random memberships of one size."""

    seed: int
    nodes: int
    virtual_nodes: int
    first: int
    rings: int


class Balance(msgspec.Struct, frozen=True):
    """What the shares of one membership look like, in units of the mean share."""

    square: float
    """Mean squared distance from 1."""
    largest: float
    smallest: float
    low: float
    """The share that 0.5 % of the instances do not exceed."""
    high: float
    """The share that 99.5 % do not exceed."""


def balance_cases(scale: Scale) -> list[BalanceCase]:
    """All sizes and token counts of the table, and the rings of Lamping and Veach."""
    cases = []
    for nodes, virtual_nodes in LIMITS:
        if virtual_nodes == VIRTUAL_NODES:
            rings = scale.pick(125 if nodes < 1_000 else 10, 500)
        else:
            rings = scale.pick(0, 200 if nodes < 1_000 else 50)
        cases += _batches(scale.seed, nodes, virtual_nodes, rings)
    for points, rings in ((1, 20), (10, 10), (1_000, scale.pick(0, 4))):
        cases += _batches(scale.seed, 1_000, points, rings)
    return cases


def _batches(seed: int, nodes: int, virtual_nodes: int, rings: int) -> list[BalanceCase]:
    starts = range(0, rings, RINGS_PER_CASE)
    return [
        BalanceCase(seed, nodes, virtual_nodes, first, min(RINGS_PER_CASE, rings - first)) for first in starts
    ]


def measure_balance(case: BalanceCase) -> list[Balance]:
    """One entry a membership."""
    found = []
    for number in range(case.first, case.first + case.rings):
        members = instances(case.nodes, case.seed, "balance", case.nodes, number)
        shares = sorted(
            share * case.nodes for share in ring_of(members, case.virtual_nodes).shares().values()
        )
        square = sum((share - 1.0) ** 2 for share in shares) / case.nodes
        edge = case.nodes // 200
        found.append(Balance(square, shares[-1], shares[0], shares[edge], shares[-1 - edge]))
    return found


def judge_balance(_: Scale, done: Sequence[tuple[BalanceCase, list[Balance]]]) -> Findings:
    """R5.1, the table around it, and figure 2 of Lamping and Veach."""
    groups: dict[tuple[int, int], list[Balance]] = {}
    for case, found in done:
        groups.setdefault((case.nodes, case.virtual_nodes), []).extend(found)
    findings = Findings()
    for (nodes, virtual_nodes), rings in groups.items():
        name = f"{nodes} instances, V = {virtual_nodes}"
        is_default = virtual_nodes == VIRTUAL_NODES
        theory = sqrt((1 - 1 / nodes) / virtual_nodes)
        findings.rows.append(
            Row(
                "R5.1",
                f"{name}: sd/mean of a share",
                _root(intervals.mean([ring.square for ring in rings])),
                theory,
                "computed",
                around(theory, relative=0.05),
                must_hold=is_default,
            )
        )
        if (nodes, virtual_nodes) in LIMITS:
            findings.rows += _extremes(name, rings, LIMITS[nodes, virtual_nodes], is_default)
        if nodes == 1_000 and virtual_nodes in KARGER:
            findings.rows += _karger(name, rings, KARGER[virtual_nodes])
    findings.figures.append(_balance_figure(groups))
    return findings


def _extremes(
    name: str, rings: list[Balance], limits: tuple[float, float, float], is_default: bool
) -> list[Row]:
    mean_largest, p99_largest, mean_smallest = limits
    below = sum(ring.largest <= p99_largest for ring in rings)
    largest = [ring.largest for ring in rings]
    return [
        Row(
            "R5.1",
            f"{name}: part of the memberships with max/avg ≤ {p99_largest}",
            intervals.share(below, len(rings)),
            0.99,
            "computed",
            at_least(0.99) if is_default else None,
        ),
        Row(
            "R5.1",
            f"{name}: max/avg, mean",
            intervals.mean(largest),
            mean_largest,
            "computed",
            around(mean_largest, relative=0.02),
            must_hold=False,
        ),
        Row(
            "R5.1",
            f"{name}: min/avg, mean",
            intervals.mean([ring.smallest for ring in rings]),
            mean_smallest,
            "computed",
            around(mean_smallest, absolute=0.015),
            must_hold=False,
        ),
    ]


def _karger(name: str, rings: list[Balance], published: tuple[float, float, float]) -> list[Row]:
    deviation, low, high = published
    measured = _root(intervals.mean([ring.square for ring in rings]))
    rows = [
        Row(
            "R5.1",
            f"{name}: sd/mean, Lamping and Veach",
            measured,
            deviation,
            "text",
            around(deviation, relative=0.05),
        )
    ]
    for point, values, value in (
        ("0.5 %", [ring.low for ring in rings], low),
        ("99.5 %", [ring.high for ring in rings], high),
    ):
        limits = around(value, absolute=0.005, relative=0.05)
        name_of_point = f"{name}: {point} point of a share"
        rows.append(
            Row("R5.1", name_of_point, intervals.mean(values), value, "text", limits, must_hold=False)
        )
    return rows


def _root(square: Estimate) -> Estimate:
    return Estimate(sqrt(square.value), sqrt(max(0.0, square.low)), sqrt(square.high), square.samples)


def _balance_figure(groups: dict[tuple[int, int], list[Balance]]) -> Figure:
    series = []
    for nodes in (10, 32, 100, 1_000):
        largest = sorted(ring.largest for ring in groups[nodes, VIRTUAL_NODES])
        points = [(value, (place + 1) / len(largest)) for place, value in enumerate(largest)]
        series.append(Series(f"{nodes} instances", points))
    limits = [(LIMITS[nodes, VIRTUAL_NODES][1], 0.99) for nodes in (10, 32, 100, 1_000)]
    series.append(Series("p99 of ideal rings", limits, is_published=True))
    title = f"The largest share of random memberships, V = {VIRTUAL_NODES}"
    svg = chart(
        title,
        Axis("largest share / mean share", low=1.0),
        Axis("part of all memberships", low=0.0, high=1.0),
        series,
    )
    return Figure("balance", title, svg)


# Movement


class MovementCase(msgspec.Struct, frozen=True):
    """Joins and leaves of one instance, at one size."""

    seed: int
    nodes: int
    changes: int


class Movement(msgspec.Struct, frozen=True):
    """What one change moved, as parts of the whole circle."""

    kind: str
    moved: float
    among_survivors: float


def movement_cases(scale: Scale) -> list[MovementCase]:
    """Four sizes."""
    return [
        MovementCase(scale.seed, nodes, scale.pick(12 if nodes < 1_000 else 2, 200 if nodes < 1_000 else 50))
        for nodes in (10, 50, 100, 1_000)
    ]


def measure_movement(case: MovementCase) -> list[Movement]:
    """Changes one ring as a routing table would, and compares the owners of the whole circle, not of sampled keys."""
    found = []
    for number in range(case.changes):
        *members, stranger = instances(case.nodes + 1, case.seed, "movement", case.nodes, number)
        ring = ring_of(members, VIRTUAL_NODES)
        before = ring.entries()
        ring.add(stranger)
        joined = ring.entries()
        ring.remove(members[0])
        found.append(_movement("join", before, joined, stranger))
        found.append(_movement("leave", joined, ring.entries(), members[0]))
    return found


Entries = list[tuple[int, InstanceKey]]


def _movement(kind: str, before: Entries, after: Entries, touched: InstanceKey) -> Movement:
    """Walks both rings at once: between two neighbouring tokens of either, each has one owner."""
    moved = strange = last = 0
    left = right = 0
    while left < len(before) or right < len(after):
        at = min(
            before[left][0] if left < len(before) else 2**64, after[right][0] if right < len(after) else 2**64
        )
        old, new = before[left % len(before)][1], after[right % len(after)][1]
        if old != new:
            moved += at - last
            if touched not in (old, new):
                strange += at - last
        last = at
        left += _token(before, left) == at
        right += _token(after, right) == at
    old, new = before[0][1], after[0][1]  # beyond the last token the circle begins again
    if old != new:
        moved += 2**64 - last
        if touched not in (old, new):
            strange += 2**64 - last
    return Movement(kind, moved / 2**64, strange / 2**64)


def _token(entries: Entries, place: int) -> int:
    return entries[place][0] if place < len(entries) else 2**64


def judge_movement(_: Scale, done: Sequence[tuple[MovementCase, list[Movement]]]) -> Findings:
    """R5.2."""
    findings = Findings()
    limit = 4 / sqrt(VIRTUAL_NODES)
    for case, found in done:
        for kind, ideal in (("join", 1 / (case.nodes + 1)), ("leave", 1 / (case.nodes + 1))):
            moved = [change.moved / ideal for change in found if change.kind == kind]
            worst = max(abs(part - 1) for part in moved)
            name = f"{case.nodes} instances, {kind}"
            findings.rows += [
                Row(
                    "R5.2",
                    f"{name}: worst |moved/ideal − 1|",
                    intervals.exact(worst, len(moved)),
                    limit,
                    "computed",
                    at_most(limit),
                ),
                Row(
                    "R5.2",
                    f"{name}: moved/ideal, mean",
                    intervals.mean(moved),
                    1.0,
                    "computed",
                    around(1.0, relative=limit),
                ),
            ]
        among = max(change.among_survivors for change in found)
        findings.rows.append(
            Row(
                "R5.2",
                f"{case.nodes} instances: largest part moved between survivors",
                intervals.exact(among, len(found)),
                0.0,
                "computed",
                (0.0, 0.0),
            )
        )
    return findings


# Bounded loads and weights


class LoadCase(msgspec.Struct, frozen=True):
    """Keys placed with bounded loads before and after one leave."""

    seed: int
    number: int
    virtual_nodes: int
    slack: float
    nodes: int = 50
    keys: int = 20_000


class Loads(msgspec.Struct, frozen=True):
    """How the keys fell."""

    fullest: float
    """Load of the fullest instance over its bound."""
    forwarded: float
    """Part of the keys that did not find room at their owner."""
    moved: float
    """Part of the keys that another instance had after one had left."""


SETTINGS = ((100, 1.25, 0.0, 0.021), (100, 1.1, 0.009, 0.024), (1, 1.25, 0.42, 0.26), (150, 1.25, None, None))
"""Tokens, c, and what our Monte-Carlo over ideal rings found: part forwarded, part moved by one leave."""


def load_cases(scale: Scale) -> list[LoadCase]:
    """Each setting, some memberships."""
    return [
        LoadCase(scale.seed, number, virtual_nodes, slack)
        for virtual_nodes, slack, _, _ in SETTINGS
        for number in range(scale.pick(4, 40))
    ]


def measure_loads(case: LoadCase) -> Loads:
    """Places keys one by one on the first instance in preference order with room (Mirrokni et al. 2016)."""
    members = instances(case.nodes, case.seed, "loads", case.virtual_nodes, case.number)
    ring = ring_of(members, case.virtual_nodes)
    before, fullest = _place(ring, case)
    forwarded = sum(ring.owner(f"key {number}") != holder for number, holder in enumerate(before))
    ring.remove(members[0])
    after, fullest_after = _place(ring, case)
    moved = sum(old != new for old, new in zip(before, after, strict=True))
    return Loads(max(fullest, fullest_after), forwarded / case.keys, moved / case.keys)


def _place(ring: Ring, case: LoadCase) -> tuple[list[InstanceKey], float]:
    room = ceil(case.slack * case.keys / len(ring))
    load = dict.fromkeys(ring.weights, 0)
    holders = []
    for number in range(case.keys):
        holder = next(instance for instance in ring.successors(f"key {number}") if load[instance] < room)
        load[holder] += 1
        holders.append(holder)
    return holders, max(load.values()) / room


def judge_loads(_: Scale, done: Sequence[tuple[LoadCase, Loads]]) -> Findings:
    """B5.3."""
    findings = Findings()
    for virtual_nodes, slack, forwarded, moved in SETTINGS:
        found = [loads for case, loads in done if (case.virtual_nodes, case.slack) == (virtual_nodes, slack)]
        name = f"V = {virtual_nodes}, c = {slack}"
        is_default = virtual_nodes == VIRTUAL_NODES
        fullest = intervals.exact(max(loads.fullest for loads in found), len(found))
        findings.rows.append(
            Row("B5.3", f"{name}: fullest instance / ⌈c·m/n⌉", fullest, 1.0, "text", at_most(1.0), "beat")
        )
        extra = intervals.mean([loads.moved * 50 for loads in found])
        findings.rows.append(
            Row(
                "B5.3",
                f"{name}: moved by one leave / ideal",
                extra,
                None if moved is None else moved * 50,
                "computed",
                at_most(1.3) if is_default else None,
                "beat" if is_default else "report",
            )
        )
        findings.rows.append(
            Row(
                "B5.3",
                f"{name}: part of the keys forwarded",
                intervals.mean([loads.forwarded for loads in found]),
                forwarded,
                "computed",
                aim="report",
            )
        )
    findings.remarks.append(
        "Routing does not bound loads yet: the experiment walks the preference lists of the ring that ships. "
        "Weighted rendezvous hashing is no part of reachp2p, whose ring gives an instance tokens in proportion to "
        "its weight."
    )
    return findings


class WeightCase(msgspec.Struct, frozen=True):
    """Memberships in which every third instance weighs half, one and two."""

    seed: int
    nodes: int
    rings: int


WEIGHTS = (50, 100, 200)
"""In percent."""


def weight_cases(scale: Scale) -> list[WeightCase]:
    """One size."""
    return [WeightCase(scale.seed, 30, scale.pick(60, 400))]


def measure_weights(case: WeightCase) -> list[list[float]]:
    """For each membership the mean squared error of a share over its ideal, by weight."""
    found = []
    for number in range(case.rings):
        members = instances(case.nodes, case.seed, "weights", number)
        weights = {member: WEIGHTS[place % 3] for place, member in enumerate(members)}
        ring = Ring(VIRTUAL_NODES)
        ring.update(weights)
        total, shares = sum(weights.values()), ring.shares()
        errors: dict[int, list[float]] = {weight: [] for weight in WEIGHTS}
        for member, weight in weights.items():
            errors[weight].append(shares[member] * total / weight - 1)
        found.append([_mean_square(errors[weight]) for weight in WEIGHTS])
    return found


def _mean_square(errors: list[float]) -> float:
    return sum(error * error for error in errors) / len(errors)


def judge_weights(_: Scale, done: Sequence[tuple[WeightCase, list[list[float]]]]) -> Findings:
    """The error of weighted shares against that of as many tokens spread at random."""
    findings = Findings()
    ((case, found),) = done
    total = sum(WEIGHTS) * case.nodes // 3
    for place, weight in enumerate(WEIGHTS):
        tokens = VIRTUAL_NODES * weight / 100
        theory = sqrt((1 - weight / total) / tokens)
        findings.rows.append(
            Row(
                "B5.3",
                f"weight {weight / 100:g} of {case.nodes} instances: sd/mean of a share",
                _root(intervals.mean([errors[place] for errors in found])),
                theory,
                "computed",
                around(theory, relative=0.05),
                must_hold=False,
            )
        )
    return findings


PAPER = Paper(
    "ring",
    "Consistent hashing",
    "Karger et al. (STOC 1997); DeCandia et al., Dynamo (SOSP 2007); Lamping and Veach, jump hash (2014); Mirrokni "
    "et al., bounded loads (SODA 2018)",
    (
        Experiment(
            "balance",
            ("R5.1",),
            "Random memberships on `reachp2p.core.ring`; shares are arcs of the circle, in units of their mean.",
            balance_cases,
            measure_balance,
            judge_balance,
        ),
        Experiment(
            "movement",
            ("R5.2",),
            "One instance joins, another leaves; the owners of the whole circle are compared, so no key can hide.",
            movement_cases,
            measure_movement,
            judge_movement,
        ),
        Experiment(
            "bounded-loads",
            ("B5.3",),
            "20,000 keys on 50 instances, each at the first of its preference list with room; then one leaves.",
            load_cases,
            measure_loads,
            judge_loads,
        ),
        Experiment(
            "weights",
            ("B5.3",),
            "30 instances of weights 0.5, 1 and 2; the share of each against the part of the weights that is its "
            "own.",
            weight_cases,
            measure_weights,
            judge_weights,
        ),
    ),
)
