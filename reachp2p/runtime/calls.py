"""Calls that wait for their one end: from a value to a value, with errors as exceptions (docs/protocol/calls.md).

The engine starts, retries and ends calls; here a task waits for the `CallEnded` of its own. Bound: the engine's
`pending_calls_max`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import outcome
import trio

from reachp2p._payload import NotJson, decode, encode
from reachp2p.core.commands import CallSpec, RouteQuery
from reachp2p.core.events import CallEnded, CallOutlasted, StreamEnded
from reachp2p.core.ids import short
from reachp2p.core.routing.stages import Selector
from reachp2p.errors import CallFailed, ErrorCode, ReachError
from reachp2p.runtime.driver import Driver
from reachp2p.runtime.shaping import Shaping, later, wants_shape
from reachp2p.runtime.tasks import StillRunning, Task, unknown
from reachp2p.runtime.telemetry import ClientSpan, Telemetry
from reachp2p.runtime.text import plain

DETAIL_MAX = 2_000
"""Characters of another node's explanation that we hand on."""
_NO_OPTIONS: Mapping[str, Any] = {}


class Calls:
    """The tasks that wait for calls of one node."""

    def __init__(self, telemetry: Telemetry | None = None, shaping: Shaping | None = None) -> None:
        """`shaping` finds the capability of calls that go by the shape of their parameters; None: there are none."""
        self._telemetry = telemetry
        self._shaping = shaping
        self._spans: dict[bytes, ClientSpan] = {}
        self._waiting: dict[bytes, trio.lowlevel.Task] = {}
        self._watched: dict[bytes, trio.Event] = {}
        """Tasks that somebody waits for now."""
        self._streams: dict[bytes, Callable[[StreamEnded | None], None]] = {}
        """Who is told the end of a stream; None if the node ends before."""
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._streams)

    async def call(
        self, driver: Driver, query: RouteQuery, params: Any, options: Mapping[str, Any] = _NO_OPTIONS
    ) -> tuple[str, bytes, CallEnded]:
        """Make one call; returns content type and payload of the result, and how it ended. `options` are further fields
        of its `CallSpec`.

        Raises `CallFailed`; of a call that may become a task, `StillRunning`.
        """
        call = await self.start(driver, query, params, options)
        try:
            ended = await self._wait(call)
            if isinstance(ended, CallOutlasted):
                task = Task(self, driver, call)
                target = target_of(query)
                text = f"{target}: no answer within its synchronous limit; it goes on as task {task.id}"
                raise StillRunning(task, text)
        except StillRunning:
            raise
        except BaseException:
            driver.engine.cancel_call(call, trio.current_time())
            driver.wake()
            raise
        if ended.code:
            raise failed(target_of(query), ended)
        return ended.content_type, ended.payload, ended

    async def start(
        self, driver: Driver, query: RouteQuery, params: Any, options: Mapping[str, Any] = _NO_OPTIONS
    ) -> bytes:
        """Start one call and return its id. Raises `CallFailed` if nobody can be asked."""
        try:
            content_type, payload = encode({} if params is None else params)
        except NotJson as error:
            raise CallFailed(ErrorCode.SCHEMA_MISMATCH, f"the parameters cannot be sent: {error}") from None
        if query.capability is None and self._shaping is not None and wants_shape(query):
            begun = trio.current_time()
            query = await self._shaping.named(driver, query, params, len(payload))
            options = later(options, trio.current_time() - begun)
        spec = CallSpec(query=query, payload=payload, content_type=content_type, **options)
        await trio.lowlevel.checkpoint_if_cancelled()
        span: ClientSpan | None = None
        if self._telemetry is not None:
            spec, span = self._telemetry.client(spec)
        try:
            call = driver.engine.call(spec, trio.current_time())
        except ReachError as error:
            if span is not None:
                span.fail(error.code, error.message)
            raise
        finally:  # also if it fails: the engine may have noticed that it is late
            driver.wake()
        if span is not None:
            self._spans[call] = span
        return call

    async def end_of_task(self, driver: Driver, call: bytes) -> Any:
        """Wait for the end of a task and return the value of its result. Raises `CallFailed`."""
        while True:
            view = driver.engine.task(call)
            if view is None:
                raise unknown(call.hex())
            if view.ended is not None:
                await trio.lowlevel.checkpoint()
                break
            if self._is_closed:
                raise closed()
            await self._watched.setdefault(call, trio.Event()).wait()
        if view.ended.code:
            raise failed(f"task {call.hex()} ({view.capability})", view.ended)
        return result_of(view.ended.content_type, view.ended.payload)

    async def value(
        self, driver: Driver, query: RouteQuery, params: Any, options: Mapping[str, Any] = _NO_OPTIONS
    ) -> Any:
        """Make one call; returns the value of its result. Raises `CallFailed`."""
        content_type, payload, _ = await self.call(driver, query, params, options)
        return result_of(content_type, payload)

    def watch_stream(self, call: bytes, on_end: Callable[[StreamEnded | None], None]) -> None:
        """Tell `on_end` how this call ends, once, unless `forget_stream` comes first."""
        self._streams[call] = on_end

    def forget_stream(self, call: bytes) -> None:
        """Nobody cares how this call ends."""
        self._streams.pop(call, None)

    def on_event(self, event: CallEnded | CallOutlasted) -> None:
        """The engine ends a call, or makes it a task. One that nobody waits for was cancelled here, or is a task."""
        if self._spans and isinstance(event, CallEnded):
            span = self._spans.pop(event.call, None)
            if span is not None:
                span.end(event)
        if isinstance(event, StreamEnded):
            stream = self._streams.pop(event.call, None)
            if stream is not None:
                stream(event)
            return
        task = self._waiting.pop(event.call, None)
        if task is not None:
            trio.lowlevel.reschedule(task, outcome.Value(event))
        elif self._watched and isinstance(event, CallEnded):
            watched = self._watched.pop(event.call, None)
            if watched is not None:
                watched.set()

    def close(self) -> None:
        """The node has ended: nothing will be heard of the calls that still wait."""
        self._is_closed = True
        spans, self._spans = self._spans, {}
        for span in spans.values():
            span.fail(ErrorCode.CANCELLED, "this node has closed before the call ended")
        waiting, self._waiting = self._waiting, {}
        for task in waiting.values():
            trio.lowlevel.reschedule(task, outcome.Error(closed()))
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream(None)
        watched, self._watched = self._watched, {}
        for event in watched.values():
            event.set()

    async def _wait(self, call: bytes) -> CallEnded | CallOutlasted:
        self._waiting[call] = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._waiting.pop(call, None)
            return trio.lowlevel.Abort.SUCCEEDED

        ended: CallEnded | CallOutlasted = await trio.lowlevel.wait_task_rescheduled(abort)
        return ended


def target_of(query: RouteQuery) -> str:
    """Whom a call is for, in words."""
    return query.capability or query.agent or f"the call of {Selector.of(query)}"


def result_of(content_type: str, payload: bytes) -> Any:
    """The value of a result. Raises `CallFailed` (1403) if the other side sent what cannot be read."""
    try:
        return decode(payload, content_type)
    except NotJson as error:
        raise CallFailed(ErrorCode.HANDLER_FAILED, f"the result cannot be read: {plain(error)}") from None


def closed() -> CallFailed:
    """What is raised about a call when its node ends."""
    return CallFailed(ErrorCode.CANCELLED, "this node has closed before the call ended")


def failed(target: str, ended: CallEnded) -> CallFailed:
    """The error with which a call has ended."""
    try:
        code = ErrorCode(ended.code)
    except ValueError:  # of a newer version
        code = ErrorCode.HANDLER_FAILED
    detail = plain(ended.detail, DETAIL_MAX)
    where = f" on node {short(ended.node)}" if ended.node is not None else ""
    what = code.name.lower().replace("_", " ")
    return CallFailed(
        code,
        f"{target}{where}: {detail or what}",
        node=None if ended.node is None else short(ended.node),
        attempts=ended.attempts,
        detail=detail or None,
        caller_fault=ended.caller_fault,
        retry_after=ended.retry_after,
        items=ended.items if isinstance(ended, StreamEnded) else 0,
        call=ended.call.hex(),
    )
