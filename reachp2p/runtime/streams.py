"""Items of streams for the tasks that give and take them (docs/protocol/streams.md).

The engine has the items and the credit. A task that finds none waits here until the engine says that it should look
again; several may wait for one stream (one that gives, one that takes). Bound: the tasks of the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from reachp2p.core.commands import Flow, StreamKey
from reachp2p.core.wire.messages import StreamItem

ITEMS_AT_ONCE = 16
"""Small items of one task before other tasks run, if none had to wait: half of what a frame holds, so that they travel
together, and a fraction of a millisecond."""
SMALL = 2_048
"""Bytes of an item that is small; after any other one, others run at once."""

if TYPE_CHECKING:
    from reachp2p.runtime.driver import Driver


class StreamWaits:
    """The tasks of one node that wait for a stream, by stream."""

    def __init__(self) -> None:
        self._lots: dict[StreamKey, trio.lowlevel.ParkingLot] = {}

    def __len__(self) -> int:
        return len(self._lots)

    def wake(self, stream: StreamKey) -> None:
        """Whoever waits for this stream should look again."""
        lot = self._lots.pop(stream, None)
        if lot is not None:
            lot.unpark_all()

    async def wait(self, stream: StreamKey) -> None:
        """Wait for `wake`."""
        lot = self._lots.setdefault(stream, trio.lowlevel.ParkingLot())
        try:
            await lot.park()
        finally:
            if not lot and self._lots.get(stream) is lot:
                del self._lots[stream]


class ItemPort:
    """Where one side's application gives and takes the items of one stream, as bytes."""

    def __init__(self, driver: Driver, stream: StreamKey) -> None:
        self._driver = driver
        self.stream = stream
        self.has_sent = False
        """Whether any item was given."""
        self._given = 0
        self._taken = 0
        self._taken_size = 0
        """Bytes of the item taken last."""

    async def send(self, payload: bytes, content_type: str) -> bool:
        """Give an item, waiting for credit; false if nobody takes it any more. Raises `CallFailed` 1404."""
        driver = self._driver
        self._given += 1
        await _pass(self._given, len(payload))
        while True:
            flow = driver.engine.send_item(self.stream, payload, content_type, trio.current_time())
            driver.wake()
            if flow is not Flow.WAIT:
                self.has_sent = True
                return flow is Flow.DONE
            await driver.stream_waits.wait(self.stream)

    async def take(self) -> StreamItem | None:
        """Take the next item, waiting for it; None when there are no more, or the stream has ended."""
        await self.take_turn()
        while True:
            item = self.take_nowait()
            if item is Flow.ENDED:
                return None
            if isinstance(item, StreamItem):
                return item
            await self.wait_for_item()

    async def wait_for_item(self) -> None:
        """Wait until there may be one. Whoever gives up waiting says so: a stream is idle only while somebody waits."""
        try:
            await self.wait()
        except BaseException:
            self._driver.engine.stop_waiting(self.stream)
            raise

    async def take_turn(self) -> None:
        """Let other tasks run, every so many items."""
        self._taken += 1
        await _pass(self._taken, self._taken_size)

    def take_nowait(self) -> StreamItem | Flow:
        """The next item, or why there is none."""
        item = self._driver.engine.take_item(self.stream, trio.current_time())
        self._driver.wake()
        self._taken_size = len(item.payload) if isinstance(item, StreamItem) else 0
        return item

    def end(self) -> None:
        """There are no more parameters."""
        assert isinstance(self.stream, bytes), "results end with their handler"
        self._driver.engine.end_items(self.stream, trio.current_time())
        self._driver.wake()

    async def wait(self) -> None:
        """Wait until the engine says that something about this stream has changed."""
        await self._driver.stream_waits.wait(self.stream)


async def _pass(count: int, size: int) -> None:
    if count % ITEMS_AT_ONCE and size <= SMALL:
        await trio.lowlevel.checkpoint_if_cancelled()
    else:
        await trio.lowlevel.checkpoint()
