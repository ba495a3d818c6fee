"""The engine's outputs: one ordered list that a driver performs in order. The list of kinds is complete.

Machines inside the core also use the three `To…` kinds: a message for a node, a link or an address. Packing,
piggybacking, signing and encoding turn those into `SendDatagram` and `SendFrame` when the driver takes the effects
(`engine.take_effects`); a driver never sees a `To…`.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias, final

import msgspec

from reachp2p.core.commands import StreamKey, StreamKind
from reachp2p.core.events import Event, EventReceived
from reachp2p.core.ids import Address, LinkId, NodeId, Ticket
from reachp2p.core.wire.messages import Message


class LinkEnd(Enum):
    """Why a link closed: `handle_link_closed(link, reason)`.

    GOODBYE: the remote closed cleanly. LOST: it ended without goodbye. REFUSED: the dial was answered by RST, nothing
    else. TIMEOUT: the dial or the opening handshake got no answer in time, or the address cannot be reached.
    """

    GOODBYE = "goodbye"
    LOST = "lost"
    REFUSED = "refused"
    TIMEOUT = "timeout"


class Table(Enum):
    """The tables of a node's storage. Keys and values are bytes; their layout belongs to the machine that owns them."""

    LIFE = "life"
    """`epoch` (8 bytes big endian), `fenced` (the fencing life), `rules` (the cluster's signed rules records),
    `highest_claims` (`registry.own_claims`)."""
    HEADS = "heads"
    """NodeId -> signed head: address book and membership snapshot."""
    RECORDS = "records"
    """NodeId + agent id -> signed record: registry snapshot."""
    OUTBOX = "outbox"
    INBOX = "inbox"
    SESSIONS = "sessions"


class SendDatagram(msgspec.Struct, frozen=True, gc=False):
    """Send `data` (at most 1,400 bytes) by UDP; may be lost, never blocks, errors are ignored and counted."""

    address: Address
    data: bytes


class Dial(msgspec.Struct, frozen=True, gc=False):
    """Open link `link` (a positive id chosen by the engine) to `address` within `timeout` seconds.

    Answered by `handle_link_opened` or `handle_link_closed`. `node` is whom we mean to reach, if we know.
    """

    link: LinkId
    address: Address
    node: NodeId | None
    timeout: float


class SendFrame(msgspec.Struct, frozen=True, gc=False):
    """Send one frame on a link, in order. The driver reports free room with `handle_link_writable`."""

    link: LinkId
    data: bytes


class CloseLink(msgspec.Struct, frozen=True, gc=False):
    """Close a link: after what was sent on it (`abort` false), or at once. No `handle_link_closed` follows."""

    link: LinkId
    abort: bool = False


class Persist(msgspec.Struct, frozen=True, gc=False):
    """Write one row durably; answered by `handle_persisted` or `handle_persist_failed`. Writes keep their order."""

    ticket: Ticket
    table: Table
    key: bytes
    value: bytes


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Remove one row durably; answered like `Persist`. Removing what is not there succeeds."""

    ticket: Ticket
    table: Table
    key: bytes


class Fetch(msgspec.Struct, frozen=True, gc=False):
    """Read rows with start <= key < stop in key order, at most `limit`; answered by `handle_fetched(request, rows)`."""

    request: int
    table: Table
    start: bytes
    stop: bytes | None
    limit: int


class Invoke(msgspec.Struct, frozen=True):
    """Run a handler; answered once by `handle_invoke_result(invocation, …)` unless `CancelInvoke` came first."""

    invocation: int
    agent: str
    capability: str
    content_type: str
    payload: bytes
    caller: NodeId
    message_id: bytes
    deadline: float
    attempt: int
    session_id: bytes | None
    idempotency_key: str | None
    traceparent: str | None
    """In which the handler works: its own span."""
    caller_span: bytes = b""
    """The span of the attempt that has asked for it."""
    path: tuple[str, ...] = ()
    """Agents that this call has come through, this one last; for the calls that the handler makes."""
    hops_left: int = 0
    """How many further calls the chain may have."""
    stream: StreamKind = StreamKind.NONE
    """What of the call is a stream; its items are given and taken under the invocation's number."""
    event: EventReceived | None = None
    """The event that it is to handle, if this is no call: then the number is negative, and nobody gets a reply."""
    fencing_token: int | None = None
    """Of an exclusive agent: proves to whatever the handler writes to that its node owns the agent."""


class CancelInvoke(msgspec.Struct, frozen=True, gc=False):
    """Cancel a running handler; what it still returns is discarded, no result is expected."""

    invocation: int
    reason: str


class StreamReady(msgspec.Struct, frozen=True, gc=False):
    """Whoever waits to take an item from this stream, or to give one, should try again."""

    stream: StreamKey


class Notify(msgspec.Struct, frozen=True):
    """Tell the application."""

    event: Event


@final
class ToNode(msgspec.Struct, frozen=True):
    """A message for a member, by datagram, or None for a datagram of news alone (none is sent if there is no news).

    `after`: tickets that must be durable before it leaves. `piggyback`: news may travel with it.
    """

    node: NodeId
    message: Message | None
    after: tuple[Ticket, ...] = ()
    address: Address | None = None
    """Where to, if not the member's advertised address."""
    piggyback: bool = True


@final
class ToLink(msgspec.Struct, frozen=True):
    """A message for a link, in order with the others on it."""

    link: LinkId
    message: Message
    after: tuple[Ticket, ...] = ()


Effect: TypeAlias = (
    SendDatagram
    | Dial
    | SendFrame
    | CloseLink
    | Persist
    | Delete
    | Fetch
    | Invoke
    | CancelInvoke
    | StreamReady
    | Notify
)
InnerEffect: TypeAlias = Effect | ToNode | ToLink


class Effects:
    """The ordered list that all machines of one engine append to."""

    def __init__(self) -> None:
        self.items: list[InnerEffect] = []
        """What was appended since they were last taken. Read only."""
        self._ticket = 0
        self._request = 0

    def add(self, effect: InnerEffect) -> None:
        """Append one effect."""
        self.items.append(effect)

    def notify(self, event: Event) -> None:
        """Append an event for the application."""
        self.items.append(Notify(event))

    def send(self, node: NodeId, message: Message, after: tuple[Ticket, ...] = ()) -> None:
        """Append a datagram message for a member."""
        self.items.append(ToNode(node, message, after))

    def send_link(self, link: LinkId, message: Message, after: tuple[Ticket, ...] = ()) -> None:
        """Append a message for a link."""
        self.items.append(ToLink(link, message, after))

    def persist(self, table: Table, key: bytes, value: bytes) -> Ticket:
        """Append a durable write and return its ticket."""
        self._ticket += 1
        ticket = Ticket(self._ticket)
        self.items.append(Persist(ticket, table, key, value))
        return ticket

    def delete(self, table: Table, key: bytes) -> Ticket:
        """Append a durable removal and return its ticket."""
        self._ticket += 1
        ticket = Ticket(self._ticket)
        self.items.append(Delete(ticket, table, key))
        return ticket

    def fetch(self, table: Table, start: bytes, stop: bytes | None, limit: int) -> int:
        """Append a read and return its request number."""
        self._request += 1
        self.items.append(Fetch(self._request, table, start, stop, limit))
        return self._request

    def take(self) -> list[InnerEffect]:
        """Return and forget everything appended so far, in order."""
        items, self.items = self.items, []
        return items

    def __len__(self) -> int:
        return len(self.items)
