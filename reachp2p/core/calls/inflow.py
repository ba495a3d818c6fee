"""The consuming side of one direction of a stream: items from a link, put in order, until the application takes them.

Items may come out of order (a small message passes a large one, two links overlap) and more than once (after a new
link). Each is handed over once, in the order of the offsets. What may be ahead is bounded by the credit granted.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from reachp2p.core.calls.outflow import ITEM_OVERHEAD, counted
from reachp2p.core.wire.messages import StreamItem


class Arrival(Enum):
    """What an item turned out to be."""

    NEW = "new"
    REPEATED = "had already"
    BEYOND_CREDIT = "more than was granted"
    BEYOND_END = "more than there are"


class Inflow:
    """Bound: its window, and what an item that counts less than it has is larger. Bytes are as `counted`."""

    __slots__ = (
        "_ahead",
        "_bytes",
        "_granted",
        "_ready",
        "_taken_bytes",
        "_window",
        "held_bytes",
        "items",
        "received",
        "taken",
    )

    def __init__(self, window: int) -> None:
        """`window`: bytes granted at once; `credit` says when more are due."""
        self._window = window
        self._granted = window
        self._bytes = 0
        """What has arrived, in order or not."""
        self._taken_bytes = 0
        self._ready: deque[tuple[StreamItem, int]] = deque()
        self._ahead: dict[int, tuple[StreamItem, int]] = {}
        """Those that an earlier one is missing for, by offset."""
        self.held_bytes = 0
        """What has arrived and was not taken costs in memory. Read only."""
        self.received = 0
        """Offset of the first item that has not arrived. Read only."""
        self.taken = 0
        """Items that the application has. Read only."""
        self.items: int | None = None
        """How many there are, once that was said. Read only."""

    @property
    def granted(self) -> int:
        """Bytes that may have been sent in all, as was last said."""
        return self._granted

    @property
    def is_complete(self) -> bool:
        """Whether all there will be has arrived."""
        return self.items is not None and self.received >= self.items

    @property
    def is_over(self) -> bool:
        """Whether all there will be was taken."""
        return self.items is not None and self.taken >= self.items

    def arrive(self, item: StreamItem) -> Arrival:
        """An item from a link."""
        offset = item.offset
        if offset < self.received or offset in self._ahead:
            return Arrival.REPEATED
        if self.items is not None and offset >= self.items:
            return Arrival.BEYOND_END
        size = counted(len(item.payload), self._window)
        if self._bytes + size > self._granted:
            return Arrival.BEYOND_CREDIT
        self._bytes += size
        self.held_bytes += len(item.payload) + ITEM_OVERHEAD
        if offset != self.received:
            self._ahead[offset] = (item, size)
            return Arrival.NEW
        self._ready.append((item, size))
        self.received += 1
        while self._ahead and (following := self._ahead.pop(self.received, None)) is not None:
            self._ready.append(following)
            self.received += 1
        return Arrival.NEW

    def take(self) -> StreamItem | None:
        """The next item for the application, if it is here."""
        if not self._ready:
            return None
        item, size = self._ready.popleft()
        self._taken_bytes += size
        self.held_bytes -= len(item.payload) + ITEM_OVERHEAD
        self.taken += 1
        return item

    def take_all(self) -> list[StreamItem]:
        """All that can still be handed over in order; the rest is forgotten."""
        items = [item for item, _ in self._ready]
        self._ready.clear()
        self._ahead.clear()
        self.held_bytes = 0
        self.taken += len(items)
        return items

    def end(self, items: int) -> bool:
        """It was said how many there are; false if that cannot be: more have arrived, or another number was said."""
        if self.items is not None:
            return self.items == items
        if items < self.received or any(offset >= items for offset in self._ahead):
            return False
        self.items = items
        return True

    def end_early(self, items: int) -> None:
        """It ends with an error after so many items, or, if more are here already, after those that are in order."""
        self.items = max(items, self.received)
        for offset in [offset for offset in self._ahead if offset >= self.items]:
            self.held_bytes -= len(self._ahead.pop(offset)[0].payload) + ITEM_OVERHEAD

    @property
    def is_credit_due(self) -> bool:
        """Whether so much was taken since credit was last granted that more should be: an eighth of the window."""
        return self._taken_bytes + self._window - self._granted >= max(1, self._window // 8)

    def credit(self) -> int:
        """Grant all that the window allows; returns what may have been sent in all."""
        self._granted = self._taken_bytes + self._window
        return self._granted
