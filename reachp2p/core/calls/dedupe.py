"""What was executed under idempotency keys: one execution for each key, and its end for everybody who asks again.

A key counts for one calling node (its link proves it), agent and capability. While the first request runs, further ones
follow it and get its end; afterwards they get the end that is remembered, until it expires. Every end is remembered
that may have had an effect: also a failure, a cancellation half way, a deadline. Only this instance knows of it, in
memory: a life that has ended has forgotten, so that no other instance and no later life may be asked instead. Streams
are not remembered: they resume by offset while they run.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from reachp2p.core.calls.invocation import Execution, Invocation
from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import Reply, Request
from reachp2p.errors import ErrorCode

KEEP = 600.0
"""Seconds for which an end is remembered: far longer than any caller goes on asking for one call it waits for."""
ENDS_MAX = 16_384
ENDS_BYTES_MAX = 67_108_864
"""Payloads and details of ends that are remembered: 64 of the largest."""
FOLLOWERS_MAX = 16
"""Requests that wait for the end of one execution, besides the first; a caller repeats a request one at a time."""

ON_ITS_WAY = 20.0
"""Seconds that a request waits for its link at most (`link_keepalive`): by so much its age may be too small."""
REFUSALS_MAX = 64
"""Requests with keys of one node of which is remembered that they were refused. It matters while a copy of them may be
on a lost link, which is a matter of seconds."""
REFUSED_NODES_MAX = 1_024
"""Nodes for which that is remembered; then the one that was first refused is forgotten."""

Key = tuple[NodeId, str, str, str]


class DedupeDue(msgspec.Struct, frozen=True):
    """The oldest end has been remembered long enough."""


class _Share(msgspec.Struct, eq=False):
    """What is remembered for one calling node."""

    keys: dict[Key, None] = {}
    """In the order of their ends."""
    size: int = 0
    """Bytes of ends."""


class Dedupe:
    """Bounds: `ENDS_MAX`, `ENDS_BYTES_MAX` of ends (`calls.keys_evicted`); `REFUSALS_MAX` of each of
    `REFUSED_NODES_MAX` nodes (`calls.refusals_forgotten`); what runs is in bulkheads. Room is made by whoever uses more
    than its share.
    """

    def __init__(self, timers: Timers, counters: Counters) -> None:
        self._timers = timers
        self._counters = counters
        self._executions: dict[Key, Execution] = {}
        self._ended: dict[Key, Execution] = {}
        """In the order of their ends."""
        self._shares: dict[NodeId, _Share] = {}
        """Of the calling nodes for which ends are remembered."""
        self._refused: dict[NodeId, dict[bytes, None]] = {}
        """What callers were promised not to be executed, by calling node and message id, the oldest first."""
        self._bytes = 0
        self._forgotten_until = float("-inf")
        """When the latest of those ends came that are forgotten."""

    def __len__(self) -> int:
        return len(self._executions)

    @property
    def end_bytes(self) -> int:
        """Bytes of ends that are remembered."""
        return self._bytes

    def find(self, node: NodeId, request: Request) -> Execution | None:
        """The execution of the key of a request, if there was one, or None."""
        if request.idempotency_key is None or request.stream:
            return None
        return self._executions.get(_key(node, request, request.idempotency_key))

    def refusal(self, execution: Execution, request: Request) -> tuple[ErrorCode, str] | None:
        """Why a request may not have the end of an execution under its key, or None."""
        if execution.digest != digest_of(request):
            return (
                ErrorCode.KEY_CONFLICT,
                f"idempotency key {request.idempotency_key!r} was used by this node for another payload",
            )
        if execution.end is None and len(execution.followers) >= FOLLOWERS_MAX:
            return (
                ErrorCode.REFUSED_FULL,
                f"{FOLLOWERS_MAX} requests wait for the end of key {request.idempotency_key!r} already",
            )
        return None

    def may_have_forgotten(self, request: Request, now: float) -> bool:
        """Whether a request that was sent before may be one whose end is remembered no more."""
        if not request.asked_ms_ago or request.stream:
            return False
        return self._forgotten_until >= now - request.asked_ms_ago / 1000 - ON_ITS_WAY

    def has_refused(self, node: NodeId, request: Request) -> bool:
        """Whether the caller of this very request, which has a key, was told that it is not executed."""
        return request.message_id in self._refused.get(node, ())

    def note_refusal(self, node: NodeId, request: Request) -> None:
        """Its caller is told that it was certainly not executed: no copy of it that is still on its way may be."""
        if request.idempotency_key is None or request.stream:
            return
        refused = self._refused.get(node)
        if refused is None:
            if len(self._refused) >= REFUSED_NODES_MAX:
                forgotten = self._refused.pop(next(iter(self._refused)))
                self._counters.add("calls.refusals_forgotten", len(forgotten))
            refused = self._refused[node] = {}
        elif len(refused) >= REFUSALS_MAX:  # at its own cost, and nobody else's
            del refused[next(iter(refused))]
            self._counters.add("calls.refusals_forgotten")
        refused[request.message_id] = None

    def begin(self, invocation: Invocation) -> None:
        """An accepted request is the first of its key, if it has one."""
        request = invocation.request
        if request.idempotency_key is None or request.stream:
            return
        key = _key(invocation.node, request, request.idempotency_key)
        invocation.execution = self._executions[key] = Execution(key, digest_of(request), invocation)

    def settle(self, invocation: Invocation, end: Reply, now: float) -> list[Invocation]:
        """A leader has ended so: remember it, unless nothing was executed. Returns its followers: it is theirs too."""
        execution = invocation.execution
        if execution is None or execution.leader is not invocation:
            return []
        execution.leader = None
        followers = list(execution.followers.values())
        if not end.executed:
            for one in (invocation, *followers):
                self.note_refusal(one.node, one.request)
            del self._executions[execution.key]
            return followers
        execution.end, execution.ended_at = end, now
        self._ended[execution.key] = execution
        size = _size(end)
        share = self._shares.setdefault(invocation.node, _Share())
        share.keys[execution.key] = None
        share.size += size
        self._bytes += size
        while len(self._ended) > ENDS_MAX or self._bytes > ENDS_BYTES_MAX:
            self._make_room(share)
            self._counters.add("calls.keys_evicted")
        if self._ended and self._timers.due_at(DedupeDue()) is None:
            self._timers.set(DedupeDue(), now + KEEP)
        return followers

    def on_due(self, now: float) -> None:
        """Forget the ends that were remembered long enough."""
        while self._ended:
            oldest = next(iter(self._ended.values()))
            if now < oldest.ended_at + KEEP:
                self._timers.set(DedupeDue(), oldest.ended_at + KEEP)
                return
            self._forget(oldest.key)

    def _make_room(self, newest: _Share) -> None:
        """Forget the oldest end of the caller that needs it if it has more than its share, else of who has most."""
        is_size = self._bytes > ENDS_BYTES_MAX
        bound = ENDS_BYTES_MAX if is_size else ENDS_MAX
        share = newest
        used = share.size if is_size else len(share.keys)
        if len(share.keys) < 2 or used * len(self._shares) <= bound:
            others = [one for one in self._shares.values() if one is not newest] or [newest]
            share = max(others, key=lambda one: one.size if is_size else len(one.keys))
        self._forget(next(iter(share.keys)))

    def _forget(self, key: Key) -> None:
        execution = self._ended.pop(key)
        del self._executions[key]
        assert execution.end is not None, "it has ended"
        self._forgotten_until = max(self._forgotten_until, execution.ended_at)
        size = _size(execution.end)
        self._bytes -= size
        share = self._shares[key[0]]
        del share.keys[key]
        share.size -= size
        if not share.keys:
            del self._shares[key[0]]


def digest_of(request: Request) -> bytes:
    """BLAKE2b-128 over what a key stands for."""
    return blake2b(request.content_type.encode() + b"\0" + request.payload, digest_size=16).digest()


def _key(node: NodeId, request: Request, key: str) -> Key:
    return node, request.agent, request.capability, key


def _size(end: Reply) -> int:
    return len(end.payload) + len(end.detail)
