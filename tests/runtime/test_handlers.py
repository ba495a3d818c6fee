"""Every invocation ends exactly once, however strangely its handler ends (B29)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from reachp2p.core.commands import InvokeResult
from reachp2p.core.counters import Counters
from reachp2p.core.effects import Invoke
from reachp2p.core.ids import NodeId
from reachp2p.errors import BadRequest, CallFailed, ErrorCode
from reachp2p.runtime import handlers as handlers_module
from reachp2p.runtime.handlers import LOOK_EVERY, Handlers, InvokeContext

pytestmark = pytest.mark.trio

HandlerFunction = Callable[[InvokeContext, bytes, str], Awaitable[InvokeResult]]


class Sink:
    def __init__(self) -> None:
        self.results: list[tuple[int, InvokeResult]] = []
        self.changed = trio.Event()

    def invoke_ended(self, invocation: int, result: InvokeResult) -> None:
        self.results.append((invocation, result))
        self.changed.set()


def invoke(number: int = 1, *, deadline: float = float("inf"), capability: str = "text.do") -> Invoke:
    return Invoke(
        invocation=number,
        agent="nlp/one",
        capability=capability,
        content_type="application/cbor",
        payload=b"\xa0",
        caller=NodeId(bytes(32)),
        message_id=bytes(16),
        deadline=deadline,
        attempt=2,
        session_id=None,
        idempotency_key="key",
        traceparent=None,
    )


async def ends_of(handler: HandlerFunction, *, seconds: float = 2.0) -> list[InvokeResult]:
    """What the engine hears when this handler serves one call with a deadline of one second."""
    sink = Sink()
    async with trio.open_nursery() as nursery:
        handlers = Handlers(nursery, sink, Counters())
        handlers.add("nlp/one", {"text.do": handler})
        handlers.start(invoke(deadline=trio.current_time() + 1.0))
        with trio.move_on_after(seconds):
            await sink.changed.wait()
        await wait_all_tasks_blocked()
        assert handlers.running == 0
        nursery.cancel_scope.cancel()
    return [result for _, result in sink.results]


async def returns(context: InvokeContext, payload: bytes, content_type: str) -> InvokeResult:
    assert (context.agent, context.capability, context.attempt) == ("nlp/one", "text.do", 2)
    assert (context.idempotency_key, payload, content_type) == ("key", b"\xa0", "application/cbor")
    return InvokeResult(payload=b"\x01")


async def raises(*_: object) -> InvokeResult:
    raise ValueError("no such\x1b[31m thing")


async def exits(*_: object) -> InvokeResult:
    raise SystemExit(7)


async def ends_a_generator(*_: object) -> InvokeResult:
    raise GeneratorExit


async def raises_a_group(*_: object) -> InvokeResult:
    raise ExceptionGroup("two", [KeyError("a"), ValueError("b")])


async def raises_in_a_nursery(*_: object) -> InvokeResult:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise KeyError("k")


async def raises_a_large_group(*_: object) -> InvokeResult:
    raise ExceptionGroup("many", [ValueError(str(number)) for number in range(6)])


async def cancels_itself_like_asyncio(*_: object) -> InvokeResult:
    raise asyncio.CancelledError


async def leaks_a_cancellation(*_: object) -> InvokeResult:
    """A cancellation that was caught and is raised again where its scope no longer is."""
    caught: trio.Cancelled | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            caught = error
            raise
    assert caught is not None
    raise caught


async def returns_something_else(*_: object) -> InvokeResult:
    return "text"  # type: ignore[return-value]


async def never_returns(*_: object) -> InvokeResult:
    await trio.sleep_forever()
    raise AssertionError


async def hides_its_cancellation(*_: object) -> InvokeResult:
    try:
        await trio.sleep_forever()
    finally:
        raise RuntimeError("instead")


@pytest.mark.parametrize(
    ("handler", "code", "detail"),
    [
        (returns, 0, ""),
        (raises, ErrorCode.HANDLER_FAILED, "ValueError: no such\N{REPLACEMENT CHARACTER}[31m thing"),
        (exits, ErrorCode.HANDLER_FAILED, "SystemExit: 7"),
        (ends_a_generator, ErrorCode.HANDLER_FAILED, "GeneratorExit: "),
        (raises_a_group, ErrorCode.HANDLER_FAILED, "KeyError: 'a'; ValueError: b"),
        (raises_in_a_nursery, ErrorCode.HANDLER_FAILED, "KeyError: 'k'"),
        (raises_a_large_group, ErrorCode.HANDLER_FAILED, "ExceptionGroup: many (6 sub-exceptions)"),
        (cancels_itself_like_asyncio, ErrorCode.HANDLER_FAILED, "CancelledError: "),
        (leaks_a_cancellation, ErrorCode.HANDLER_FAILED, "its handler was cancelled by a scope of its own"),
        (returns_something_else, ErrorCode.HANDLER_FAILED, "its handler returned str, not an InvokeResult"),
        (never_returns, ErrorCode.DEADLINE_EXCEEDED, "text.do did not end before the caller's deadline"),
        (hides_its_cancellation, ErrorCode.HANDLER_FAILED, "RuntimeError: instead"),
    ],
)
async def test_each_strange_ending_is_one_result_in_bounded_time(
    handler: HandlerFunction, code: int, detail: str, autojump_clock: MockClock
) -> None:
    (result,) = await ends_of(handler)
    assert (result.code, result.detail, result.executed) == (code, detail, True)


@pytest.mark.parametrize("grouped", [False, True])
async def test_the_callers_fault_is_told_and_is_no_failure_of_the_handler(
    grouped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuses(*_: object) -> InvokeResult:
        error = BadRequest("no such order")
        raise ExceptionGroup("of a nursery", [error]) if grouped else error

    (result,) = await ends_of(refuses)
    assert (result.code, result.detail, result.caller_fault) == (1403, "no such order", True)
    assert caplog.records == []


async def test_a_failed_call_of_a_handler_is_the_handlers_failure_whoever_was_at_fault_there() -> None:
    async def passes_on(*_: object) -> InvokeResult:
        raise CallFailed(ErrorCode.HANDLER_FAILED, "no such order", caller_fault=True)

    (result,) = await ends_of(passes_on)
    assert (result.code, result.caller_fault) == (1403, False)


async def test_many_that_are_cancelled_at_once_refuse_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose call came right after a thousand that were cancelled was told that their handlers go on."""

    async def waits(*_: object) -> InvokeResult:
        await trio.sleep_forever()
        return InvokeResult()

    sink = Sink()
    async with trio.open_nursery() as nursery:
        handlers = Handlers(nursery, sink, Counters())
        handlers.add("nlp/one", {"text.do": waits})
        for number in range(1_000):
            handlers.start(invoke(number))
        await wait_all_tasks_blocked()
        for number in range(1_000):
            handlers.cancel(number, "cancelled by the caller")
        handlers.start(invoke(1_000))
        assert (handlers.running, handlers.overdue, sink.results) == (1, 0, [])
        monkeypatch.setattr(handlers_module, "ENDING_MAX", 1_000)
        handlers.start(invoke(1_001))
        assert [r.code for _, r in sink.results] == [1406], "there is a bound"
        await wait_all_tasks_blocked()
        handlers.start(invoke(1_002))
        assert (handlers.running, len(sink.results)) == (2, 1)
        nursery.cancel_scope.cancel()


async def test_handlers_that_swallow_their_cancellation_are_counted_and_fill_no_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """Their calls have ended; nothing more is heard of them, and when too many go on, nothing new is begun."""
    monkeypatch.setattr(handlers_module, "OVERDUE_MAX", 2)
    let_go = trio.Event()

    async def swallows(*_: object) -> InvokeResult:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await let_go.wait()
        return InvokeResult()

    sink, counters = Sink(), Counters()
    async with trio.open_nursery() as nursery:
        handlers = Handlers(nursery, sink, counters)
        handlers.add("nlp/one", {"text.do": swallows})
        for number in (1, 2):
            handlers.start(invoke(number))
        await wait_all_tasks_blocked()
        for number in (1, 2):
            handlers.cancel(number, "its deadline has passed")
        await wait_all_tasks_blocked()
        assert handlers.overdue == 0, "they have a moment"
        await trio.sleep(2.5 * LOOK_EVERY)
        assert (handlers.running, handlers.overdue, sink.results) == (0, 2, [])
        for number in (3, 4):
            handlers.start(invoke(number))
        assert [(n, r.code, r.executed) for n, r in sink.results] == [(3, 1406, False), (4, 1406, False)]
        assert (counters.value("invocations.refused"), len(caplog.records)) == (2, 1)
        let_go.set()
        await wait_all_tasks_blocked()
        assert (handlers.overdue, len(sink.results)) == (0, 2)
        handlers.start(invoke(5))
        await wait_all_tasks_blocked()
        assert handlers.running == 1
        nursery.cancel_scope.cancel()


async def test_a_failure_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "reachp2p.handlers"):
        await ends_of(raises)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "text.do of nlp/one failed for a call of node 00000000: ValueError" in record.getMessage()


async def test_a_capability_that_is_gone_was_not_executed() -> None:
    sink = Sink()
    async with trio.open_nursery() as nursery:
        handlers = Handlers(nursery, sink, Counters())
        handlers.add("nlp/one", {"text.do": returns})
        handlers.start(invoke(1, capability="text.other"))
        handlers.remove("nlp/one")
        handlers.start(invoke(2))
    assert [(number, result.code, result.executed) for number, result in sorted(sink.results)] == [
        (1, ErrorCode.UNKNOWN_TARGET, False),
        (2, ErrorCode.UNKNOWN_TARGET, False),
    ]


@pytest.mark.parametrize("handler", [never_returns, hides_its_cancellation])
async def test_what_the_engine_cancels_is_never_reported(handler: HandlerFunction) -> None:
    sink, counters = Sink(), Counters()
    async with trio.open_nursery() as nursery:
        handlers = Handlers(nursery, sink, counters)
        handlers.add("nlp/one", {"text.do": handler})
        handlers.start(invoke(1))
        handlers.start(invoke(2))
        await wait_all_tasks_blocked()
        handlers.cancel(1, "the caller no longer wants it")
        handlers.cancel(1, "again")
        await wait_all_tasks_blocked()
        assert handlers.running == 1
        nursery.cancel_scope.cancel()
    assert [number for number, _ in sink.results if number == 1] == []
    assert counters.value("invocations.cancelled") == 1


async def test_an_invocation_cancelled_before_it_began_runs_nothing() -> None:
    ran: list[int] = []

    async def notes(*_: object) -> InvokeResult:
        ran.append(1)
        await trio.lowlevel.checkpoint()
        ran.append(2)
        return InvokeResult()

    sink = Sink()
    async with trio.open_nursery() as nursery:
        handlers = Handlers(nursery, sink, Counters())
        handlers.add("nlp/one", {"text.do": notes})
        handlers.start(invoke())
        handlers.cancel(1, "too late")
    assert (ran, sink.results) == ([], [])


async def test_ctrl_c_in_a_handler_reaches_the_program_and_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def interrupted(*_: object) -> InvokeResult:
        raise KeyboardInterrupt

    with pytest.raises(BaseExceptionGroup) as caught:
        await ends_of(interrupted)
    assert caught.group_contains(KeyboardInterrupt)
    assert "text.do of nlp/one" in caplog.text
    assert "KeyboardInterrupt: the program ends" in caplog.text
