"""Simulated callers and handlers."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from reachp2p_sim.machines.callers import Keys
from reachp2p_sim.machines.handlers import HEAVY_MAX, Handler, ServiceTimes
from reachp2p_sim.machines.host import Host
from reachp2p_sim.steps.selection import StepImpossible
from reachp2p_sim.world.world import World

from reachp2p.core.commands import RouteQuery
from reachp2p.core.effects import Invoke


@pytest.mark.parametrize("times", ["constant", "exponential", "heavy"])
def test_service_times_have_their_mean(times: ServiceTimes) -> None:
    handler = Handler(0.5, times=times)
    chance = Random(1)
    drawn = [handler.draw(chance) for _ in range(20_000)]
    assert 0.4 < sum(drawn) / len(drawn) < 0.55
    assert max(drawn) <= HEAVY_MAX * 0.5


def test_keys_are_as_popular_as_zipf_says() -> None:
    chance = Random(1)
    counts = Counter(Keys(100).draw(chance) for _ in range(20_000))
    assert 1.8 < counts["key 1"] / counts["key 2"] < 2.2
    assert 8.5 < counts["key 1"] / counts["key 10"] < 11.5
    assert set(counts) <= {f"key {number}" for number in range(1, 101)}


def _work(seed: int = 1) -> tuple[World, list[Host]]:
    world = World(seed)
    hosts = world.add_nodes(3, converged=True)
    world.run(1)
    return world, hosts


def test_calls_at_a_rate_do_not_wait_for_each_other() -> None:
    world, (caller, server, _) = _work()
    world.offer(server, times="constant", service_time=2.0, concurrency=1, queue=1_000)
    world.run(1)
    world.call_at_rate(caller, rate=20.0, timeout=30.0, seconds=10.0)
    world.run(11)
    ledger = world.ledger
    assert 150 < ledger.started < 245, "about 190 are expected"
    assert ledger.codes == {0: 5}, "one at a time, two seconds each"
    assert ledger.invoked <= 6


def test_handlers_call_in_turn_and_end_with_what_they_called() -> None:
    world, (caller, planner, doer) = _work()
    world.offer(planner, agent="work/planner", capability="work.plan", calls="work.do")
    world.offer(doer)
    world.run(1)
    paths: list[tuple[str, ...]] = []

    def on_invoke(host: Host, invoke: Invoke) -> None:
        paths.append(invoke.path)

    world.on_invoke.append(on_invoke)
    world.call_in_a_loop(caller, capability="work.plan", think_time=1e6)
    world.run(3)
    assert paths == [("work/planner",), ("work/planner", "work/doer")]
    assert world.ledger.codes == {0: 2}
    world.change_handlers(doer, fails=1.0)
    world.call_in_a_loop(caller, capability="work.plan", think_time=1e6)
    world.run(3)
    assert world.ledger.codes == {0: 2, 1403: 2}


def test_handlers_of_what_is_not_offered_cannot_be_changed() -> None:
    world, (caller, *_) = _work()
    with pytest.raises(StepImpossible, match="does not offer"):
        world.change_handlers(caller, fails=1.0)


def test_a_rate_is_kept_by_each_callee_for_each_caller() -> None:
    world, (caller, other, server) = _work()
    world.offer(server, rate=1.0, burst=5)
    world.run(1)
    world.call_at_rate(caller, rate=100.0, seconds=1.0)
    world.call_in_a_loop(other, think_time=1e6)
    world.run(5)
    assert 5 <= world.ledger.codes[0] <= 9
    assert world.ledger.codes[1410] > 40


def test_nodes_tell_their_load_if_they_are_to() -> None:
    for tells in (False, True):
        world = World(1)
        caller, server = world.add_nodes(2, converged=True, tells_load=tells)
        world.run(1)
        world.offer(server)
        world.call_in_a_loop(caller, think_time=0.1)
        world.run(5)
        loads = caller.engine._parts.measures.loads
        assert (len(loads) > 0) is tells
        assert caller.engine.explain(RouteQuery(capability="work.do")).code == 0
