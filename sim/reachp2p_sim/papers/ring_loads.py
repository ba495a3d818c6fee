"""Bounded loads and weights on the ring that ships (Mirrokni, Thorup, Zadimoghaddam 2018; weights by virtual nodes)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

import msgspec

from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.ring.ring import Ring
from reachp2p_sim.measuring import confidence
from reachp2p_sim.papers.base import Findings, Row, Scale, around, at_most
from reachp2p_sim.papers.random_rings import VIRTUAL_NODES, instances, ring_of, root


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
        fullest = confidence.exact(max(loads.fullest for loads in found), len(found))
        findings.rows.append(
            Row("B5.3", f"{name}: fullest instance / ⌈c·m/n⌉", fullest, 1.0, "text", at_most(1.0), "beat")
        )
        extra = confidence.mean([loads.moved * 50 for loads in found])
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
                confidence.mean([loads.forwarded for loads in found]),
                forwarded,
                "computed",
                aim="report",
            )
        )
    findings.remarks.append(
        "The experiment walks the preference lists of the ring that ships, with the keys of all callers together; "
        "the router that ships bounds what each caller has in flight. Weighted rendezvous hashing is no part of "
        "reachp2p, whose ring gives an instance tokens in proportion to its weight."
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
                root(confidence.mean([errors[place] for errors in found])),
                theory,
                "computed",
                around(theory, relative=0.05),
                must_hold=False,
            )
        )
    return findings
