"""The wall clock of all machines steps by a day: only signed validity is judged by it, and that recovers (B21)."""

from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

DAY = 86_400.0
NOTICED = 10.0
"""Seconds until every driver has reported the step."""


def all_alive(world: World, hosts: list[Host]) -> bool:
    return all(
        host.engine.life is not None
        and {m.node: m.life for m in host.engine.members() if m.state.value == "ALIVE"}
        == {other.node: other.engine.life for other in hosts}
        for host in hosts
    )


@pytest.mark.parametrize("step", [-DAY, DAY], ids=["back", "forward"])
@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_after_a_step_of_the_clock_a_restarted_node_and_a_newcomer_are_let_in(step: float, disk: str) -> None:
    world = World(seed=5)
    hosts = world.add_nodes(8)
    world.run_until(lambda world: all_alive(world, hosts), limit=10)
    world.crash(hosts[3])
    for host in hosts:
        world.step_clock(host, step)
    world.restart(hosts[3], disk=disk)
    world.run_until(lambda world: all_alive(world, hosts), limit=NOTICED + 5)
    newcomer = world.add_nodes(1)[0]
    world.step_clock(newcomer, step)
    world.restart(newcomer)
    hosts.append(newcomer)
    world.run_until(lambda world: all_alive(world, hosts), limit=5)
    world.run_until(converged, limit=120)


@pytest.mark.parametrize("step", [-DAY, DAY], ids=["back", "forward"])
def test_a_step_of_the_clock_makes_nobody_doubt_anybody(step: float) -> None:
    world = World(seed=6)
    hosts = world.add_nodes(8)
    world.run_until(lambda world: all_alive(world, hosts), limit=10)
    for host in hosts:
        world.step_clock(host, step)
    for _ in range(90):
        world.run(1)
        assert all_alive(world, hosts)
