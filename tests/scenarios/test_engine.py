"""What an engine does on its own account, seen in a small world."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from reachp2p_sim.world.world import World

from reachp2p.core.commands import AgentSpec, CallSpec, RouteQuery
from reachp2p.core.effects import Notify
from reachp2p.core.events import Lagged
from reachp2p.core.ids import COUNTER_MAX
from reachp2p.core.membership.own import COUNTER_RESERVE
from reachp2p.core.settings import Protocol
from reachp2p.errors import CallFailed, ConfigurationInvalid


def test_one_sleep_is_counted_once_whatever_has_queued_up_meanwhile() -> None:
    world = World(seed=3)
    hosts = world.add_nodes(8)
    world.run(5)
    sleeper = hosts[4]
    before = sleeper.engine.diagnostics()["datagrams.received"]
    world.pause(sleeper)
    world.run(20)
    world.resume(sleeper)
    world.run(0.01)
    assert sleeper.engine.diagnostics()["datagrams.received"] - before > 10, "inputs have queued up"
    assert sleeper.engine.diagnostics()["lag.noticed"] == 1


def test_lateness_that_a_failing_call_notices_is_seen_to_at_once() -> None:
    world = World(seed=3)
    hosts = world.add_nodes(4)
    world.run(5)
    engine = hosts[2].engine
    settled: list[float] = []
    settle = engine._settle

    def record(now: float) -> None:
        settled.append(now)
        settle(now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_settle", record)
        with pytest.raises(CallFailed):
            engine.call(CallSpec(query=RouteQuery(capability="no.body"), payload=b""), hosts[2].now + 30)
    assert engine.diagnostics()["lag.noticed"] == 1
    assert settled == [hosts[2].now + 30]
    assert any(
        isinstance(effect, Notify) and isinstance(effect.event, Lagged) for effect in engine.take_effects()
    )


def test_a_life_whose_counters_are_used_up_is_followed_by_a_new_one() -> None:
    world = World(seed=3)
    hosts = world.add_nodes(4)
    world.run(5)
    tired = hosts[2]
    epoch = tired.engine.life
    assert epoch is not None
    tired.engine._parts.own.version = (
        COUNTER_MAX - COUNTER_RESERVE
    )  # nobody can wait for nine quintillion changes
    tired.engine.register(AgentSpec(agent="a/late"), tired.now)
    tired.settle()
    world.run(10)
    assert tired.engine.life is not None
    assert tired.engine.life.epoch == epoch.epoch + 1
    assert all(h.view.members[tired.node].life == tired.engine.life for h in hosts if h is not tired)
    assert all(any(a.agent == "a/late" for a in h.engine.agents()) for h in hosts)


def test_names_of_former_lives_are_forgotten() -> None:
    world = World(seed=3)
    hosts = world.add_nodes(3)
    world.run(5)
    for number in range(5):
        world.crash(hosts[2])
        world.run(8)
        world.show_name(hosts[2], shown=f"renamed-{number}")
        world.restart(hosts[2])
        world.run(5)
    assert sorted(hosts[0].engine._consequences._by_name) == ["n00", "n01", "renamed-4"]


def test_a_message_limit_too_small_for_one_nodes_records_is_refused() -> None:
    world = World(seed=3, protocol=replace(Protocol(), payload_max=60_000))
    with pytest.raises(ConfigurationInvalid, match="payload_max"):
        world.add_nodes(1)


def test_an_offer_to_a_node_that_does_not_run_yet_is_answered_at_once() -> None:
    world = World(seed=5)
    hosts = world.add_nodes(6)
    world.run(10)
    world.crash(hosts[3])
    world.run(10)  # DEAD everywhere: whoever is linked with it again wants to compare views
    world.restart(hosts[3])
    world.run(15)
    counters = [host.engine.diagnostics() for host in hosts]
    assert hosts[3].engine.diagnostics().get("dropped.sync.not_running", 0) > 0, "an offer came too early"
    assert sum(c.get("sync.refused", 0) for c in counters) > 0
    assert sum(c.get("sync.timeout", 0) for c in counters) == 0
