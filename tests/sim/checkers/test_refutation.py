"""Refutation: at once, one step at a time, and only when accused."""

from __future__ import annotations

from reachp2p_sim.world.signed_facts import ACCUSED_LIVES_MAX

from reachp2p.core.events import Paused
from reachp2p.core.ids import Life
from reachp2p.core.wire.messages import AccusationUpdate, Ping
from tests.sim.watched import ALIVE, Watched, caught


def test_a_node_that_hears_a_doubt_and_says_nothing(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sign_head(b)
    watched.send(a, b, Ping(nonce=bytes(8)), AccusationUpdate(accusation=watched.sign_accusation(a, b)))
    assert "did not refute" in caught("refutation", lambda: watched.world.run(1))


def test_a_node_that_has_refuted_already_is_left_alone(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sign_head(b)
    doubt = AccusationUpdate(accusation=watched.sign_accusation(a, b))
    watched.send(a, b, doubt)
    watched.sign_head(b, 1)
    watched.world.run(1)
    watched.send(a, b, doubt)
    watched.world.run(1)
    assert b.listeners is None


def test_what_a_node_does_not_have_to_hear(watched: Watched) -> None:
    """It does not run at the moment; the datagram is for another, damaged, or from a life that it knows to be over."""
    a, b, c = watched.hosts(3)
    watched.sign_head(b)
    doubt = AccusationUpdate(accusation=watched.sign_accusation(a, b))
    for_another = watched.datagram(a, c, doubt)
    damaged = bytearray(watched.datagram(a, b, doubt))
    damaged[-1] ^= 1
    for data in (for_another, bytes(damaged)):
        b.receive_datagram((a.address, data, 0))
    watched.sees(b, a, ALIVE, life=Life(7, bytes(16)))
    b.receive_datagram((a.address, watched.datagram(a, b, doubt), 0))
    watched.say(b, Paused(at=0.0, other=Life(9, bytes(16))))
    b.receive_datagram((c.address, watched.datagram(c, b, doubt), 0))


def test_an_incarnation_grows_by_one(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sign_head(b)
    watched.sign_accusation(a, b)
    assert "one step is due" in caught("refutation", lambda: watched.sign_head(b, 2))


def test_an_incarnation_does_not_grow_unasked(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sign_head(b)
    watched.sign_accusation(a, b, incarnation=5)
    assert "nobody doubts" in caught("refutation", lambda: watched.sign_head(b, 1))


def test_a_doubt_of_a_life_is_remembered_when_a_higher_life_of_its_clone_is_doubted(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sign_head(b)
    watched.sign_accusation(a, b)
    watched.sign_accusation(a, b, life=Life(9, bytes(16)))
    watched.sign_head(b, 1)
    for epoch in range(10, 20):  # as many lives as a run has: the lowest are forgotten
        watched.sign_accusation(a, b, life=Life(epoch, bytes(16)))
    assert len(watched.world.signed.accused[b.node]) == ACCUSED_LIVES_MAX


def test_whoever_has_left_has_nothing_to_refute(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sign_head(b)
    watched.sign_head(b, left=True)
    watched.send(a, b, AccusationUpdate(accusation=watched.sign_accusation(a, b)))
    watched.world.run(1)
