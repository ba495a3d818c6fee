"""The opening handshake of WebSocket (RFC 6455 §4) as bytes in, bytes out; no socket, no clock.

One request and one answer, each a head of at most 8 KiB without a body. Nothing else of HTTP is understood, so nothing
else can be attacked. A request with an `Origin` comes from a web page and is refused (B73: a page must not be able to
use a local node); a link is proven by the signed hello that follows (DESIGN §3), never by anything in here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re

HEAD_MAX = 8_192
PATH = "/reachp2p"
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t]*?)[ \t]*")
_REQUEST_LINE = re.compile(rb"GET (\S{1,256}) HTTP/1\.1")
_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([0-9]{3})(?: [\x20-\x7e\t]*)?")


class OpeningRefused(Exception):
    """What arrived is no acceptable handshake. `answer` is what to send before closing (empty for a client)."""

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.answer = answer


class ServerOpening:
    """The accepting side: feed it until it returns an answer."""

    def __init__(self) -> None:
        self._head = _Head()
        self.rest = b""
        """What followed the request; it belongs to the frames."""

    def feed(self, data: bytes) -> bytes | None:
        """The answer (101) to send once the request is whole, else None. Raises `OpeningRefused`."""
        try:
            head = self._head.feed(data)
            if head is None:
                return None
            self.rest = self._head.rest
            return _accept(*head)
        except OpeningRefused as error:
            raise OpeningRefused(
                error.reason, error.answer or _refusal("400 Bad Request", error.reason)
            ) from None


class ClientOpening:
    """The dialling side: send `request`, then feed it until it returns True."""

    def __init__(self, host: str) -> None:
        """`host`: the address dialled, as in a URL (`[::1]:7946`)."""
        self._key = base64.b64encode(os.urandom(16))
        self._head = _Head()
        self.rest = b""
        """What followed the answer; it belongs to the frames."""
        self.request = (
            f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {self._key.decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode("ascii")

    def feed(self, data: bytes) -> bool:
        """Whether the link is open now. Raises `OpeningRefused`."""
        head = self._head.feed(data)
        if head is None:
            return False
        line, fields = head
        status = _STATUS_LINE.fullmatch(line)
        if not status:
            raise OpeningRefused("the answer is not HTTP/1.1")
        if status[1] != b"101":
            raise OpeningRefused(f"answered with HTTP status {status[1].decode()}")
        _check_upgrade(fields)
        if fields.get(b"sec-websocket-accept") != _accept_key(self._key):
            raise OpeningRefused("Sec-WebSocket-Accept does not fit our key")
        if b"sec-websocket-extensions" in fields or b"sec-websocket-protocol" in fields:
            raise OpeningRefused("an extension or protocol that we did not ask for")
        self.rest = self._head.rest
        return True


class _Head:
    """Collects a head up to its empty line."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.rest = b""

    def feed(self, data: bytes) -> tuple[bytes, dict[bytes, bytes]] | None:
        """(first line, fields by lower-case name) once whole. Raises `OpeningRefused`."""
        searched = max(0, len(self._data) - 3)
        self._data += data
        end = self._data.find(b"\r\n\r\n", searched)
        if end > HEAD_MAX or (end < 0 and len(self._data) > HEAD_MAX):
            raise OpeningRefused(
                "head of more than 8 KiB", _refusal("431 Request Header Fields Too Large", "")
            )
        if end < 0:
            return None
        line, *lines = bytes(self._data[:end]).split(b"\r\n")
        self.rest = bytes(self._data[end + 4 :])
        self._data.clear()
        fields: dict[bytes, bytes] = {}
        for field in lines:
            match = _FIELD.fullmatch(field)
            if not match:
                raise OpeningRefused("malformed header field")
            name = match[1].lower()
            if name in fields and name in _SINGLE:
                raise OpeningRefused("header field given twice")
            fields[name] = fields[name] + b"," + match[2] if name in fields else match[2]
        return line, fields


_SINGLE = (
    b"host",
    b"sec-websocket-key",
    b"sec-websocket-version",
    b"sec-websocket-accept",
    b"content-length",
)


def _accept(line: bytes, fields: dict[bytes, bytes]) -> bytes:
    request = _REQUEST_LINE.fullmatch(line)
    if not request:
        raise OpeningRefused("not a GET of HTTP/1.1")
    if b"host" not in fields:
        raise OpeningRefused("no Host")
    if b"origin" in fields:
        raise OpeningRefused(
            "request of a web page", _refusal("403 Forbidden", "links are for nodes, not for web pages")
        )
    if request[1] != PATH.encode("ascii"):
        raise OpeningRefused("another path", _refusal("404 Not Found", f"links are at {PATH}"))
    if b"transfer-encoding" in fields or fields.get(b"content-length", b"0") != b"0":
        raise OpeningRefused("request with a body")
    _check_upgrade(fields)
    if fields.get(b"sec-websocket-version") != b"13":
        raise OpeningRefused(
            "another WebSocket version", _refusal("426 Upgrade Required", "", "Sec-WebSocket-Version: 13\r\n")
        )
    key = fields.get(b"sec-websocket-key", b"")
    try:
        is_key = len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        is_key = False
    if not is_key:
        raise OpeningRefused("malformed Sec-WebSocket-Key")
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + _accept_key(key) + b"\r\n\r\n"
    )


def _check_upgrade(fields: dict[bytes, bytes]) -> None:
    connection = [token.strip().lower() for token in fields.get(b"connection", b"").split(b",")]
    if fields.get(b"upgrade", b"").lower() != b"websocket" or b"upgrade" not in connection:
        raise OpeningRefused(
            "not an upgrade to WebSocket", _refusal("426 Upgrade Required", "", "Upgrade: websocket\r\n")
        )


def _accept_key(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def _refusal(status: str, text: str, fields: str = "") -> bytes:
    body = f"{text or status}\n"
    return (
        f"HTTP/1.1 {status}\r\n{fields}Connection: close\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode("ascii")
