"""A node's news for any number of listeners, each with a bounded buffer, so that none of them delays the node."""

from __future__ import annotations

import logging
from collections import deque
from weakref import WeakSet

import trio

from reachp2p.core.counters import Counters
from reachp2p.core.events import CallEnded, CallOutlasted, Event

logger = logging.getLogger("reachp2p.node")

BUFFER_MAX = 1_024
"""Events that wait for one listener; then its oldest is dropped, and counted."""
WARNING_INTERVAL = 30.0
"""Seconds between two warnings of listeners that are too slow."""


class EventStream:
    """An async iterator of events, in order, from its creation to the end of the node.

    `dropped` counts the events that this listener was too slow for. Several tasks may share one stream.
    """

    def __init__(self, *, with_calls: bool) -> None:
        """Use `Node.events`."""
        self.dropped = 0
        self._with_calls = with_calls
        self._buffer: deque[Event] = deque()
        self._is_over = False
        self._lot = trio.lowlevel.ParkingLot()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        await trio.lowlevel.checkpoint()
        while not self._buffer:
            if self._is_over:
                raise StopAsyncIteration
            await self._lot.park()
        return self._buffer.popleft()

    def close(self) -> None:
        """Stop listening: what is buffered can still be taken."""
        self._is_over = True
        self._lot.unpark_all()

    def _put(self, event: Event) -> bool:
        """Take an event; whether none was lost."""
        if self._is_over or (isinstance(event, CallEnded | CallOutlasted) and not self._with_calls):
            return True
        is_kept = len(self._buffer) < BUFFER_MAX
        if not is_kept:
            self._buffer.popleft()
            self.dropped += 1
        self._buffer.append(event)
        self._lot.unpark()
        return is_kept


class EventStreams:
    """All listeners of one node. One that is forgotten by its owner goes away by itself."""

    def __init__(self, counters: Counters) -> None:
        self._streams: WeakSet[EventStream] = WeakSet()
        self._counters = counters
        self._wants_calls = False
        self._is_over = False
        self._warned_at = float("-inf")
        self._dropped = 0
        """Events since the last warning that some listener was too slow for."""

    def open(self, *, with_calls: bool) -> EventStream:
        """A new listener."""
        stream = EventStream(with_calls=with_calls)
        self._wants_calls = self._wants_calls or with_calls
        if self._is_over:
            stream.close()
        self._streams.add(stream)
        return stream

    def put(self, event: Event) -> None:
        """Tell everybody."""
        if not self._wants_calls and isinstance(event, CallEnded | CallOutlasted):
            return  # by far the most frequent
        for stream in self._streams:
            if not stream._put(event):
                self._counters.add("events.dropped")
                self._dropped += 1
        if self._dropped:
            self._warn()

    def _warn(self) -> None:
        now = trio.current_time()
        if now - self._warned_at < WARNING_INTERVAL:
            return
        logger.warning(
            "a listener of this node's events is too slow: %s dropped, the oldest first. "
            "Take them from the stream sooner, or close it",
            "one is" if self._dropped == 1 else f"{self._dropped:,} are",
        )
        self._warned_at, self._dropped = now, 0

    def close(self) -> None:
        """The node has ended."""
        self._is_over = True
        for stream in self._streams:
            stream.close()
