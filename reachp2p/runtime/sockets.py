"""Sockets of a node: one UDP and one TCP socket on the same port number, and addresses as the kernel wants them."""

from __future__ import annotations

import errno
import socket
from typing import TypeAlias

from reachp2p.core.ids import Address
from reachp2p.errors import ConfigurationInvalid, ErrorCode, NodeError

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]

BACKLOG = 256
"""Connections that the kernel completes before we accept them; beyond it their SYNs are dropped and come again."""
RECEIVE_BUFFER = 1_048_576
"""Asked for the UDP socket (the kernel may give less): 700 full datagrams while Python is busy for a moment."""
PAIR_ATTEMPTS = 64
"""Free TCP ports tried until one is free for UDP as well."""

_MAPPED = "::ffff:"


class BoundPair:
    """The two sockets of a node, bound but not yet used. Whoever holds the pair closes it."""

    def __init__(self, udp: socket.socket, tcp: socket.socket, host: str, port: int) -> None:
        self.udp = udp
        self.tcp = tcp
        self.host = host
        self.port = port

    def close(self) -> None:
        """Close both sockets; again is harmless."""
        self.udp.close()
        self.tcp.close()


def bind_pair(host: str, port: int) -> BoundPair:
    """Bind UDP and TCP to one port number of a literal IP address; 0 takes a port that is free for both.

    `::` listens for both families. Raises `NodeError` 1702 (in use) or `ConfigurationInvalid` (1704: the address is
    not one of this machine, or the port is not ours to take).
    """
    last: OSError | None = None
    for _ in range(PAIR_ATTEMPTS if port == 0 else 1):
        try:
            return _bind_once(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ConfigurationInvalid(
                    f"cannot listen on {host} port {port}: {error.strerror or error}"
                ) from error
            last = error
    raise NodeError(
        ErrorCode.ADDRESS_IN_USE,
        f"port {port} of {host} is in use (a node needs it for UDP and TCP): stop the other program or take another",
    ) from last


def _bind_once(host: str, port: int) -> BoundPair:
    family, address = socket_address(host, port)
    tcp = socket.socket(family, socket.SOCK_STREAM)
    try:
        udp = socket.socket(family, socket.SOCK_DGRAM)
    except BaseException:
        tcp.close()
        raise
    pair = BoundPair(udp, tcp, host, port)
    try:
        for one in (tcp, udp):
            one.setblocking(False)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        # A port in TIME_WAIT after our own restart is ours; UDP has no such state, and there the option would let two
        # nodes share a port.
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        tcp.bind(address)
        pair.port = tcp.getsockname()[1]
        tcp.listen(BACKLOG)
        udp.bind(socket_address(host, pair.port)[1])
    except BaseException:
        pair.close()
        raise
    return pair


def socket_address(host: str, port: int) -> tuple[socket.AddressFamily, SocketAddress]:
    """Family and kernel address of a literal IP address, zone included (`fe80::1%eth0`). Else raises `OSError`."""
    if not (
        host.isascii() and host.isprintable()
    ):  # the resolver would stop at a NUL, and take what is before it
        raise OSError(errno.EINVAL, f"{host!r} is no IP address")
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except (
        ValueError,
        OverflowError,
    ) as error:  # no name even ("a..b", a NUL in it): members advertise what they like
        raise OSError(errno.EINVAL, f"{host!r} is no IP address") from error
    family, _, _, _, address = found[0]
    return family, address  # type: ignore[return-value]  # a kernel address has two or four parts


def mapped(host: str) -> str:
    """An IPv4 address as a dual-stack socket wants it."""
    return _MAPPED + host


def unmapped(host: str) -> str:
    """The address without the IPv4-in-IPv6 prefix that a dual-stack socket reports."""
    return host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host


def address_of(peer: SocketAddress) -> Address:
    """Our form of a kernel address; a link-local one keeps its zone."""
    return Address(unmapped(peer[0]), peer[1])
