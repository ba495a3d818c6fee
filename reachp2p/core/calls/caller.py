"""The calling side of calls: every call ends exactly once, in bounded time (docs/protocol/calls.md; cases B29, B31).

A call is for one instance on one link to one life. It ends with the reply, with its deadline, when it is cancelled, or
when that link or that life is gone. If the request has certainly not been executed, or the capability is declared
repeatable, another instance is asked before the call fails; what may have been executed and must not run twice ends
as *outcome unknown*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol as TypingProtocol

from reachp2p.core.calls.call import ATTEMPTS_MAX, REFUSALS_WORTH_A_RETRY, Call, CallDue, CallInput, CallState
from reachp2p.core.calls.callee import LOCAL, Callee
from reachp2p.core.calls.checks import capability_of, check_spec
from reachp2p.core.commands import CallSpec, RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.events import CallEnded
from reachp2p.core.ids import MESSAGE_ID_BYTES, Address, Entropy, Life, LinkId, NodeId
from reachp2p.core.links.outputs import LinkDown, LinkUp
from reachp2p.core.links.table import Links
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.unreached import Unreached
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.codec import RejectedCall
from reachp2p.core.wire.messages import Cancel, Reply, Request
from reachp2p.errors import RETRY_SAFE, CallFailed, ErrorCode

PENDING_BYTES_MAX = 268_435_456
"""Payloads of pending calls, which are kept for a retry: 256 of the largest, or 65,536 of 4 kB."""
TIMEOUT_MAX = 86_400.0
"""A day: the most that `remaining_ms` can say."""
_KNOWN_CODES = frozenset(int(code) for code in ErrorCode)
_LOST_CODES = (ErrorCode.NODE_LOST, ErrorCode.OUTCOME_UNKNOWN)


class Picker(TypingProtocol):
    """Chooses instances (`routing.router.Router`)."""

    def pick(self, query: RouteQuery, exclude: Collection[NodeId] = ()) -> Instance:
        """The instance for a query, on none of the nodes in `exclude`. Raises `RouteFailed`."""


class Caller:
    """Pending calls of this node. Bounds: `pending_calls_max` and `PENDING_BYTES_MAX`; beyond them 1406 at once."""

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
        addresses: Callable[[NodeId], Sequence[Address]],
        entropy: Entropy,
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        """`addresses` says where a member may be dialled; `callee` serves calls to this very node."""
        self._protocol = protocol
        self._own = own
        self._own_life = own_life
        self._router = router
        self._unreached = unreached
        self._links = links
        self._callee = callee
        self._addresses = addresses
        self._entropy = entropy
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._pending: dict[bytes, Call] = {}
        self._by_node: dict[NodeId, dict[bytes, Call]] = {}
        self._pending_bytes = 0
        self._is_draining = False
        callee.answer_locally = self._on_local_reply

    # Commands

    def call(self, spec: CallSpec, now: float) -> bytes:
        """Start a call and return its id; it ends with one `CallEnded`, which may be among the effects already.

        Raises `CallFailed`, and nothing was sent: 13xx nobody can be asked, 1401 no time is left, 1404 the payload is
        too large, 1406 too many calls are pending, 1407 the chain of calls is too long, 1411 this node is leaving.
        """
        if self._is_draining:
            raise CallFailed(ErrorCode.NODE_LOST, "this node is leaving and starts no further calls")
        check_spec(spec, self._protocol)
        self._check_room(spec)
        instance = self._router.pick(spec.query)
        capability = capability_of(spec.query, instance)
        info = instance.info.capabilities[capability]
        timeout = spec.timeout if spec.timeout is not None else (info.timeout or self._protocol.call_timeout)
        if spec.within is not None:
            timeout = min(timeout, spec.within)
        call = Call(
            id=self._entropy.token(MESSAGE_ID_BYTES),
            spec=spec,
            deadline=now + min(timeout, TIMEOUT_MAX),
            node=instance.node,
            agent=instance.agent,
            capability=capability,
            repeatable=info.repeatable,
        )
        self._pending[call.id] = call
        self._pending_bytes += len(spec.payload)
        self._counters.add("calls.started")
        self._attempt(call, now)
        return call.id

    def cancel(self, call: bytes, now: float) -> bool:
        """End a call as cancelled (1402) and stop its handler; false if it has ended already."""
        found = self._pending.get(call)
        if found is None:
            return False
        self._withdraw(found, now)
        self._end(found, ErrorCode.CANCELLED, "cancelled by the caller", now)
        return True

    def drain(self) -> None:
        """Start no further calls (1411); those that are pending go on. Handlers still running may need this late."""
        self._is_draining = True

    def end_all(self, code: ErrorCode, detail: str, now: float) -> None:
        """End every pending call: this life is over (1601), or the node stops."""
        for call in list(self._pending.values()):
            self._withdraw(call, now)
            self._end(call, code, detail, now)

    def _check_room(self, spec: CallSpec) -> None:
        is_full = len(self._pending) >= self._protocol.pending_calls_max
        if is_full or self._pending_bytes + len(spec.payload) > PENDING_BYTES_MAX:
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
        return node in self._by_node

    # Inputs

    def on_reply(self, link: LinkId, node: NodeId, life: Life, reply: Reply, now: float) -> None:
        """A callee has ended a request."""
        call = self._pending.get(reply.message_id)
        if call is None or call.state is not CallState.ASKED or call.node != node or call.life != life:
            self._counters.add("calls.reply_unmatched")  # it was cancelled, timed out, or retried elsewhere
            return
        code = reply.code
        if code == 0:
            if len(reply.payload) > self._protocol.payload_max:
                self._end(call, ErrorCode.PAYLOAD_TOO_LARGE, "the reply is larger than the limit", now)
            else:
                self._end(call, 0, reply.detail, now, reply.content_type, reply.payload)
        elif not reply.executed and code in REFUSALS_WORTH_A_RETRY:
            self._attempt_over(call, ErrorCode(code), reply.detail, now, executed=False)
        elif code in _LOST_CODES:
            self._attempt_over(call, ErrorCode.NODE_LOST, reply.detail, now, executed=True)
        elif code in _KNOWN_CODES:
            self._end(call, code, reply.detail, now)
        else:
            self._end(call, ErrorCode.HANDLER_FAILED, f"unknown code {code}: {reply.detail}", now)

    def on_unreadable(self, link: LinkId, node: NodeId, life: Life, call: RejectedCall, now: float) -> None:
        """A reply that this version does not understand: the call has ended there, and nobody here can say how."""
        detail = f"its reply is not understood by this version: {call.why}"
        unread = Reply(message_id=call.message_id, code=ErrorCode.OUTCOME_UNKNOWN, detail=detail)
        self.on_reply(link, node, life, unread, now)

    def on_link_up(self, up: LinkUp, now: float) -> None:
        """A link is open: what waited for it is sent."""
        self._unreached.on_reached(up.node)
        for call in self._calls_at(up.node):
            if call.state is CallState.LINKING:
                link = self._links.link_to(up.node)
                if link is None:
                    return
                self._ask(call, link, now)

    def on_link_down(self, down: LinkDown, now: float) -> None:
        """A link has ended, or could not be opened."""
        node = down.node
        if node is None:
            return
        other = self._links.link_to(node)
        is_dialling = self._links.is_dialling(node)
        if not down.was_proven and other is None and not is_dialling:
            self._unreached.on_failed(node, now)  # before anybody picks another instance
        for call in self._calls_at(node):
            if call.state is CallState.ASKED and call.link == down.link:
                if down.clean and other is not None and self._links.life_of(other) == call.life:
                    call.link = other  # the request has arrived; its reply will come that way
                else:
                    self._attempt_over(call, ErrorCode.NODE_LOST, _lost(down), now, executed=True)
            elif call.state is CallState.LINKING and other is None and not is_dialling:
                self._attempt_over(call, ErrorCode.NODE_LOST, _unreached(down), now, executed=False)

    def on_unsent(self, link: LinkId, request: Request, now: float) -> None:
        """A request that was handed to a link has never left: its link has ended since, or was fuller than promised."""
        call = self._pending.get(request.message_id)
        if call is None or call.state is not CallState.ASKED or call.link != link:
            return  # cancelled since, or its link is known to be lost
        self._counters.add("calls.unsent")
        call.asked -= 1
        if self._links.link_to(call.node) == link:
            code, detail = ErrorCode.REFUSED_FULL, "too much waits for its link already"
        else:
            code, detail = ErrorCode.NODE_LOST, "its link ended before the request was sent"
        self._attempt_over(call, code, detail, now, executed=False)

    def on_member_gone(self, node: NodeId, life: Life, now: float, *, left: bool = False) -> None:
        """A member's life is over (DEAD, `left` or replaced): what was asked of it ends or goes elsewhere at once.

        Who leaves has answered everything before, or will not; LEFT travels by datagram and may overtake those answers
        on their link, so what was asked on a link that is still there goes on until its end.
        """
        for call in self._calls_at(node):
            if left and call.link is not None and self._links.life_of(call.link) == life:
                continue
            if call.state is CallState.LINKING or call.life == life:
                executed = call.state is CallState.ASKED
                self._attempt_over(call, ErrorCode.NODE_LOST, "its node is gone", now, executed=executed)

    def on_timer(self, key: CallDue, now: float) -> None:
        """An attempt has had its share of the time, or the call all of it."""
        call = self._pending.get(key.call)
        if call is None:
            return
        if now >= call.deadline:
            was_asked = call.state is CallState.ASKED
            self._withdraw(call, now)
            detail = "no answer in time; it may have been executed" if was_asked else "no link opened in time"
            self._end(call, ErrorCode.DEADLINE_EXCEEDED, detail, now)
        elif not (call.may_switch and self._switch(call, now)):
            # Nobody else can be asked: the attempt keeps all the time that is left.
            self._timers.set(key, call.deadline)

    # Attempts

    def _attempt(self, call: Call, now: float) -> None:
        """Ask the instance that was chosen."""
        call.attempts += 1
        call.tried.append(call.node)
        self._by_node.setdefault(call.node, {})[call.id] = call
        link = LOCAL if call.node == self._own else self._links.link_to(call.node)
        if link is not None:
            self._set_due(call, now, may_switch=call.repeatable and call.asked + 1 < ATTEMPTS_MAX)
            self._ask(call, link, now)
        elif self._links.ensure(call.node, self._addresses(call.node), now) is not None:
            self._set_due(call, now, may_switch=True)
        else:
            detail = "no link to it can be opened: no address is known, or this node has too many links"
            self._attempt_over(call, ErrorCode.NODE_LOST, detail, now, executed=False)

    def _set_due(self, call: Call, now: float, *, may_switch: bool) -> None:
        """An attempt that could be followed by another gets a share of the time that is left."""
        at = call.deadline
        if may_switch and call.has_attempts_left:
            at = now + (at - now) * self._protocol.attempt_fraction
        self._timers.set(CallDue(call.id), at)

    def _ask(self, call: Call, link: LinkId, now: float) -> None:
        if link == LOCAL:
            self._ask_locally(call, now)
            return
        life = self._links.life_of(link)
        assert life is not None, "a link in use is proven"
        if self._links.send(link, self._request(call, life, now)):
            call.move(CallInput.SENT)
            call.link, call.life = link, life
            call.asked += 1
        else:
            detail = "too much waits for its link already"
            self._attempt_over(call, ErrorCode.REFUSED_FULL, detail, now, executed=False)

    def _ask_locally(self, call: Call, now: float) -> None:
        life = self._own_life()
        if life is None:
            self._attempt_over(call, ErrorCode.NODE_LOST, "this node has not started", now, executed=False)
            return
        call.move(CallInput.SENT)
        call.link, call.life = LOCAL, life
        call.asked += 1
        self._callee.on_request(LOCAL, self._own, life, self._request(call, life, now), now)

    def _request(self, call: Call, life: Life, now: float) -> Request:
        spec = call.spec
        hops_left = self._protocol.hops_max if spec.hops_left is None else spec.hops_left
        return Request(
            message_id=call.id,
            life=life,
            agent=call.agent,
            capability=call.capability,
            remaining_ms=max(1, int((call.deadline - now) * 1000)),
            payload=spec.payload,
            hops_left=hops_left,
            content_type=spec.content_type,
            session_id=spec.session_id,
            idempotency_key=spec.idempotency_key,
            traceparent=spec.traceparent,
            attempt=call.attempts,
            path=list(spec.path),
        )

    def _attempt_over(self, call: Call, code: ErrorCode, detail: str, now: float, *, executed: bool) -> None:
        """The instance cannot answer any more. `executed`: it may have run the handler."""
        may_retry = call.has_attempts_left and (call.repeatable or not executed)
        call.may_have_run = call.may_have_run or executed
        if may_retry and now < call.deadline and self._switch(call, now, is_over=True):
            return
        if executed:
            code = ErrorCode.OUTCOME_UNKNOWN
            why = "there is no other instance to ask" if call.repeatable else "it is not declared repeatable"
            detail = f"{detail}; it may have been executed, and {why}"
        self._end(call, code, detail, now)

    def _switch(self, call: Call, now: float, *, is_over: bool = False) -> bool:
        """Ask another instance instead; false, and nothing has changed, if there is none."""
        try:
            instance = self._router.pick(call.spec.query, exclude=call.tried)
            capability = capability_of(call.spec.query, instance)
        except RouteFailed:
            return False
        if not is_over:
            call.may_have_run = call.may_have_run or call.state is CallState.ASKED
            self._withdraw(call, now)
        if call.state is CallState.LINKING:
            self._counters.add("calls.passed_over")  # it has seen nothing of this call
        self._unlist(call)
        call.move(CallInput.RETRIED)
        call.node, call.agent, call.capability = instance.node, instance.agent, capability
        call.link = call.life = None
        call.repeatable = instance.info.capabilities[capability].repeatable
        self._counters.add("calls.retried")
        self._attempt(call, now)
        return True

    def _withdraw(self, call: Call, now: float) -> None:
        """Tell the instance that its answer is not wanted any more."""
        if call.state is not CallState.ASKED or call.link is None or call.life is None:
            return
        cancel = Cancel(message_id=call.id)
        if call.link == LOCAL:
            self._callee.on_cancel(self._own, call.life, cancel, now)
        else:
            self._links.send(call.link, cancel)

    # Ends

    def _end(
        self, call: Call, code: int, detail: str, now: float, content_type: str = "", payload: bytes = b""
    ) -> None:
        if call.may_have_run and code in RETRY_SAFE:
            detail = f"{detail} [{int(code)}]; an earlier attempt may have been executed"
            code = ErrorCode.OUTCOME_UNKNOWN
        call.move(CallInput.ENDED)
        del self._pending[call.id]
        self._pending_bytes -= len(call.spec.payload)
        self._unlist(call)
        self._timers.cancel(CallDue(call.id))
        self._counters.add("calls.succeeded" if code == 0 else f"calls.failed.{int(code)}")
        self._effects.notify(
            CallEnded(
                at=now,
                call=call.id,
                code=int(code),
                content_type=content_type,
                payload=payload,
                detail=detail,
                node=call.node,
                agent=call.agent,
                attempts=call.attempts,
            )
        )

    def _unlist(self, call: Call) -> None:
        calls = self._by_node[call.node]
        del calls[call.id]
        if not calls:
            del self._by_node[call.node]

    def _calls_at(self, node: NodeId) -> list[Call]:
        return list(self._by_node.get(node, {}).values())

    def _on_local_reply(self, reply: Reply, now: float) -> None:
        life = self._pending[reply.message_id].life if reply.message_id in self._pending else None
        if life is None:
            self._counters.add("calls.reply_unmatched")
        else:
            self.on_reply(LOCAL, self._own, life, reply, now)


def _lost(down: LinkDown) -> str:
    said = f" ({down.detail})" if down.detail else ""
    return f"the link to it ended: {down.end.value}{said}"


def _unreached(down: LinkDown) -> str:
    said = f" ({down.detail})" if down.detail else ""
    where = f" at {down.address}" if down.address is not None else ""
    return f"it cannot be reached{where}: {down.end.value}{said}"
