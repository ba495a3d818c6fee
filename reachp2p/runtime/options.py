"""What a node is started with, checked before anything is opened: a wrong setting is an error with a reason."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from reachp2p._arguments import check_bool, check_kind, wrong
from reachp2p.core.ids import NodeId, split_host_port
from reachp2p.core.settings import Protocol
from reachp2p.errors import ConfigurationInvalid
from reachp2p.runtime.addresses import check_host
from reachp2p.runtime.text import plain

DEFAULT_PORT = 7946
"""Of a seed that is given without one."""
SEEDS_MAX = 64
TEXT_MAX = 64
"""Characters of name, zone and cluster id: what a head and a hello hold."""
NAME_DIGITS = 6
"""Of the node id in a name that nobody chose: a thousand nodes of one agent still differ, all but certainly."""


class NodeOptions(msgspec.Struct, frozen=True):
    """Checked settings of one node; see `Node` for what they mean."""

    name: str
    is_named: bool
    """Whether somebody chose the name; else it is the first agent's or the machine's, and `name_of` makes it unique."""
    cluster: str
    zone: str
    host: str
    port: int
    advertise: tuple[str, ...]
    seeds: tuple[tuple[str, int], ...]
    state: Path | None
    take_over: bool
    control: bool
    rules: Path | None = None
    protocol: Protocol = msgspec.field(default_factory=Protocol)

    def name_of(self, node: NodeId) -> str:
        """The name that others are told: the chosen one, else one that two nodes of one agent do not share."""
        if self.is_named:
            return self.name
        return f"{self.name[: TEXT_MAX - NAME_DIGITS - 1]}-{node.hex()[:NAME_DIGITS]}"


def check_options(
    *,
    agent_ids: Sequence[str],
    name: str | None,
    cluster: str,
    zone: str,
    host: str,
    port: int,
    advertise: str | Sequence[str] | None,
    seeds: str | Sequence[str],
    state: object,
    insecure_open: bool,
    take_over: bool,
    control: bool,
    protocol: Protocol | None,
    rules: object = None,
) -> NodeOptions:
    """Raises `ConfigurationInvalid` (1704) or `InvalidIdentifier` (1707) for what cannot be used."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
        raise wrong("port", port, "a number from 0 (any free one) to 65535")
    if len(set(agent_ids)) < len(agent_ids):
        raise ConfigurationInvalid(f"the same agent twice: {', '.join(agent_ids)}")
    return NodeOptions(
        name=_base_name(agent_ids) if name is None else _check_text("name", name),
        is_named=name is not None,
        cluster=_check_text("cluster", cluster),
        zone=_check_text("zone", zone, may_be_empty=True),
        host=check_host(host, insecure_open=check_bool("insecure_open", insecure_open)),
        port=port,
        advertise=_check_addresses("advertise", () if advertise is None else advertise),
        seeds=tuple(parse_seeds(_check_addresses("seeds", seeds))),
        state=_check_path("state", state),
        take_over=check_bool("take_over", take_over),
        control=check_bool("control", control),
        rules=_check_path("rules", rules, "file"),
        protocol=Protocol()
        if protocol is None
        else check_kind("protocol", protocol, Protocol, "a Protocol (reachp2p.core.settings)"),
    )


def parse_seeds(seeds: Iterable[str]) -> list[tuple[str, int]]:
    """(host, port) of each seed. Raises `InvalidIdentifier` (1707) or `ConfigurationInvalid` (1704, too many)."""
    parsed = list(dict.fromkeys(split_host_port(seed, DEFAULT_PORT) for seed in seeds))
    if len(parsed) > SEEDS_MAX:
        raise ConfigurationInvalid(f"{len(parsed)} seeds; {SEEDS_MAX} are enough for any network")
    for host, port in parsed:
        if port == 0:
            raise ConfigurationInvalid(f"seed {host}: port 0 cannot be contacted")
    return parsed


def _base_name(agent_ids: Sequence[str]) -> str:
    return plain(agent_ids[0].partition("/")[2] if agent_ids else socket.gethostname())[:TEXT_MAX] or "node"


def _check_addresses(what: str, value: object) -> tuple[str, ...]:
    """Addresses as a list, or one on its own; what they say is checked later."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong(what, value, 'a list of addresses, as in ["127.0.0.1:7946"]')
    found = tuple(value)
    for one in found:
        if not isinstance(one, str):
            raise wrong(what, value, 'each address as text, as in ["127.0.0.1:7946"]')
    return found


def _check_path(what: str, value: object, kind: str = "folder") -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        raise wrong(what, value, f"the path of a {kind}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        raise wrong(what, value, f"the path of a {kind}")
    return Path(text)


def _check_text(what: str, text: str, *, may_be_empty: bool = False) -> str:
    if not isinstance(text, str) or len(text) > TEXT_MAX or (not text and not may_be_empty):
        raise wrong(what, text, f"text of {0 if may_be_empty else 1} to {TEXT_MAX} characters")
    if plain(text) != text:
        raise wrong(what, text, "text without control characters")
    return text
