"""The opening handshake: the example of the standard, any pieces, and what is refused."""

from __future__ import annotations

import contextlib
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request
from wsproto.handshake import H11Handshake

from reachp2p.runtime.ws_frames import Frames
from reachp2p.runtime.ws_opening import HEAD_MAX, ClientOpening, OpeningRefused, ServerOpening

REQUEST = (
    "GET /reachp2p HTTP/1.1\r\nHost: 127.0.0.1:7946\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def serve(request: str) -> bytes | None:
    return ServerOpening().feed(request.encode("latin-1"))


def test_the_answer_has_the_key_of_the_standard() -> None:
    answer = serve(REQUEST)
    assert answer is not None
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer


def test_the_request_is_in_the_form_of_the_standard() -> None:
    head, *fields = ClientOpening("[::1]:7946").request.split(b"\r\n")
    assert head == b"GET /reachp2p HTTP/1.1"
    assert {
        b"Host: [::1]:7946",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Version: 13",
    } <= {*fields}


@given(piece=st.integers(1, 300))
def test_our_client_opens_with_our_server_in_any_pieces(piece: int) -> None:
    client, server = ClientOpening("127.0.0.1:7946"), ServerOpening()
    answer = None
    for start in range(0, len(client.request), piece):
        assert answer is None
        answer = server.feed(client.request[start : start + piece])
    assert answer is not None
    for start in range(0, len(answer), piece):
        is_open = client.feed(answer[start : start + piece])
        assert is_open == (start + piece >= len(answer))
    message = Frames(client.connection, message_max=10).message(b"hello")
    assert list(Frames(server.connection, message_max=10).receive(message)) == [b"hello"]


@given(piece=st.integers(1, 200))
def test_what_follows_the_answer_belongs_to_the_frames(piece: int) -> None:
    client, server = ClientOpening("[::1]:7946"), WSConnection(ConnectionType.SERVER)
    server.receive_data(client.request)
    assert [type(event) for event in server.events()] == [Request]
    data = server.send(AcceptConnection()) + b"\x82\x01x"
    position = piece
    while not client.feed(data[position - piece : position]):
        position += piece
        assert position - piece < len(data)
    frames = Frames(client.connection, message_max=10)
    assert [*frames.receive(b""), *frames.receive(data[position:])] == [b"x"]


@pytest.mark.parametrize(
    ("change", "reason", "status"),
    [
        (("GET", "POST"), "must be GET", b"400"),
        (("/reachp2p", "/chat"), "links are at /reachp2p", b"404"),
        (("Host:", "Origin: https://evil.example\r\nHost:"), "not for web pages", b"403"),
        (("Host: 127.0.0.1:7946\r\n", ""), "Host", b"400"),
        (("127.0.0.1", "\xe4.example"), "UnicodeDecodeError", b"400"),
        (("Upgrade: websocket\r\n", ""), "Upgrade: websocket", b"400"),
        (("keep-alive, Upgrade", "keep-alive"), "Connection: Upgrade", b"400"),
        (("keep-alive, Upgrade", "\xff, Upgrade"), "UnicodeDecodeError", b"400"),
        (("Version: 13", "Version: 8"), "Sec-WebSocket-Version", b"426"),
        (("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), "Sec-WebSocket-Key", b"400"),
        (("Host:", "Content-Length: 5\r\nHost:"), "request with a body", b"400"),
        (("Host:", "Transfer-Encoding: chunked\r\nHost:"), "request with a body", b"400"),
        (("Host:", "Host: a\r\nHost:"), "multiple Host", b"400"),
        (("Host:", " folded\r\nHost:"), "continuation line", b"400"),
        (("Host:", "X: \x00\r\nHost:"), "illegal header line", b"400"),
        (("Host:", "X: " + "a" * HEAD_MAX + "\r\nHost:"), "head of more than 8 KiB", b"431"),
        (("Host:", "X: a\r\n" * 64 + "Host:"), "more than 64 header fields", b"431"),
        (("13\r\n\r\n", "13\r\n\r\n\x82\x80\x00\x00\x00\x00"), "more before the answer", b"400"),
    ],
)
def test_a_request_that_is_no_link_is_refused_with_the_reason(
    change: tuple[str, str], reason: str, status: bytes
) -> None:
    with pytest.raises(OpeningRefused, match=reason) as caught:
        serve(REQUEST.replace(*change, 1))
    phrase = HTTPStatus(int(status)).phrase.encode()
    assert caught.value.answer.startswith(b"HTTP/1.1 " + status + b" " + phrase + b"\r\n")


@pytest.mark.parametrize("method", ["HEAD", "POST", "CONNECT", "OPTIONS", "PUT"])
def test_a_request_with_another_method_is_refused_with_an_answer(method: str) -> None:
    """The body of a refusal is more than a HEAD may be told: one such request ended a node."""
    for request in (f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n", REQUEST.replace("GET", method)):
        with pytest.raises(OpeningRefused) as caught:
            serve(request)
        assert caught.value.answer.startswith(b"HTTP/1.1 4")
        assert b"connection: close" in caught.value.answer.lower()


def test_no_extension_is_accepted() -> None:
    answer = serve(REQUEST.replace("Host:", "Sec-WebSocket-Extensions: permessage-deflate\r\nHost:"))
    assert answer is not None
    assert b"extensions" not in answer.lower()


def test_a_head_without_end_is_refused_while_it_comes() -> None:
    server = ServerOpening()
    for _ in range(8):
        assert server.feed(b"a" * 1_000) is None
    with pytest.raises(OpeningRefused, match="8 KiB"):
        server.feed(b"a" * 1_000)


UPGRADE = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "illegal status line"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "answered with HTTP status 404"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "answered with HTTP status 100"),
        (UPGRADE.replace(b"websocket", b"h2c") + b"\r\n", "Upgrade: websocket"),
        (UPGRADE + b"Sec-WebSocket-Accept: no\r\n\r\n", "Bad accept token"),
        (UPGRADE + b"X: " + b"a" * HEAD_MAX, "8 KiB"),
    ],
)
def test_an_answer_that_is_no_link_is_refused_with_the_reason(answer: bytes, reason: str) -> None:
    with pytest.raises(OpeningRefused, match=reason):
        ClientOpening("127.0.0.1:7946").feed(answer)


@pytest.mark.parametrize(
    "field", [b"Sec-WebSocket-Extensions: permessage-deflate", b"Sec-WebSocket-Protocol: chat"]
)
def test_an_answer_with_what_we_did_not_ask_for_is_refused(field: bytes) -> None:
    client, server = ClientOpening("127.0.0.1:7946"), ServerOpening()
    answer = server.feed(client.request)
    assert answer is not None
    with pytest.raises(OpeningRefused, match="unrecognized"):
        client.feed(answer.replace(b"\r\n\r\n", b"\r\n" + field + b"\r\n\r\n"))


@given(data=st.binary(max_size=300), position=st.integers(0, len(REQUEST)), length=st.integers(0, 40))
def test_no_bytes_raise_anything_but_a_refusal(data: bytes, position: int, length: int) -> None:
    """Bytes of all kinds, alone and in the place of a part of a good request."""
    request = REQUEST.encode("ascii")
    request = request[:position] + data + request[position + length :]
    for opening, sent in (
        (ServerOpening(), data + b"\r\n\r\n"),
        (ServerOpening(), request),
        (ClientOpening("h:1"), data + b"\r\n\r\n"),
        (ClientOpening("h:1"), UPGRADE + data + b"\r\n\r\n"),
    ):
        with contextlib.suppress(OpeningRefused):
            opening.feed(sent)


def test_whatever_the_library_stumbles_over_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbles(*_: object) -> None:
        raise AssertionError("a defect")

    monkeypatch.setattr(H11Handshake, "receive_data", stumbles)
    for opening in (ServerOpening(), ClientOpening("h:1")):
        with pytest.raises(OpeningRefused, match="AssertionError: a defect"):
            opening.feed(b"\r\n\r\n")


def test_a_host_that_cannot_be_named_is_refused() -> None:
    with pytest.raises(OpeningRefused, match="cannot be named"):
        ClientOpening("x" * 64 + ":1")
