"""How much of the circle a join or a leave moves on the ring that ships (Karger et al. 1997: monotone)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import msgspec

from reachp2p.core.ring.placement import InstanceKey
from reachp2p_sim.measuring import confidence
from reachp2p_sim.papers.base import Findings, Row, Scale, around, at_most
from reachp2p_sim.papers.random_rings import VIRTUAL_NODES, instances, ring_of


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
                    confidence.exact(worst, len(moved)),
                    limit,
                    "computed",
                    at_most(limit),
                ),
                Row(
                    "R5.2",
                    f"{name}: moved/ideal, mean",
                    confidence.mean(moved),
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
                confidence.exact(among, len(found)),
                0.0,
                "computed",
                (0.0, 0.0),
            )
        )
    return findings
