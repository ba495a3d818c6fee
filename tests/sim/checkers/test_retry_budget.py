"""The retry budget checker, on planted violations and on what is allowed."""

from __future__ import annotations

from collections.abc import Callable

from reachp2p_sim.machines.host import Host

from reachp2p.core.commands import RouteQuery
from tests.sim.watched import Watched, asks, caught, ended

QUERY = RouteQuery(capability="work.do")


def call_twice(watched: Watched, hosts: list[Host]) -> Callable[[int], None]:
    """Let the first of three nodes make so many calls, each of which asks both others."""
    a, b, c = hosts
    made = iter(range(1_000_000))

    def make(count: int) -> None:
        for _ in range(count):
            call = next(made).to_bytes(16, "big")
            watched.world.called(a, QUERY, call, 0)
            asks(watched, a, b, call)
            asks(watched, a, b, call)
            asks(watched, a, c, call)
            watched.say(a, ended(call))

    return make


def test_retry_budget_allows_a_hundred_and_a_fifth_and_sees_one_more(watched: Watched) -> None:
    make = call_twice(watched, watched.hosts(3))
    make(125)
    assert "126 second attempts" in caught("retry_budget", lambda: make(1))


def test_retry_budget_is_full_again_ten_seconds_later(watched: Watched) -> None:
    make = call_twice(watched, watched.hosts(3))
    make(125)
    watched.world.run(10.1)
    make(125)
    watched.world.run(5)
    caught("retry_budget", lambda: make(100))


def test_retry_budget_begins_anew_with_each_process(watched: Watched) -> None:
    hosts = watched.hosts(3)
    make = call_twice(watched, hosts)
    make(125)
    watched.world.restart(hosts[0])
    watched.begin(hosts[0])
    make(125)
