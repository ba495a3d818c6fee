"""The invocations of one node: each from its acceptance to its one end, and what its callers are told.

Whoever holds an invocation can start it, end it or hand it back; whatever comes first is its end, and frees its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

from msgspec.structs import replace

from reachp2p.core.calls.bulkheads import Bulkheads
from reachp2p.core.calls.call import LOCAL
from reachp2p.core.calls.dedupe import Dedupe
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.invocation import (
    Bulkhead,
    Execution,
    Invocation,
    InvocationDue,
    InvocationInput,
    InvocationState,
)
from reachp2p.core.calls.replies import clip, told_to_another
from reachp2p.core.calls.served import Served
from reachp2p.core.calls.streams import Streams
from reachp2p.core.calls.trace import (
    SAMPLED,
    TraceContext,
    asked_span,
    read_traceparent,
    served_span,
    write_traceparent,
)
from reachp2p.core.calls.waiting_replies import WaitingReplies
from reachp2p.core.commands import StreamKind
from reachp2p.core.counters import Counters
from reachp2p.core.effects import CancelInvoke, Effects, Invoke
from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.routing.own_load import OwnLoad
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import LOAD_EXTENSION, Reply, Request
from reachp2p.errors import ErrorCode

_NO_STREAM = StreamKind.NONE
"""Looking up a member of an enum takes as long as building a small struct."""


class Invocations:
    """Bounds: those of `Bulkheads`, `Dedupe` and `WaitingReplies`."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        links: Links,
        hops: HopStore,
        streams: Streams,
        load: OwnLoad,
        tokens: Mapping[str, int],
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._hops = hops
        self._streams = streams
        self._load = load
        self._tokens = tokens
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self.bulkheads = Bulkheads(protocol.invocations_max)
        self.served = Served()
        self.dedupe = Dedupe(timers, counters)
        self.waiting_replies = WaitingReplies(links, timers, counters)
        self.answer_locally: Callable[[Reply, float], None] | None = None
        """Where replies to this node's own calls go; set by the `Caller`."""
        self._last_number = 0

    # Beginning

    def accept(
        self, link: LinkId, node: NodeId, life: Life, request: Request, bulkhead: Bulkhead, now: float
    ) -> Invocation:
        """A request that will have an end here."""
        self._last_number += 1
        deadline = now + request.remaining_ms / 1000
        invocation = Invocation(self._last_number, link, node, life, request, deadline, bulkhead)
        invocation.accepted_at = now
        invocation.trace, invocation.parent, invocation.trace_flags = self._context(request)
        invocation.span = served_span(request.message_id, request.attempt)
        self.served.add(invocation)
        self._timers.set(InvocationDue(invocation.number), deadline)
        return invocation

    def follow(
        self,
        execution: Execution,
        link: LinkId,
        node: NodeId,
        life: Life,
        request: Request,
        now: float,
    ) -> None:
        """A request whose idempotency key has been used: it gets the end of the first one, now or later."""
        refusal = self.dedupe.refusal(execution, request)
        if refusal is not None:
            runs = refusal[0] is ErrorCode.REFUSED_FULL  # no other instance is to execute what runs here
            self.refuse(link, node, life, request, *refusal, now, executed=runs)
            return
        self._counters.add("calls.deduplicated")
        leader = execution.leader
        bulkhead = Bulkhead(("", ""), 0) if leader is None else leader.bulkhead
        invocation = self.accept(link, node, life, request, bulkhead, now)
        invocation.execution, invocation.state = execution, InvocationState.FOLLOWING
        execution.followers[invocation.number] = invocation
        if execution.end is None:
            return
        self.finish(invocation, InvocationInput.RETURNED)
        if (
            execution.end.message_id == request.message_id
        ):  # the same request: it is one hop, which was recorded
            self.send(link, node, life, execution.end, invocation.deadline, now)
        else:
            self.reply(invocation, told_to_another(execution.end, request.message_id), now)

    def _context(self, request: Request) -> TraceContext:
        """The trace that a request belongs to; one that names none, or none that can be read, begins one."""
        if request.traceparent is not None:
            context = read_traceparent(request.traceparent)
            if context is not None:
                return context
            self._counters.add("calls.traceparent_malformed")
        message_id = request.message_id
        return TraceContext(message_id, asked_span(message_id, request.attempt), SAMPLED)

    def refuse(
        self,
        link: LinkId,
        node: NodeId,
        life: Life,
        request: Request,
        code: ErrorCode,
        detail: str,
        now: float,
        *,
        executed: bool = False,
        retry_after: float = 0.0,
    ) -> None:
        """Answer a request that was not accepted. `executed`: an earlier one with its idempotency key was, so that no
        other instance is to be asked; else nothing was. `retry_after` in seconds."""
        if not executed:
            self.dedupe.note_refusal(node, request)
        self._counters.add(f"calls.refused.{int(code)}")
        self._hops.refused(node, request, code, detail, now)
        reply = Reply(
            message_id=request.message_id,
            code=code,
            detail=clip(detail),
            executed=executed,
            retry_after_ms=ceil(min(retry_after, 86_400) * 1000) or None,
        )
        self.send(link, node, life, reply, now + request.remaining_ms / 1000, now)

    def pass_on(self, leader: Invocation, now: float) -> bool:
        """A request that leads its idempotency key is about to end in the queue: the one that follows it with most
        time left takes its place, and it follows that one. False if there is none, or it does not wait."""
        execution = leader.execution
        if execution is None or execution.leader is not leader or leader.state is not InvocationState.QUEUED:
            return False
        heir = max(execution.followers.values(), key=lambda one: one.deadline, default=None)
        if heir is None or heir.deadline <= now:
            return False
        self._counters.add("calls.passed_on")
        del execution.followers[heir.number]
        execution.followers[leader.number] = leader
        self.bulkheads.replace(leader, heir)
        execution.leader = heir
        leader.move(InvocationInput.PASSED_ON)
        heir.move(InvocationInput.PROMOTED)
        return True

    # Running

    def start(self, invocation: Invocation, now: float) -> None:
        """Its handler runs from now on."""
        invocation.move(InvocationInput.STARTED)
        invocation.begun_at = now
        self.bulkheads.start(invocation)
        request = invocation.request
        self._effects.add(
            Invoke(
                invocation=invocation.number,
                agent=request.agent,
                capability=request.capability,
                content_type=request.content_type,
                payload=request.payload,
                caller=invocation.node,
                message_id=request.message_id,
                deadline=invocation.deadline,
                attempt=request.attempt,
                session_id=request.session_id or invocation.trace,
                idempotency_key=request.idempotency_key,
                traceparent=write_traceparent(invocation.trace, invocation.span, invocation.trace_flags),
                caller_span=invocation.parent,
                path=(*request.path, request.agent),
                hops_left=request.hops_left - 1,
                stream=StreamKind(request.stream) if request.stream else _NO_STREAM,
                fencing_token=self._tokens.get(request.agent),
            )
        )
        if request.stream:
            self._streams.start(invocation.number, request)

    def start_waiting(self, now: float) -> None:
        """Give free places to those who wait, one bulkhead after the other."""
        while (invocation := self.bulkheads.take_next()) is not None:
            self.start(invocation, now)

    # Ends

    def finish(self, invocation: Invocation, happened: InvocationInput) -> None:
        """Forget an invocation; its place is free again."""
        if invocation.state is InvocationState.FOLLOWING:
            assert invocation.execution is not None, "it follows one"
            del invocation.execution.followers[invocation.number]
        else:
            self.bulkheads.leave(invocation)
        invocation.move(happened)
        self.served.remove(invocation)
        self._timers.cancel(InvocationDue(invocation.number))

    def drop(self, invocation: Invocation, reason: str) -> None:
        """Nobody waits for it any more: no reply."""
        if invocation.state is InvocationState.RUNNING:
            self._effects.add(CancelInvoke(invocation.number, reason))
        self.finish(invocation, InvocationInput.DROPPED)
        if invocation.request.stream:
            self._streams.abandon(invocation.number)

    def hand_back(self, invocation: Invocation, now: float) -> None:
        """We shall not finish it; the caller may ask another instance if that is safe. Harmless after its end."""
        if invocation.state is InvocationState.ENDED:
            return  # with the one that it has followed
        was_running = invocation.may_have_run
        items = self._streams.items_sent(invocation.number) if invocation.request.stream else 0
        self.drop(invocation, "this node has stopped serving")
        self._counters.add("calls.handed_back")
        reply = Reply(
            message_id=invocation.request.message_id,
            code=ErrorCode.NODE_LOST,
            detail="this node stopped serving while the handler ran"
            if was_running
            else "this node stopped serving",
            executed=was_running,
            items=items,
        )
        self.reply(invocation, reply, now)

    def answer(self, invocation: Invocation, reply: Reply, now: float) -> None:
        """The end that the handler or its deadline has brought about."""
        if invocation.request.stream:
            reply = self._streams.finish(invocation.number, reply, invocation.deadline, now)
            self._hops.served(invocation, reply.code, reply.detail, now, reply)
        else:
            self.reply(invocation, reply, now)

    def reply(self, invocation: Invocation, reply: Reply, now: float) -> None:
        """Tell its caller, and those that follow its idempotency key."""
        self._hops.served(invocation, reply.code, reply.detail, now, reply)
        self.send(invocation.link, invocation.node, invocation.life, reply, invocation.deadline, now)
        if invocation.execution is not None:
            for follower in self.dedupe.settle(invocation, reply, now):
                self.finish(follower, InvocationInput.RETURNED)
                self.reply(follower, told_to_another(reply, follower.request.message_id), now)

    def send(self, link: LinkId, node: NodeId, life: Life, reply: Reply, deadline: float, now: float) -> None:
        """Send a reply to a caller, on its link or a later one; after `deadline` nobody waits for it."""
        if link == LOCAL:
            assert self.answer_locally is not None, "only a caller makes local calls"
            self.answer_locally(reply, now)
        else:
            report = self._load.report_to(node, now)
            if report is not None:
                reply = replace(reply, extensions={LOAD_EXTENSION: report.write()})
            self.waiting_replies.send(link, node, life, reply, deadline, now)
