"""The bounded checker, on planted violations and on what is allowed."""

from __future__ import annotations

from reachp2p.core.effects import SendDatagram
from reachp2p.core.ids import Address
from tests.sim.watched import Watched, caught


def test_bounded_sees_a_datagram_that_is_too_large(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.want(a, SendDatagram(b.address, bytes(1_400)))
    send = SendDatagram(Address("192.0.2.1", 9), bytes(1_401))
    assert "1401 bytes" in caught("bounded", lambda: watched.want(a, send))


def test_bounded_sees_a_table_over_its_limit(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    watched.script(a).gauges = {"size.members": watched.world.protocol.members_max}
    watched.world.run(2)
    watched.script(a).gauges = {"size.members": watched.world.protocol.members_max + 1}
    caught("bounded", lambda: watched.world.run(2))
