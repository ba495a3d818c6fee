"""One port number for UDP and TCP."""

from __future__ import annotations

import socket

import pytest

from reachp2p.errors import ConfigurationInvalid, ErrorCode, NodeError
from reachp2p.runtime.sockets import bind_pair


def test_a_free_port_is_free_for_both() -> None:
    pair = bind_pair("127.0.0.1", 0)
    assert pair.udp.getsockname() == pair.tcp.getsockname() == ("127.0.0.1", pair.port)
    pair.close()
    pair.close()


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_port_in_use_for_either_is_1702_and_leaves_nothing_open(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(NodeError, match=f"port {port} of 127[.]0[.]0[.]1 is in use") as caught:
            bind_pair("127.0.0.1", port)
    assert caught.value.code is ErrorCode.ADDRESS_IN_USE
    bind_pair("127.0.0.1", port).close()


def test_an_address_of_another_machine_is_1704() -> None:
    with pytest.raises(ConfigurationInvalid, match=r"cannot listen on 192\.0\.2\.1 port 0"):
        bind_pair("192.0.2.1", 0)
