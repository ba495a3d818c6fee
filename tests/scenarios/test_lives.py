"""Lives, as stories: restarts, moves, lost disks, clones, names."""

from __future__ import annotations

import pytest
from reachp2p_sim.checkers import attach_all
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Offer
from reachp2p_sim.measuring.budgets import healing, suspicion_minimum
from reachp2p_sim.scenarios.base import employ
from reachp2p_sim.steps.work import AGENT, CAPABILITY
from reachp2p_sim.world.agreement import agreed, converged
from reachp2p_sim.world.world import World, halves

from reachp2p.core.commands import CallSpec, RouteQuery
from reachp2p.core.events import CallEnded, CloneSeen, Event, Fenced, NameShared, Paused, Started
from reachp2p.errors import CallFailed, ErrorCode


def grown(seed: int, count: int) -> tuple[World, list[Host], list[tuple[Host, Event]]]:
    world = World(seed)
    attach_all(world)
    told: list[tuple[Host, Event]] = []
    world.on_event.append(lambda host, event: told.append((host, event)))
    hosts = world.add_nodes(count, within=1.0)
    world.run(1)
    world.run_until(converged, limit=10)
    return world, hosts, told


def said(told: list[tuple[Host, Event]], kind: type[Event]) -> list[Host]:
    return [host for host, event in told if isinstance(event, kind)]


def test_a_restart_is_seen_by_all_within_a_second() -> None:
    world, hosts, _ = grown(seed=1, count=16)
    world.crash(hosts[5])
    world.run(0.2)
    world.restart(hosts[5])
    assert world.run_until(agreed, limit=3.0, every=0.05) < 1.0


def test_a_clock_that_is_set_back_within_tolerance_changes_nothing_for_a_restart() -> None:
    world, hosts, _ = grown(seed=2, count=8)
    world.crash(hosts[3])
    world.step_clock(hosts[3], -500)
    world.run(30)
    world.restart(hosts[3])
    world.run_until(converged, limit=healing(8, world.protocol))
    assert [life.epoch for life in hosts[3].lives] == [1, 2]


def test_an_older_copy_of_the_disk_is_outbid() -> None:
    world, hosts, _ = grown(seed=3, count=8)
    world.save_disk(hosts[3], image="old")
    for _ in range(3):
        world.restart(hosts[3])
        world.run_until(agreed, limit=10)
    world.crash(hosts[3])
    world.run(1)
    world.restart(hosts[3], disk="old")
    world.run_until(agreed, limit=10)
    life = hosts[3].life
    assert life is not None
    assert life.epoch == 5


def test_who_lost_its_disk_waits_for_no_contact_that_has_hung_up() -> None:
    """The only seed says which life it knows and hangs up, before it has answered: the challenge begins at once."""
    world, hosts, told = grown(seed=7, count=8)
    world.restart(hosts[5])  # so that the life without a disk is a lower one
    world.run_until(agreed, limit=3.0)
    world.restart(hosts[5], disk="lost")
    started = len(said(told, Started))
    took = world.run_until(lambda _: len(said(told, Started)) > started, limit=10, every=0.05)
    assert took < suspicion_minimum(1, world.protocol) + 0.2, (
        "S_min of one is how long the former life may answer"
    )
    assert hosts[5].life is not None
    assert hosts[5].life.epoch == 3


def test_a_whole_cluster_that_loses_power_routes_from_its_snapshots_at_once() -> None:
    world, hosts, _ = grown(seed=4, count=8)
    for host in hosts[:3]:
        host.application.offer(Offer.simple(AGENT, CAPABILITY, Handler()))
    world.run(10)
    world.crash(*hosts)
    world.run(5)
    world.restart(*hosts)
    world.run(0.5)
    assert all(len(host.engine.routable(CAPABILITY)) == 3 for host in hosts)
    world.run_until(converged, limit=10)


def test_a_copied_state_folder_alarms_both_sides_and_one_stops_for_good() -> None:
    world, hosts, told = grown(seed=5, count=9)
    chosen = hosts[4]
    rest = [host for host in hosts if host is not chosen]
    left, right = halves(rest)
    twin = world.clone(chosen)
    world.partition([*left, chosen], [*right, twin])
    world.start(twin)
    world.run(30)
    world.heal()
    world.run_until(converged, limit=3 * healing(10, world.protocol))
    assert (chosen.is_running, twin.is_running) == (False, True)
    assert said(told, Paused) == said(told, Fenced) == [chosen]
    assert set(said(told, CloneSeen)) == {twin}


def test_take_over_starts_above_a_life_that_answers() -> None:
    world, hosts, told = grown(seed=6, count=6)
    chosen = hosts[2]
    twin = world.clone(chosen)
    world.start(twin, take_over=True)
    world.run_until(converged, limit=healing(7, world.protocol))
    assert (chosen.is_running, twin.is_running) == (False, True)
    assert said(told, Fenced) == [chosen]
    assert twin.lives[-1] > chosen.lives[-1]


def test_two_keys_with_one_name_are_both_members_and_are_flagged_once() -> None:
    world = World(seed=7)
    attach_all(world)
    told: list[tuple[Host, Event]] = []
    world.on_event.append(lambda host, event: told.append((host, event)))
    hosts = [world.add_node() for _ in range(6)]
    hosts[3].shown_name = hosts[4].shown_name = "twin"
    for host in hosts:
        world.start(host)
    world.run_until(converged, limit=10)
    world.run(60)
    for host in hosts:
        names = [member.name for member in host.engine.members()]
        assert names.count("twin") == 2
        assert sum(teller is host for teller in said(told, NameShared)) == 1


def test_a_name_whose_former_bearer_has_left_is_shared_with_nobody() -> None:
    """As short programs do that are run again and again: the later one hears of the former as LEFT."""
    world = World(seed=7)
    told: list[tuple[Host, Event]] = []
    world.on_event.append(lambda host, event: told.append((host, event)))
    hosts = [world.add_node() for _ in range(4)]
    hosts[2].shown_name = hosts[3].shown_name = "asker"
    for host in hosts[:3]:
        world.start(host)
    world.run_until(converged, limit=10)
    world.leave(hosts[2])
    world.run(5)
    world.start(hosts[3])
    world.run(30)
    assert not said(told, NameShared)
    assert len({member.node for member in hosts[3].engine.members()}) == 4, "it has heard of the former one"


def test_a_node_that_leaves_while_it_is_called_fails_no_call() -> None:
    world, hosts, _ = grown(seed=8, count=9)
    employ(world, hosts, service_time=0.2)
    world.run(10)
    world.leave(hosts[3])
    world.run(20)
    assert set(world.ledger.codes) == {0}, world.ledger.codes
    assert not hosts[3].is_running


def test_a_process_killed_in_mid_work_costs_no_repeatable_call() -> None:
    world, hosts, _ = grown(seed=9, count=9)
    employ(world, hosts, service_time=0.5)
    world.run(10)
    for victim in (hosts[3], hosts[6]):
        world.crash(victim)
        world.run(10)
    assert set(world.ledger.codes) == {0}, world.ledger.codes
    assert world.ledger.codes[0] > 30


def test_a_rolling_restart_of_every_instance_fails_no_call_and_hardly_any_is_made_twice() -> None:
    """The handlers may not run twice. Who leaves serves until others have heard of it, by gossip as well."""
    world = World(seed=11)
    attach_all(world)
    ends: list[CallEnded] = []
    world.listen(lambda host, event: ends.append(event), CallEnded)
    hosts = world.add_nodes(24, within=1.0)
    world.run(1)
    world.run_until(converged, limit=10)
    instances = hosts[::8]
    world.offer(*instances, repeatable=False, service_time=0.02)
    world.call_in_a_loop(*hosts[1::4], think_time=0.02, waits=True)
    world.run(5)
    for instance in instances:
        world.leave(instance)
        world.run(3)
        world.start(instance)
        world.run(5)
    assert set(world.ledger.codes) == {0}, world.ledger.codes
    again = sum(end.attempts > 1 for end in ends)
    assert len(ends) > 2_000
    assert again <= len(ends) / 100, f"{again} of {len(ends)} calls were made twice"


def test_who_leaves_serves_what_crosses_its_withdrawal_and_refuses_what_comes_later() -> None:
    """Even where nobody else offers the capability: a caller that has not heard of it yet is served as before."""
    world = World(seed=12)
    ends: list[CallEnded] = []
    world.listen(lambda host, event: ends.append(event), CallEnded)
    only, caller, late = world.add_nodes(3, within=1.0)
    world.offer(only, repeatable=False, service_time=0.3)
    world.run(5)
    spec = CallSpec(query=RouteQuery(capability=CAPABILITY), payload=b"work")
    world.leave(only)
    caller.engine.call(spec, caller.now)
    caller.settle()
    world.run(1.5)
    assert [(end.code, end.attempts) for end in ends] == [(0, 1)]
    assert only.life is None or not only.is_running
    with pytest.raises(CallFailed) as caught:
        late.engine.call(spec, late.now)
    assert caught.value.code is ErrorCode.UNKNOWN_TARGET
