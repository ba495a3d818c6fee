"""The UDP socket: never blocks, drains, and takes the network's faults as they come."""

from __future__ import annotations

import socket

import pytest
import trio

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Address
from reachp2p.runtime.sockets import bind_pair
from reachp2p.runtime.udp import UdpSocket

pytestmark = pytest.mark.trio


class Sink:
    def __init__(self) -> None:
        self.heard: list[tuple[Address, bytes]] = []
        self.changed = trio.Event()

    def datagram(self, source: Address, data: bytes) -> None:
        self.heard.append((source, data))
        self.changed.set()

    async def until(self, count: int) -> None:
        with trio.fail_after(2):
            while len(self.heard) < count:
                self.changed = trio.Event()
                await self.changed.wait()


def bound(host: str, sink: Sink, counters: Counters, datagram_max: int = 1_400) -> tuple[UdpSocket, Address]:
    pair = bind_pair(host, 0)
    pair.tcp.close()
    return UdpSocket(pair.udp, sink, counters, datagram_max), Address(host, pair.port)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_datagrams_go_both_ways_and_name_their_source(host: str) -> None:
    left_sink, right_sink, counters = Sink(), Sink(), Counters()
    left, left_address = bound(host, left_sink, counters)
    right, right_address = bound(host, right_sink, counters)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(left.receive)
        nursery.start_soon(right.receive)
        for number in range(200):
            left.send(right_address, b"%d" % number)
        await right_sink.until(200)
        right.send(left_address, b"back")
        await left_sink.until(1)
        nursery.cancel_scope.cancel()
    assert right_sink.heard == [(left_address, b"%d" % number) for number in range(200)]
    assert left_sink.heard == [(right_address, b"back")]
    assert counters.snapshot() == {"udp.received": 201, "udp.sent": 201}
    left.close()
    right.close()
    right.close()


async def test_a_wildcard_of_ipv6_hears_and_answers_both_families() -> None:
    sink, other_sink, counters = Sink(), Sink(), Counters()
    dual, address = bound("::", sink, counters)
    other, other_address = bound("127.0.0.1", other_sink, counters)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dual.receive)
        nursery.start_soon(other.receive)
        other.send(Address("127.0.0.1", address.port), b"four")
        await sink.until(1)
        dual.send(sink.heard[0][0], b"answer")
        dual.send(Address("::1", address.port), b"six")
        await sink.until(2)
        await other_sink.until(1)
        nursery.cancel_scope.cancel()
    assert sink.heard == [(other_address, b"four"), (Address("::1", address.port), b"six")]
    dual.close()
    other.close()


async def test_what_cannot_be_sent_is_counted_by_reason_and_never_raises() -> None:
    counters = Counters()
    one, _ = bound("127.0.0.1", Sink(), counters)
    one.send(Address("127.0.0.1", 9), bytes(70_000))
    one.send(Address("::1", 9), b"six")
    one.send(Address("node.example", 9), b"a name")
    one.send(Address("255.255.255.255", 9), b"broadcast is not allowed")
    assert counters.snapshot() == {
        "udp.dropped.firewall": 1,
        "udp.dropped.too_long": 1,
        "udp.dropped.wrong_family": 2,
        "udp.ignored.bad_address": 1,
    }
    one.close()


async def test_a_full_socket_drops_instead_of_waiting() -> None:
    class Full(socket.socket):
        def sendto(self, *_: object) -> int:  # type: ignore[override]
            raise BlockingIOError(11, "would block")

    counters = Counters()
    with Full(socket.AF_INET, socket.SOCK_DGRAM) as full:
        UdpSocket(full, Sink(), counters, 1_400).send(Address("127.0.0.1", 9), b"x")
    assert counters.snapshot() == {"udp.dropped.would_block": 1}


async def test_errors_of_earlier_datagrams_and_long_ones_do_not_end_the_receiver() -> None:
    """A connected socket makes Linux report the ICMP answer to what was sent, as Windows does on any socket."""
    sink, counters = Sink(), Counters()
    one, address = bound("127.0.0.1", sink, counters, datagram_max=100)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        nobody = gone.getsockname()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(nobody)
        other.close()
        one._socket.connect(nobody)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.receive)
            one._socket.send(b"to nobody")
            await trio.sleep(0.05)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back:
                back.bind(nobody)
                back.sendto(bytes(101), (address.host, address.port))
                back.sendto(bytes(100), (address.host, address.port))
                await sink.until(1)
            nursery.cancel_scope.cancel()
    assert sink.heard == [(Address(*nobody), bytes(100))]
    assert counters.value("udp.ignored.receive_error") >= 1
    assert counters.value("udp.dropped.oversized") == 1
    one.close()
