"""The serving side of calls: each accepted request ends exactly once (docs/protocol/calls.md; cases B29, B31).

Whatever a handler does, the driver answers `Invoke` at most once, and whatever the driver does, a deadline ends the
request here. Nothing is kept for a caller that is gone. A node that drains, is paused (a higher life of its key was
heard of) or has stopped says so in its replies, with the promise that it has executed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from reachp2p.core.calls.admission import Admission, Refusal, not_as_offered
from reachp2p.core.calls.call import LOCAL
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.invocation import (
    Invocation,
    InvocationDue,
    InvocationInput,
    InvocationState,
)
from reachp2p.core.calls.invocations import Invocations
from reachp2p.core.calls.replies import cancelled, not_understood, reply_with
from reachp2p.core.calls.streams import Streams
from reachp2p.core.commands import AgentSpec, CapabilitySpec, InvokeResult, StreamKey
from reachp2p.core.counters import Counters
from reachp2p.core.effects import CancelInvoke, Effects
from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.links.outputs import LinkDown
from reachp2p.core.links.table import Links
from reachp2p.core.routing.own_load import OwnLoad
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.views import BulkheadView
from reachp2p.core.wire.codec import RejectedCall
from reachp2p.core.wire.messages import Cancel, Reply, Request
from reachp2p.errors import ErrorCode

_NO_TOKENS: Mapping[str, int] = {}

NEARLY_OVER = 0.05
NEARLY_OVER_PART = 0.1
"""Seconds, or part of the time that a handler was given: with so little left, its caller cancels it for being slow."""


class Callee:
    """What comes in for the serving side, and what it is told to do. Keeps nothing but whether it serves at all."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        own_life: Callable[[], Life | None],
        agents: Mapping[str, AgentSpec],
        links: Links,
        hops: HopStore,
        streams: Streams,
        effects: Effects,
        timers: Timers,
        counters: Counters,
        offered_by: Callable[[NodeId, Life], Collection[str]] = lambda node, life: (),
        load: OwnLoad | None = None,
        tokens: Mapping[str, int] = _NO_TOKENS,
    ) -> None:
        """`agents` are those offered now, by id; `offered_by` says which agents a node offers in a life of its; `load`
        is what is told with replies; `tokens` are the fencing tokens of the exclusive agents that this node owns."""
        self._protocol = protocol
        self._agents = agents
        self._links = links
        self._hops = hops
        self._streams = streams
        self._effects = effects
        self._counters = counters
        self._load = OwnLoad(is_told=False) if load is None else load
        self._load.numbers = self._numbers
        self._load.agents = self._loads
        self._admission = Admission(protocol, own_life, agents, tokens, offered_by, counters)
        self.invocations = Invocations(
            protocol,
            links=links,
            hops=hops,
            streams=streams,
            load=self._load,
            tokens=tokens,
            effects=effects,
            timers=timers,
            counters=counters,
        )
        """Requests that were accepted, until their one end."""
        self._load.running = self.invocations.served.running_for
        self.dedupe = self.invocations.dedupe
        """What was executed under idempotency keys."""
        self._is_draining = False
        self._is_paused = False
        self._is_stopped = False
        streams.wire_callee(self)

    # Inputs

    def on_request(self, link: LinkId, node: NodeId, life: Life, request: Request, now: float) -> None:
        """A node asks for a capability. It is started, queued, or refused at once."""
        message_id = request.message_id
        served = self.invocations.served.of_request(node, message_id)
        if served is not None or (request.stream and self._streams.is_known(node, message_id)):
            self._counters.add("calls.request_repeated")
            if served is not None and served.may_be_asked_in(life):
                served.link, served.life = link, life  # it will be answered where it is asked for now
            return
        self._load.on_request(now)
        if request.extensions:  # of a later version: what waits is counted without them
            request = replace(request, extensions={})
        execution = self.dedupe.find(node, request)
        may_have_run = execution is not None or self.dedupe.may_have_forgotten(request, now)
        refusal = self._refusal(request)
        if refusal is None and link != LOCAL:
            refusal = self._admission.access_refusal(node, life, request)
        if refusal is None:
            if execution is not None:
                self.invocations.follow(execution, link, node, life, request, now)
                return
            if may_have_run:
                self._counters.add("calls.key_forgotten")
                refusal = (
                    ErrorCode.OUTCOME_UNKNOWN,
                    "what was done under its idempotency key is forgotten here",
                )
            elif request.idempotency_key is not None and self.dedupe.has_refused(node, request):
                # a copy from a link that its caller has lost
                refusal = ErrorCode.NODE_LOST, "this very request was refused here before"
            elif self._is_draining:
                refusal = ErrorCode.NODE_LOST, "this node is leaving"
            else:
                refusal = self._admission.claim_refusal(request)
        if refusal is None:
            spec = self._admission.offered(request)
            if spec is None:
                refusal = (
                    ErrorCode.UNKNOWN_TARGET,
                    f"{request.capability!r} of {request.agent!r} is not offered here",
                )
            elif request.stream != spec.stream:
                refusal = ErrorCode.SCHEMA_MISMATCH, not_as_offered(request, spec)
            elif request.stream and not self._streams.has_room:
                refusal = ErrorCode.REFUSED_FULL, "this node has too many streams already"
            else:
                self._admit(link, node, life, request, spec, now)
                return
        self.invocations.refuse(link, node, life, request, *refusal, now, executed=may_have_run)

    def on_unreadable(self, link: LinkId, node: NodeId, life: Life, call: RejectedCall, now: float) -> None:
        """A request that this version does not understand: certainly not executed, and perhaps another node does."""
        self._counters.add(f"calls.refused.{int(ErrorCode.WIRE_VERSION)}")
        # It may name another deadline, in words that are not understood.
        deadline = now + self._protocol.call_timeout
        self.invocations.send(link, node, life, not_understood(call), deadline, now)

    def on_cancel(self, node: NodeId, life: Life, cancel: Cancel, now: float) -> None:
        """The caller does not want the answer any more."""
        invocation = self.invocations.served.of_request(node, cancel.message_id)
        if invocation is None or invocation.life != life:
            if not self._streams.forget(node, life, cancel.message_id):
                self._counters.add("calls.cancel_unmatched")  # it crossed our reply
            return
        self._counters.add("calls.cancelled")
        execution = invocation.execution
        is_followed = execution is not None and execution.leader is invocation and bool(execution.followers)
        if execution is not None and is_followed and not self.invocations.pass_on(invocation, now):
            execution.is_unwanted = True  # others wait for its end
            return
        self._cancel(invocation, "cancelled by the caller", ErrorCode.CANCELLED, now)
        if execution is not None and execution.is_unwanted and execution.leader and not execution.followers:
            self._cancel(execution.leader, "cancelled by all who asked", ErrorCode.CANCELLED, now)
        self.invocations.start_waiting(now)

    def on_invoke_result(self, number: int, result: InvokeResult, now: float) -> None:
        """A handler has ended."""
        invocation = self.invocations.served.get(number)
        if invocation is None:
            self._counters.add("calls.result_discarded")  # its request has ended before
            return
        self.invocations.finish(invocation, InvocationInput.RETURNED)
        if invocation.begun_at is not None and not invocation.request.stream:
            self._load.on_served(now - invocation.begun_at)
        if result.code and not result.caller_fault:
            self._load.on_failed(invocation.request.agent, now)
        self._counters.add("calls.served" if result.code == 0 else f"calls.serving_failed.{int(result.code)}")
        self.invocations.answer(
            invocation, reply_with(invocation.request.message_id, result, self._protocol.payload_max), now
        )
        self.invocations.start_waiting(now)

    def on_link_down(self, down: LinkDown, now: float) -> None:
        """The link of a caller has ended: its handlers are cancelled, unless another link leads to the same life."""
        if down.node is None:
            return
        other = self._links.link_to(down.node)
        goes_on = down.heard_all and other is not None and self._links.life_of(other) == down.life
        for invocation in self.invocations.served.of_node(down.node):
            if invocation.link != down.link or invocation.request.stream:
                continue  # a stream outlives its link
            if goes_on and other is not None:
                invocation.link = other
            elif invocation.execution is not None and invocation.execution.leader is invocation:
                self._counters.add("calls.caller_awaited")  # its caller may come back with the same key
            else:
                self._counters.add("calls.caller_lost")
                self.invocations.drop(invocation, "the caller's link is lost")
                self._hops.served(
                    invocation,
                    ErrorCode.NODE_LOST,
                    "the caller's link was lost while it was served",
                    now,
                    None,
                )
        self.invocations.start_waiting(now)

    def on_member_gone(self, node: NodeId, life: Life, now: float) -> None:
        """A member's life is over: nobody can ask for the ends of its tasks any more, whose keys it alone has known.

        What it has asked for under a key of its program's goes on: that may be asked for again.
        """
        link = self._links.link_to(node)
        if link is not None and self._links.life_of(link) == life:
            return  # it answers all the same, and its link tells when it does not any more
        for invocation in self.invocations.served.of_node(node):
            request = invocation.request
            if invocation.life == life and request.idempotency_key == request.message_id.hex():
                self._counters.add("calls.caller_lost")
                self._cancel(invocation, "its caller is gone", ErrorCode.NODE_LOST, now)
        self.invocations.start_waiting(now)

    def _cancel(self, invocation: Invocation, why: str, code: ErrorCode, now: float) -> None:
        """Nobody waits for a request any more; what it may have done is remembered under its key."""
        was_running = invocation.state is InvocationState.RUNNING
        if was_running:
            self._cut_short(invocation, now)
            if code is ErrorCode.CANCELLED and _is_out_of_time(invocation, now):
                self._load.on_stopped(invocation.request.agent, now)
        self.invocations.drop(invocation, why)
        self._hops.served(invocation, code, why, now, None)
        end = cancelled(invocation.request.message_id, executed=was_running)
        self.invocations.dedupe.settle(invocation, end, now)

    def _cut_short(self, invocation: Invocation, now: float) -> None:
        """A handler is ended before it returns: it takes so long at least."""
        if invocation.begun_at is not None and not invocation.request.stream:
            self._load.on_cut_short(now - invocation.begun_at)

    def on_unsent(self, link: LinkId, reply: Reply, now: float) -> None:
        """A reply that was handed to a link has never left."""
        self.invocations.waiting_replies.on_unsent(link, reply, now)

    def on_waiting_replies_due(self, now: float) -> None:
        """There may be room for replies that wait."""
        self.invocations.waiting_replies.on_due(now)

    def on_timer(self, key: InvocationDue, now: float) -> None:
        """The deadline of an accepted request has come."""
        invocation = self.invocations.served.get(key.invocation)
        if invocation is None:
            return
        self.invocations.pass_on(invocation, now)  # others may have time to wait
        was_running = invocation.may_have_run
        if invocation.state is InvocationState.RUNNING:
            self._effects.add(CancelInvoke(invocation.number, "its deadline has passed"))
            self._cut_short(invocation, now)
            self._load.on_stopped(invocation.request.agent, now)
        self.invocations.finish(invocation, InvocationInput.EXPIRED)
        self._counters.add("calls.serving_failed.1401")
        reply = Reply(
            message_id=invocation.request.message_id,
            code=ErrorCode.DEADLINE_EXCEEDED,
            detail="the deadline passed while the handler ran"
            if was_running
            else "the deadline passed in the queue",
            executed=was_running,
        )
        self.invocations.answer(invocation, reply, now)
        self.invocations.start_waiting(now)

    # Commands

    def serve_on(self) -> None:
        """This node leaves and withdraws its agents: serve them until `drain`."""
        self._admission.serve_on()

    def drain(self, now: float) -> None:
        """Accept nothing more, hand back what waits; what runs may finish. Again is harmless."""
        self._is_draining = True
        for invocation in self.invocations.served.all():
            if invocation.state is InvocationState.QUEUED:
                self.invocations.hand_back(invocation, now)

    def hand_back(self, agent: str, now: float) -> None:
        """This node owns an exclusive agent no more: nothing of it is started, and what runs is cancelled."""
        for invocation in self.invocations.served.all():
            if invocation.request.agent == agent:
                self.invocations.hand_back(invocation, now)
        self.invocations.start_waiting(now)

    def pause(self, now: float) -> None:
        """A higher life of this key was heard of: start nothing, cancel what runs, return no result."""
        self._is_paused = True
        for invocation in self.invocations.served.all():
            self.invocations.hand_back(invocation, now)
        self.invocations.waiting_replies.withdraw(now)
        self._streams.withdraw(now)

    def resume(self) -> None:
        """This node goes on, under a new life."""
        self._is_paused = False

    def stop(self, now: float) -> None:
        """Serve nothing ever again."""
        self._is_stopped = True
        self.pause(now)

    def adopt_span(self, number: int, span: bytes) -> None:
        """The program has a span of its own for a running invocation: its hop goes by that."""
        invocation = self.invocations.served.get(number)
        if invocation is not None:
            invocation.span = span

    # Questions

    @property
    def unfinished(self) -> int:
        """Accepted requests that have not ended, and replies that have not left."""
        return (
            len(self.invocations.served) + len(self.invocations.waiting_replies) + self._streams.unconfirmed
        )

    def is_serving(self, agent: str) -> bool:
        """Whether calls of this agent run or wait here."""
        return any(invocation.request.agent == agent for invocation in self.invocations.served.all())

    def is_busy(self, node: NodeId) -> bool:
        """Whether something is being served for this node, or a reply to it waits."""
        return self.invocations.served.is_asking(node) or self.invocations.waiting_replies.waits_for(node)

    def bulkheads(self) -> list[BulkheadView]:
        """How full each capability that is offered is."""
        return [
            self.invocations.bulkheads.view(agent.agent, spec)
            for agent in self._agents.values()
            for spec in agent.capabilities
        ]

    def _numbers(self) -> tuple[int, int]:
        """How many handlers run, and how many requests wait."""
        return self.invocations.bulkheads.running, self.invocations.bulkheads.queued

    def _loads(self) -> list[tuple[str, int, int]]:
        """The same of each agent with any, if there are several."""
        return self.invocations.bulkheads.by_agent() if len(self._agents) > 1 else []

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        return {
            "calls.serving": len(self.invocations.served),
            "calls.running": self.invocations.bulkheads.running,
            "calls.queued_bytes": self.invocations.bulkheads.queued_bytes,
            "calls.bulkheads": len(self.invocations.bulkheads),
            "calls.rates": self._admission.buckets,
            "calls.keys": len(self.dedupe),
            "calls.key_bytes": self.dedupe.end_bytes,
            "calls.replies_waiting": len(self.invocations.waiting_replies),
            "calls.replies_waiting_bytes": self.invocations.waiting_replies.waiting_bytes,
        }

    # Admission

    def _refusal(self, request: Request) -> Refusal | None:
        if self._is_stopped or self._is_paused:
            return ErrorCode.NODE_LOST, "this node has stopped serving"
        return self._admission.refusal(request)

    def _admit(
        self, link: LinkId, node: NodeId, life: Life, request: Request, spec: CapabilitySpec, now: float
    ) -> None:
        wait = self._admission.wait_for_token(node, life, request, spec, now)
        if wait:
            assert spec.rate is not None, "only a rate makes callers wait"
            detail = (
                f"at most {spec.rate.per_second:g} calls of {request.capability!r} a second of one {spec.rate.per}; "
                f"the next in {wait:.3f} s"
            )
            self.invocations.refuse(
                link, node, life, request, ErrorCode.RATE_LIMITED, detail, now, retry_after=wait
            )
            return
        bulkhead = self.invocations.bulkheads.of(request.agent, spec)
        may_start = self.invocations.bulkheads.may_start(bulkhead)
        if not may_start and not self.invocations.bulkheads.may_wait(bulkhead, len(request.payload)):
            detail = (
                f"{bulkhead.running} calls of {request.capability!r} run and {len(bulkhead.queue)} wait here"
            )
            self.invocations.refuse(link, node, life, request, ErrorCode.REFUSED_FULL, detail, now)
            return
        invocation = self.invocations.accept(link, node, life, request, bulkhead, now)
        self.dedupe.begin(invocation)
        self._counters.add("calls.accepted")
        if request.stream:
            self._streams.accept(invocation.number, node, life, request, now)
        if may_start:
            self.invocations.start(invocation, now)
        else:
            self.invocations.bulkheads.wait(invocation)

    # Streams

    def on_stream_lost(self, key: StreamKey, detail: str, now: float) -> None:
        """The caller of a stream is gone, or was not heard of for too long."""
        invocation = self.invocations.served.get(key) if isinstance(key, int) else None
        if invocation is not None:
            self._counters.add("calls.caller_lost")
            self.invocations.drop(invocation, f"its caller is lost: {detail}")
            self._hops.served(invocation, ErrorCode.NODE_LOST, f"its caller is lost: {detail}", now, None)
            self.invocations.start_waiting(now)

    def on_stream_failed(self, key: StreamKey, code: ErrorCode, detail: str, now: float) -> None:
        """A stream cannot go on: its handler is cancelled, its caller told why."""
        invocation = self.invocations.served.get(key) if isinstance(key, int) else None
        if invocation is None:
            return
        was_running = invocation.state is InvocationState.RUNNING
        items = self._streams.items_sent(invocation.number)
        self.invocations.drop(invocation, detail)
        self._counters.add(f"calls.serving_failed.{int(code)}")
        message_id = invocation.request.message_id
        reply = Reply(message_id=message_id, code=code, detail=detail, executed=was_running, items=items)
        self.invocations.reply(invocation, reply, now)
        self.invocations.start_waiting(now)


def _is_out_of_time(invocation: Invocation, now: float) -> bool:
    """Whether its caller cancels it because its time is over there: messages are under way, and clocks differ."""
    left, given = invocation.deadline - now, invocation.deadline - (invocation.begun_at or 0.0)
    return left <= max(NEARLY_OVER, NEARLY_OVER_PART * given)
