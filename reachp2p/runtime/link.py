"""One WebSocket connection after its opening handshake: a link (cases B33, B39).

One writer: a frame is sent at once when nothing waits before it, else it queues in order for the one writer task.
Every state but OPEN has a total deadline that nothing the other side does can extend:

    OPEN -- close() --------> CLOSING    what was sent, then our Close; over at the Close or end of the other side
    OPEN -- Close arrives --> ANSWERING  reported; then our Close; over at the end of the other side's stream
    OPEN -- broken rules ---> ANSWERING  reported as LOST; the same
    OPEN -- end of stream, reset, send deadline, queue overflow, abort() --> OVER

wsproto knows the standard (`ws_frames`); sockets, order, bounds and deadlines are ours (docs/decisions/0006).
The reader never waits for anybody but the network, so that control frames are answered and closes seen at any time.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections import deque
from enum import Enum
from itertools import islice
from typing import Protocol

import trio
from wsproto.connection import Connection
from wsproto.events import CloseConnection, Ping
from wsproto.frame_protocol import CloseReason

from reachp2p.core.counters import Counters
from reachp2p.core.effects import LinkEnd
from reachp2p.core.ids import LinkId
from reachp2p.core.links.outgoing import CREDIT_AT_OPENING
from reachp2p.runtime.text import plain
from reachp2p.runtime.ws_frames import FrameRefused, Frames

logger = logging.getLogger("reachp2p.links")

SEND_TIMEOUT = 20.0
"""Seconds from the moment a frame is queued to its last byte: Protocol.link_keepalive, after which nobody waits."""
WINDOW = 262_144
"""Bytes that may wait here before no more is asked for: beyond it a message waits in the engine, where small ones pass
large ones."""
QUEUE_MAX = CREDIT_AT_OPENING + WINDOW
"""The bound: what the engine may send before it is told anything, and a window. More is a defect and ends the link."""
REPORT_EVERY = WINDOW // 4
"""Bytes sent between two reports of room while nothing waits."""
CLOSE_TIMEOUT = 1.0
"""Seconds for everything that follows a Close, either way."""
READS_AT_ONCE = 16
"""Reads of a busy link before other tasks run (with READ_BYTES: 1 MiB)."""
READ_BYTES = 65_536
WRITE_FRAMES = 16
"""Frames handed to the kernel with one call."""

_ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing resets the connection."""


class LinkSink(Protocol):
    """Where a link reports (the driver)."""

    def link_frame(self, link: LinkId, data: bytes) -> None:
        """A whole binary message."""

    def link_read(self) -> None:
        """All that one read has brought has been said."""

    def link_writable(self, link: LinkId, free_bytes: int) -> None:
        """There is room again."""

    def link_closed(self, link: LinkId, end: LinkEnd) -> None:
        """The remote or the network ended it; said once, and not after our own close."""


class State(Enum):
    """Where a link is in its life; the module's text has the transitions."""

    OPEN = "open"
    CLOSING = "closing"
    ANSWERING = "answering"
    OVER = "over"


class Link:
    """Owns a connected, non-blocking socket. `run` carries it to its end; `send` and `close` never block."""

    def __init__(
        self,
        number: LinkId,
        connected: socket.socket,
        sink: LinkSink,
        counters: Counters,
        *,
        websocket: Connection,
        message_max: int,
    ) -> None:
        """`websocket`: of the finished handshake, with what came behind it."""
        self.number = number
        self._socket = connected
        self._sink = sink
        self._counters = counters
        self._frames = Frames(websocket, message_max=message_max)
        self._queue: deque[tuple[bytes | memoryview, float]] = deque()
        self._queued = 0
        self._unreported = 0
        self._state = State.OPEN
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._is_writing = False

    @property
    def state(self) -> State:
        """Where the link is in its life."""
        return self._state

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by `send` and not yet by the kernel."""
        return self._queued

    @property
    def free_bytes(self) -> int:
        """Room for further frames."""
        return max(0, WINDOW - self._queued)

    async def run(self) -> None:
        """Carry the link to its end and close the socket."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    self._start_writing()
                    is_over = self._take(b"")  # what came with the handshake
                    self._sink.link_read()
                    if not is_over:
                        await self._read()
                    await self._discard()
                    nursery.cancel_scope.cancel(reason="the link has ended")
            # Only our own scope ends here: a deadline, an abort or a failed send.
            self._report(LinkEnd.LOST)
        finally:
            self._state = State.OVER
            self._queue.clear()
            self._queued = 0
            self._nursery = None
            self._socket.close()

    def send(self, data: bytes) -> None:
        """Send one binary message, in order. If QUEUE_MAX bytes wait, the link ends as LOST instead (counted)."""
        if self._state is not State.OPEN:
            self._counters.add("links.dropped.frame_after_end")
            return
        self._unreported += len(data)
        self._put(self._frames.message(data))

    def take_report(self) -> int | None:
        """How much room there is, if it is time to say so."""
        if self._unreported < REPORT_EVERY:
            return None
        self._unreported = 0
        return self.free_bytes

    def close(self) -> None:
        """Send what was queued, then our Close; over within CLOSE_TIMEOUT. Nothing is reported any more."""
        if self._state is not State.OPEN:
            return
        self._state = State.CLOSING
        self._put(self._frames.close(CloseReason.NORMAL_CLOSURE))
        self._end_within(CLOSE_TIMEOUT)

    def abort(self) -> None:
        """Reset the connection now. Nothing is reported any more."""
        if self._state is State.OVER:
            return
        self._state = State.CLOSING
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self._scope.cancel(reason="aborted")

    # Receiving

    async def _read(self) -> None:
        """Take what arrives until the link has nothing more to say to anybody."""
        reads = 0
        while True:
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                reads = 0
                await trio.lowlevel.wait_readable(self._socket)
                continue
            except OSError as error:
                self._ended(f"{error.strerror or error}")
                return
            if not data:
                self._ended("end of stream without Close")
                return
            is_over = self._take(data)
            self._sink.link_read()
            if is_over:
                return
            reads += 1
            if len(data) < READ_BYTES:  # there was no more: the next read would be in vain
                reads = 0
                await trio.lowlevel.wait_readable(self._socket)
            elif reads >= READS_AT_ONCE:
                reads = 0
                await trio.lowlevel.checkpoint()

    def _take(self, data: bytes) -> bool:
        """Handle bytes that arrived; whether reading is over."""
        try:
            for item in self._frames.receive(data):
                if isinstance(item, bytes):
                    if self._state is State.OPEN:
                        self._sink.link_frame(self.number, item)
                elif isinstance(item, Ping):
                    self._pong(item)
                else:
                    self._closed_by_remote(item)
                    return True
        except FrameRefused as error:
            if self._state is State.OPEN:
                self._counters.add(f"links.refused.{error.code.name.lower()}")
                reason = plain(error.reason)
                logger.info("link %d ends: the other side sent what is not allowed: %s", self.number, reason)
                self._answer(LinkEnd.LOST, error.code)
            return True
        return False

    def _closed_by_remote(self, close: CloseConnection) -> None:
        if self._state is not State.OPEN:
            return  # the answer to our own Close
        if close.code in (CloseReason.NORMAL_CLOSURE, CloseReason.GOING_AWAY, CloseReason.NO_STATUS_RCVD):
            self._answer(LinkEnd.GOODBYE, CloseReason.NORMAL_CLOSURE)
        else:
            self._counters.add("links.closed_for_fault")
            text = plain(close.reason or "")
            logger.info("link %d: the other side ended it with code %d %s", self.number, close.code, text)
            self._answer(LinkEnd.LOST, CloseReason.NORMAL_CLOSURE)

    def _answer(self, end: LinkEnd, code: CloseReason) -> None:
        """Report the end, and tell the other side so that it need not guess."""
        self._report(end)
        self._state = State.ANSWERING
        self._put(self._frames.close(code))
        self._end_within(CLOSE_TIMEOUT)

    async def _discard(self) -> None:
        """Let the other side end the stream: to close with unread bytes would reset it under our Close."""
        if self._state is not State.ANSWERING:
            return
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                if not self._socket.recv(READ_BYTES):
                    return
            except BlockingIOError:
                continue
            except OSError:
                return

    def _pong(self, ping: Ping) -> None:
        if self._queue:
            # RFC 6455 §5.5.3 wants only the latest Ping answered; while the other side does not read, none is.
            self._counters.add("links.dropped.pong")
        elif self._state is State.OPEN:
            self._put(self._frames.pong(ping))

    def _ended(self, reason: str) -> None:
        if self._state is State.OPEN:
            logger.debug("link %d is lost: %s", self.number, reason)
            self._report(LinkEnd.LOST)

    def _report(self, end: LinkEnd) -> None:
        """Tell the driver how the link ended, once, unless it is ours to end."""
        if self._state is State.OPEN:
            self._state = State.OVER
            self._counters.add(f"links.ended.{end.value}")
            self._sink.link_closed(self.number, end)

    def _end_within(self, seconds: float) -> None:
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + seconds)

    # Sending

    def _put(self, frame: bytes) -> None:
        rest: bytes | memoryview = frame
        if not self._queue:
            try:
                sent = self._socket.send(frame)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._broken()
                return
            if sent == len(frame):
                return
            rest = memoryview(frame)[sent:]
        if self._state is State.OPEN and self._queued + len(rest) > QUEUE_MAX:
            self._counters.add("links.dropped.queue_full")
            logger.warning("link %d ends: %d bytes wait already", self.number, self._queued)
            self._scope.cancel(reason="its queue is full")
            return
        self._queue.append((rest, trio.current_time()))
        self._queued += len(rest)
        self._start_writing()

    def _start_writing(self) -> None:
        if self._queue and not self._is_writing and self._nursery is not None:
            self._is_writing = True
            self._nursery.start_soon(self._write)

    async def _write(self) -> None:
        """Send what is queued, oldest first; each frame within SEND_TIMEOUT of its queueing, whatever drips out."""
        try:
            while self._queue:
                with trio.move_on_at(self._queue[0][1] + SEND_TIMEOUT) as scope:
                    await trio.lowlevel.wait_writable(self._socket)
                if scope.cancelled_caught:
                    self._counters.add("links.dropped.send_timeout")
                    logger.info(
                        "link %d ends: the other side takes nothing for %g s", self.number, SEND_TIMEOUT
                    )
                    self._scope.cancel(reason="a frame could not be sent in time")
                    return
                if self._write_some() and self._state is State.OPEN:
                    self._unreported = 0
                    self._sink.link_writable(self.number, self.free_bytes)
        finally:
            self._is_writing = False

    def _write_some(self) -> bool:
        """Give the kernel what it takes now; whether the connection still stands."""
        try:
            sent = self._socket.sendmsg([frame for frame, _ in islice(self._queue, WRITE_FRAMES)])
        except BlockingIOError:
            return True
        except OSError:
            self._broken()
            return False
        self._queued -= sent
        while sent:
            frame, since = self._queue[0]
            if sent < len(frame):
                self._queue[0] = (memoryview(frame)[sent:], since)
                break
            sent -= len(frame)
            self._queue.popleft()
        return True

    def _broken(self) -> None:
        """Sending failed: forget what waits. The reader still finds a Close that came before the end, if one did."""
        self._queue.clear()
        self._queued = 0
        self._end_within(CLOSE_TIMEOUT)
