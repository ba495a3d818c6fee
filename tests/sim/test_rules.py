"""Switches for experiments that need a whole node, or several, to be seen (`core/rules.py`)."""

from __future__ import annotations

import pytest
from reachp2p_sim.checkers.convergence import agreed
from reachp2p_sim.machines.host import Host
from reachp2p_sim.running.run import RunConfig, UsageError, run_scenario
from reachp2p_sim.world.world import World

from reachp2p.core.events import Event, Lagged, MemberChanged, MemberState
from reachp2p.core.rules import Rules
from reachp2p.core.settings import Protocol


def cluster(count: int = 8, **rules: bool) -> tuple[World, list[Host]]:
    """Nodes that have found each other under these rules."""
    world = World(seed=7, protocol=Protocol(rules=Rules(**rules)))
    hosts = world.add_nodes(count)
    world.run_until(agreed, limit=60)
    world.run(15)
    return world, hosts


def counted(world: World, name: str) -> int:
    return sum(host.engine.diagnostics().get(name, 0) for host in world.running)


def fates(world: World, host: Host) -> list[MemberState | None]:
    """Collects what becomes of a member in the views of the others from now on."""
    seen: list[MemberState | None] = []

    def note(_: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.node == host.node:
            seen.append(event.new)

    world.on_event.append(note)
    return seen


@pytest.mark.parametrize("on", [True, False])
def test_refusals_tell_of_a_killed_process_within_seconds(on: bool) -> None:
    world, hosts = cluster(refusals=on)
    seen = fates(world, hosts[3])
    world.crash(hosts[3])
    world.run(3)
    assert (seen.count(MemberState.DEAD) == 7) is on


@pytest.mark.parametrize("on", [True, False])
def test_a_late_ack_makes_a_probe_over_a_link(on: bool) -> None:
    world, hosts = cluster(4, link_probes=on)
    before = world.links.frames_sent + world.links.dialled
    hosts[0].engine._parts._probe_link(hosts[1].node, bytes(8), hosts[0].now)
    hosts[0].settle()
    assert (world.links.frames_sent + world.links.dialled > before) is on


@pytest.mark.parametrize("on", [True, False])
def test_whoever_slept_notices(on: bool) -> None:
    world, hosts = cluster(lateness=on)
    heard: list[Lagged] = []
    world.on_event.append(lambda _, event: heard.append(event) if isinstance(event, Lagged) else None)
    world.pause(hosts[2])
    world.run(3)
    world.resume(hosts[2])
    world.run(1)
    assert bool(heard) is on


@pytest.mark.parametrize("on", [True, False])
def test_whoever_was_slow_gives_others_more_time(on: bool) -> None:
    world, hosts = cluster(4, lha_probe=on)
    world.pause(hosts[2])
    world.run(3)
    world.resume(hosts[2])
    assert (hosts[2].engine._parts.health.multiplier > 1) is on


@pytest.mark.parametrize("on", [True, False])
def test_fresher_evidence_is_answered(on: bool) -> None:
    world, hosts = cluster(answers=on)
    world.pause(hosts[2])
    world.run(4)
    world.resume(hosts[2])
    world.run(4)
    assert (counted(world, "answers.fresher_evidence") > 0) is on


@pytest.mark.parametrize("on", [True, False])
def test_gossip_ticks_and_push_pull_are_extra_traffic(on: bool) -> None:
    """Without either a quiet cluster and a cluster with news both cost two datagrams a member and period."""
    world, hosts = cluster(gossip_ticks=on, push_pull=on)
    world.run(60)
    sent, exchanges = world.network.sent, counted(world, "sync.begun")
    for host in hosts:
        host.engine.set_addresses([host.address, world.new_address()], host.now)
        host.settle()
    world.run(20)
    assert (world.network.sent - sent > 2.2 * 8 * 20) is on
    world.run(100)
    assert (counted(world, "sync.begun") > exchanges) is on


@pytest.mark.parametrize("on", [True, False])
def test_who_compares_views_becomes_an_accuser_where_a_shared_doubt_is_told_again(on: bool) -> None:
    world, hosts = cluster(own_verdict=False, doubts_told_once=on)
    world.pause(hosts[7])
    suspicions = [host.engine._parts.detector._suspicions for host in hosts[:7]]
    world.run_until(lambda _: all(hosts[7].node in held for held in suspicions), limit=10)
    silent = [n for n, held in enumerate(suspicions) if not held[hosts[7].node].own]
    asking, asked = hosts[silent[0]], hosts[silent[1]]
    member = asking.engine._parts.table.get(asked.node)
    assert member is not None
    asking.engine._push_pull.sync_with(member, asking.now)
    asking.settle()
    world.run(0.1)
    doubted = [held[hosts[7].node].others for held in (suspicions[silent[0]], suspicions[silent[1]])]
    assert (asked.node in doubted[0] and asking.node in doubted[1]) is not on


@pytest.mark.parametrize("on", [True, False])
def test_the_dead_are_dialled_again(on: bool) -> None:
    world, hosts = cluster(count=4, recontact=on)
    world.crash(hosts[3], host_down=True)
    world.run(60)
    world.run(180)
    assert (counted(world, "contacts.recontacted") > 0) is on


@pytest.mark.parametrize("on", [True, False])
def test_news_that_is_only_multicast_is_lost_where_the_datagram_is_lost(on: bool) -> None:
    """One datagram to each member, and nobody repeats it; infection reaches everyone."""
    world, (first, *others) = cluster(infection=on, push_pull=False, answers=False, link_probes=False)
    world.run(40)
    world.partition([first], others[4:], one_way=True)
    first.engine.set_addresses([first.address, world.new_address()], first.now)
    first.settle()
    world.run(3)
    told = [
        h for h in others if any(m.node == first.node and len(m.addresses) == 2 for m in h.engine.members())
    ]
    assert told == (others if on else others[:4])


def test_rules_are_set_on_the_command_line_and_wrong_ones_are_refused() -> None:
    run = RunConfig("crash", seed=3, nodes=6, set={"protocol.rules.refusals": "off"})
    assert run_scenario(run).verdict in ("pass", "fail")
    assert "protocol.rules.refusals=off" in run.command()
    with pytest.raises(UsageError, match="on or off"):
        run_scenario(RunConfig("crash", set={"protocol.rules.refusals": "maybe"}))
    with pytest.raises(UsageError, match="lha_probe"):
        run_scenario(RunConfig("crash", set={"protocol.rules.refusal": "off"}))
    with pytest.raises(UsageError, match="probe_interval"):
        run_scenario(RunConfig("crash", set={"protocol.rules": "off"}))
