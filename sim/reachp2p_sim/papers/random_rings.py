"""Rings of random instances, for those who measure them."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from reachp2p.core.ids import NodeId
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.ring.ring import Ring
from reachp2p_sim.measuring.confidence import Estimate
from reachp2p_sim.world.randomness import Randomness

VIRTUAL_NODES = 150
AGENT = "papers/ring"


def instances(count: int, *name: str | int) -> list[InstanceKey]:
    """That many random instances; their names decide which."""
    chance = Randomness(0).stream("ring instances", *name)
    return [(NodeId(chance.randbytes(32)), AGENT) for _ in range(count)]


def ring_of(members: Sequence[InstanceKey], virtual_nodes: int) -> Ring:
    """The ring of these instances, all of weight 1."""
    ring = Ring(virtual_nodes)
    ring.update(dict.fromkeys(members, 100))
    return ring


def root(square: Estimate) -> Estimate:
    """From mean squares to their root, ends and all."""
    return Estimate(sqrt(square.value), sqrt(max(0.0, square.low)), sqrt(square.high), square.samples)
