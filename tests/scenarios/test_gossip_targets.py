"""Whom gossip goes to once somebody hears none of it any more."""

from __future__ import annotations

import pytest
from reachp2p_sim import World

from reachp2p.core.events import MemberState
from reachp2p.core.rules import Rules
from reachp2p.core.settings import Protocol


@pytest.mark.parametrize("nodes", [6, 20])
def test_gossip_goes_to_random_members_and_to_nobody_who_has_left(nodes: int) -> None:
    world = World(4)
    hosts = world.add_nodes(nodes, converged=True)
    world.run(1.0)
    world.leave(hosts[-1])
    world.run(5.0)
    told = hosts[0]
    assert told.view.members[hosts[-1].node].state is MemberState.LEFT
    chosen = [told.engine._upkeep._gossip_targets(told.now) for _ in range(40 * nodes)]
    assert all(len(set(targets)) == 3 for targets in chosen)
    counts = {host.node: sum(host.node in targets for targets in chosen) for host in hosts[1:]}
    assert counts.pop(hosts[-1].node) == 0
    expected = 3 * len(chosen) / (nodes - 2)
    assert all(0.6 * expected < count < 1.4 * expected for count in counts.values())


def test_if_hardly_anybody_is_left_gossip_still_finds_them() -> None:
    world = World(5, protocol=Protocol(gossip_to_dead=0.0))
    hosts = world.add_nodes(24, converged=True)
    world.run(1.0)
    world.crash(*hosts[4:])
    gone = [host.node for host in hosts[4:]]
    members = hosts[0].view.members
    world.run_until(lambda _: all(members[node].state is MemberState.DEAD for node in gone), limit=300)
    targets = hosts[0].engine._upkeep._gossip_targets(hosts[0].now)
    assert sorted(targets) == sorted(host.node for host in hosts[1:4])


def test_without_infection_everybody_is_told_once() -> None:
    world = World(6, protocol=Protocol(rules=Rules(infection=False)))
    hosts = world.add_nodes(20, converged=True)
    world.run(1.0)
    world.leave(hosts[-1])
    world.run(5.0)
    assert len(hosts[0].engine._upkeep._gossip_targets(hosts[0].now)) == 18
