"""The attempts of a call: one instance after the other is asked, while that is safe (docs/protocol/calls.md).

An attempt is over when its instance refuses, is lost, or has had its share of the time. What has certainly not been
executed goes to another instance, and so does what is declared repeatable; the rest ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, inf

from reachp2p.core.calls.call import (
    LOCAL,
    REJOIN_INTERVAL,
    REJOIN_INTERVAL_MAX,
    Call,
    CallDue,
    CallInput,
    CallState,
)
from reachp2p.core.calls.callee import Callee
from reachp2p.core.calls.checks import capability_of
from reachp2p.core.calls.ends import Ends
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.pending import PendingCalls
from reachp2p.core.calls.picker import Picker
from reachp2p.core.calls.streams import Streams
from reachp2p.core.calls.trace import asked_span, write_traceparent
from reachp2p.core.calls.waiting_cancels import WaitingCancels
from reachp2p.core.commands import StreamKind
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Address, Life, LinkId, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.routing.budget import RetryBudget
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import Cancel, Request
from reachp2p.errors import ErrorCode

ASKED_AGO_MAX = 86_400.0
"""Seconds: an age that is larger is told as this one, which is longer than anybody remembers."""
FULL_LINK = "too much waits for its link already"


class Attempts:
    """Asks instances on behalf of pending calls."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        own: NodeId,
        own_life: Callable[[], Life | None],
        router: Picker,
        links: Links,
        callee: Callee,
        streams: Streams,
        addresses: Callable[[NodeId], Sequence[Address]],
        pending: PendingCalls,
        ends: Ends,
        hops: HopStore,
        budget: RetryBudget,
        timers: Timers,
        counters: Counters,
    ) -> None:
        """`addresses` says where a member may be dialled; `callee` serves calls to this very node."""
        self._protocol = protocol
        self._own = own
        self._own_life = own_life
        self._router = router
        self._links = links
        self._callee = callee
        self._streams = streams
        self._addresses = addresses
        self._pending = pending
        self._ends = ends
        self._hops = hops
        self._budget = budget
        self._timers = timers
        self._counters = counters
        self.waiting_cancels = WaitingCancels(links, addresses, timers, counters)
        """What instances do not know yet that they need not go on with."""

    def start(self, call: Call, now: float) -> None:
        """Ask the instance that was chosen."""
        self._router.start(call.pick, now)
        call.attempts += 1
        call.attempt_at = now
        call.tried.append(call.node)
        self._pending.list_at_node(call)
        link = LOCAL if call.node == self._own else self._links.link_to(call.node)
        if link is not None:
            call.link_until = inf
            self._set_due(call, now, may_switch=call.may_be_repeated and call.asked + 1 < call.attempts_max)
            self.ask(call, link, now)
        elif self._links.ensure(call.node, self._addresses(call.node), now) is not None:
            call.link_until = now + call.connect
            self._set_due(call, now, may_switch=True)
        else:
            detail = "no link to it can be opened: no address is known, or this node has too many links"
            self.over(call, ErrorCode.NODE_LOST, detail, now, executed=False)

    def _set_due(self, call: Call, now: float, *, may_switch: bool) -> None:
        """An attempt that could be followed by another gets a share of the time that is left.

        That is the time until the synchronous limit, while it is ahead: somebody waits.
        """
        call.attempt_until = inf
        if may_switch and call.has_attempts_left:
            until = min(call.deadline, call.limit)
            call.attempt_until = now + (until - now) * self._protocol.attempt_fraction
        self._timers.set(CallDue(call.id), call.due_at)

    def _limit_answer(self, call: Call, now: float) -> None:
        """The caller or a rule says how long an attempt may take to answer, if another can be asked instead."""
        read = call.spec.read
        if read is None:
            read = call.ruling.timeouts.read
        if read is not None and now + read < call.attempt_until and call.may_switch:
            call.attempt_until = now + read
            self._timers.set(CallDue(call.id), call.due_at)

    def ask(self, call: Call, link: LinkId, now: float) -> None:
        """Hand the request to a link that is open."""
        if link == LOCAL:
            self._ask_locally(call, now)
            return
        life = self._links.life_of(link)
        assert life is not None, "a link in use is proven"
        is_rejoining = call.state is CallState.REJOINING
        if is_rejoining and life != call.life:
            self.over(call, ErrorCode.NODE_LOST, "its node runs in another life now", now, executed=True)
        elif self._links.send(link, self._request(call, life, now)):
            call.move(CallInput.SENT)
            call.link_until = call.rejoin_at = inf
            call.link, call.life = link, life
            if not is_rejoining:
                call.asked_at = now
                call.asked += 1
            self._limit_answer(call, now)
            if call.spec.stream:
                self._streams.asked(call.id, call.node, life, now)
        elif is_rejoining:
            self.rejoin_later(call, now)
        else:
            self.over(call, ErrorCode.REFUSED_FULL, FULL_LINK, now, executed=False, is_ours=True)

    def _ask_locally(self, call: Call, now: float) -> None:
        life = self._own_life()
        if life is None:
            self.over(call, ErrorCode.NODE_LOST, "this node has not started", now, executed=False)
            return
        call.move(CallInput.SENT)
        call.asked_at = now
        call.link, call.life = LOCAL, life
        call.asked += 1
        self._limit_answer(call, now)
        if call.spec.stream:
            self._streams.asked(call.id, call.node, life, now)
        self._callee.on_request(LOCAL, self._own, life, self._request(call, life, now), now)

    def _request(self, call: Call, life: Life, now: float) -> Request:
        spec = call.spec
        traceparent: str | None = (
            None  # of the first call of a chain its receiver knows it from the message id
        )
        if call.trace is not call.id:
            span = call.span or asked_span(call.id, call.attempts)
            traceparent = write_traceparent(call.trace, span, call.trace_flags)
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
            session_id=None if spec.session_id == call.trace else spec.session_id,
            idempotency_key=call.key,
            traceparent=traceparent,
            attempt=call.attempts,
            path=list(spec.path),
            stream=call.kind if spec.stream else 0,
            credit=self._protocol.stream_window if spec.stream and call.kind & StreamKind.RESULTS else 0,
            asked_ms_ago=_ms_since(call.asked_at, now) if call.state is CallState.REJOINING else 0,
        )

    def lost(self, call: Call, detail: str, now: float) -> None:
        """The link on which a call was asked is lost. By its idempotency key the same life can be asked for its end."""
        if call.key is None or call.spec.stream:  # streams go on by themselves, or cannot
            self.over(call, ErrorCode.NODE_LOST, detail, now, executed=True)
            return
        call.move(CallInput.LOST)
        call.has_lost_link = True
        self._counters.add("calls.rejoined")
        self.rejoin(call, now)

    def lost_again(self, call: Call, now: float) -> None:
        """The request by which a lost call was to be joined again has never left."""
        call.move(CallInput.LOST)
        self.rejoin_later(call, now)

    def rejoin(self, call: Call, now: float) -> None:
        """Ask the instance again that may have executed a call, or try to open a link to it."""
        call.rejoin_at = inf
        link = self._links.link_to(call.node)
        if link is not None:
            self.ask(call, link, now)
        elif self._links.ensure(call.node, self._addresses(call.node), now) is None:
            self.rejoin_later(call, now)

    def rejoin_later(self, call: Call, now: float) -> None:
        """No link opened to the instance that may have executed a call: again, until its member is DEAD."""
        call.rejoin_at = now + min(REJOIN_INTERVAL * 2.0 ** min(call.rejoins, 16), REJOIN_INTERVAL_MAX)
        call.rejoins += 1
        self._timers.set(CallDue(call.id), call.due_at)

    def over(
        self, call: Call, code: ErrorCode, detail: str, now: float, *, executed: bool, is_ours: bool = False
    ) -> None:
        """The instance cannot answer any more. `executed`: it may have run the handler. `is_ours`: the reason lies in
        this node, and says nothing about the instance."""
        call.may_have_run = call.may_have_run or executed
        may_retry = call.has_attempts_left and (call.repeatable or not call.may_have_run)
        if call.spec.stream and not self._streams.is_untouched(call.id):
            may_retry, detail = False, f"{detail}, in the middle of a stream"
        is_in_time = now < call.deadline
        if may_retry and is_in_time and self.switch(call, code, detail, now, is_over=True, is_ours=is_ours):
            return
        if executed:
            code = ErrorCode.OUTCOME_UNKNOWN
            why = "there is no other instance to ask" if call.repeatable else "it is not declared repeatable"
            if call.repeatable and call.ruling.retry is False:
                why = "a rule allows no second attempt"
            detail = f"{detail}; it may have been executed, and {why}"
        self._ends.end(call, code, detail, now, is_ours=is_ours)

    def switch(
        self,
        call: Call,
        code: int,
        detail: str,
        now: float,
        *,
        is_over: bool = False,
        is_ours: bool = False,
    ) -> bool:
        """Ask another instance instead, `code` and `detail` being how it went with this one; false, and nothing has
        changed, if there is none or the retry budget is used up."""
        try:
            pick = self._router.route(call.query, call.tried, now)
            capability = capability_of(pick.query, pick.instance)
        except RouteFailed:
            return False
        if pick.instance.info.capabilities[capability].stream != call.kind:
            return False
        if call.asked and not self._budget.take(now):  # what was never sent costs nobody anything
            self._counters.add("calls.retry_budget_empty")
            return False
        if not is_over:
            call.may_have_run = call.may_have_run or call.state is not CallState.LINKING
            self.withdraw(call, now)
        self._router.end(call.pick, code, now, callers_fault=is_ours)
        instance = pick.instance
        pick.is_stream = call.spec.stream
        call.pick = pick
        if call.state is CallState.LINKING:
            self._counters.add("calls.passed_over")  # it has seen nothing of this call
        self._hops.asked(call, code, detail, now)
        call.reply = None
        self._pending.unlist(call)
        call.move(CallInput.RETRIED)
        if call.spec.stream:
            self._streams.retried(call.id)
        call.node, call.agent, call.capability = instance.node, instance.agent, capability
        call.link = call.life = None
        call.repeatable = instance.info.capabilities[capability].repeatable
        call.rejoin_at, call.has_lost_link = inf, False
        self._counters.add("calls.retried")
        self.start(call, now)
        return True

    def withdraw(self, call: Call, now: float) -> None:
        """Tell the instance that its answer is not wanted any more."""
        if call.state is CallState.REJOINING and call.life is not None:
            self.waiting_cancels.add(call.id, call.node, call.life, call.deadline, now)
            return
        if call.state is not CallState.ASKED or call.link is None or call.life is None:
            return
        cancel = Cancel(message_id=call.id)
        if call.link == LOCAL:
            self._callee.on_cancel(self._own, call.life, cancel, now)
        elif self._links.send(call.link, cancel):
            return  # behind its request
        elif call.spec.stream:
            self._streams.farewell(call.node, call.life, cancel)
        else:  # it is full, or about to be closed for another one
            at_once = self._links.node_of(call.link) is None
            self.waiting_cancels.add(call.id, call.node, call.life, call.deadline, now, at_once=at_once)


def _ms_since(moment: float, now: float) -> int:
    return max(1, ceil(min(now - moment, ASKED_AGO_MAX) * 1000))
