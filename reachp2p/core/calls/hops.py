"""Hops: what one node knows of one attempt of a call, as its caller or as its callee (docs/protocol/sessions.md)."""

from __future__ import annotations

from enum import Enum

import msgspec

from reachp2p.core.ids import NodeId


class Side(Enum):
    """From which end of a call a hop was seen."""

    ASKED = "asked"
    SERVED = "served"


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one call as one node saw it. Payload sizes are those of the application, as this node sees them:
    what it is asked comes in at its callee and goes out at its caller."""

    node: NodeId
    """Whose record this is."""
    side: Side
    other: NodeId | None
    """The node at the other end; None if no instance was found."""
    session: bytes
    trace: bytes
    span: bytes
    parent: bytes | None
    """The span on whose behalf: of a served hop the asked one; of an asked hop the served one of the handler that
    calls, or what the program has brought along; None begins a trace."""
    message_id: bytes
    """With `attempt`, the same at both ends."""
    attempt: int
    depth: int
    """How many agents are on its path before it: 0 for a call that no handler has made."""
    agent: str
    capability: str
    started: float
    """Unix seconds by its own node's clock."""
    duration: float
    """Seconds of its steady clock."""
    queued: float
    """Of these, the wait for a link (asked) or for a place in the bulkhead (served)."""
    bytes_in: int
    bytes_out: int
    code: int
    """0 or a code of `reachp2p.errors`."""
    detail: str
    retries: int
    """Instances turned to before this one."""
    items: int
    """Items of its stream of results."""
    handed: bool
    """Whether the request was handed to a link (or came by one)."""
    answered: bool
    """Whether a reply was heard (asked) or made (served)."""
    payload_in: bytes | None = None
    payload_out: bytes | None = None

    @property
    def ended(self) -> float:
        """Unix seconds by its own node's clock."""
        return self.started + self.duration


class HopFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which hops are wanted; what is None or false asks nothing."""

    session: bytes | None = None
    """Of this session or trace."""
    strays: bool = False
    """Also calls that began a trace of their own while this node served that session."""
    failed: bool = False
    age: float | None = None
    """Ended at most so many seconds ago."""
    capability: str | None = None
    agent: str | None = None
    limit: int = 1_000
    """Of one node; the newest are told."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The hops of one node that fit a filter, in the order of their starts."""

    hops: list[Hop]
    left_out: int = 0
    """Hops that fit and were too many."""
    since: float = 0.0
    """Unix seconds since when this node records."""
    complete_since: float = 0.0
    """Unix seconds since when it has dropped nothing."""
