"""Heads cost nothing to invent: what members who never answer may keep the others from."""

from __future__ import annotations

from reachp2p_sim import World
from reachp2p_sim.machines.host import Host


def compared(hosts: list[Host]) -> list[int]:
    """How many comparisons of views each has brought to an end."""
    counts = [host.engine.diagnostics() for host in hosts]
    return [count.get("sync.done", 0) + count.get("sync.equal", 0) for count in counts]


def test_views_are_compared_although_chance_chooses_members_that_do_not_exist() -> None:
    """Nearly all that chance chooses are invented; without a second choice nobody compared views for four minutes."""
    world = World(1)
    hosts = world.add_nodes(6, converged=True)
    world.run(5.0)
    world.turn_hostile(hosts[-1], behaviour="sybils")
    world.run(90.0)
    assert len(hosts[0].engine.members()) > 100
    before = compared(hosts[:-1])
    world.run(240.0)
    assert all(after >= begun + 2 for begun, after in zip(before, compared(hosts[:-1]), strict=True))
    assert all(host.engine.diagnostics()["sync.instead"] for host in hosts[:-1])
