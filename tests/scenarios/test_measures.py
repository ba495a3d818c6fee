"""What nodes tell beside their answers reaches those who ask, one hop and no further."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest
from msgspec.structs import replace
from reachp2p_sim.machines.workload import Handler, Loop, Offer
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.world.world import World

from reachp2p.core.commands import RouteQuery
from reachp2p.core.engine import Engine
from reachp2p.core.events import MemberState
from reachp2p.core.settings import Settings


def telling(settings: Settings, **rest: Any) -> Engine:
    """A node that tells everything."""
    return Engine(replace(settings, tells_load=True, tells_coordinate=True), **rest)


def test_load_comes_with_acks_and_replies_and_coordinates_with_acks() -> None:
    world = World(seed=4, conditions=Conditions(delay=0.01, spread=0.005), engine_factory=telling)
    hosts = world.add_nodes(5)
    caller, busy = hosts[0], hosts[1]
    busy.application.offer(Offer.simple("a/busy", "a.work", Handler(service_time=0.2)))
    world.run(3)
    caller.application.loops += [Loop(RouteQuery(capability="a.work"), think_time=0.1) for _ in range(4)]
    world.crash(caller)
    world.restart(caller)
    world.run(120)
    estimates: list[float] = []
    for host in hosts:
        loads = host.engine._parts.loads.entries
        if host is not busy:  # the others have it from Acks alone
            assert list(loads) == [busy.node]
            assert loads[busy.node].report.p95 > 0.2
            assert world.timeline.now - loads[busy.node].heard_at < 10
        places = host.engine._parts.places
        estimates += [places.round_trip(other.node) for other in hosts if other is not host]
    assert mean(estimates) == pytest.approx(0.03, rel=0.2), "10 ms and a draw of 5 in the mean, both ways"
    replied = caller.engine._parts.loads.entries[busy.node].report.sequence
    assert replied > 500, "each reply brings a report"
    assert caller.engine.diagnostics()["size.routing.traffic"] == 1


def test_nothing_is_told_where_the_settings_do_not_say_so() -> None:
    world = World(seed=4)
    hosts = world.add_nodes(3)
    hosts[1].application.offer(Offer.simple("a/busy", "a.work", Handler()))
    hosts[0].application.loops.append(Loop(RouteQuery(capability="a.work"), think_time=0.1))
    world.run(10)
    for host in hosts:
        assert len(host.engine._parts.loads) == len(host.engine._parts.places) == 0


def test_what_ails_an_agent_shows_in_its_state_at_all_who_know_it_while_its_node_answers_probes() -> None:
    world = World(seed=4, engine_factory=telling)
    hosts = world.add_nodes(4)
    caller, broken = hosts[0], hosts[1]
    broken.application.offer(Offer.simple("a/failing", "a.fail", Handler(service_time=0.01, fails=1.0)))
    broken.application.offer(Offer.simple("a/hanging", "a.hang", Handler(hangs=1.0)))
    broken.application.offer(Offer.simple("a/sound", "a.work", Handler(service_time=0.01)))
    world.run(3)
    caller.application.loops += [
        Loop(RouteQuery(capability=capability), think_time=1.0, timeout=2.0)
        for capability in ("a.fail", "a.hang", "a.work")
    ]
    world.crash(caller)
    world.restart(caller)
    world.run(60)
    broken.engine.set_overdue(2)
    world.run(12)
    for host in hosts:
        seen = {view.agent: view for view in host.engine.agents()}
        failing, hanging, sound = (seen[f"a/{name}"] for name in ("failing", "hanging", "sound"))
        assert failing.state is hanging.state is sound.state is MemberState.ALIVE
        assert failing.failed > 0
        assert failing.stopped == hanging.failed == sound.failed == sound.stopped == 0
        assert hanging.stopped > 0
        node = next(view for view in host.engine.members() if view.node == broken.node)
        assert node.overdue == 2
        assert node.told_at is not None
        assert host.engine._now - node.told_at < 10
        others = [view for view in host.engine.members() if view.node not in (broken.node, host.node)]
        assert all(view.overdue == view.late == 0 for view in others)
