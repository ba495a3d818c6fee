"""Machines that start knowing each other: no join, and the same group afterwards."""

from __future__ import annotations

import pytest
from reachp2p_sim.checkers import attach_all
from reachp2p_sim.steps.processes import AddNodes
from reachp2p_sim.world.agreement import agreed, converged
from reachp2p_sim.world.world import World

from reachp2p.core.events import Joined, MemberState


def test_converged_machines_know_each_other_at_once_and_live_on_together() -> None:
    world = World(1)
    checkers = attach_all(world)
    hosts = world.add_nodes(12, converged=True)
    world.run(0.2)
    assert converged(world)
    assert world.links.dialled == 0
    world.run(60)
    assert converged(world)
    for checker in checkers:
        checker.finish()
    assert all(host.seeds == ("seeds",) for host in hosts)


def test_a_crash_among_them_and_a_newcomer_are_noticed_as_ever() -> None:
    world = World(2)
    attach_all(world)
    hosts = world.add_nodes(8, converged=True)
    world.run(5)
    world.crash(hosts[3])
    world.run(40)
    assert {host.view.members[hosts[3].node].state for host in world.running} == {MemberState.DEAD}
    joined: list[str] = []
    world.on_event.append(lambda host, event: joined.append(host.name) if isinstance(event, Joined) else None)
    world.add_nodes(1)
    world.run_until(agreed, limit=30)
    assert joined == [world.nodes[-1].name]


def test_converged_machines_start_at_once() -> None:
    with pytest.raises(ValueError, match="start at once"):
        AddNodes(count=3, converged=True, within=1.0)
    with pytest.raises(ValueError, match="start at once"):
        AddNodes(count=3, converged=True, start=False)
