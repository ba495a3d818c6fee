"""Availability: a reachable provider is found, once the world has stood still."""

from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Offer

from reachp2p.core.commands import RouteQuery
from tests.sim.watched import ALIVE, Watched, caught

QUERY = RouteQuery(capability="work.do")


@pytest.fixture
def trio(watched: Watched) -> tuple[Host, Host, Host]:
    """A caller, a provider and another provider that is cut off from both."""
    a, b, c = watched.hosts(3)
    for host in (b, c):
        host.application.offer(Offer.simple("work/doer", "work.do", Handler()))
    watched.all_see_all()
    watched.world.partition([a, b], [c])
    return a, b, c


def call(watched: Watched, host: Host, number: int, code: int = 0) -> None:
    watched.world.called(host, QUERY, bytes([number]), code)


def test_a_call_that_finds_nobody_although_a_provider_is_reachable(
    watched: Watched, trio: tuple[Host, Host, Host]
) -> None:
    a = trio[0]
    call(watched, a, 1, 1303)  # the cut is new
    watched.world.run(60)
    assert "could reach n01" in caught("availability", lambda: call(watched, a, 2, 1303))


def test_a_call_may_find_nobody_where_there_is_nobody(
    watched: Watched, trio: tuple[Host, Host, Host]
) -> None:
    a, b, _ = trio
    watched.world.crash(b)
    watched.world.run(60)
    call(watched, a, 1, 1303)


def test_calls_that_go_to_a_node_that_cannot_be_reached(
    watched: Watched, trio: tuple[Host, Host, Host]
) -> None:
    a, b, c = trio
    watched.world.run(60)

    watched.script(a).present_routable = [b.node]
    for number in range(100):
        call(watched, a, number)
    watched.script(a).present_routable = [b.node, c.node]
    call(watched, a, 100)
    call(watched, a, 101)
    assert "1.5 of 103 calls" in caught("availability", lambda: call(watched, a, 102))


def test_a_provider_that_the_caller_has_never_held_alive(watched: Watched) -> None:
    a, b = watched.hosts(2)
    b.application.offer(Offer.simple("work/doer", "work.do", Handler()))
    watched.world.run(60)
    call(watched, a, 1, 1303)
    watched.sees(a, b, ALIVE)
    caught("availability", lambda: call(watched, a, 2, 1303))
