"""A call whose results or parameters are a stream, as its caller sees it (docs/protocol/streams.md).

async with node.stream("text.tokens", {"text": ...}) as items:
    async for item in items:
        ...
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import trio

from reachp2p._payload import NotJson, carries_json, encode
from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import StreamEnded
from reachp2p.core.wire.messages import StreamItem
from reachp2p.errors import CallFailed, ErrorCode, LocalProtocolError
from reachp2p.runtime.calls import Calls, closed, failed, result_of, target_of
from reachp2p.runtime.streams import ItemPort

if TYPE_CHECKING:
    from reachp2p.runtime.driver import Driver


class CallStream:
    """Iterate over it for the results; `send` parameters, `end` them, and ask for the `result` that follows them.

    One task may read while another one sends. Leaving the block ends the call, if it has not ended, and cancels its
    handler. Every way out of it is one end: the iteration stops, or raises the `CallFailed` with which the call ended.
    """

    def __init__(
        self, calls: Calls, driver: Driver, query: RouteQuery, params: Any, options: dict[str, Any]
    ) -> None:
        """Use `Node.stream` or `Context.stream`."""
        self._calls = calls
        self._driver = driver
        self._query = query
        self._params = params
        self._options = options
        self._port: ItemPort | None = None
        self._ended: StreamEnded | None = None
        self._failure: CallFailed | None = None
        self._rest: deque[StreamItem] = deque()
        """Items that came with the end."""
        self.items = 0
        """How many results were read so far."""

    async def __aenter__(self) -> Self:
        """Begin the call. Raises `CallFailed` if nobody can be asked, or if the capability does not stream (1405)."""
        if self._port is not None:
            raise LocalProtocolError("a stream is entered once; ask the node for another")
        options = {**self._options, "stream": True}
        call = await self._calls.start(self._driver, self._query, self._params, options)
        self._port = ItemPort(self._driver, call)
        self._calls.watch_stream(call, self._on_end)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Want no more of it: its handler is cancelled, what was not read is forgotten. Harmless after its end."""
        self.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()

    def cancel(self) -> None:
        """`aclose` without waiting for anything, also from a task that is being cancelled."""
        if self._port is None or self._is_over:
            return
        call = self._call
        self._failure = CallFailed(ErrorCode.CANCELLED, f"{self._target}: this stream was left")
        self._calls.forget_stream(call)
        self._driver.engine.cancel_call(call, trio.current_time())
        self._driver.wake()
        self._driver.stream_waits.wake(call)

    # Results

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """The next result, as a value of the JSON data model, or bytes."""
        port = self._entered()
        await port.take_turn()
        while not self._is_over:
            item = port.take_nowait()
            if isinstance(item, StreamItem):
                return self._value(item)
            # Also if it has ended in the engine: the news of it is on its way.
            await port.wait_for_item()
        if self._rest:
            return self._value(self._rest.popleft())
        self._raise_failure()
        raise StopAsyncIteration

    # Parameters

    async def send(self, item: Any) -> bool:
        """Send one parameter item, waiting for credit. False if nobody takes it: the handler has ended before its
        parameters did, and there is a result. Raises the `CallFailed` of a call that has failed."""
        port = self._entered()
        try:
            content_type, payload = encode(item)
        except NotJson as error:
            raise CallFailed(ErrorCode.SCHEMA_MISMATCH, f"the item cannot be sent: {error}") from None
        is_taken = await port.send(payload, content_type)
        if not is_taken:
            self._raise_failure()
        return is_taken

    async def end(self) -> None:
        """There are no more parameters. Again is harmless."""
        self._entered().end()
        await trio.lowlevel.checkpoint()

    async def result(self) -> Any:
        """The one result of a call whose parameters are a stream, which are ended. If its results are one, too, read
        them first: a handler that finds no credit does not end."""
        port = self._entered()
        port.end()
        await trio.lowlevel.checkpoint()
        while not self._is_over:
            await port.wait()
        self._raise_failure()
        assert self._ended is not None, "it is over and has not failed"
        if not self._ended.payload and carries_json(self._ended.content_type):
            return None  # its results were a stream
        return result_of(self._ended.content_type, self._ended.payload)

    @property
    def ended(self) -> StreamEnded | None:
        """How the call has ended (node, attempts), once it has and this was not left before."""
        return self._ended

    # Inside

    @property
    def _is_over(self) -> bool:
        return self._ended is not None or self._failure is not None

    @property
    def _call(self) -> bytes:
        assert self._port is not None, "it was entered"
        assert isinstance(self._port.stream, bytes), "a call is named by its id"
        return self._port.stream

    @property
    def _target(self) -> str:
        return target_of(self._query)

    def _entered(self) -> ItemPort:
        if self._port is None:
            raise LocalProtocolError("a stream begins with its block: async with node.stream(...) as items")
        return self._port

    def _value(self, item: StreamItem) -> Any:
        self.items += 1
        return result_of(item.content_type, item.payload)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _on_end(self, event: StreamEnded | None) -> None:
        """The engine has ended the call, or the node has ended."""
        if event is None:
            self._failure = closed()
        else:
            self._rest.extend(event.rest)
            self._ended = event
            if event.code:
                self._failure = failed(self._target, event)
        self._driver.stream_waits.wake(self._call)
