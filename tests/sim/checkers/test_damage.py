"""Damage: what was changed on the way is dropped and counted."""

from __future__ import annotations

from reachp2p.core.effects import SendDatagram
from tests.sim.watched import Watched, caught


def test_a_damaged_datagram_that_is_not_counted_as_dropped(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.world.set_weather(corrupt=1.0)

    def send() -> None:
        watched.want(a, SendDatagram(b.address, b"hello"))
        watched.world.run(1)

    assert "damaged on the way" in caught("damage", send)
