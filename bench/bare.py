"""What `call.py` compares with: echo over one TCP connection between two trio programs, and nothing else.

Frames are a length, a number and bytes; replies carry the number of their request. As in our links, a request is served
by a task of its own, whatever is to be sent in one round of the scheduler leaves together, at most 32 frames or 64 KiB
at a write, and one task owns the writing side. There are no deadlines, no members, no routing, no checks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import outcome
import trio

HEAD = struct.Struct("!II")
FRAMES_MAX = 32
BYTES_MAX = 65_536


class Wire:
    """Both directions of a connection."""

    def __init__(self, stream: trio.SocketStream, on_frame: Callable[[int, bytes], None]) -> None:
        self._stream = stream
        self._on_frame = on_frame
        self._queue: list[bytes] = []
        self._parked: trio.lowlevel.Task | None = None

    def send(self, number: int, data: bytes) -> None:
        """Let a frame leave soon."""
        self._queue.append(HEAD.pack(len(data), number) + data)
        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def write(self) -> None:
        """Send what is queued, for ever."""
        while True:
            if not self._queue:
                self._parked = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._unpark)
            queue, self._queue = self._queue, []
            start = 0
            while start < len(queue):
                end, size = start, 0
                while end < len(queue) and end - start < FRAMES_MAX and size + len(queue[end]) <= BYTES_MAX:
                    size += len(queue[end])
                    end += 1
                await self._stream.send_all(b"".join(queue[start:end]))
                start = end

    def _unpark(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def read(self) -> None:
        """Hand over frames until the connection ends."""
        data = bytearray()
        async for received in self._stream:
            data += received
            start = 0
            while len(data) - start >= HEAD.size:
                size, number = HEAD.unpack_from(data, start)
                end = start + HEAD.size + size
                if len(data) < end:
                    break
                self._on_frame(number, bytes(data[start + HEAD.size : end]))
                start = end
            del data[:start]


async def serve(stream: trio.SocketStream) -> None:
    """Echo, a task for each request."""
    stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
    async with trio.open_nursery() as nursery:

        async def echo(number: int, data: bytes) -> None:
            wire.send(number, data)

        wire = Wire(stream, lambda number, data: nursery.start_soon(echo, number, data))
        nursery.start_soon(wire.write)
        await wire.read()
        nursery.cancel_scope.cancel()


class Caller:
    """Calls over one connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        self.wire = Wire(stream, self._on_frame)
        self._waiting: dict[int, trio.lowlevel.Task] = {}
        self._last = 0

    async def call(self, data: bytes) -> bytes:
        """One echo."""
        self._last += 1
        number = self._last
        self._waiting[number] = trio.lowlevel.current_task()
        self.wire.send(number, data)
        answer: bytes = await trio.lowlevel.wait_task_rescheduled(lambda _: self._abort(number))
        return answer

    def _abort(self, number: int) -> trio.lowlevel.Abort:
        del self._waiting[number]
        return trio.lowlevel.Abort.SUCCEEDED

    def _on_frame(self, number: int, data: bytes) -> None:
        task = self._waiting.pop(number, None)
        if task is not None:
            trio.lowlevel.reschedule(task, outcome.Value(data))
