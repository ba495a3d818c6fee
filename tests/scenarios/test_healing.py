"""Partitions, as stories: what the two sides believe, what they go on doing, and how they find each other again."""

from __future__ import annotations

import pytest
from reachp2p_sim.checkers import attach_all
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Offer
from reachp2p_sim.measuring.budgets import dissemination, healing, suspicion_maximum
from reachp2p_sim.scenarios.base import employ
from reachp2p_sim.steps.work import AGENT, CAPABILITY
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World, halves, without

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import MemberState
from reachp2p.core.membership.life import Phase


def grown(seed: int, count: int) -> tuple[World, list[Host]]:
    world = World(seed)
    attach_all(world)
    hosts = world.add_nodes(count, within=1.0)
    world.run(1)
    world.run_until(converged, limit=10)
    return world, hosts


def states(observer: Host, subjects: list[Host]) -> set[MemberState | None]:
    views = [observer.view.members.get(subject.node) for subject in subjects if subject is not observer]
    return {view.state if view is not None else None for view in views}


def test_all_see_all_soon_after_the_last_has_started() -> None:
    world = World(seed=2)
    attach_all(world)
    world.add_nodes(32, within=1.0)
    world.run(1)
    assert world.run_until(converged, limit=2.5, every=0.05) <= 2.5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_start_of_all_at_once_opens_few_links_that_are_not_kept(seed: int) -> None:
    """Each node asks the seed, compares with two, and keeps three successors; a seventh is for calls."""
    world = World(seed)
    attach_all(world)
    hosts = world.add_nodes(64, within=0.01)
    employ(world, hosts)
    world.run(0.5)
    assert world.run_until(converged, limit=2.5, every=0.05) <= 2.5
    world.run(5)
    dialled = sum(host.engine.diagnostics()["links.dialled"] for host in hosts)
    assert dialled <= 7 * len(hosts)


@pytest.mark.parametrize("seed", range(4))
def test_a_newcomer_that_is_sent_to_the_dead_turns_to_the_next_at_once(seed: int) -> None:
    world, hosts = grown(seed, count=16)
    for host in hosts[4:]:
        world.crash(host)
    (newcomer,) = world.add_nodes(1)
    world.run(0.8)
    assert newcomer.engine.phase is Phase.RUNNING
    assert newcomer.engine._push_pull.has_synced


def test_each_half_believes_in_itself_and_buries_the_other_and_both_come_back() -> None:
    world, hosts = grown(seed=3, count=12)
    left, right = halves(hosts)
    world.partition(left, right)
    world.run(60)
    for half, other in ((left, right), (right, left)):
        for host in half:
            assert states(host, half) == {MemberState.ALIVE}
            assert states(host, other) == {MemberState.DEAD}
    world.heal()
    world.run_until(converged, limit=healing(12, world.protocol))


def test_a_return_costs_one_refutation_and_no_new_life() -> None:
    world, hosts = grown(seed=4, count=8)
    lives = [host.life for host in hosts]
    world.partition([hosts[3]], without(hosts, hosts[3]))
    world.run(120)
    world.heal()
    world.run_until(converged, limit=healing(8, world.protocol))
    assert [host.life for host in hosts] == lives
    incarnations = {m.node: m.incarnation for m in hosts[0].engine.members()}
    assert incarnations[hosts[3].node] == 1


def test_calls_go_on_in_both_halves_of_a_partition() -> None:
    world, hosts = grown(seed=5, count=12)
    employ(world, hosts)
    world.run(5)
    left, right = halves(hosts)
    world.partition(left, right)
    world.run(suspicion_maximum(12, world.protocol) + dissemination(12, world.protocol))
    before = dict(world.ledger.codes)
    world.run(60)
    during = {code: count - before.get(code, 0) for code, count in world.ledger.codes.items()}
    assert during.pop(0) > 50
    assert not any(during.values()), during


def test_what_was_registered_on_one_side_of_a_partition_is_known_on_the_other_after_it() -> None:
    world, hosts = grown(seed=6, count=8)
    left, right = halves(hosts)
    world.partition(left, right)
    world.run(40)
    left[0].application.offer(Offer.simple("only/left", "only.left", Handler()))
    right[0].application.offer(Offer.simple("only/right", "only.right", Handler()))
    world.run(5)
    assert right[1].engine.routable("only.left") == []
    world.heal()
    world.run_until(converged, limit=healing(8, world.protocol))
    for host in hosts:
        assert host.engine.routable("only.left") == [left[0].node]
        assert host.engine.routable("only.right") == [right[0].node]


def test_news_of_an_agent_is_everywhere_within_half_a_second() -> None:
    world, hosts = grown(seed=7, count=32)
    world.run(5)
    hosts[9].application.offer(Offer.simple(AGENT, CAPABILITY, Handler()))

    def known_everywhere(_: World) -> bool:
        return all(host.engine.routable(CAPABILITY) for host in hosts)

    assert world.run_until(known_everywhere, limit=2.0, every=0.02) < 1.0


def test_equal_views_place_every_key_alike() -> None:
    world, hosts = grown(seed=8, count=10)
    for host in hosts[::2]:
        host.application.offer(Offer.simple(AGENT, CAPABILITY, Handler()))
    world.run_until(converged, limit=10)
    for number in range(50):
        query = RouteQuery(capability=CAPABILITY, policy="consistent_hash", key=f"key {number}")
        explained = [host.engine.explain(query) for host in hosts]
        assert len({e.picked for e in explained}) == 1
        assert len({e.ring_fingerprint for e in explained}) == 1
        assert explained[0].ring_fingerprint is not None


@pytest.mark.parametrize("held", [5.0, 20.0])
def test_what_is_held_back_for_a_while_buries_nobody_for_good(held: float) -> None:
    world, hosts = grown(seed=9, count=8)
    left, right = halves(hosts)
    world.hold(left, right)
    world.run(held)
    world.release()
    world.run_until(converged, limit=healing(8, world.protocol))
