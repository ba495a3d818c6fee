"""Quiet: as much traffic long after a disturbance as before it."""

from __future__ import annotations

from reachp2p_sim.measuring.budgets import healing

from reachp2p.core.wire.messages import Ping
from tests.sim.watched import Watched, caught


def chatter(watched: Watched, seconds: float, times: int) -> None:
    a, b = watched.world.nodes
    for _ in range(int(seconds)):
        for _ in range(times):
            watched.send(a, b, Ping(nonce=bytes(8)))
        watched.world.run(1.0)


def disturbed(watched: Watched) -> None:
    """Long calm, a disturbance, and all the time that it may take to settle."""
    watched.hosts(2)
    chatter(watched, 160, 10)
    watched.world.partition(*([host] for host in watched.world.nodes))
    watched.world.heal()
    watched.world.run(2 * healing(2, watched.world.protocol) + 1)


def test_more_traffic_after_a_disturbance_than_before(watched: Watched) -> None:
    disturbed(watched)
    assert "before it they sent" in caught("quiet", lambda: chatter(watched, 95, 11))


def test_less_traffic_is_seen_too_and_the_same_is_fine(watched: Watched) -> None:
    disturbed(watched)
    chatter(watched, 95, 10)
    watched.world.heal()
    watched.world.run(2 * healing(2, watched.world.protocol) + 1)
    caught("quiet", lambda: chatter(watched, 95, 9))


def test_calls_are_traffic_of_their_own(watched: Watched) -> None:
    disturbed(watched)
    watched.world.ledger.started += 1
    chatter(watched, 10, 20)
    watched.world.ledger.started += 1
    chatter(watched, 85, 20)
