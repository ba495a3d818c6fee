"""The opening handshake against wsproto as the oracle, and what is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request

from reachp2p.runtime.ws_opening import HEAD_MAX, PATH, ClientOpening, OpeningRefused, ServerOpening

REQUEST = (
    "GET /reachp2p HTTP/1.1\r\nHost: 127.0.0.1:7946\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def serve(request: str) -> bytes | None:
    return ServerOpening().feed(request.encode("latin-1"))


def refusal(request: str) -> tuple[str, bytes]:
    with pytest.raises(OpeningRefused) as caught:
        serve(request)
    return caught.value.reason, caught.value.answer


def test_the_answer_has_the_key_of_the_standard() -> None:
    answer = serve(REQUEST)
    assert answer is not None
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer


def test_a_client_of_wsproto_opens_with_our_server_and_the_rest_belongs_to_the_frames() -> None:
    client, server = WSConnection(ConnectionType.CLIENT), ServerOpening()
    request = client.send(Request(host="127.0.0.1", target=PATH))
    answer = server.feed(request + b"\x82\x00")
    assert answer is not None
    assert server.rest == b"\x82\x00"
    client.receive_data(answer)
    assert [type(event) for event in client.events()] == [AcceptConnection]


@given(piece=st.integers(1, 50))
def test_our_client_opens_with_a_server_of_wsproto_in_any_pieces(piece: int) -> None:
    client, server = ClientOpening("[::1]:7946"), WSConnection(ConnectionType.SERVER)
    server.receive_data(client.request)
    (request,) = server.events()
    assert isinstance(request, Request)
    assert (request.host, request.target) == ("[::1]:7946", PATH)
    answer = server.send(AcceptConnection()) + b"\x82\x01x"
    position = 0
    while not client.feed(answer[position : position + piece]):
        position += piece
        assert position < len(answer)
    assert client.rest + answer[position + piece :] == b"\x82\x01x"


@pytest.mark.parametrize(
    ("change", "reason", "status"),
    [
        (("GET", "POST"), "not a GET of HTTP/1.1", b"400"),
        (("HTTP/1.1", "HTTP/1.0"), "not a GET of HTTP/1.1", b"400"),
        (("/reachp2p", "/chat"), "another path", b"404"),
        (("Host:", "Origin: https://evil.example\r\nHost:"), "request of a web page", b"403"),
        (("Host: 127.0.0.1:7946\r\n", ""), "no Host", b"400"),
        (("Upgrade: websocket\r\n", ""), "not an upgrade to WebSocket", b"426"),
        (("keep-alive, Upgrade", "keep-alive"), "not an upgrade to WebSocket", b"426"),
        (("Version: 13", "Version: 8"), "another WebSocket version", b"426"),
        (("dGhlIHNhbXBsZSBub25jZQ==", "dGhl"), "malformed Sec-WebSocket-Key", b"400"),
        (("dGhlIHNhbXBsZSBub25jZQ==", "!!!!"), "malformed Sec-WebSocket-Key", b"400"),
        (("Host:", "Content-Length: 5\r\nHost:"), "request with a body", b"400"),
        (("Host:", "Transfer-Encoding: chunked\r\nHost:"), "request with a body", b"400"),
        (("Host:", "Host: a\r\nHost:"), "header field given twice", b"400"),
        (("Host:", " folded\r\nHost:"), "malformed header field", b"400"),
        (("Host:", "X: \x00\r\nHost:"), "malformed header field", b"400"),
        (("Host:", "X: " + "a" * HEAD_MAX + "\r\nHost:"), "head of more than 8 KiB", b"431"),
    ],
)
def test_a_request_that_is_no_link_is_refused_with_the_reason(
    change: tuple[str, str], reason: str, status: bytes
) -> None:
    said, answer = refusal(REQUEST.replace(*change, 1))
    assert said == reason
    assert answer.startswith(b"HTTP/1.1 " + status)


def test_a_head_without_end_is_refused_while_it_comes() -> None:
    server = ServerOpening()
    for _ in range(8):
        assert server.feed(b"a" * 1_000) is None
    with pytest.raises(OpeningRefused, match="8 KiB"):
        server.feed(b"a" * 1_000)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the answer is not HTTP/1.1"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "answered with HTTP status 404"),
        (
            b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
            "not an upgrade to WebSocket",
        ),
        (
            b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n",
            "Sec-WebSocket-Accept does not fit our key",
        ),
    ],
)
def test_an_answer_that_is_no_link_is_refused_with_the_reason(answer: bytes, reason: str) -> None:
    with pytest.raises(OpeningRefused) as caught:
        ClientOpening("127.0.0.1:7946").feed(answer)
    assert caught.value.reason == reason


@given(data=st.binary(max_size=300))
def test_no_bytes_raise_anything_but_a_refusal(data: bytes) -> None:
    for opening in (ServerOpening(), ClientOpening("h:1")):
        with contextlib.suppress(OpeningRefused):
            opening.feed(data + b"\r\n\r\n")
