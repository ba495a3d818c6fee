"""One link: its states, and what is remembered about it (docs/protocol/links.md).

A link ends by an exchange of goodbyes, so that nothing sent before them is lost: who wants to close says Goodbye and
goes on reading; the other sends what it still has, says Goodbye too, and leaves it to the first to close the
transport. Who finds a rule broken hangs up instead: its Goodbye is final, it reads no more. Each step has a total
deadline.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.links.hello import Handshake
from reachp2p.core.links.incoming import Incoming
from reachp2p.core.links.outgoing import Outgoing
from reachp2p.core.wire.messages import Goodbye


class LinkState(Enum):
    """Where a link is in its life."""

    DIALING = "dialing"
    """The driver is opening it."""
    OPEN = "open"
    """The transport is open and our hello is sent; the other side has proven nothing yet."""
    PROVEN = "proven"
    """Both node keys are proven; messages flow."""
    CLOSING = "closing"
    """We have said goodbye first; we read on until theirs comes, then close the transport."""
    PARTING = "parting"
    """They have said goodbye first and ours follows what we still have to send; they close the transport."""
    CLOSED = "closed"
    """Nothing is read any more; what waits is sent, then the link is forgotten."""


class LinkInput(Enum):
    """What moves a link from state to state."""

    OPENED = "the transport is open"
    PROOF_VERIFIED = "the proof of the other side is right"
    CLOSE_ASKED = "we want to close"
    GOODBYE_HEARD = "the other side says goodbye"
    HANGUP_HEARD = "the other side says goodbye and reads no more"
    FAILED = "a rule or a deadline is broken"
    TRANSPORT_CLOSED = "the driver reports the end"


TRANSITIONS: dict[tuple[LinkState, LinkInput], LinkState] = {
    (LinkState.DIALING, LinkInput.OPENED): LinkState.OPEN,
    (LinkState.DIALING, LinkInput.CLOSE_ASKED): LinkState.CLOSED,
    (LinkState.DIALING, LinkInput.FAILED): LinkState.CLOSED,
    (LinkState.DIALING, LinkInput.TRANSPORT_CLOSED): LinkState.CLOSED,
    (LinkState.OPEN, LinkInput.PROOF_VERIFIED): LinkState.PROVEN,
    (LinkState.OPEN, LinkInput.CLOSE_ASKED): LinkState.CLOSED,
    (LinkState.OPEN, LinkInput.HANGUP_HEARD): LinkState.CLOSED,
    (LinkState.OPEN, LinkInput.FAILED): LinkState.CLOSED,
    (LinkState.OPEN, LinkInput.TRANSPORT_CLOSED): LinkState.CLOSED,
    (LinkState.PROVEN, LinkInput.CLOSE_ASKED): LinkState.CLOSING,
    (LinkState.PROVEN, LinkInput.GOODBYE_HEARD): LinkState.PARTING,
    (LinkState.PROVEN, LinkInput.HANGUP_HEARD): LinkState.CLOSED,
    (LinkState.PROVEN, LinkInput.FAILED): LinkState.CLOSED,
    (LinkState.PROVEN, LinkInput.TRANSPORT_CLOSED): LinkState.CLOSED,
    (LinkState.CLOSING, LinkInput.CLOSE_ASKED): LinkState.CLOSING,
    (LinkState.CLOSING, LinkInput.GOODBYE_HEARD): LinkState.CLOSED,
    (LinkState.CLOSING, LinkInput.HANGUP_HEARD): LinkState.CLOSED,
    (LinkState.CLOSING, LinkInput.FAILED): LinkState.CLOSED,
    (LinkState.CLOSING, LinkInput.TRANSPORT_CLOSED): LinkState.CLOSED,
    (LinkState.PARTING, LinkInput.CLOSE_ASKED): LinkState.PARTING,
    (LinkState.PARTING, LinkInput.HANGUP_HEARD): LinkState.CLOSED,
    (LinkState.PARTING, LinkInput.FAILED): LinkState.CLOSED,
    (LinkState.PARTING, LinkInput.TRANSPORT_CLOSED): LinkState.CLOSED,
    (LinkState.CLOSED, LinkInput.CLOSE_ASKED): LinkState.CLOSED,
}
"""What is missing cannot happen (an assertion). A second Goodbye can: that is the remote's fault and fails the link."""


class Doom(Enum):
    """Why a link ends although nothing has happened on it. The value is what its Goodbye says."""

    GIVEN_UP = "you do not read what is sent to you"
    SUPERSEDED = "a newer life of your node is known here"
    EVICTED = "idle, and its place is needed"


class LinkDue(msgspec.Struct, frozen=True, gc=False):
    """A link's one timer: its opening, its silence or its closing is to be judged."""

    link: LinkId


class Link(msgspec.Struct, eq=False):
    """What is remembered about one link. Times are the engine's monotonic seconds."""

    id: LinkId
    state: LinkState
    handshake: Handshake | None
    """The opening conversation, until it has ended."""
    outgoing: Outgoing
    incoming: Incoming
    opened_at: float
    """When the dial began or the link was accepted; the opening deadline counts from here."""
    address: Address | None = None
    expected: NodeId | None = None
    candidates: tuple[Address, ...] = ()
    """Where else the expected node may be found; tried one after the other if this dial fails."""
    node: NodeId | None = None
    life: Life | None = None
    """Both proven."""
    heard_at: float = 0.0
    used_at: float = 0.0
    """When something other than keepalive was last seen, once `was_used` has been noted (`keepalive.note_use`)."""
    was_used: bool = False
    pinged_at: float | None = None
    """When our keepalive was sent, if nothing has come since."""
    pings: int = 0
    """Keepalives sent since something was heard."""
    ping_nonce: bytes = b""
    due_at: float = 0.0
    doom: Doom | None = None
    """Why it is ended at the next timeout, which is due at once; from now on it is not used any more."""
    waiting_since: float | None = None
    """First check that found something waiting, with no byte sent since."""
    sent_bytes_checked: int = 0
    """What had been sent at that check."""
    goodbye: Goodbye = msgspec.field(default_factory=Goodbye)
    """What was said at the end: theirs or, if they said none, ours."""
    is_reported: bool = False
    """Its `LinkDown` is out; what is left is to send what waits."""

    @property
    def dialled(self) -> bool:
        """Whether this side opened it."""
        return self.id > 0

    @property
    def is_transport_open(self) -> bool:
        """Whether the driver has said so; only then can anything be sent."""
        return self.handshake is not None or self.life is not None

    @property
    def is_usable(self) -> bool:
        """Whether new messages may be sent on it."""
        return self.state is LinkState.PROVEN and self.doom is None

    def move(self, happened: LinkInput) -> LinkState:
        """Go where the table says; a pair that is not in it is a defect of ours."""
        after = TRANSITIONS.get((self.state, happened))
        assert after is not None, f"link {self.id}: {happened.name} in {self.state.name}"
        self.state = after
        return after
