"""Streams as a handler sees them: items that it is sent, as an iterator, and items that it yields.

Each item is looked at like a result or like parameters: what the caller sends and does not fit is 1405 with the number
of the item, what the handler yields and cannot be sent is 1403.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from inspect import isawaitable
from threading import Lock
from typing import TYPE_CHECKING, Any

import trio

from reachp2p._payload import NotJson, decode
from reachp2p.context import CallingNode, NoThreadFree
from reachp2p.errors import CallFailed, LocalProtocolError

if TYPE_CHECKING:
    from reachp2p.runtime.streams import ItemPort

Read = Callable[[bytes, str], Any]
"""An item from payload and content type, checked and converted. Raises `NotJson`."""
Write = Callable[[Any], tuple[str, bytes]]
"""Content type and payload of an item. Raises `NotJson`."""
CLOSE_WAIT = 2.0
"""Seconds that a call waits for the iterator of its plain handler to be closed."""
_DONE: Any = object()
logger = logging.getLogger("reachp2p.handlers")


class BadItem(NotJson):
    """A caller has sent an item that does not fit. Fault: the caller; what came before was handed over."""

    def __str__(self) -> str:
        return self.reason


class YieldedNotJson(NotJson):
    """A handler has yielded what cannot be sent. Fault: the handler."""

    def __str__(self) -> str:
        return self.reason


class YieldedTooMuch(Exception):
    """A handler has yielded an item above the payload limit (1404). Fault: the handler."""


class SentItems:
    """What a caller sends, for an async handler."""

    def __init__(self, port: ItemPort, read: Read) -> None:
        self._port = port
        self._read = read
        self._count = 0

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        item = await self.take()
        if item is _DONE:
            raise StopAsyncIteration
        return item

    async def take(self) -> Any:
        """The next item, or `_DONE`."""
        item = await self._port.take()
        if item is None:
            return _DONE
        self._count += 1
        try:
            return self._read(item.payload, item.content_type)
        except NotJson as error:
            raise BadItem(f"item {self._count - 1} of the parameters: {error}") from None


class BlockingItems:
    """What a caller sends, for a handler that is a plain function and so runs in a worker thread."""

    def __init__(self, items: SentItems) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = trio.from_thread.run(self._items.take)
        if item is _DONE:
            raise StopIteration
        return item


async def send_async(results: Any, port: ItemPort, write: Write) -> None:
    """Send what an async handler yields, one after the other, until it ends or nobody takes it any more."""
    if isawaitable(results):  # an `async def` that returns an iterator made elsewhere
        results = await results
    if not hasattr(results, "__anext__"):
        raise LocalProtocolError(f"it returned {type(results).__name__}, where an async iterator is declared")
    try:
        async for value in results:
            if not await _send(value, port, write):
                return
    finally:
        close = getattr(results, "aclose", None)
        if close is not None:
            await close()


async def send_blocking(
    node: CallingNode, name: str, function: Callable[[], Any], port: ItemPort, write: Write
) -> None:
    """The same for a plain function: each step of its iterator is one visit to a worker thread, and so is its end.

    Raises `NoThreadFree`. If it is cancelled, a step under way is abandoned; it closes the iterator when it ends.
    """
    results = await node.run_in_thread(name, function)
    if not hasattr(results, "__next__"):
        raise LocalProtocolError(f"it returned {type(results).__name__}, where an iterator is declared")
    steps = _Steps(name, results)
    try:
        while True:
            value = await node.run_in_thread(name, steps.take)
            if value is _DONE or not await _send(value, port, write):
                return
    finally:
        close = steps.leave()
        if close is not None:
            # Also when the call was cancelled. A thread that takes longer goes on by itself, as any abandoned one.
            # If none is free, which is counted and logged there, the iterator ends where it is collected.
            with (
                trio.CancelScope(deadline=trio.current_time() + CLOSE_WAIT, shield=True),
                suppress(NoThreadFree),
            ):
                await node.run_in_thread(name, close)


class _Steps:
    """The iterator of a plain handler: it is closed once, in a thread, and never while a step of it is under way."""

    def __init__(self, name: str, results: Any) -> None:
        self._name = name
        self._results = results
        self._close: Callable[[], object] | None = getattr(results, "close", None)
        self._lock = Lock()
        self._is_stepping = self._is_left = self._is_over = False

    def take(self) -> Any:
        """The next item, or `_DONE`; in a worker thread."""
        with self._lock:
            if self._is_left:
                return _DONE
            self._is_stepping = True
        try:
            value = next(self._results, _DONE)
            self._is_over = value is _DONE
            return value
        finally:
            if self._end_step() and self._close is not None:
                self._close_abandoned(self._close)

    def leave(self) -> Callable[[], object] | None:
        """Nobody wants more. What closes the iterator, to be run in a thread; None if it has ended, or a step under
        way will do it."""
        with self._lock:
            self._is_left = True
            return None if self._is_stepping or self._is_over else self._close

    def _end_step(self) -> bool:
        """Whether nobody wants more, so that the step that has ended is to close the iterator."""
        with self._lock:
            self._is_stepping = False
            return self._is_left

    def _close_abandoned(self, close: Callable[[], object]) -> None:
        try:
            close()
        except Exception:  # nobody waits for this thread any more
            logger.exception("%s failed while it was closed after its call had ended", self._name)


async def _send(value: Any, port: ItemPort, write: Write) -> bool:
    try:
        content_type, payload = write(value)
    except NotJson as error:
        raise YieldedNotJson(f"the handler yielded, at {error}") from None
    try:
        return await port.send(payload, content_type)
    except CallFailed as error:
        raise YieldedTooMuch(error.message) from None


def read_plain(payload: bytes, content_type: str) -> Any:
    """An item without a declared type."""
    return decode(payload, content_type)
