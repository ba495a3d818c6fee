"""One accepted request at its callee, and the compartment of its capability (docs/protocol/calls.md).

A capability has a bulkhead: so many handlers at once and as many requests that wait for one. A slow capability fills
its own bulkhead and no other; who finds it full is told at once and can ask elsewhere.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from reachp2p.core.calls.trace import SAMPLED
from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.wire.messages import Reply, Request


class InvocationState(Enum):
    """Where an accepted request is."""

    __hash__ = object.__hash__  # that of `Enum` is a Python function, asked with every step of every request

    QUEUED = "queued"
    """It waits for a place in its bulkhead; its handler has certainly not begun."""
    RUNNING = "running"
    """Its handler was started."""
    FOLLOWING = "following"
    """Another request with its idempotency key waits or runs; it gets the end of that one."""
    ENDED = "ended"
    """Replied, or nobody waits for a reply any more; what the handler still returns is discarded."""


class InvocationInput(Enum):
    """What moves an invocation."""

    __hash__ = object.__hash__

    STARTED = "a place is free"
    RETURNED = "the handler has ended"
    EXPIRED = "its deadline has come"
    DROPPED = "cancelled, caller lost, paused or stopped"
    PASSED_ON = "another request with its key takes its place in the queue"
    PROMOTED = "it takes the place of the request that it has followed"


TRANSITIONS: dict[tuple[InvocationState, InvocationInput], InvocationState] = {
    (InvocationState.QUEUED, InvocationInput.STARTED): InvocationState.RUNNING,
    (InvocationState.QUEUED, InvocationInput.EXPIRED): InvocationState.ENDED,
    (InvocationState.QUEUED, InvocationInput.DROPPED): InvocationState.ENDED,
    (InvocationState.RUNNING, InvocationInput.RETURNED): InvocationState.ENDED,
    (InvocationState.RUNNING, InvocationInput.EXPIRED): InvocationState.ENDED,
    (InvocationState.RUNNING, InvocationInput.DROPPED): InvocationState.ENDED,
    (InvocationState.FOLLOWING, InvocationInput.RETURNED): InvocationState.ENDED,
    (InvocationState.FOLLOWING, InvocationInput.EXPIRED): InvocationState.ENDED,
    (InvocationState.FOLLOWING, InvocationInput.DROPPED): InvocationState.ENDED,
    (InvocationState.QUEUED, InvocationInput.PASSED_ON): InvocationState.FOLLOWING,
    (InvocationState.FOLLOWING, InvocationInput.PROMOTED): InvocationState.QUEUED,
}
"""What is missing cannot happen: a request ends once, so it is replied to at most once."""


class Execution(msgspec.Struct, eq=False):
    """The one execution under an idempotency key (`dedupe`): its `leader` while it waits or runs, then its `end`."""

    key: tuple[NodeId, str, str, str]
    """Calling node, agent, capability, idempotency key."""
    digest: bytes
    """Of content type and payload: the same key means the same request."""
    leader: Invocation | None
    followers: dict[int, Invocation] = {}
    """By number; they wait for the end of the leader."""
    is_unwanted: bool = False
    """Whoever asked first does not want its end any more; its followers may."""
    end: Reply | None = None
    ended_at: float = 0.0


class InvocationDue(msgspec.Struct, frozen=True, gc=False):
    """The deadline of an accepted request."""

    invocation: int


class Invocation(msgspec.Struct, eq=False):
    """An accepted request. `link` is where its reply goes, or a later link to the same life."""

    number: int
    link: LinkId
    node: NodeId
    life: Life
    request: Request
    deadline: float
    bulkhead: Bulkhead
    state: InvocationState = InvocationState.QUEUED
    execution: Execution | None = None
    """That of its idempotency key, if it has one."""
    accepted_at: float = 0.0
    begun_at: float | None = None
    """When its handler was started."""
    trace: bytes = b""
    parent: bytes = b""
    span: bytes = b""
    """Its own span in `trace`; that of its caller's attempt is `parent`."""
    trace_flags: str = SAMPLED

    @property
    def may_have_run(self) -> bool:
        """Whether its handler was started, or that of the request that it follows."""
        if self.state is not InvocationState.FOLLOWING:
            return self.state is not InvocationState.QUEUED
        leader = None if self.execution is None else self.execution.leader
        return leader is None or leader.state is not InvocationState.QUEUED

    def may_be_asked_in(self, life: Life) -> bool:
        """Whether its caller may ask for its end in this life: in its own, and by its key in a later one."""
        if life == self.life:
            return True
        return self.life < life and self.request.idempotency_key is not None and not self.request.stream

    def move(self, happened: InvocationInput) -> None:
        """Go where the table says; a pair that is not in it is a defect of ours."""
        after = TRANSITIONS.get((self.state, happened))
        assert after is not None, f"invocation {self.number}: {happened.name} in {self.state.name}"
        self.state = after


class Bulkhead(msgspec.Struct, eq=False):
    """What runs and waits of one capability. It exists while something does."""

    key: tuple[str, str]
    limit: int
    """Handlers at once."""
    queue_limit: int = 0
    """Requests that may wait."""
    running: int = 0
    queue: dict[int, Invocation] = {}
    """Waiting invocations by number, the longest waiting first."""

    @property
    def has_place(self) -> bool:
        """Whether one more handler may run."""
        return self.running < self.limit
