"""Where a node listens and what it tells others about it: two kinds of address (case B58).

Nothing that only has a meaning on this machine is told to others: no wildcard, no link-local address without a zone,
and loopback only by a node that listens on loopback, where all the others must be on this machine too.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import TypeAlias

from reachp2p._arguments import check_text
from reachp2p.core.ids import Address, split_host_port
from reachp2p.errors import ConfigurationInvalid
from reachp2p.runtime.sockets import socket_address

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

ADVERTISED_MAX = 4
"""Addresses in a head."""
_ELSEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}
"""Addresses of nobody (RFC 5737, RFC 3849): asking for the route to them sends nothing."""


def check_host(host: str, *, insecure_open: bool) -> str:
    """The literal address to listen on. Raises `ConfigurationInvalid` (1704): not one, or open to others unasked."""
    check_text("host", host, "127.0.0.1")
    if host == "localhost":
        host = "127.0.0.1"
    address = _parse(host, "the address to listen on")
    if not address.is_loopback and not insecure_open:
        raise ConfigurationInvalid(
            f"listening on {host} lets other machines in, and an open cluster neither admits nor encrypts: whoever "
            "reaches the port can offer agents and read calls. If that is what you want, say insecure_open=True "
            "(--insecure-open)"
        )
    return str(address)


def advertised(
    host: str, port: int, advertise: Sequence[str], seeds: Sequence[Address]
) -> tuple[Address, ...]:
    """What to tell others: `advertise` if given, else where we listen, else (wildcard) the way out to the seeds.

    Raises `ConfigurationInvalid` (1704) for what others could not use, `InvalidIdentifier` (1707) for wrong syntax.
    """
    listens_on_loopback = ipaddress.ip_address(host).is_loopback
    if advertise:
        if len(advertise) > ADVERTISED_MAX:
            raise ConfigurationInvalid(
                f"{len(advertise)} addresses to advertise; others are told {ADVERTISED_MAX} at most"
            )
        return tuple(dict.fromkeys(_advertised_one(text, port, listens_on_loopback) for text in advertise))
    if not ipaddress.ip_address(host).is_unspecified:
        _check_tellable(host, f"{host} (where this node listens)", listens_on_loopback)
        return (Address(host, port),)
    found = [Address(own, port) for own in _ways_out(host, seeds)][:ADVERTISED_MAX]
    if not found:
        raise ConfigurationInvalid(
            f"this node listens on {host}, every address, and cannot tell which of them others can use: "
            f'name it, as in advertise=["10.0.0.5:{port}"] (--advertise)'
        )
    return tuple(found)


def _advertised_one(text: str, default_port: int, listens_on_loopback: bool) -> Address:
    host, port = split_host_port(text, default_port)
    address = _parse(host, f"the advertised address {text!r}")
    _check_tellable(str(address), f"the advertised address {text!r}", listens_on_loopback)
    return Address(str(address), port or default_port)


def _check_tellable(host: str, what: str, listens_on_loopback: bool) -> None:
    address = ipaddress.ip_address(host)
    reason = None
    if address.is_unspecified:
        reason = "stands for every address and reaches nobody"
    elif address.is_multicast:
        reason = "is a multicast address"
    elif address.is_loopback and not listens_on_loopback:
        reason = "means another machine on each machine, and this node listens beyond its own"
    elif isinstance(address, ipaddress.IPv6Address) and address.is_link_local:
        reason = "is link-local: its zone has a meaning on this machine only"
    if reason is not None:
        raise ConfigurationInvalid(f"{what} {reason}: name one that others can use")


def _ways_out(host: str, seeds: Sequence[Address]) -> list[str]:
    """Own addresses that lead to the seeds, or anywhere; of the families that a wildcard listens for."""
    families = (4, 6) if ":" in host else (4,)
    own: dict[str, None] = {}
    for target in [*(seed.host for seed in seeds), *(_ELSEWHERE[family] for family in families)]:
        address = _own_address_towards(target)
        if address is None or address.version not in families:
            continue
        if not (address.is_loopback or address.is_unspecified or address.is_link_local):
            own.setdefault(str(address))
    return list(own)


def _own_address_towards(host: str) -> IpAddress | None:
    """The address that the kernel would send from; asks the routing table, sends nothing."""
    try:
        family, target = socket_address(host, 9)
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return ipaddress.ip_address(probe.getsockname()[0])
    except (OSError, ValueError):
        return None


def _parse(host: str, what: str) -> IpAddress:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        raise ConfigurationInvalid(f"{what} must be an IP address, not {host!r}") from None
