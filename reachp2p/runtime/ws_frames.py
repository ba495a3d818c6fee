"""Messages and frames of an open WebSocket: wsproto's connection, with our limits; no socket, no clock.

Only what a link needs: binary messages, also fragmented; Ping, Pong, Close. Text is refused (1003). wsproto hands over
what has arrived of a message instead of collecting it, and keeps less than one read itself, so a message that grows too
large is refused (1009) before more of it is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from wsproto.connection import Connection, ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

Item: TypeAlias = bytes | Ping | CloseConnection
"""A whole binary message, or a control frame that wants an answer."""


class FrameRefused(Exception):
    """The other side broke the framing rules or our limits; `code` goes into our Close. The stream ends here."""

    def __init__(self, code: CloseReason, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Frames:
    """Both directions of an open WebSocket. Holds at most one incomplete message, and less than one more read."""

    def __init__(self, connection: Connection, *, message_max: int) -> None:
        """`connection`: of a finished handshake, with what came behind it."""
        self._connection = connection
        self._message_max = message_max
        self._part = bytearray()

    def receive(self, data: bytes) -> Iterator[Item]:
        """What the next bytes complete, in order; nothing is read after a Close.

        Raises `FrameRefused` where a rule is broken, behind all that came whole before.
        """
        for event in self._events(data):
            if isinstance(event, BytesMessage):
                size = len(self._part) + len(event.data)
                if size > self._message_max:
                    raise FrameRefused(
                        CloseReason.MESSAGE_TOO_BIG, f"message of more than {self._message_max} bytes"
                    )
                if not event.message_finished:
                    self._part += event.data
                elif self._part:
                    self._part += event.data
                    message, self._part = bytes(self._part), bytearray()
                    yield message
                else:  # by far the most frequent: a message in one frame in one read
                    yield bytes(event.data)
            elif isinstance(event, TextMessage):
                raise FrameRefused(CloseReason.UNSUPPORTED_DATA, "text message")
            elif isinstance(event, CloseConnection):
                if self._connection.state in (ConnectionState.OPEN, ConnectionState.LOCAL_CLOSING):
                    # No Close has come: this is how wsproto reports a broken rule.
                    raise FrameRefused(CloseReason(event.code), event.reason or "")
                yield event
                return
            elif isinstance(event, Ping):
                yield event

    def _events(self, data: bytes) -> Iterator[Event]:
        try:
            self._connection.receive_data(data)
            yield from self._connection.events()
        except Exception as error:  # whatever the library stumbles over ends this link, not the node
            raise FrameRefused(CloseReason.PROTOCOL_ERROR, f"{type(error).__name__}: {error}") from error

    def message(self, data: bytes) -> bytes:
        """One binary message in one frame."""
        return self._connection.send(BytesMessage(data))

    def pong(self, ping: Ping) -> bytes:
        """The answer to a Ping."""
        return self._connection.send(Pong(ping.payload))

    def close(self, code: CloseReason) -> bytes:
        """Our Close; nothing can be sent after it."""
        return self._connection.send(CloseConnection(code))
