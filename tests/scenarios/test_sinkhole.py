"""An instance that fails everything at once stays ALIVE, and is left alone after five failures (B8.4)."""

from __future__ import annotations

from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Loop, Offer
from reachp2p_sim.world.world import World

from reachp2p.core.commands import RouteQuery

SOUND = Offer.simple("a/worker", "a.work", Handler(service_time=0.01))
BROKEN = Offer(SOUND.spec, Handler(service_time=0.001, fails=1.0))


def begun(broken: int, count: int = 8) -> tuple[World, list[Host]]:
    """One caller of `count` instances, the first `broken` of which fail; it calls about twenty times a second."""
    world = World(seed=6)
    hosts = world.add_nodes(count + 1)
    caller = hosts[0]
    for number, host in enumerate(hosts[1:]):
        host.application.offer(BROKEN if number < broken else SOUND)
    world.run(3)
    caller.application.loops += [
        Loop(RouteQuery(capability="a.work", policy="least_loaded"), think_time=0.1) for _ in range(2)
    ]
    world.crash(caller)
    world.restart(caller)
    return world, hosts


def test_a_sinkhole_takes_five_calls_and_one_more_each_time_it_is_tried_again() -> None:
    world, _ = begun(broken=1)
    world.run(25)
    codes = world.ledger.codes
    assert codes[1403] == 5
    assert codes[0] > 250
    world.run(60)
    assert codes[1403] == 6, "one trial after half a minute; the next comes after a minute"
    assert set(codes) == {0, 1403}


def test_an_agent_that_is_registered_anew_in_a_new_life_begins_with_a_clean_slate() -> None:
    world, hosts = begun(broken=1)
    world.run(12)
    assert world.ledger.codes[1403] == 5
    broken = hosts[1]
    world.crash(broken)
    broken.application.offers = [SOUND]
    world.restart(broken)
    world.run(5)
    before = world.ledger.invoked
    world.run(10)
    assert world.ledger.codes[1403] == 5
    assert world.ledger.invoked > before
    engine = hosts[0].engine
    states = [c.breaker for c in engine.explain(RouteQuery(capability="a.work")).candidates]
    assert states == ["closed"] * 8
