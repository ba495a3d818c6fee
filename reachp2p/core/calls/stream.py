"""One side of one stream: its states, and what is remembered until its end (docs/protocol/streams.md).

A stream is part of a call: at the caller it is named by the call, at the callee by the invocation. It belongs to two
lives, not to a link; what it has to say next follows from what it knows, so that nothing is lost when a message is.
"""

from __future__ import annotations

from enum import Enum
from math import inf

import msgspec

from reachp2p.core.calls.inflow import Inflow
from reachp2p.core.calls.outflow import Outflow
from reachp2p.core.commands import StreamKey
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.wire.messages import Message, Reply, StreamCredit, StreamEnd, StreamItem, StreamResume


class StreamState(Enum):
    """Where one side of a stream is."""

    UNASKED = "unasked"
    """The caller has no instance yet that the request was sent to."""
    FLOWING = "flowing"
    """Items and credit are sent on whatever link leads to the other life."""
    INTERRUPTED = "interrupted"
    """The link was lost: the caller dials again, the callee waits; nothing is sent."""
    RESUMING = "resuming"
    """There is another link; the other side has yet to say from where to go on."""
    ENDED = "ended"


class StreamInput(Enum):
    """What moves a stream."""

    ASKED = "the request was sent"
    LINK_LOST = "the link is lost"
    LINKED = "another link leads to the same life"
    RESUMED = "the other side says from where to go on"
    RETRIED = "another instance is asked"
    ENDED = "its call or invocation has ended"


TRANSITIONS: dict[tuple[StreamState, StreamInput], StreamState] = {
    (StreamState.UNASKED, StreamInput.ASKED): StreamState.FLOWING,
    (StreamState.UNASKED, StreamInput.ENDED): StreamState.ENDED,
    (StreamState.FLOWING, StreamInput.RESUMED): StreamState.FLOWING,
    (StreamState.FLOWING, StreamInput.LINK_LOST): StreamState.INTERRUPTED,
    (StreamState.FLOWING, StreamInput.RETRIED): StreamState.UNASKED,
    (StreamState.FLOWING, StreamInput.ENDED): StreamState.ENDED,
    (StreamState.INTERRUPTED, StreamInput.LINKED): StreamState.RESUMING,
    (StreamState.INTERRUPTED, StreamInput.RESUMED): StreamState.FLOWING,
    (StreamState.INTERRUPTED, StreamInput.RETRIED): StreamState.UNASKED,
    (StreamState.INTERRUPTED, StreamInput.ENDED): StreamState.ENDED,
    (StreamState.RESUMING, StreamInput.LINK_LOST): StreamState.INTERRUPTED,
    (StreamState.RESUMING, StreamInput.RESUMED): StreamState.FLOWING,
    (StreamState.RESUMING, StreamInput.RETRIED): StreamState.UNASKED,
    (StreamState.RESUMING, StreamInput.ENDED): StreamState.ENDED,
}
"""What is missing cannot happen: above all, nothing follows an end."""


class StreamDue(msgspec.Struct, frozen=True, gc=False):
    """A stream is to be looked at: it was interrupted too long, has been idle, or nobody has confirmed its end."""

    stream: StreamKey


class Stream(msgspec.Struct, eq=False):
    """One side of a stream. `node` and `life` are the other side's, once the request was sent."""

    key: StreamKey
    message_id: bytes
    inflow: Inflow | None
    """What it receives: results at the caller, parameters at a callee whose handler has started."""
    outflow: Outflow | None
    idle_timeout: float
    moved_at: float
    """When an item was last taken from it, or credit came: who has waited longest goes first if memory runs out."""
    state: StreamState
    node: NodeId | None = None
    life: Life | None = None
    reply: Reply | None = None
    """The end of the call: at the callee until the caller has confirmed it, at the caller until all items are here."""
    is_reply_sent: bool = False
    is_end_sent: bool = False
    is_resume_due: bool = False
    is_answer_due: bool = False
    is_credit_due: bool = False
    reader_waits: bool = False
    writer_waits: bool = False
    waits_since: float = inf
    """Since when its reader has found nothing."""
    lost_at: float = inf
    """When it was interrupted, if it has not been resumed since."""
    accounted_bytes: int = 0
    """`held_bytes` as the table knows it."""
    forget_at: float = inf
    """At the callee: when nobody waits for the reply any more."""

    @property
    def is_caller(self) -> bool:
        """Whether this is the calling side."""
        return type(self.key) is bytes

    @property
    def held_bytes(self) -> int:
        """What it keeps and what was not taken yet, and the payload of its end."""
        held = self.inflow.held_bytes if self.inflow else 0
        if self.outflow is not None:
            held += self.outflow.held_bytes
        return held if self.reply is None else held + len(self.reply.payload)

    @property
    def is_untouched(self) -> bool:
        """Whether no item has moved either way, so that another instance can begin anew."""
        return not (self.inflow and self.inflow.received) and not (self.outflow and self.outflow.items)

    def move(self, happened: StreamInput) -> None:
        """Go where the table says; a pair that is not in it is a defect of ours."""
        after = TRANSITIONS.get((self.state, happened))
        assert after is not None, f"stream {self.key!r}: {happened.name} in {self.state.name}"
        self.state = after

    # What it has to say

    def next_message(self) -> Message | None:
        """What it has to say next on its link; `said` once it was handed over."""
        if self.is_resume_due or self.is_answer_due:
            inflow = self.inflow
            return StreamResume(
                message_id=self.message_id,
                next=inflow.received if inflow else 0,
                credit=inflow.credit() if inflow else 0,
                answers=not self.is_resume_due,
            )
        if self.state is not StreamState.FLOWING:
            return None
        if self.is_credit_due and self.inflow is not None:
            return StreamCredit(message_id=self.message_id, credit=self.inflow.credit())
        if self.outflow is not None:
            item = self.outflow.next_item()
            if item is not None:
                return item
            if self.is_caller and self.outflow.is_sent and not self.is_end_sent and self.outflow.is_granted:
                return StreamEnd(message_id=self.message_id, items=self.outflow.items)
        if not self.is_caller and self.reply is not None and not self.is_reply_sent:
            return self.reply
        return None

    def said(self, message: Message) -> None:
        """A message of its own was handed to a link."""
        match message:
            case StreamItem():
                assert self.outflow is not None, "an item of its own"
                self.outflow.sent()
            case StreamResume():
                self.is_credit_due = False
                if message.answers:
                    self.is_answer_due = False
                else:
                    self.is_resume_due = False
            case StreamCredit():
                self.is_credit_due = False
            case StreamEnd():
                self.is_end_sent = True
            case Reply():
                self.is_reply_sent = True

    def unsaid(self, message: Message) -> None:
        """A message that was handed to a link has not left."""
        match message:
            case StreamItem():
                if self.outflow is not None:
                    self.outflow.unsent(message.offset)
            case StreamResume(answers=True):
                self.is_answer_due = True
            case StreamResume():
                self.is_resume_due = True
            case StreamCredit():
                self.is_credit_due = True
            case StreamEnd():
                self.is_end_sent = False
            case Reply():
                self.is_reply_sent = False
