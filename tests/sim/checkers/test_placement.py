"""Placement: a key moves only because of an instance that has come, gone or changed."""

from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Offer

from reachp2p.core.ring.placement import InstanceKey
from tests.sim.watched import Watched, caught


def places(watched: Watched, host: Host, owner: Host, *others: Host, weight: int = 100) -> None:
    def key(of: Host) -> InstanceKey:
        return of.node, "work/doer"

    script = watched.script(host)
    script.present_weights = {key(owner): weight, **{key(other): 100 for other in others}}
    script.present_owner = key(owner)


def hosts(watched: Watched) -> list[Host]:
    found = watched.hosts(3)
    found[0].application.offer(Offer.simple("work/doer", "work.do", Handler()))
    return found


def test_two_views_with_equal_instances_and_different_owners(watched: Watched) -> None:
    a, b, c = hosts(watched)
    places(watched, a, a, b)
    places(watched, b, b, a)
    places(watched, c, a, b)
    assert "both place both alike" in caught("placement", lambda: watched.world.run(20))


def test_a_key_that_moves_between_two_whom_a_change_does_not_touch(watched: Watched) -> None:
    a, b, c = hosts(watched)
    for host in (a, b, c):
        places(watched, host, a, b)
    watched.world.run(16)
    for host in (a, b, c):
        places(watched, host, b, a, c)
    assert "belonged to work/doer on n00" in caught("placement", lambda: watched.world.run(6))


@pytest.mark.parametrize("change", ["owner is new", "owner is gone", "owner weighs more"])
def test_a_key_that_moves_for_a_reason(watched: Watched, change: str) -> None:
    a, b, c = hosts(watched)
    for host in (a, b, c):
        places(watched, host, a, b)
    watched.world.run(16)
    for host in (a, b, c):
        match change:
            case "owner is new":
                places(watched, host, c, a, b)
            case "owner is gone":
                places(watched, host, b, c)
            case _:
                places(watched, host, b, a, weight=300)
    watched.world.run(40)
