"""Runs the handlers of this node's agents: one task and one cancel scope an invocation, exactly one end each (B29).

The engine decides what runs, how much at once and until when; here it is only carried out. Whatever a handler does -
return, raise, raise a cancellation of its own, end the interpreter, hang until its deadline - the engine hears of it
exactly once, unless it has cancelled the invocation itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import takewhile
from typing import Protocol, TypeAlias

import msgspec
import trio

from reachp2p.core.commands import InvokeResult
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Invoke
from reachp2p.core.events import EventReceived
from reachp2p.core.ids import NodeId
from reachp2p.errors import BadRequest, ErrorCode, ReachError
from reachp2p.runtime.exception_groups import only_cancelled, sole
from reachp2p.runtime.failures import FailureLog
from reachp2p.runtime.handler_watch import watch_here
from reachp2p.runtime.serving import begin
from reachp2p.runtime.streams import ItemPort
from reachp2p.runtime.telemetry import ServerSpan, Telemetry
from reachp2p.runtime.text import plain

DETAIL_MAX = 1_000
"""Characters of an exception's text that travel to the caller (a reply's detail holds 4,096)."""
OVERDUE_MAX = 256
"""Handlers that may go on after their calls have ended: four capabilities of the usual `concurrency`."""
LOOK_EVERY = 0.25
"""Seconds between two looks at handlers that were cancelled. One that two looks find goes on: the event loop ran all
tasks between them, and a thousand that are cancelled at once need a moment to end."""
ENDING_MAX = 16_384
"""Handlers that may be ending at once, however short the time."""
TOLD_OF_A_GROUP = 5
"""Exceptions of one group that are told to the caller; of more, only their number."""


logger = logging.getLogger("reachp2p.handlers")


class InvokeContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler may know about the call it serves. `deadline` is on the clock of `trio.current_time`."""

    agent: str
    capability: str
    caller: NodeId
    message_id: bytes
    deadline: float
    attempt: int = 1
    session_id: bytes | None = None
    idempotency_key: str | None = None
    traceparent: str | None = None
    path: tuple[str, ...] = ()
    """Agents on whose behalf this call is made, the agent called last: what calls of its handler come from."""
    hops_left: int | None = None
    fencing_token: int | None = None
    event: EventReceived | None = None
    """What it is to handle, if this is no call."""
    items: ItemPort | None = None
    """Where the items of a stream are given and taken; None if the call is not one."""


Handler: TypeAlias = Callable[[InvokeContext, bytes, str], Awaitable[InvokeResult]]
"""`async def handler(context, payload, content_type) -> InvokeResult`."""


class ResultSink(Protocol):
    """Where results go (the driver)."""

    def invoke_ended(self, invocation: int, result: InvokeResult) -> None:
        """The one end of an invocation."""


class Handlers:
    """The registry of handlers and the invocations that run. The engine bounds their number (`invocations_max`)."""

    def __init__(
        self,
        nursery: trio.Nursery,
        sink: ResultSink,
        counters: Counters,
        *,
        port: Callable[[int], ItemPort] | None = None,
        telemetry: Telemetry | None = None,
        adopt_span: Callable[[int, bytes], None] | None = None,
    ) -> None:
        """`port` opens the stream of an invocation; without it none streams. `adopt_span` is told of the span that
        `telemetry` makes for one."""
        self._telemetry = telemetry
        self._adopt_span = adopt_span
        self._port = port
        self._nursery = nursery
        self._sink = sink
        self._counters = counters
        self._failures = FailureLog(nursery)
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._running: dict[int, trio.CancelScope] = {}
        self._ending: dict[int, int] = {}
        """After how many looks each of those was cancelled whose task has not ended, the first one first."""
        self._looks = 0
        self._is_looking = False
        self._has_told_overdue = False
        watch = watch_here()
        watch.bodies.add(Handlers._run.__code__)
        self._note_end = watch.ended.append

    @property
    def overdue(self) -> int:
        """How many handlers go on although their call has ended and they were cancelled, a moment ago."""
        limit = self._looks - 2
        return sum(1 for _ in takewhile(lambda looks: looks <= limit, self._ending.values()))

    @property
    def running(self) -> int:
        """How many invocations run now."""
        return len(self._running)

    def add(self, agent: str, handlers: Mapping[str, Handler]) -> None:
        """Serve these capabilities of `agent` from now on, and no others of it."""
        self.remove(agent)
        for capability, handler in handlers.items():
            self._handlers[agent, capability] = handler

    def remove(self, agent: str) -> None:
        """Serve nothing of `agent`; what runs goes on."""
        for key in [key for key in self._handlers if key[0] == agent]:
            del self._handlers[key]

    def start(self, invoke: Invoke) -> None:
        """Begin one invocation; never blocks."""
        if len(self._ending) >= OVERDUE_MAX and self._is_clogged():
            self._refuse(invoke)
            return
        scope = trio.CancelScope(deadline=invoke.deadline)
        self._running[invoke.invocation] = scope
        self._nursery.start_soon(self._run, invoke, scope, name=f"{invoke.agent} {invoke.capability}")

    def cancel(self, invocation: int, reason: str) -> None:
        """Cancel one invocation; nothing more is heard of it. Unknown ones have ended already."""
        scope = self._running.pop(invocation, None)
        if scope is not None:
            self._counters.add("invocations.cancelled")
            self._ending[invocation] = self._looks
            scope.cancel(reason=reason)
            if not self._is_looking:
                self._is_looking = True
                self._nursery.start_soon(self._look)

    async def _look(self) -> None:
        """Count looks for as long as there is anything to see."""
        while self._ending:
            await trio.sleep(LOOK_EVERY)
            self._looks += 1
        self._is_looking = False

    def _is_clogged(self) -> bool:
        return len(self._ending) >= ENDING_MAX or self.overdue >= OVERDUE_MAX

    def _refuse(self, invoke: Invoke) -> None:
        """Handlers that ignore their cancellation have filled the node: start no more until some have ended."""
        self._counters.add("invocations.refused")
        text = f"{len(self._ending)} handlers of this node go on although their calls have ended"
        if not self._has_told_overdue:
            self._has_told_overdue = True
            logger.warning(
                "%s: further calls are refused (1406). A handler that catches trio.Cancelled must raise it again",
                text,
            )
        result = InvokeResult(code=ErrorCode.REFUSED_FULL, detail=text, executed=False)
        self._sink.invoke_ended(invoke.invocation, result)

    async def _run(self, invoke: Invoke, scope: trio.CancelScope) -> None:
        result: InvokeResult | None = None
        span = self._begin_span(invoke) if self._telemetry is not None else None
        if span is not None:
            invoke = msgspec.structs.replace(invoke, traceparent=span.traceparent)
        try:
            with scope:
                if scope.cancel_called:  # before it has begun: it does nothing at all
                    await trio.lowlevel.checkpoint()
                result = await self._handle(invoke)
        finally:
            if span is not None:
                span.end(None if result is None else result.code, "" if result is None else result.detail)
            # Also when the node itself is being cancelled: then nobody is told, because nobody is left to tell.
            is_awaited = self._running.pop(invoke.invocation, None) is not None
            self._ending.pop(invoke.invocation, None)
            self._note_end((trio.current_time(), invoke.agent, invoke.capability))
        if not is_awaited:
            return
        if result is None:
            self._counters.add("invocations.deadline")
            result = InvokeResult(
                code=ErrorCode.DEADLINE_EXCEEDED,
                detail=f"{invoke.capability} did not end before the caller's deadline",
            )
        self._sink.invoke_ended(invoke.invocation, result)

    def _begin_span(self, invoke: Invoke) -> ServerSpan | None:
        """The span of an invocation, by which its hop goes, too."""
        assert self._telemetry is not None, "asked before"
        span = self._telemetry.server(invoke)
        if span is not None and self._adopt_span is not None:
            self._adopt_span(invoke.invocation, span.span_id)
        return span

    async def _handle(self, invoke: Invoke) -> InvokeResult:
        """The handler's result, or what stands for it. Raises only real cancellation and Ctrl-C."""
        handler = self._handlers.get((invoke.agent, invoke.capability))
        if handler is None:
            return InvokeResult(
                code=ErrorCode.UNKNOWN_TARGET,
                detail=f"{invoke.agent} no longer offers {invoke.capability} on this node",
                executed=False,
            )
        context = InvokeContext(
            agent=invoke.agent,
            capability=invoke.capability,
            caller=invoke.caller,
            message_id=invoke.message_id,
            deadline=invoke.deadline,
            attempt=invoke.attempt,
            session_id=invoke.session_id,
            idempotency_key=invoke.idempotency_key,
            traceparent=invoke.traceparent,
            path=invoke.path,
            hops_left=invoke.hops_left,
            fencing_token=invoke.fencing_token,
            event=invoke.event,
            items=self._port(invoke.invocation) if invoke.stream and self._port is not None else None,
        )
        serving = begin(context)
        try:
            result: object = await handler(context, invoke.payload, invoke.content_type)
        except KeyboardInterrupt:
            self._note(invoke, "KeyboardInterrupt: the program ends, as by Ctrl-C", None)
            raise
        except trio.Cancelled:
            if _is_cancelled():
                raise
            return self._failed(invoke, "its handler was cancelled by a scope of its own", None)
        except BaseException as error:  # SystemExit and groups of cancellations are ends like others
            if _is_cancelled() and only_cancelled(error):
                raise
            found = sole(error)
            if isinstance(found, BadRequest):
                self._counters.add("invocations.bad_request")
                return InvokeResult(
                    code=ErrorCode.HANDLER_FAILED, detail=plain(found.message, DETAIL_MAX), caller_fault=True
                )
            return self._failed(invoke, _said(error), error)
        finally:
            serving.is_over = True
        if not isinstance(result, InvokeResult):
            return self._failed(
                invoke, f"its handler returned {type(result).__name__}, not an InvokeResult", None
            )
        if result.code == ErrorCode.HANDLER_FAILED:  # its value cannot be sent
            self._note(invoke, result.detail, None)
        return result

    def _failed(self, invoke: Invoke, detail: str, error: BaseException | None) -> InvokeResult:
        self._note(invoke, detail, error)
        return InvokeResult(code=ErrorCode.HANDLER_FAILED, detail=plain(detail, DETAIL_MAX))

    def _note(self, invoke: Invoke, detail: str, error: BaseException | None) -> None:
        self._counters.add("invocations.failed")
        what = f"{invoke.capability} of {invoke.agent}"
        self._failures.note(what, invoke.caller[:4].hex(), detail, error)


def _said(error: BaseException) -> str:
    """An exception in words. One of ours has its code in front: the end of the message has the caller's own."""
    error = sole(error)
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) <= TOLD_OF_A_GROUP:
        return "; ".join(_said(one) for one in error.exceptions)
    if isinstance(error, ReachError):
        return f"{type(error).__name__} {int(error.code)}: {error.message}"
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 (its __str__ is the handler's too)
        return f"{type(error).__name__} (its text cannot be read)"


def _is_cancelled() -> bool:
    """Whether the current task is being cancelled by a scope around it."""
    return trio.current_effective_deadline() == float("-inf")
