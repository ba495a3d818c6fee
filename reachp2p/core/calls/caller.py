"""The calling side of calls: every call ends exactly once, in bounded time (docs/protocol/calls.md; cases B29, B31).

A call is for one instance on one link to one life. It ends with the reply, with its deadline, when it is cancelled, or
when that link or that life is gone. If the request has certainly not been executed, or the capability is declared
repeatable, another instance is asked before the call fails; what may have been executed and must not run twice ends
as *outcome unknown*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from msgspec.structs import replace

from reachp2p.core.calls.attempts import FULL_LINK, Attempts
from reachp2p.core.calls.call import LOCAL, REFUSALS_WORTH_A_RETRY, Call, CallDue, CallState
from reachp2p.core.calls.callee import Callee
from reachp2p.core.calls.checks import capability_of, check_spec, check_stream
from reachp2p.core.calls.ends import Ends
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.pending import PendingCalls
from reachp2p.core.calls.picker import Picker
from reachp2p.core.calls.streams import Streams
from reachp2p.core.calls.tasks import Tasks
from reachp2p.core.calls.times import times_of
from reachp2p.core.calls.trace import read_traceparent
from reachp2p.core.commands import CallSpec, Lasting, StreamKey
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.events import CallOutlasted
from reachp2p.core.ids import MESSAGE_ID_BYTES, Address, Entropy, Life, LinkId, NodeId
from reachp2p.core.links.outputs import LinkDown, LinkUp
from reachp2p.core.links.table import Links
from reachp2p.core.routing.budget import RetryBudget
from reachp2p.core.routing.rules import SILENCE, RulesInForce
from reachp2p.core.routing.unreached import Unreached
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.codec import RejectedCall
from reachp2p.core.wire.messages import Reply, Request
from reachp2p.errors import RETRY_SAFE, CallFailed, ErrorCode

_KNOWN_CODES = frozenset(int(code) for code in ErrorCode)
_LOST_CODES = (ErrorCode.NODE_LOST, ErrorCode.OUTCOME_UNKNOWN)


class Caller:
    """Pending calls of this node. Bounds: those of `PendingCalls`; beyond them 1406 at once."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        own: NodeId,
        own_life: Callable[[], Life | None],
        router: Picker,
        unreached: Unreached,
        links: Links,
        callee: Callee,
        hops: HopStore,
        streams: Streams,
        addresses: Callable[[NodeId], Sequence[Address]],
        entropy: Entropy,
        effects: Effects,
        timers: Timers,
        counters: Counters,
        rules: RulesInForce | None = None,
    ) -> None:
        """`addresses` says where a member may be dialled; `callee` serves calls to this very node; `rules` say what its
        calls leave open, None: nothing."""
        self._rules = RulesInForce(counters) if rules is None else rules
        self._protocol = protocol
        self._own = own
        self._router = router
        self._unreached = unreached
        self._links = links
        self._hops = hops
        self._streams = streams
        self._entropy = entropy
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._pending = PendingCalls(protocol.pending_calls_max)
        self._budget = RetryBudget(protocol.retry_percent, protocol.retries_free)
        self.tasks = Tasks(protocol.tasks_max, protocol.task_keep, self._pending.get, timers, counters)
        """Calls that go on without anybody who waits, and how they ended."""
        self._ends = Ends(self._pending, self.tasks, streams, hops, router, effects, timers, counters)
        self._attempts = Attempts(
            protocol,
            own=own,
            own_life=own_life,
            router=router,
            links=links,
            callee=callee,
            streams=streams,
            addresses=addresses,
            pending=self._pending,
            ends=self._ends,
            hops=hops,
            budget=self._budget,
            timers=timers,
            counters=counters,
        )
        self.waiting_cancels = self._attempts.waiting_cancels
        self._is_draining = False
        callee.invocations.answer_locally = self._on_known_reply
        streams.wire_caller(self, self._on_known_reply)

    # Commands

    def call(self, spec: CallSpec, now: float) -> bytes:
        """Start a call and return its id; it ends with one `CallEnded`, which may be among the effects already.

        Raises `CallFailed`, and nothing was sent: 13xx nobody can be asked, 1401 no time is left, 1404 the payload is
        too large, 1406 too many calls or tasks are pending, 1407 the chain of calls is too long, 1411 this node is
        leaving.
        """
        if self._is_draining:
            raise CallFailed(ErrorCode.NODE_LOST, "this node is leaving and starts no further calls")
        check_spec(spec, self._protocol)
        self._check_room(spec)
        query, ruling = spec.query, SILENCE
        if query.capability is None and query.agent is None:
            query = self._router.named(query)
        if not self._rules.is_empty:
            session = spec.session_id.hex() if spec.session_id is not None else None
            query, ruling = self._rules.settle(query, session, spec.path[-1] if spec.path else None)
        if spec.idempotency_key is not None and query.policy is None and query.key is None:
            # Only the instance that has executed it knows the key: whoever asks again is to meet the same one.
            query = replace(query, policy="consistent_hash", key=spec.idempotency_key)
        pick = self._router.route(query, (), now)
        instance = pick.instance
        capability = capability_of(pick.query, instance)
        info = instance.info.capabilities[capability]
        check_stream(spec, capability, info.stream)
        pick.is_stream = spec.stream
        times = times_of(spec, info, instance, self._protocol, ruling.timeouts)
        call = Call(
            id=self._entropy.token(MESSAGE_ID_BYTES),
            spec=spec,
            query=query,
            ruling=ruling,
            started_at=now,
            deadline=now + times.deadline,
            limit=now + times.limit,
            connect=times.connect,
            node=instance.node,
            agent=instance.agent,
            capability=capability,
            repeatable=info.repeatable,
            pick=pick,
            kind=info.stream,
            key=spec.idempotency_key,
        )
        if spec.lasting is Lasting.TASK and not self.tasks.begin(call.id):
            raise CallFailed(ErrorCode.REFUSED_FULL, f"{len(self.tasks)} tasks of this node run already")
        if call.key is None and spec.lasting is Lasting.TASK:
            call.key = call.id.hex()  # so that it outlives its link
        self._trace(call)
        self._pending.add(call)
        self._budget.on_request(now)
        self._counters.add("calls.started")
        if spec.stream:
            self._streams.begin(call.id, info.stream, spec.idle_timeout, now)
        self._attempts.start(call, now)
        return call.id

    def _trace(self, call: Call) -> None:
        """Its place in a trace; without a trace context it begins one, named by its message id."""
        call.trace = call.id
        text = call.spec.traceparent
        if text is not None:
            context = read_traceparent(text)
            if context is None:
                self._counters.add("calls.traceparent_malformed")
            else:
                call.trace, call.parent, call.trace_flags = context
                call.span = call.spec.span
                if call.parent == call.span:
                    call.parent = None  # the program's span is the first of its trace

    def cancel(self, call: bytes, now: float) -> bool:
        """End a call as cancelled (1402) and stop its handler; false if it has ended already."""
        found = self._pending.get(call)
        if found is None:
            return False
        self._attempts.withdraw(found, now)
        self._ends.end(found, ErrorCode.CANCELLED, "cancelled by the caller", now)
        return True

    def drain(self) -> None:
        """Start no further calls (1411); those that are pending go on. Handlers still running may need this late."""
        self._is_draining = True

    def end_all(self, code: ErrorCode, detail: str, now: float) -> None:
        """End every pending call: this life is over (1601), or the node stops. What was asked may have been executed,
        so that 1411 is 1409 then."""
        for call in self._pending.all():
            self._attempts.withdraw(call, now)
            if code in RETRY_SAFE and call.state is not CallState.LINKING:
                said = f"{detail}; it may have been executed"
                self._ends.end(call, ErrorCode.OUTCOME_UNKNOWN, said, now)
            else:
                self._ends.end(call, code, detail, now)
        self.waiting_cancels.clear()

    def _check_room(self, spec: CallSpec) -> None:
        if spec.stream and not self._streams.has_room:
            self._counters.add("calls.refused.streams")
            raise CallFailed(ErrorCode.REFUSED_FULL, "this node has too many streams already")
        if not self._pending.has_room(len(spec.payload)):
            self._counters.add("calls.refused.pending")
            raise CallFailed(
                ErrorCode.REFUSED_FULL, f"{len(self._pending)} calls of this node are pending already"
            )

    # Questions

    @property
    def pending(self) -> int:
        """Calls that have not ended."""
        return len(self._pending)

    def is_busy(self, node: NodeId) -> bool:
        """Whether a call to this node is pending."""
        return self._pending.is_asked(node)

    # Inputs

    def on_reply(self, link: LinkId, node: NodeId, life: Life, reply: Reply, now: float) -> None:
        """A callee has ended a request."""
        call = self._pending.get(reply.message_id)
        if call is None or call.state is CallState.LINKING or call.node != node or call.life != life:
            self._counters.add("calls.reply_unmatched")  # it was cancelled, timed out, or retried elsewhere
            return
        if call.spec.stream and not self._streams.is_complete(call.id, reply, now):
            return  # items are missing; it is told again when the last of them is here
        code = reply.code
        call.reply = reply
        if call.has_lost_link and reply.executed:
            call.may_have_run = (
                True  # by the request that was sent on the lost link, also if this one was refused
            )
        if code == 0:
            if len(reply.payload) > self._protocol.payload_max:
                self._ends.end(call, ErrorCode.PAYLOAD_TOO_LARGE, "the reply is larger than the limit", now)
            else:
                self._ends.end(call, 0, reply.detail, now, reply.content_type, reply.payload)
        elif not reply.executed and code in REFUSALS_WORTH_A_RETRY:
            call.retry_after = None if reply.retry_after_ms is None else reply.retry_after_ms / 1000
            self._attempts.over(call, ErrorCode(code), reply.detail, now, executed=False)
        elif code in _LOST_CODES:
            self._attempts.over(call, ErrorCode.NODE_LOST, reply.detail, now, executed=True)
        elif code in _KNOWN_CODES:
            self._ends.end(call, code, reply.detail, now, caller_fault=reply.caller_fault)
        else:
            self._ends.end(call, ErrorCode.HANDLER_FAILED, f"unknown code {code}: {reply.detail}", now)

    def on_unreadable(self, link: LinkId, node: NodeId, life: Life, call: RejectedCall, now: float) -> None:
        """A reply that this version does not understand: the call has ended there, and nobody here can say how."""
        detail = f"its reply is not understood by this version: {call.why}"
        unread = Reply(message_id=call.message_id, code=ErrorCode.OUTCOME_UNKNOWN, detail=detail)
        self.on_reply(link, node, life, unread, now)

    def on_link_up(self, up: LinkUp, now: float) -> None:
        """A link is open: what waited for it is sent."""
        self._unreached.on_reached(up.node)
        self.waiting_cancels.on_link_up(up.node)
        for call in self._pending.at(up.node):
            if call.state is not CallState.ASKED:
                link = self._links.link_to(up.node)
                if link is None:
                    return
                self._attempts.ask(call, link, now)

    def on_link_down(self, down: LinkDown, now: float) -> None:
        """A link has ended, or could not be opened."""
        node = down.node
        if node is None:
            return
        other = self._links.link_to(node)
        is_dialling = self._links.is_dialling(node)
        if not down.was_proven and other is None and not is_dialling:
            self._unreached.on_failed(node, now)  # before anybody picks another instance
        for call in self._pending.at(node):
            if call.state is CallState.ASKED and call.spec.stream:
                continue  # it outlives its link
            if call.state is CallState.ASKED and call.link == down.link:
                if down.clean and other is not None and self._links.life_of(other) == call.life:
                    call.link = other  # the request has arrived; its reply will come that way
                else:
                    self._attempts.lost(call, _lost(down), now)
            elif call.state is not CallState.ASKED and other is None and not is_dialling:
                if call.state is CallState.REJOINING:
                    self._attempts.rejoin_later(call, now)
                else:
                    self._attempts.over(call, ErrorCode.NODE_LOST, _unreached(down), now, executed=False)
        self.waiting_cancels.on_link_up(node)  # over another one

    def on_unsent(self, link: LinkId, request: Request, now: float) -> None:
        """A request that was handed to a link has never left: its link has ended since, or was fuller than promised."""
        call = self._pending.get(request.message_id)
        if call is None or call.state is not CallState.ASKED or call.link != link:
            return  # cancelled since, or its link is known to be lost
        self._counters.add("calls.unsent")
        if call.has_lost_link:  # an earlier one may have arrived
            self._attempts.lost_again(call, now)
            return
        call.asked -= 1
        is_full = self._links.link_to(call.node) == link
        code = ErrorCode.REFUSED_FULL if is_full else ErrorCode.NODE_LOST
        detail = FULL_LINK if is_full else "its link ended before the request was sent"
        self._attempts.over(call, code, detail, now, executed=False, is_ours=is_full)

    def on_member_gone(self, node: NodeId, life: Life, now: float, *, left: bool = False) -> None:
        """A member's life is over (DEAD, `left` or replaced): what was asked of it ends or goes elsewhere at once.

        Who leaves has answered everything before, or will not; LEFT travels by datagram and may overtake those answers
        on their link, so what was asked on a link that is still there goes on until its end.
        """
        self.waiting_cancels.on_member_gone(node, life)
        for call in self._pending.at(node):
            link = self._links.link_to(node) if call.spec.stream else call.link
            if left and link is not None and self._links.life_of(link) == life:
                continue
            if call.state is CallState.LINKING or call.life == life:
                executed = call.state is not CallState.LINKING
                self._attempts.over(call, ErrorCode.NODE_LOST, "its node is gone", now, executed=executed)

    def on_timer(self, key: CallDue, now: float) -> None:
        """An attempt has had its share of the time, the call its synchronous limit, or all of it."""
        call = self._pending.get(key.call)
        if call is None:
            return
        if now >= call.deadline:
            was_asked = call.state is not CallState.LINKING
            self._attempts.withdraw(call, now)
            detail = "no answer in time; it may have been executed" if was_asked else "no link opened in time"
            self._ends.end(call, ErrorCode.DEADLINE_EXCEEDED, detail, now)
            return
        if now >= call.limit and not self._outlast(call, now):
            return
        if now >= call.link_until:
            call.link_until = inf
            detail = f"no link to it opened within {call.connect:g} s"
            self._attempts.over(call, ErrorCode.NODE_LOST, detail, now, executed=False)
            return
        if now >= call.rejoin_at:
            self._attempts.rejoin(call, now)
            if self._pending.get(key.call) is not call:
                return
        if now >= call.attempt_until:
            call.attempt_until = (
                inf  # if nobody else can be asked, the attempt keeps all the time that is left
            )
            if call.may_switch and self._attempts.switch(
                call, ErrorCode.DEADLINE_EXCEEDED, "no answer in its share of the time", now
            ):
                return
        self._timers.set(key, call.due_at)

    def _outlast(self, call: Call, now: float) -> bool:
        """The synchronous limit: whoever waits is told, and the call goes on. False if it has ended instead."""
        call.limit = inf
        if not self.tasks.begin(call.id):
            self._attempts.withdraw(call, now)
            detail = f"no answer in time, and {len(self.tasks)} tasks of this node run already"
            self._ends.end(call, ErrorCode.DEADLINE_EXCEEDED, detail, now)
            return False
        self._effects.notify(CallOutlasted(at=now, call=call.id, deadline=call.deadline))
        return True

    # Streams

    def on_stream_lost(self, key: StreamKey, detail: str, now: float) -> None:
        """The other side of a stream is gone, or was not reached for too long."""
        call = self._pending.get(key) if isinstance(key, bytes) else None
        if call is not None:
            self._attempts.over(call, ErrorCode.NODE_LOST, detail, now, executed=True)

    def on_stream_failed(self, key: StreamKey, code: ErrorCode, detail: str, now: float) -> None:
        """A stream cannot go on: its call ends, and its handler is cancelled."""
        call = self._pending.get(key) if isinstance(key, bytes) else None
        if call is not None:
            self._attempts.withdraw(call, now)
            self._ends.end(call, code, detail, now)

    def _on_known_reply(self, reply: Reply, now: float) -> None:
        """A reply of this very node, or one whose last item has come now."""
        call = self._pending.get(reply.message_id)
        if call is None or call.life is None:
            self._counters.add("calls.reply_unmatched")
        else:
            self.on_reply(call.link or LOCAL, call.node, call.life, reply, now)


def _lost(down: LinkDown) -> str:
    said = f" ({down.detail})" if down.detail else ""
    return f"the link to it ended: {down.end.value}{said}"


def _unreached(down: LinkDown) -> str:
    said = f" ({down.detail})" if down.detail else ""
    where = f" at {down.address}" if down.address is not None else ""
    return f"it cannot be reached{where}: {down.end.value}{said}"
