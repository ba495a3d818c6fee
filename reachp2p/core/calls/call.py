"""One call at its caller: its states, and what is remembered until its one end (docs/protocol/calls.md)."""

from __future__ import annotations

from enum import Enum
from math import inf

import msgspec

from reachp2p.core.calls.trace import SAMPLED
from reachp2p.core.commands import CallSpec, RouteQuery, StreamKind
from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.routing.pick import Pick
from reachp2p.core.routing.rules import SILENCE, Ruling
from reachp2p.core.wire.messages import Reply
from reachp2p.errors import ErrorCode

LOCAL = LinkId(0)
"""Stands for the link of a call from this very node to itself: there is none."""
REJOIN_INTERVAL = 0.5
"""Seconds until the second link is tried to an instance whose link was lost; doubles each time."""
REJOIN_INTERVAL_MAX = 15.0
ATTEMPTS_MAX = 2
"""Instances to which one call's request is handed: one retry. More would multiply the load just when
instances fail."""
INSTANCES_MAX = 16
"""Instances that one call turns to. Those to which no link opened have seen nothing of it and do no harm: they cost a
dial, never an attempt. Half of a large pool may be gone, and 16 drawn from it are all dead once in 65,536 calls."""
REFUSALS_WORTH_A_RETRY = frozenset(
    {
        ErrorCode.UNKNOWN_TARGET,  # our registry is behind: it was withdrawn there
        ErrorCode.NO_HEALTHY_INSTANCE,
        ErrorCode.ALL_OVERLOADED,
        ErrorCode.REFUSED_FULL,
        ErrorCode.RATE_LIMITED,
        ErrorCode.NODE_LOST,
        ErrorCode.WIRE_VERSION,  # a newer node may understand it
    }
)
"""Codes of a callee that has not executed the request and leaves hope that another one will."""


class CallState(Enum):
    """Where a call is."""

    __hash__ = object.__hash__  # that of `Enum` is a Python function, asked with every step of every call

    LINKING = "linking"
    """An instance is chosen; the request waits for a link to it. It has certainly not been executed."""
    ASKED = "asked"
    """The request was sent on a link: from now on it may have been executed."""
    REJOINING = "rejoining"
    """The link on which it was sent is lost; the same life will be asked for its end, by its idempotency key. It may
    have been executed."""
    ENDED = "ended"


class CallInput(Enum):
    """What moves a call."""

    __hash__ = object.__hash__

    SENT = "the request is sent"
    RETRIED = "another instance is asked"
    LOST = "its link is lost and it has an idempotency key"
    ENDED = "its one end is reported"


TRANSITIONS: dict[tuple[CallState, CallInput], CallState] = {
    (CallState.LINKING, CallInput.SENT): CallState.ASKED,
    (CallState.LINKING, CallInput.RETRIED): CallState.LINKING,
    (CallState.LINKING, CallInput.ENDED): CallState.ENDED,
    (CallState.ASKED, CallInput.RETRIED): CallState.LINKING,
    (CallState.ASKED, CallInput.LOST): CallState.REJOINING,
    (CallState.ASKED, CallInput.ENDED): CallState.ENDED,
    (CallState.REJOINING, CallInput.SENT): CallState.ASKED,
    (CallState.REJOINING, CallInput.RETRIED): CallState.LINKING,
    (CallState.REJOINING, CallInput.ENDED): CallState.ENDED,
}
"""What is missing cannot happen: above all, nothing follows an end."""


class CallDue(msgspec.Struct, frozen=True, gc=False):
    """The present attempt has had its share of the time, the call its synchronous limit, or all of it."""

    call: bytes


class Call(msgspec.Struct, eq=False):
    """A pending call. `link` and `life` are those of the request that was sent; `tried` are all nodes asked so far."""

    id: bytes
    spec: CallSpec
    deadline: float
    node: NodeId
    agent: str
    capability: str
    repeatable: bool
    query: RouteQuery
    """That of the spec, with what rules have decided."""
    pick: Pick
    """The router's, of the present attempt."""
    ruling: Ruling = SILENCE
    kind: StreamKind = StreamKind.NONE
    started_at: float = 0.0
    limit: float = inf
    """When it becomes a task; infinite if it never does, or is one."""
    connect: float = inf
    """Seconds that each attempt may wait for its link."""
    trace: bytes = b""
    """Whose spans are those of `parent` and of its attempts; the message id of a call that begins a trace."""
    parent: bytes | None = None
    """The span on whose behalf it is made."""
    trace_flags: str = SAMPLED
    span: bytes | None = None
    """The span of the call itself, if its program has one; None: it follows from message id and attempt."""
    reply: Reply | None = None
    """What the present instance has answered."""
    attempt_at: float = 0.0
    """When the present instance was turned to."""
    asked_at: float = 0.0
    """When the request was handed to its link."""
    state: CallState = CallState.LINKING
    link: LinkId | None = None
    life: Life | None = None
    attempts: int = 0
    """Instances turned to."""
    attempt_until: float = inf
    """When the present attempt has had its share of the time."""
    link_until: float = inf
    """When it has waited for its link long enough."""
    rejoin_at: float = inf
    """When the next link to the instance that may have executed it is tried."""
    rejoins: int = 0
    """Links that have not opened since one was lost."""
    has_lost_link: bool = False
    """Its request was sent on a link that was lost, so that it may have been executed there."""
    key: str | None = None
    """Its idempotency key; a task has one in any case."""
    asked: int = 0
    """Those among them that the request was handed to a link for."""
    may_have_run: bool = False
    """An earlier attempt may have been executed: whatever comes later, it is not safe to say that nothing was."""
    retry_after: float | None = None
    """Seconds after which the instance that refused last would take a call again."""
    tried: list[NodeId] = []

    def move(self, happened: CallInput) -> None:
        """Go where the table says; a pair that is not in it is a defect of ours."""
        after = TRANSITIONS.get((self.state, happened))
        assert after is not None, f"call {self.id.hex()}: {happened.name} in {self.state.name}"
        self.state = after

    @property
    def due_at(self) -> float:
        """When something is to be decided about it."""
        return min(self.deadline, self.limit, self.attempt_until, self.link_until, self.rejoin_at)

    @property
    def has_attempts_left(self) -> bool:
        """Whether another instance may still be turned to."""
        return self.asked < self.attempts_max and self.attempts < INSTANCES_MAX

    @property
    def attempts_max(self) -> int:
        """Instances to which its request may be handed: one if a rule says so."""
        return 1 if self.ruling.retry is False else ATTEMPTS_MAX

    @property
    def may_be_repeated(self) -> bool:
        """Whether another instance may be asked although one may be at work. A stream goes on with the one it has."""
        return self.repeatable and not self.kind

    @property
    def may_switch(self) -> bool:
        """Whether asking another instance now is safe and still allowed."""
        return self.has_attempts_left and (self.state is CallState.LINKING or self.may_be_repeated)
