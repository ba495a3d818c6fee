"""Who may call an agent: one pure rule, asked by the caller's router, and again by the callee, whose links prove who
asks.

A caller is a node: whatever runs in it calls as that node. It has the namespaces of the agents that it offers in its
present life, as far as whoever judges has heard of them (docs/protocol/routing.md says what that is worth in an open
cluster). A node may always call what it offers itself.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

from reachp2p.core.ids import NODE_ID_BYTES, NodeId, check_agent_id
from reachp2p.errors import InvalidIdentifier

CALLERS_MAX = 64


class Access(IntEnum):
    """Which callers an agent has; the numbers travel in its record."""

    PUBLIC = 0
    """Any member."""
    RESTRICTED = 1
    """The callers that it names."""
    PRIVATE = 2
    """Nodes that offer an agent of its own namespace."""


ACCESS: dict[str, Access] = {access.name.lower(): access for access in Access}
"""As people write it."""


def may_call(
    access: int, callers: Collection[str], agent: str, caller: NodeId, offered: Collection[str]
) -> bool:
    """Whether node `caller`, which offers the agents `offered`, may call `agent` with this `access` and `callers`.

    A caller is named as `namespace`, as `namespace/agent`, or as a NodeId in hex.
    """
    if access == Access.PUBLIC:
        return True
    if access == Access.PRIVATE:
        return _has_namespace(agent.partition("/")[0], offered)
    return any(
        name in offered if "/" in name else (name == caller.hex() or _has_namespace(name, offered))
        for name in callers
    )


def _has_namespace(namespace: str, offered: Collection[str]) -> bool:
    start = namespace + "/"
    return any(agent.startswith(start) for agent in offered)


def check_access(access: str, callers: Collection[str]) -> None:
    """Raise `InvalidIdentifier` (1707) if an agent cannot be declared so."""
    if access not in ACCESS:
        raise InvalidIdentifier(f"access {access!r}: write public, restricted or private")
    if len(callers) > CALLERS_MAX:
        raise InvalidIdentifier(f"{len(callers)} callers, at most {CALLERS_MAX}; name namespaces instead")
    if callers and access != "restricted":
        raise InvalidIdentifier(f"callers are named for restricted access, not for {access}")
    if not callers and access == "restricted":
        raise InvalidIdentifier(
            "restricted access without callers: name at least one, as in callers=['shop']"
        )
    for name in callers:
        _check_caller(name)


def _check_caller(name: str) -> None:
    """A NodeId in hex looks like a namespace of 64 characters: it means the node."""
    full = "" if not isinstance(name, str) else name if "/" in name else f"{name}/x"
    try:
        check_agent_id(full)
    except InvalidIdentifier:
        raise InvalidIdentifier(
            f"caller {name!r}: write a namespace, namespace/agent, or the {2 * NODE_ID_BYTES} hex digits of a node id"
        ) from None
