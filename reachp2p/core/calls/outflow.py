"""The producing side of one direction of a stream: items from the application, kept until they were taken.

The consumer's credit says two things: how many bytes may have been sent in all, and, its window subtracted, how many
were taken. What was taken is forgotten; all else is kept, so that it can be sent again on another link. What is kept
is therefore never more than the window.
"""

from __future__ import annotations

from collections import deque

from reachp2p.core.settings import WINDOW_MAX
from reachp2p.core.wire.messages import StreamItem

ITEM_OVERHEAD = 128
"""What an item counts besides its payload: about what it costs in memory, so that empty items are bounded, too."""


def counted(size: int, window: int) -> int:
    """What an item with a payload of so many bytes counts, at both sides.

    Never more than seven eighths of the window: credit is renewed in steps of an eighth, so what an emptied window
    has is at least that, and an item of any size gets through.
    """
    return min(size + ITEM_OVERHEAD, window - window // 8)


class Outflow:
    """Bound: the window granted first, at most `WINDOW_MAX`. Offsets count items, all else bytes as `counted`."""

    __slots__ = (
        "_credit",
        "_kept",
        "_offered_bytes",
        "_window",
        "first",
        "held_bytes",
        "is_finished",
        "kept_bytes",
        "next",
    )

    def __init__(self) -> None:
        self._window = 0
        """What the consumer granted first; 0 until it has."""
        self._credit = 0
        self._offered_bytes = 0
        self._kept: deque[tuple[StreamItem, int]] = deque()
        """Items that were not taken yet, with what they count."""
        self.kept_bytes = 0
        """What they count together. Read only."""
        self.held_bytes = 0
        """What they cost in memory, however small the window is. Read only."""
        self.first = 0
        """Offset of the first item kept. Read only."""
        self.next = 0
        """Offset of the item to be sent next. Read only."""
        self.is_finished = False
        """The application has no more."""

    @property
    def items(self) -> int:
        """How many items the application has given."""
        return self.first + len(self._kept)

    @property
    def credit(self) -> int:
        """Bytes that may be sent in all; 0 until the consumer has granted any."""
        return self._credit

    @property
    def is_granted(self) -> bool:
        """Whether the consumer takes items already."""
        return self._window > 0

    @property
    def is_sent(self) -> bool:
        """Whether all there will be was sent."""
        return self.is_finished and self.next == self.items

    def offer(self, message_id: bytes, payload: bytes, content_type: str) -> int:
        """Take an item from the application; what it counts, or 0 if there is no credit for it."""
        if not self._window:
            return 0
        size = counted(len(payload), self._window)
        if self._offered_bytes + size > self._credit or self.kept_bytes + size > self._window:
            return 0
        item = StreamItem(
            message_id=message_id, offset=self.items, payload=payload, content_type=content_type
        )
        self._kept.append((item, size))
        self._offered_bytes += size
        self.kept_bytes += size
        self.held_bytes += len(payload) + ITEM_OVERHEAD
        return size

    def grant(self, credit: int) -> int:
        """The consumer says how much may have been sent in all. Returns what is not kept any more, in bytes.

        The first grant is the window. One that is lower than an earlier one came late and says nothing.
        """
        if credit <= self._credit:
            return 0
        if not self._window:
            self._window = self._credit = min(credit, WINDOW_MAX)
            return 0
        self._credit = credit
        freed = 0
        taken = credit - self._window - (self._offered_bytes - self.kept_bytes)
        while self.first < self.next and freed + self._kept[0][1] <= taken:
            freed += self._forget()
        return freed

    def next_item(self) -> StreamItem | None:
        """The item to be sent next, if there is one."""
        at = self.next - self.first
        return self._kept[at][0] if at < len(self._kept) else None

    def sent(self) -> None:
        """It was handed to a link."""
        self.next += 1

    def unsent(self, offset: int) -> None:
        """An item that was handed to a link has not left: it and all behind it are to be sent again."""
        if self.first <= offset < self.next:
            self.next = offset

    def resume(self, wanted: int) -> int | None:
        """The consumer has all items below `wanted`; go on from there. Returns what is not kept any more, in bytes.

        None, and nothing has changed, if it wants what it has had, which is old news, or what was never sent.
        """
        if not self.first <= wanted <= self.items:
            return None
        freed = 0
        while self.first < wanted:
            freed += self._forget()
        self.next = wanted
        return freed

    def _forget(self) -> int:
        item, size = self._kept.popleft()
        self.kept_bytes -= size
        self.held_bytes -= len(item.payload) + ITEM_OVERHEAD
        self.first += 1
        return size
