"""What a node is started with, checked before anything is opened: a wrong setting is an error with a reason."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reachp2p.core.settings import Protocol
from reachp2p.errors import ConfigurationInvalid
from reachp2p.runtime.addresses import check_host
from reachp2p.runtime.seeds import parse_seeds
from reachp2p.runtime.text import plain

TEXT_MAX = 64
"""Characters of name, zone and cluster id: what a head and a hello hold."""


@dataclass(slots=True, frozen=True)
class NodeOptions:
    """Checked settings of one node; see `Node` for what they mean."""

    name: str
    cluster: str
    zone: str
    host: str
    port: int
    advertise: tuple[str, ...]
    seeds: tuple[tuple[str, int], ...]
    state: Path | None
    take_over: bool
    control: bool
    protocol: Protocol = field(default_factory=Protocol)


def check_options(
    *,
    agent_ids: Sequence[str],
    name: str | None,
    cluster: str,
    zone: str,
    host: str,
    port: int,
    advertise: str | Sequence[str] | None,
    seeds: Sequence[str],
    state: str | os.PathLike[str] | None,
    insecure_open: bool,
    take_over: bool,
    control: bool,
    protocol: Protocol | None,
) -> NodeOptions:
    """Raises `ConfigurationInvalid` (1704) or `InvalidIdentifier` (1707) for what cannot be used."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
        raise ConfigurationInvalid(f"port {port!r}: write a number from 0 (any free one) to 65535")
    if len(set(agent_ids)) < len(agent_ids):
        raise ConfigurationInvalid(f"the same agent twice: {', '.join(agent_ids)}")
    return NodeOptions(
        name=_check_text("node name", name if name is not None else _default_name(agent_ids)),
        cluster=_check_text("cluster", cluster),
        zone=_check_text("zone", zone, may_be_empty=True),
        host=check_host(host, insecure_open=insecure_open),
        port=port,
        advertise=(advertise,) if isinstance(advertise, str) else tuple(advertise or ()),
        seeds=tuple(parse_seeds(seeds)),
        state=None if state is None else Path(state),
        take_over=take_over,
        control=control,
        protocol=protocol or Protocol(),
    )


def _default_name(agent_ids: Sequence[str]) -> str:
    """Shown to people, so it may be the same on two nodes: the first agent's, else the machine's."""
    return (agent_ids[0].partition("/")[2] if agent_ids else socket.gethostname())[:TEXT_MAX] or "node"


def _check_text(what: str, text: str, *, may_be_empty: bool = False) -> str:
    if not isinstance(text, str) or len(text) > TEXT_MAX or (not text and not may_be_empty):
        raise ConfigurationInvalid(f"{what} {text!r}: write text of 1 to {TEXT_MAX} characters")
    if plain(text) != text:
        raise ConfigurationInvalid(f"{what} {plain(text)!r} has control characters")
    return text
