"""Streams of events for whoever subscribes, each with a bounded buffer, so that none of them delays the node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import trio

from reachp2p.core.counters import Counters
from reachp2p.core.events import EventReceived
from reachp2p.errors import LocalProtocolError
from reachp2p.topic_event import TopicEvent

BUFFER = 1_024
"""Events that wait for one subscriber, if it does not say how many."""
BUFFER_MAX = 65_536
BUFFER_BYTES_MAX = 16_777_216
"""The same in bytes of payload."""


class Subscription:
    """Events of one pattern: `async with node.subscribe("orders.>") as events: async for event in events`.

    It begins with the block and ends with it, or with the node. `missed` counts the events that it was too slow for,
    `waiting` those that it has yet to take. Several tasks may take from one subscription; each event goes to one.
    """

    def __init__(
        self,
        pattern: str,
        buffer: int,
        *,
        begin: Callable[[Subscription], int],
        end: Callable[[int], None],
        counters: Counters,
    ) -> None:
        """Use `Node.subscribe`."""
        self.pattern = pattern
        self.missed = 0
        self._buffer_max = buffer
        self._begin = begin
        self._end = end
        self._counters = counters
        self._number: int | None = None
        self._buffer: deque[EventReceived] = deque()
        self._size = 0
        self._missed_since = 0
        self._gap = 0
        """Told by events that were dropped here."""
        self._is_over = False
        self._lot = trio.lowlevel.ParkingLot()

    @property
    def waiting(self) -> int:
        """Events in the buffer."""
        return len(self._buffer)

    async def __aenter__(self) -> Self:
        if self._number is not None:
            raise LocalProtocolError("a subscription is used once; make a new one to subscribe again")
        await trio.lowlevel.checkpoint()
        self._number = self._begin(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._number is not None, "the block was entered"
        self._end(self._number)
        self.close()
        self._buffer.clear()
        self._size = 0

    def __aiter__(self) -> Self:
        if self._number is None:
            raise LocalProtocolError("use it as `async with node.subscribe(...) as events`")
        return self

    async def __anext__(self) -> TopicEvent:
        await trio.lowlevel.checkpoint()
        while not self._buffer:
            if self._is_over:
                raise StopAsyncIteration
            await self._lot.park()
        received = self._buffer.popleft()
        self._size -= len(received.payload)
        event = TopicEvent(received, missed=self._missed_since, gap=received.gap + self._gap)
        self._missed_since = self._gap = 0
        return event

    def close(self) -> None:
        """Nothing more comes; what is buffered can still be taken."""
        self._is_over = True
        self._lot.unpark_all()

    def put(self, event: EventReceived) -> None:
        """An event has arrived. The oldest go if there are too many."""
        if self._is_over:
            return
        self._buffer.append(event)
        self._size += len(event.payload)
        while len(self._buffer) > self._buffer_max or (
            self._size > BUFFER_BYTES_MAX and len(self._buffer) > 1
        ):
            lost = self._buffer.popleft()
            self._size -= len(lost.payload)
            self._gap += lost.gap
            self.missed += 1
            self._missed_since += 1
            self._counters.add("topics.dropped.subscriber_full")
        self._lot.unpark()


class Subscriptions:
    """All subscriptions of one node, by the engine's number. The engine bounds them."""

    def __init__(self) -> None:
        self._subscriptions: dict[int, Subscription] = {}
        self._is_over = False

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, number: int, subscription: Subscription) -> None:
        """It has begun."""
        self._subscriptions[number] = subscription

    def remove(self, number: int) -> None:
        """It has ended."""
        self._subscriptions.pop(number, None)

    def put(self, event: EventReceived) -> None:
        """Hand an event to each that wants it."""
        for number in event.subscriptions:
            subscription = self._subscriptions.get(number)
            if subscription is not None:
                subscription.put(event)

    def close(self) -> None:
        """The node has ended."""
        for subscription in self._subscriptions.values():
            subscription.close()
        self._subscriptions.clear()
