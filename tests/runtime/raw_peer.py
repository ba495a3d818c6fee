"""A scripted WebSocket peer made of a raw socket, and a driver's place that writes down what links report."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import TypeAlias

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Dial, LinkEnd
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.settings import Protocol
from reachp2p.runtime.websocket import Links

Item: TypeAlias = bytes | tuple[Opcode, object]
"""A whole message, or a control frame and what it carries."""

ANSWER = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@dataclass
class Sink:
    """What was reported, in order."""

    opened: list[LinkId] = field(default_factory=list)
    frames: list[tuple[LinkId, bytes]] = field(default_factory=list)
    ends: list[tuple[LinkId, LinkEnd]] = field(default_factory=list)
    rooms: list[int] = field(default_factory=list)
    changed: trio.Event = field(default_factory=trio.Event)

    def link_opened(self, link: LinkId, identity: NodeId | None) -> None:
        assert identity is None
        self.opened.append(link)
        self._change()

    def link_frame(self, link: LinkId, data: bytes) -> None:
        self.frames.append((link, data))
        self._change()

    def link_read(self) -> None:
        pass

    def link_writable(self, link: LinkId, free_bytes: int) -> None:
        self.rooms.append(free_bytes)

    def link_closed(self, link: LinkId, end: LinkEnd) -> None:
        self.ends.append((link, end))
        self._change()

    def _change(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, what: str, count: int = 1) -> None:
        """Wait until there are `count` reports of a kind, at most two seconds."""
        with trio.fail_after(2):
            while len(getattr(self, what)) < count:
                await self.changed.wait()


@dataclass
class House:
    """Links under test."""

    links: Links
    sink: Sink
    counters: Counters
    address: Address

    def dial(self, address: Address, number: int = 1, timeout: float = 1.0) -> LinkId:
        self.links.dial(Dial(LinkId(number), address, None, timeout))
        return LinkId(number)


def house(nursery: trio.Nursery, protocol: Protocol | None = None) -> House:
    """Links that listen on loopback, in a nursery."""
    listener = listening()
    sink, counters = Sink(), Counters()
    links = Links(listener, nursery, sink, counters, protocol or Protocol(link_open_timeout=0.5))
    nursery.start_soon(links.listen)
    return House(links, sink, counters, Address(*listener.getsockname()))


def listening() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.setblocking(False)
    return listener


class RawPeer:
    """The other side of one connection, which does only what it is told; `frames` makes the bytes to be told of."""

    def __init__(self, connected: socket.socket, *, is_client: bool) -> None:
        self.socket = connected
        self.socket.setblocking(False)
        self.frames = FrameProtocol(client=is_client, extensions=[])
        self.is_client = is_client
        self.items: list[Item] = []
        self._part = b""

    @classmethod
    async def connect(cls, address: Address) -> RawPeer:
        """A client that has said nothing yet."""
        stream = await trio.open_tcp_stream(address.host, address.port)
        raw = socket.socket(fileno=stream.socket.detach())
        return cls(raw, is_client=True)

    @classmethod
    async def accept(cls, listener: socket.socket) -> RawPeer:
        """A server that has said nothing yet."""
        await trio.lowlevel.wait_readable(listener)
        return cls(listener.accept()[0], is_client=False)

    async def open(self) -> None:
        """Do our side of the handshake."""
        websocket = WSConnection(ConnectionType.CLIENT if self.is_client else ConnectionType.SERVER)
        if self.is_client:
            await self.send(websocket.send(Request(host="127.0.0.1:1", target="/reachp2p")))
        while not (events := list(websocket.events())):
            websocket.receive_data(await self.receive())
        if not self.is_client:
            await self.send(websocket.send(AcceptConnection()))
        assert [type(event) for event in events] == [AcceptConnection if self.is_client else Request]

    async def send(self, data: bytes | bytearray) -> None:
        while data:
            try:
                data = data[self.socket.send(data) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self.socket)

    async def send_message(self, data: bytes) -> None:
        await self.send(self.frames.send_data(data))

    async def send_close(self, code: CloseReason = CloseReason.NORMAL_CLOSURE) -> None:
        await self.send(self.frames.close(code))

    async def receive(self) -> bytes:
        await trio.lowlevel.wait_readable(self.socket)
        return self.socket.recv(65_536)

    async def receive_items(self, count: int) -> list[Item]:
        """At least `count` messages and control frames since the beginning."""
        while len(self.items) < count:
            data = await self.receive()
            if not data:
                break
            self.frames.receive_bytes(data)
            for frame in self.frames.received_frames():
                if frame.opcode is not Opcode.BINARY:
                    self.items.append((frame.opcode, frame.payload))
                    continue
                assert isinstance(frame.payload, bytes)
                self._part += frame.payload
                if frame.message_finished:
                    self.items.append(self._part)
                    self._part = b""
        return self.items

    async def wait_end(self) -> str:
        """How the other side ends the stream: `end` or `reset`."""
        try:
            while await self.receive():
                pass
        except ConnectionResetError:
            return "reset"
        return "end"

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()
