"""The UDP socket of a node: sending never blocks, receiving drains what waits, faults of the network are counted."""

from __future__ import annotations

import errno
import logging
import socket
from collections import OrderedDict
from typing import Protocol, TypeVar

import trio

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Address
from reachp2p.runtime.sockets import SocketAddress, address_of, mapped, socket_address

logger = logging.getLogger("reachp2p.udp")

DRAIN_MAX = 64
"""Datagrams taken per wake-up before other tasks run: at about 40 µs each, 2.5 ms."""
ADDRESSES_REMEMBERED = 4_096
"""Kernel forms of addresses, both ways; the oldest is forgotten. A miss costs 10 µs."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_DROPPED = {
    errno.EAGAIN: "udp.dropped.would_block",
    errno.ENOBUFS: "udp.dropped.would_block",
    errno.EMSGSIZE: "udp.dropped.too_long",
    errno.ENETUNREACH: "udp.dropped.unreachable",
    errno.EHOSTUNREACH: "udp.dropped.unreachable",
    errno.ENETDOWN: "udp.dropped.unreachable",
    errno.EADDRNOTAVAIL: "udp.dropped.unreachable",
    errno.EPERM: "udp.dropped.firewall",
    errno.EACCES: "udp.dropped.firewall",
}


class DatagramSink(Protocol):
    """Where datagrams go (the driver)."""

    def datagram(self, source: Address, data: bytes) -> None:
        """One UDP payload arrived."""


class UdpSocket:
    """Owns a bound, non-blocking socket from here on. `datagram_max`: longer ones are dropped unread, both ways."""

    def __init__(
        self, bound: socket.socket, sink: DatagramSink, counters: Counters, datagram_max: int
    ) -> None:
        self._socket = bound
        self._sink = sink
        self._counters = counters
        self._datagram_max = datagram_max
        self._is_dual = bound.family == socket.AF_INET6 and not bound.getsockopt(
            socket.IPPROTO_IPV6, socket.IPV6_V6ONLY
        )
        self._targets: OrderedDict[Address, SocketAddress] = OrderedDict()
        self._sources: OrderedDict[SocketAddress, Address] = OrderedDict()

    def send(self, address: Address, data: bytes) -> None:
        """Send one datagram now or never; what could not be sent is counted by reason."""
        target = self._targets.get(address)
        if target is None:
            target = self._target(address)
            if target is None:
                self._counters.add("udp.dropped.wrong_family")
                return
        try:
            self._socket.sendto(data, target)
        except OSError as error:
            # A refusal here is the ICMP answer to an earlier datagram, not to this one, so that this one is lost with
            # it: say nothing about anybody (ICMP is ignored).
            self._counters.add(_DROPPED.get(error.errno or 0, "udp.dropped.error"))
            return
        self._counters.add("udp.sent")

    async def receive(self) -> None:
        """Hand over what arrives, for ever; ends only by cancellation."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            for _ in range(DRAIN_MAX):
                if not self._receive_one():
                    break
            else:
                await trio.lowlevel.checkpoint()

    def _receive_one(self) -> bool:
        """Take one datagram; whether more may wait."""
        try:
            data, peer = self._socket.recvfrom(self._datagram_max + 1)
        except BlockingIOError:
            return False
        except OSError as error:
            # Linux and Windows report the ICMP answer to an earlier datagram here (cpython#127057).
            self._counters.add("udp.ignored.receive_error")
            logger.debug("receiving: %s", error)
            return True
        if len(data) > self._datagram_max:
            self._counters.add("udp.dropped.oversized")
            return True
        source = self._sources.get(peer)
        if source is None:
            source = self._source(peer)
            if source is None:
                return True
        self._counters.add("udp.received")
        self._sink.datagram(source, data)
        return True

    def close(self) -> None:
        """Close the socket; whoever waits on it is woken."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _target(self, address: Address) -> SocketAddress | None:
        target: SocketAddress | None = None
        try:
            host = mapped(address.host) if self._is_dual and ":" not in address.host else address.host
            family, found = socket_address(host, address.port)
            target = found if family == self._socket.family else None
        except OSError:
            self._counters.add("udp.ignored.bad_address")
        if target is not None:
            _remember(self._targets, address, target)
        return target

    def _source(self, peer: SocketAddress) -> Address | None:
        if peer[1] == 0:  # port 0 can be forged, and nobody can be answered there
            self._counters.add("udp.dropped.port_zero")
            return None
        source = address_of(peer)
        _remember(self._sources, peer, source)
        return source


def _remember(cache: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    if len(cache) >= ADDRESSES_REMEMBERED:
        cache.popitem(last=False)
    cache[key] = value
