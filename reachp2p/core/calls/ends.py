"""The one end of each call at its caller: it leaves every table and is told once (docs/protocol/calls.md; case B29)."""

from __future__ import annotations

import msgspec

from reachp2p.core.calls.call import Call, CallDue, CallInput
from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.pending import PendingCalls
from reachp2p.core.calls.picker import Picker
from reachp2p.core.calls.streams import Streams
from reachp2p.core.calls.tasks import Tasks
from reachp2p.core.commands import StreamKind
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.events import CallEnded, StreamEnded
from reachp2p.core.timers import Timers
from reachp2p.errors import RETRY_SAFE, ErrorCode


class Ends:
    """Ends pending calls."""

    def __init__(
        self,
        pending: PendingCalls,
        tasks: Tasks,
        streams: Streams,
        hops: HopStore,
        router: Picker,
        effects: Effects,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._pending = pending
        self._hops = hops
        self._tasks = tasks
        self._router = router
        self._streams = streams
        self._effects = effects
        self._timers = timers
        self._counters = counters

    def end(
        self,
        call: Call,
        code: int,
        detail: str,
        now: float,
        content_type: str = "",
        payload: bytes = b"",
        *,
        caller_fault: bool = False,
        is_ours: bool = False,
    ) -> None:
        """End `call`; `is_ours` as in `Attempts.over`.

        A code that says "nothing was executed" becomes 1409 if an earlier attempt may have been.
        """
        self._router.end(call.pick, code, now, callers_fault=caller_fault or is_ours)
        if call.may_have_run and code in RETRY_SAFE:
            detail = f"{detail} [{int(code)}]; an earlier attempt may have been executed"
            code = ErrorCode.OUTCOME_UNKNOWN
        self._hops.asked(call, code, detail, now)
        call.move(CallInput.ENDED)
        self._pending.remove(call)
        self._timers.cancel(CallDue(call.id))
        self._counters.add("calls.succeeded" if code == 0 else f"calls.failed.{int(code)}")
        ended = CallEnded(
            at=now,
            call=call.id,
            code=int(code),
            content_type=content_type,
            payload=payload,
            detail=detail,
            node=call.node,
            agent=call.agent,
            attempts=call.attempts,
            caller_fault=caller_fault,
            retry_after=call.retry_after if code == ErrorCode.RATE_LIMITED else None,
        )
        if call.spec.stream:
            ended = self._of_stream(call, ended)
        self._tasks.on_ended(call, ended, now)
        self._effects.notify(ended)

    def _of_stream(self, call: Call, ended: CallEnded) -> StreamEnded:
        """The end of a stream has its last items; one that was cancelled is not read any more."""
        items, rest = self._streams.end_call(call.id)
        if ended.code == ErrorCode.CANCELLED:
            items, rest = items - len(rest), []
        fields = msgspec.structs.asdict(ended)
        if ended.code and call.kind & StreamKind.RESULTS:
            fields["detail"] = f"{ended.detail} (after {items} item{'' if items == 1 else 's'})"
        return StreamEnded(**fields, items=items, rest=tuple(rest))
