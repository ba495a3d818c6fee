"""Newcomers, as stories: who joins while others have just died calls at once, and reaches the living."""

from __future__ import annotations

import pytest
from reachp2p_sim.checkers import attach_all
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Loop, Offer
from reachp2p_sim.running.run import RunConfig, run_scenario
from reachp2p_sim.steps.work import AGENT, CAPABILITY
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import MemberState
from reachp2p.errors import ErrorCode


@pytest.mark.parametrize("seed", [9, 10, 15, 17])
def test_no_call_of_a_newcomer_fails_while_one_instance_lives(seed: int) -> None:
    """These seeds ended calls with 1411 while a refused dial still cost one of two attempts."""
    result = run_scenario(RunConfig("newcomer-calls", seed))
    assert result.verdict == "pass", (result.violation, result.error, result.replay)


def grown(seed: int, count: int) -> tuple[World, list[Host]]:
    """Nodes that all offer the capability but the last one."""
    world = World(seed)
    attach_all(world)
    hosts = world.add_nodes(count, within=1.0)
    for host in hosts[:-1]:
        host.application.offer(Offer.simple(AGENT, CAPABILITY, Handler()))
    world.run(1)
    world.run_until(converged, limit=10)
    return world, hosts


def test_a_capability_whose_every_instance_is_suspected_is_not_to_be_relied_on() -> None:
    world, (one, two, caller) = grown(seed=3, count=3)
    assert caller.engine.is_callable(CAPABILITY)
    world.pause(one, two)

    def both_suspected(_: World) -> bool:
        views = [caller.view.members[host.node].state for host in (one, two)]
        return views == [MemberState.SUSPECT] * 2

    world.run_until(both_suspected, limit=10, every=0.05)
    assert len(caller.engine.routable(CAPABILITY)) == 2  # a call would still try them
    assert not caller.engine.is_callable(CAPABILITY)
    why = caller.engine.why_not_callable(CAPABILITY)
    assert why.code is ErrorCode.NO_HEALTHY_INSTANCE
    assert why.reason.endswith("2 known (2 SUSPECT)")
    world.resume(one, two)
    world.run_until(lambda _: caller.engine.is_callable(CAPABILITY), limit=10)


def test_one_refused_dial_takes_an_instance_out_for_all_calls_of_a_newcomer() -> None:
    """It has never had a round trip with the dead one, so this is no evidence for others; calls go elsewhere anyway."""
    marked = 0
    for seed in range(4, 12):
        world, hosts = grown(seed, count=4)
        world.crash(hosts[1])
        (newcomer,) = world.add_nodes(1)
        engine = newcomer.engine
        world.run_until(lambda _, engine=engine: engine.is_callable(CAPABILITY), limit=3, every=0.01)  # type: ignore[misc]
        newcomer.application.call_in_a_loop(Loop(RouteQuery(capability=CAPABILITY), 0.02), at_once=True)
        world.run(0.5)
        assert hosts[1].node not in engine.routable(CAPABILITY)
        assert hosts[2].node in engine.routable(CAPABILITY)
        marked += engine.diagnostics().get("routing.unreached", 0)
        assert engine.diagnostics().get("calls.passed_over", 0) <= 1
        assert set(world.ledger.codes) == {0}
    assert marked, "no newcomer has dialled the dead"


def test_before_its_first_exchange_a_newcomer_relies_only_on_whom_it_is_linked_with() -> None:
    waited = 0
    for seed in range(5, 15):
        world, hosts = grown(seed, count=6)
        world.run(2)
        for host in hosts[:-1]:  # news that reaches the newcomer by gossip
            host.application.offer(Offer.simple("late/agent", CAPABILITY, Handler()))
        newcomer = world.add_nodes(1)[0]
        for _ in range(200):
            world.run(0.001)
            engine = newcomer.engine
            exchanges = sum(engine.diagnostics().get(f"sync.{how}", 0) for how in ("done", "equal"))
            linked = {view.node for view in engine.members() if view.linked}
            if not exchanges and engine.routable(CAPABILITY):
                assert engine.is_callable(CAPABILITY) == (set(engine.routable(CAPABILITY)) <= linked)
                waited += not engine.is_callable(CAPABILITY)
        world.run_until(lambda _, engine=engine: engine.is_callable(CAPABILITY), limit=3)  # type: ignore[misc]
        assert hosts[0].engine.is_callable(CAPABILITY)
    assert waited, "no seed has told a newcomer of an instance before its first exchange"
