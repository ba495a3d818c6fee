"""The opening handshake of WebSocket: wsproto's, with our limits and house rules; no socket, no clock.

One request and one answer, each a head of at most 8 KiB and 64 fields without a body. A request with an `Origin` comes
from a web page and is refused (B73: a page must not be able to use a local node). No extension is offered or accepted,
so nothing is ever compressed. A link is proven by the signed hello that follows, never by anything in here.
"""

from __future__ import annotations

import re
from http import HTTPStatus

from wsproto import ConnectionType, WSConnection
from wsproto.connection import Connection
from wsproto.events import AcceptConnection, Event, RejectConnection, RejectData, Request
from wsproto.utilities import RemoteProtocolError

from reachp2p.runtime.text import plain

HEAD_MAX = 8_192
FIELDS_MAX = 64
PATH = "/reachp2p"
_HEAD_END = re.compile(rb"\n\r?\n")
"""An empty line, as h11 finds it."""


class OpeningRefused(Exception):
    """What arrived is no acceptable handshake. `answer` is what to send before closing (empty for a client)."""

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.answer = answer


class _Refused(Exception):
    """A handshake is refused with an HTTP status."""

    def __init__(
        self, reason: str, status: int = 400, fields: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.fields = fields or []


class _Opening:
    """One side of a handshake, fed within bounds."""

    def __init__(self, side: ConnectionType) -> None:
        self._websocket = WSConnection(side)
        self._taken = 0

    @property
    def connection(self) -> Connection:
        """The open connection, once the handshake is finished."""
        connection = self._websocket.connection
        assert connection is not None, "the handshake is not finished"
        return connection

    def _next(self, data: bytes) -> Event | None:
        """The request or the answer, once it is whole. Raises `_Refused`."""
        self._taken += len(data)
        if self._taken > HEAD_MAX:
            raise _Refused("head of more than 8 KiB", 431)
        try:
            self._websocket.receive_data(data)
        except RemoteProtocolError as error:
            hint = error.event_hint
            reason = str(error.__context__ or error)  # "Bad HTTP message", or in h11's words why
            if isinstance(hint, RejectConnection):
                raise _Refused(reason, hint.status_code, list(hint.headers)) from error
            raise _Refused(reason) from error
        except (
            Exception
        ) as error:  # UnicodeError at least: whatever the library stumbles over ends this handshake
            raise _Refused(f"{type(error).__name__}: {error}") from error
        return next(self._websocket.events(), None)


class ServerOpening(_Opening):
    """The accepting side: feed it until it returns an answer."""

    def __init__(self) -> None:
        super().__init__(ConnectionType.SERVER)
        self._head = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """The answer (101) to send once the request is whole, else None. Raises `OpeningRefused`."""
        try:
            request = self._next(data)
            self._head += data
            if request is None:
                return None
            assert isinstance(request, Request)
            self._check(request)
            return self._accept()
        except _Refused as error:
            raise OpeningRefused(str(error), self._refusal(error)) from error

    def _accept(self) -> bytes:
        try:
            return self._websocket.send(AcceptConnection())
        except Exception as error:
            raise _Refused(f"{type(error).__name__}: {error}") from error

    def _check(self, request: Request) -> None:
        names = [name for name, _ in request.extra_headers]
        if len(names) > FIELDS_MAX:
            raise _Refused(f"more than {FIELDS_MAX} header fields", 431)
        if b"origin" in names:
            raise _Refused("links are for nodes, not for web pages", 403)
        if request.target != PATH:
            raise _Refused(f"another path: links are at {PATH}", 404)
        if b"transfer-encoding" in names or b"content-length" in names:
            raise _Refused("request with a body")
        end = _HEAD_END.search(self._head)
        if end is None or end.end() != len(self._head):
            # RFC 6455 §4.1 has clients wait for the answer, so wsproto keeps no place for what comes before it.
            raise _Refused("sent more before the answer")

    def _refusal(self, refused: _Refused) -> bytes:
        """The answer that says why."""
        body = f"{plain(refused)}\n".encode("ascii", "replace")
        fields = [
            *refused.fields,
            (b"Connection", b"close"),
            (b"Content-Type", b"text/plain"),
            (b"Content-Length", b"%d" % len(body)),
        ]
        answer = RejectConnection(status_code=refused.status, headers=fields, has_body=True)
        try:
            told = self._websocket.send(answer) + self._websocket.send(RejectData(body))
        except Exception:  # noqa: BLE001 (a HEAD takes no body: whatever the library stumbles over, there is an answer)
            told = b"HTTP/1.1 %d \r\nConnection: close\r\n\r\n" % refused.status
        return _with_phrase(told, refused.status)


def _with_phrase(answer: bytes, status: int) -> bytes:
    """A refusal with words after its status, which wsproto leaves out: a person with curl reads them first."""
    bare = b"HTTP/1.1 %d \r\n" % status
    if not answer.startswith(bare):
        return answer
    return b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode("ascii")) + answer[len(bare) :]


class ClientOpening(_Opening):
    """The dialling side: send `request`, then feed it until it returns True."""

    def __init__(self, host: str) -> None:
        """`host`: the address dialled, as in a URL (`[::1]:7946`). Raises `OpeningRefused` if it is none."""
        super().__init__(ConnectionType.CLIENT)
        try:
            self.request = self._websocket.send(Request(host=host, target=PATH))
        except UnicodeError as error:  # not for an address without a zone
            raise OpeningRefused(f"{host!r} cannot be named in a request") from error

    def feed(self, data: bytes) -> bool:
        """Whether the link is open now. Raises `OpeningRefused`."""
        try:
            answer = self._next(data)
        except _Refused as error:
            raise OpeningRefused(str(error)) from error
        if isinstance(answer, RejectConnection):
            raise OpeningRefused(f"answered with HTTP status {answer.status_code}")
        return answer is not None
