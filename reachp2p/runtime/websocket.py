"""All links of a node: the listener, dials, and the table of what is open (docs/protocol/links.md, RFC 6455).

A dialled link has the engine's positive number, an accepted one a negative number from here. Everything is bounded:
links together by `links_max`, opening handshakes and dials by constants below; each has a total deadline.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import OrderedDict
from typing import Protocol

import trio
from wsproto.connection import Connection

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Dial, LinkEnd
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.settings import Protocol as ProtocolSettings
from reachp2p.runtime.link import SEND_TIMEOUT, Link, LinkSink
from reachp2p.runtime.sockets import SocketAddress, socket_address
from reachp2p.runtime.text import plain
from reachp2p.runtime.ws_opening import ClientOpening, OpeningRefused, ServerOpening

logger = logging.getLogger("reachp2p.links")

OPENINGS_MAX = 64
"""Accepted connections whose handshake is not finished. A further one takes the place of the oldest: an honest
handshake takes milliseconds, so the oldest is the likeliest to be nobody's."""
DIALS_MAX = 256
"""Dials at once; a further one ends at once as TIMEOUT, counted."""
ACCEPTS_AT_ONCE = 32
"""Connections accepted before other tasks run."""
ACCEPT_PAUSE = 0.1
"""Seconds without accepting when the process has no file descriptors left."""
MESSAGE_OVERHEAD = 1_024
"""What a frame may have beyond `frame_max`: the map around a chunk of the largest size."""
UNSENT_MAX = 262_144
"""Bytes the kernel may hold unsent for a link, so that what is urgent waits behind a quarter of a MiB at most."""

_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class LinksSink(LinkSink, Protocol):
    """Where links report (the driver)."""

    def link_opened(self, link: LinkId, identity: NodeId | None) -> None:
        """A dial succeeded, or a link was accepted."""


class Links:
    """Owns the listening socket from here on, and every link."""

    def __init__(
        self,
        listener: socket.socket,
        nursery: trio.Nursery,
        sink: LinksSink,
        counters: Counters,
        settings: ProtocolSettings,
    ) -> None:
        self._listener = listener
        self._nursery = nursery
        self._sink = sink
        self._counters = counters
        self._settings = settings
        self._links: dict[LinkId, Link] = {}
        self._dials: dict[LinkId, trio.CancelScope] = {}
        self._openings: OrderedDict[int, trio.CancelScope] = OrderedDict()
        self._accepted = 0
        self._emptied = trio.Event()

    def __len__(self) -> int:
        return len(self._links)

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait on all links."""
        return sum(link.queued_bytes for link in self._links.values())

    # Effects

    def dial(self, effect: Dial) -> None:
        """Begin to open a link; answered by `link_opened` or `link_closed`, unless `close` comes first."""
        self._counters.add("links.dialled")
        self._dials[effect.link] = trio.CancelScope()
        self._nursery.start_soon(self._dial, effect, name=f"dial {effect.address}")

    def send(self, link: LinkId, data: bytes) -> None:
        """Send one frame; never blocks. On a link that has ended it is dropped: the engine is about to hear of it."""
        found = self._links.get(link)
        if found is None:
            self._counters.add("links.dropped.frame_after_end")
        else:
            found.send(data)

    def take_report(self, link: LinkId) -> int | None:
        """Room on a link, if it is time to say so."""
        found = self._links.get(link)
        return None if found is None else found.take_report()

    def close(self, link: LinkId, abort: bool) -> None:
        """End a link, or a dial that has not finished; nothing is reported."""
        scope = self._dials.pop(link, None)
        if scope is not None:
            scope.cancel(reason="no longer wanted")
        found = self._links.get(link)
        if found is None:
            return
        if abort:
            found.abort()
        else:
            found.close()

    def close_all(self) -> None:
        """Say goodbye on every link and accept no more; they are over within CLOSE_TIMEOUT."""
        self.stop_listening()
        for scope in [*self._dials.values(), *self._openings.values()]:
            scope.cancel(reason="the node closes")
        self._dials.clear()
        for link in list(self._links.values()):
            link.close()

    async def wait_closed(self) -> None:
        """Wait until no link is left, after `close_all`."""
        while self._links:
            self._emptied = trio.Event()
            await self._emptied.wait()

    # Accepting

    async def listen(self) -> None:
        """Accept links until `stop_listening`, or until cancelled; then the listening socket is closed."""
        try:
            await self._accept_all()
        except trio.ClosedResourceError:
            logger.debug("accepting no more links")
        finally:
            self._listener.close()

    async def _accept_all(self) -> None:
        accepts = 0
        while True:
            try:
                accepted, _ = self._listener.accept()
            except BlockingIOError:
                accepts = 0
                await trio.lowlevel.wait_readable(self._listener)
                continue
            except OSError as error:
                if self._listener.fileno() < 0:
                    return
                await self._accept_failed(error)
                continue
            self._admit(accepted)
            accepts += 1
            if accepts >= ACCEPTS_AT_ONCE:
                accepts = 0
                await trio.lowlevel.checkpoint()

    def stop_listening(self) -> None:
        """Close the listening socket; again is harmless."""
        if self._listener.fileno() >= 0:
            trio.lowlevel.notify_closing(self._listener)
            self._listener.close()

    async def _accept_failed(self, error: OSError) -> None:
        if error.errno in _OUT_OF_RESOURCES:
            self._counters.add("links.accept_failed.no_resources")
            if (
                self._counters.value("links.accept_failed.no_resources") % 600 == 1
            ):  # once a minute at ACCEPT_PAUSE
                logger.error("cannot accept links: %s (raise the limit of open files)", error.strerror)
            await trio.sleep(ACCEPT_PAUSE)
        else:  # the connection ended before it was accepted
            self._counters.add("links.accept_failed.gone")
            await trio.lowlevel.checkpoint()

    def _admit(self, accepted: socket.socket) -> None:
        if len(self._links) + len(self._dials) >= self._settings.links_max:
            self._counters.add("links.refused.too_many")
            accepted.close()
            return
        if len(self._openings) >= OPENINGS_MAX:
            _, oldest = self._openings.popitem(last=False)
            self._counters.add("links.refused.opening_displaced")
            oldest.cancel(reason="too many handshakes at once")
        self._accepted += 1
        scope = trio.CancelScope(deadline=trio.current_time() + self._settings.link_open_timeout)
        self._openings[self._accepted] = scope
        self._nursery.start_soon(
            self._accept, self._accepted, accepted, scope, name=f"link -{self._accepted}"
        )

    async def _accept(self, number: int, accepted: socket.socket, scope: trio.CancelScope) -> None:
        opening = ServerOpening()
        is_open = False
        try:
            with scope:
                is_open = await self._open_accepted(accepted, opening)
            if scope.cancelled_caught:
                self._counters.add("links.refused.opening_timeout")
        finally:
            self._openings.pop(number, None)
            if not is_open:
                accepted.close()
        if is_open:
            self._counters.add("links.accepted")
            await self._carry(LinkId(-number), accepted, opening.connection)

    async def _open_accepted(self, accepted: socket.socket, opening: ServerOpening) -> bool:
        try:
            _prepare(accepted)
            while True:
                data = await _receive(accepted)
                if not data:
                    self._counters.add("links.refused.opening_ended")
                    return False
                answer = opening.feed(data)
                if answer is not None:
                    await _send_all(accepted, answer)
                    return True
        except OpeningRefused as error:
            self._counters.add("links.refused.opening")
            logger.info("a connection was not a link: %s", plain(error.reason))
            await _refuse(accepted, error.answer)
        except OSError:
            self._counters.add("links.refused.opening_ended")
        except Exception:  # anybody may connect, and no stranger's bytes may end the node
            self._counters.add("links.refused.opening")
            logger.exception("the handshake of a connection has failed in a way that it should not")
        return False

    # Dialling

    async def _dial(self, effect: Dial) -> None:
        link, scope = effect.link, self._dials.get(effect.link)
        if scope is None:
            return  # closed before it began
        dialled: socket.socket | None = None
        end: LinkEnd | None = LinkEnd.TIMEOUT
        websocket: Connection | None = None
        try:
            if len(self._dials) > DIALS_MAX or len(self._links) + len(self._dials) > self._settings.links_max:
                self._counters.add("links.dropped.dial_too_many")
            else:
                scope.deadline = trio.current_time() + effect.timeout
                with scope:
                    try:
                        dialled = _new_socket(effect.address)
                        await _connect(dialled, effect.address)
                        websocket = await _open_dialled(dialled, effect.address)
                        end = None
                    except ConnectionRefusedError:
                        end = LinkEnd.REFUSED
                    except OSError as error:  # it was reset as soon as it was connected
                        end = LinkEnd.LOST
                        logger.info("dialling %s: %s", plain(effect.address), error.strerror or error)
                    except _DialFailed as error:
                        end = error.end
                        logger.info("dialling %s: %s", plain(effect.address), plain(error))
        finally:
            is_wanted = self._dials.pop(link, None) is not None
            if dialled is not None and (end is not None or not is_wanted):
                dialled.close()
        if not is_wanted:
            return
        if end is not None or dialled is None or websocket is None:
            self._counters.add(f"links.dial_failed.{(end or LinkEnd.TIMEOUT).value}")
            self._sink.link_closed(link, end or LinkEnd.TIMEOUT)
        else:
            await self._carry(link, dialled, websocket)

    async def _carry(self, number: LinkId, connected: socket.socket, websocket: Connection) -> None:
        link = Link(
            number,
            connected,
            self._sink,
            self._counters,
            websocket=websocket,
            message_max=self._settings.frame_max + MESSAGE_OVERHEAD,
        )
        self._links[number] = link
        try:
            self._sink.link_opened(number, None)
            self._sink.link_writable(number, link.free_bytes)
            await link.run()
        finally:
            del self._links[number]
            connected.close()
            if not self._links:
                self._emptied.set()


class _DialFailed(Exception):
    """A dial ended without a link."""

    def __init__(self, end: LinkEnd, reason: str) -> None:
        super().__init__(reason)
        self.end = end


def _new_socket(address: Address) -> socket.socket:
    try:
        family, _ = socket_address(address.host, address.port)
        dialled = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _DialFailed(LinkEnd.TIMEOUT, error.strerror or str(error)) from error
    dialled.setblocking(False)
    return dialled


async def _connect(dialled: socket.socket, address: Address) -> None:
    """Connect; raises `ConnectionRefusedError` for an RST and for nothing else, `_DialFailed` for other ends."""
    target: SocketAddress
    _, target = socket_address(address.host, address.port)
    _prepare(dialled)
    code = dialled.connect_ex(target)
    if code in (errno.EINPROGRESS, errno.EAGAIN):
        await trio.lowlevel.wait_writable(dialled)
        code = dialled.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code == errno.ECONNREFUSED:
        raise ConnectionRefusedError(code, "refused")
    if code:
        raise _DialFailed(LinkEnd.TIMEOUT, os.strerror(code))
    if dialled.getsockname() == dialled.getpeername():
        # The kernel chose the dialled port for our own end of it: TCP's simultaneous open, with nobody there.
        raise ConnectionRefusedError(errno.ECONNREFUSED, "connected to itself")


async def _open_dialled(dialled: socket.socket, address: Address) -> Connection:
    """Do our side of the handshake. Raises `_DialFailed`."""
    try:
        opening = ClientOpening(str(address))
        await _send_all(dialled, opening.request)
        while True:
            data = await _receive(dialled)
            if not data:
                raise _DialFailed(LinkEnd.LOST, "the connection ended during the handshake")
            if opening.feed(data):
                return opening.connection
    except OpeningRefused as error:
        raise _DialFailed(LinkEnd.TIMEOUT, error.reason) from error
    except OSError as error:
        raise _DialFailed(
            LinkEnd.LOST, f"the connection broke during the handshake: {error.strerror or error}"
        ) from error


async def _receive(connected: socket.socket) -> bytes:
    while True:
        await trio.lowlevel.wait_readable(connected)
        try:
            return connected.recv(4_096)
        except BlockingIOError:
            continue


async def _send_all(connected: socket.socket, data: bytes) -> None:
    while data:
        try:
            data = data[connected.send(data) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(connected)


async def _refuse(accepted: socket.socket, answer: bytes) -> None:
    """Say why, and let it be read: closing with unread bytes would reset the connection."""
    try:
        await _send_all(accepted, answer)
        accepted.shutdown(socket.SHUT_WR)
        with trio.move_on_after(1.0):
            while await _receive(accepted):
                pass
    except OSError:
        logger.debug("the other side was gone before it was refused")


def _prepare(connected: socket.socket) -> None:
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(
        socket, "TCP_USER_TIMEOUT"
    ):  # Linux: unacknowledged bytes end the connection as our own queue would
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SEND_TIMEOUT * 1_000))
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_MAX)
