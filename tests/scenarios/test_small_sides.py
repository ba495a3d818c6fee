"""Who is cut off with few others, or alone: calls soon go to those that answer, and fail at once when nobody does.

A small side takes long to bury the rest, because its local health slows its probes; calls need not wait for that.
"""

from __future__ import annotations

import pytest
from reachp2p_sim.checkers import attach_all
from reachp2p_sim.machines.host import Host
from reachp2p_sim.running.configuration import RunConfig
from reachp2p_sim.running.run import run_scenario
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World, without

from reachp2p.core.commands import CallSpec, RouteQuery
from reachp2p.core.events import Event, IsolationEnded, NodeIsolated
from reachp2p.core.ids import Address
from reachp2p.errors import CallFailed, ErrorCode

SOON = 10.0
"""Seconds after a cut; S_max + D·T, which is promised, is 32 s for 12 nodes."""


def grown(seed: int, count: int, *providers: int) -> tuple[World, list[Host]]:
    world = World(seed)
    attach_all(world)
    hosts = world.add_nodes(count, within=1.0)
    world.offer(*[hosts[number] for number in providers or range(count)])
    world.run(1)
    world.run_until(converged, limit=30)
    world.run(5)
    return world, hosts


@pytest.mark.parametrize(("size", "direction"), [(1, "in"), (2, "out"), (3, "both")])
def test_a_small_side_soon_asks_those_that_answer_it(size: int, direction: str) -> None:
    world, hosts = grown(size, 12)
    side, rest = hosts[-size:], hosts[:-size]
    left, right = (side, rest) if direction == "out" else (rest, side)
    world.partition(left, right, one_way=direction != "both")
    world.run(SOON)
    own = {host.node for host in side}
    for host in side:
        assert set(host.engine.routable(CAPABILITY)) <= own, host.name
    world.heal()
    world.run(SOON)
    for host in side:
        assert len(host.engine.routable(CAPABILITY)) > size, host.name


def test_a_call_by_a_node_that_nobody_answers_fails_at_once_and_says_why() -> None:
    world, hosts = grown(1, 8, 1, 2, 3)
    told: list[tuple[str, float]] = []
    world.listen(
        lambda host, event: told.append((type(event).__name__, round(world.now - cut_at, 1))),
        NodeIsolated,
        IsolationEnded,
    )
    alone, rest = hosts[-1], without(hosts, hosts[-1])
    cut_at = world.now
    world.partition(rest, [alone], one_way=True)
    world.run(20)
    assert [kind for kind, _ in told] == ["NodeIsolated"]
    with pytest.raises(CallFailed, match="nobody answers this node") as failed:
        alone.engine.call(CallSpec(query=RouteQuery(capability=CAPABILITY), payload=b"work"), alone.now)
    assert failed.value.code is ErrorCode.NO_HEALTHY_INSTANCE
    world.heal()
    world.run(10)
    assert [kind for kind, _ in told] == ["NodeIsolated", "IsolationEnded"]
    assert alone.engine.routable(CAPABILITY), "it is served again, long before all views are equal"


def test_old_datagrams_played_back_do_not_end_an_isolation() -> None:
    """Among them are Acks to pings from before the cut, all of them signed by members in their present lives."""
    world, hosts = grown(1, 8, 1, 2, 3)
    alone, rest = hosts[-1], without(hosts, hosts[-1])
    heard: list[tuple[Address, bytes]] = []
    engine = alone.engine
    hear = engine.handle_datagram

    def record(source: Address, data: bytes, now: float) -> None:
        heard.append((source, data))
        hear(source, data, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "handle_datagram", record)
        world.run(10)
    told: list[type[Event]] = []
    world.listen(lambda _, event: told.append(type(event)), NodeIsolated, IsolationEnded)
    world.partition(rest, [alone], one_way=True)
    world.run(20)
    for source, data in heard:
        engine.handle_datagram(source, data, alone.now)
    alone.settle()
    world.run(1)
    assert len(heard) > 20
    assert told == [NodeIsolated]


@pytest.mark.parametrize(("scenario", "seed"), [("one-way-ingress", 3004), ("one-way-egress", 2)])
def test_deaf_and_mute_callers_are_served_by_themselves(scenario: str, seed: int) -> None:
    """They broke I-AVAIL: a lone caller buried its seven peers one by one, a probe each nine seconds."""
    config = RunConfig(scenario, seed, 8)
    result = run_scenario(config)
    assert result.verdict == "pass", result.violation


def test_without_touch_the_promise_is_broken() -> None:
    result = run_scenario(RunConfig("one-way-egress", 2, 8, set={"protocol.rules.touch": "off"}))
    assert result.violation is not None
    assert result.violation["checker"] == "availability"
