"""What the links tell the engine: one list of these, in order, for each input."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from reachp2p.core.effects import LinkEnd
from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.wire.codec import RejectedCall
from reachp2p.core.wire.messages import Message


class LinkUp(msgspec.Struct, frozen=True):
    """The other side has proven its key: messages may be sent to `node`. `address` is what we dialled, else None."""

    link: LinkId
    node: NodeId
    life: Life
    address: Address | None
    dialled: bool


class LinkMessage(msgspec.Struct, frozen=True):
    """A message from a proven link. Pings are answered already and do not appear here, but for those that a
    helper sends for another node: that one must be convinced by our signature on a datagram."""

    link: LinkId
    node: NodeId
    life: Life
    message: Message


class CallRejected(msgspec.Struct, frozen=True):
    """A request or reply from a proven link that this version does not understand; whoever waits for it is told."""

    link: LinkId
    node: NodeId
    life: Life
    call: RejectedCall


class LinkDown(msgspec.Struct, frozen=True, kw_only=True):
    """A link, or the attempt to open one, has ended; each dialled or proven link ends with exactly one of these.

    `node` is who was proven or, before the proof, whom we meant to reach; `life` is known once proven. `end` is LOST
    only if nobody said goodbye. After a `clean` end everything sent on the link has been delivered, so what waits for
    an answer goes on if another link leads to the same life. `heard_all` is half of that: everything that the other
    side sent has arrived, so it knows of another link and goes on over it. `code` and `detail` are what a goodbye
    (theirs or ours) said; `detail` may be foreign text.
    """

    link: LinkId
    node: NodeId | None
    life: Life | None
    address: Address | None
    end: LinkEnd
    dialled: bool
    was_proven: bool
    clean: bool = False
    heard_all: bool = False
    code: int = 0
    detail: str = ""


class SelfReached(msgspec.Struct, frozen=True):
    """The address we dialled leads to this very life; the link is closed."""

    address: Address


class CloneReached(msgspec.Struct, frozen=True):
    """Another life of our own key is alive at the other end and has proven it. The link stays until it is closed."""

    node: NodeId
    life: Life
    address: Address | None
    link: LinkId


LinkOutput: TypeAlias = LinkUp | LinkMessage | CallRejected | LinkDown | SelfReached | CloneReached
