"""The bounded load checker, on planted violations and on what is allowed."""

from __future__ import annotations

from reachp2p_sim.machines.host import Host

from reachp2p.core.commands import RouteQuery
from tests.sim.watched import Watched, asks, caught, ended

KEYED = RouteQuery(capability="work.do", policy="consistent_hash", key="k")


def pool(watched: Watched) -> tuple[Host, list[Host]]:
    """A caller that places four instances alike."""
    caller, *instances = watched.hosts(5)
    script = watched.script(caller)
    script.present_routable = [host.node for host in instances]
    script.present_weights = {(host.node, "work/doer"): 100 for host in instances}
    return caller, instances


def call(watched: Watched, caller: Host, target: Host, number: int, query: RouteQuery = KEYED) -> bytes:
    """Let the caller make a call that goes to one of them."""
    name = number.to_bytes(16, "big")
    watched.world.called(caller, query, name, 0)
    asks(watched, caller, target, name)
    return name


def test_bounded_load_allows_eight_and_a_quarter_more_than_a_part(watched: Watched) -> None:
    caller, instances = pool(watched)
    for number in range(8):
        call(watched, caller, instances[0], number)
    for number in range(8, 39):
        call(watched, caller, instances[1 + number % 3], number)
    for number in range(39, 46):  # the last one is number 15 there, of 46 in flight
        call(watched, caller, instances[0], number)
    message = caught("bounded_load", lambda: call(watched, caller, instances[0], 46))
    assert "16 of its 47 keyed calls" in message
    assert "15 are allowed" in message


def test_bounded_load_sees_one_too_many(watched: Watched) -> None:
    caller, instances = pool(watched)
    for number in range(8):
        call(watched, caller, instances[0], number)
    message = caught("bounded_load", lambda: call(watched, caller, instances[0], 8))
    assert "9 of its 9 keyed calls" in message


def test_bounded_load_counts_what_is_in_flight_and_keyed(watched: Watched) -> None:
    caller, instances = pool(watched)
    for number in range(100):
        name = call(watched, caller, instances[0], number)
        watched.say(caller, ended(name))
    for number in range(100, 200):
        call(watched, caller, instances[0], number, RouteQuery(capability="work.do"))
    for number in range(200, 208):
        call(watched, caller, instances[0], number)
