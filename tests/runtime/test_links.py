"""Links over real sockets, against a scripted raw peer: all ends in bounded time, with the right word (B33, B39)."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.lowlevel
import trio_websocket
from wsproto.frame_protocol import CloseReason, Opcode

from reachp2p.core.effects import Dial, LinkEnd
from reachp2p.core.ids import Address, LinkId
from reachp2p.core.settings import Protocol
from reachp2p.runtime.link import QUEUE_MAX, SEND_TIMEOUT
from reachp2p.runtime.websocket import OPENINGS_MAX
from tests.runtime.raw_peer import ANSWER, House, RawPeer, house, listening

pytestmark = pytest.mark.trio

CLOSE_TIMEOUT = 0.3
LIMIT = 1.0
"""Seconds within which everything must be over, the closing handshake with a silent peer included."""


@pytest.fixture(autouse=True)
def close_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rules with a shorter deadline for closing."""
    monkeypatch.setattr("reachp2p.runtime.link.CLOSE_TIMEOUT", CLOSE_TIMEOUT)


@asynccontextmanager
async def opened(*, we_dial: bool) -> AsyncIterator[tuple[House, RawPeer, LinkId]]:
    """An open link between our side and a raw peer; everything is over within LIMIT when the block is left."""
    async with trio.open_nursery() as nursery:
        ours = house(nursery)
        if we_dial:
            with listening() as listener:
                link = ours.dial(Address(*listener.getsockname()))
                peer = await RawPeer.accept(listener)
        else:
            peer = await RawPeer.connect(ours.address)
            link = LinkId(-1)
        await peer.open()
        await ours.sink.until("opened")
        assert ours.sink.opened == [link]
        try:
            yield ours, peer, link
        finally:
            peer.close()
            with trio.CancelScope(shield=True), trio.fail_after(LIMIT):
                ours.links.close_all()
                await ours.links.wait_closed()
            nursery.cancel_scope.cancel()


BOTH = pytest.mark.parametrize("we_dial", [True, False], ids=["dialled", "accepted"])


async def test_two_of_ours_exchange_frames_and_say_goodbye() -> None:
    async with trio.open_nursery() as nursery:
        left, right = house(nursery), house(nursery)
        link = left.dial(right.address)
        await right.sink.until("opened")
        await left.sink.until("opened")
        frames = [bytes([number]) * size for number, size in enumerate((0, 1, 200, 65_536, 66_000))]
        for frame in frames:
            left.links.send(link, frame)
            right.links.send(LinkId(-1), frame)
        await right.sink.until("frames", len(frames))
        await left.sink.until("frames", len(frames))
        assert right.sink.frames == [(-1, frame) for frame in frames]
        assert left.sink.frames == [(1, frame) for frame in frames]
        left.links.close(link, abort=False)
        await right.sink.until("ends")
        assert right.sink.ends == [(-1, LinkEnd.GOODBYE)]
        with trio.fail_after(LIMIT):
            await left.links.wait_closed()
            await right.links.wait_closed()
        assert left.sink.ends == []
        nursery.cancel_scope.cancel()


async def test_a_close_comes_after_all_that_was_sent_before_it() -> None:
    async with opened(we_dial=False) as (ours, peer, link):
        for number in range(100):
            ours.links.send(link, bytes([number]) * 8_000)
        ours.links.close(link, abort=False)
        items = await peer.receive_items(101)
        assert [item[0] for item in items[:100] if isinstance(item, bytes)] == list(range(100))
        assert items[100] == (Opcode.CLOSE, (1000, ""))


# B33: what a peer can do once the link is open, and how the link ends for the engine


async def closes_then_drops(peer: RawPeer) -> None:
    await peer.send_close()
    peer.close()


async def closes_then_resets(peer: RawPeer) -> None:
    await peer.send_close()
    await peer.receive_items(1)
    peer.reset()


async def closes_then_half_closes(peer: RawPeer) -> None:
    await peer.send_close()
    peer.half_close()


async def closes_and_stays(peer: RawPeer) -> None:
    await peer.send_close()


async def goes_away(peer: RawPeer) -> None:
    await peer.send_close(CloseReason.GOING_AWAY)


async def closes_without_a_code(peer: RawPeer) -> None:
    await peer.send(peer.frames.close())


async def closes_for_a_fault(peer: RawPeer) -> None:
    await peer.send_close(CloseReason.PROTOCOL_ERROR)


async def closes_and_goes_on_sending(peer: RawPeer) -> None:
    await peer.send_close()
    await peer.send_message(b"more")
    await peer.send(b"\xff" * 10_000)


async def drops(peer: RawPeer) -> None:
    peer.close()


async def resets(peer: RawPeer) -> None:
    peer.reset()


async def half_closes(peer: RawPeer) -> None:
    peer.half_close()


async def drops_in_a_header(peer: RawPeer) -> None:
    await peer.send(peer.frames.send_data(b"x" * 200)[:3])
    peer.close()


async def resets_in_a_payload(peer: RawPeer) -> None:
    await peer.send(peer.frames.send_data(b"x" * 200)[:100])
    peer.reset()


async def drops_in_a_close(peer: RawPeer) -> None:
    await peer.send(peer.frames.close(1000)[:1])
    peer.close()


async def half_closes_between_fragments(peer: RawPeer) -> None:
    await peer.send(peer.frames.send_data(b"first", fin=False))
    peer.half_close()


async def sends_text(peer: RawPeer) -> None:
    await peer.send(peer.frames.send_data("hello"))


async def sends_rubbish(peer: RawPeer) -> None:
    await peer.send(b"\xff" * 1_000)


async def sends_too_much(peer: RawPeer) -> None:
    await peer.send(peer.frames.send_data(b"x" * 80_000)[:-1])


async def sends_too_much_in_fragments(peer: RawPeer) -> None:
    for _ in range(80):
        await peer.send(peer.frames.send_data(b"x" * 1_000, fin=False))


WAYS: list[tuple[Callable[[RawPeer], Awaitable[None]], LinkEnd]] = [
    (closes_then_drops, LinkEnd.GOODBYE),
    (closes_then_resets, LinkEnd.GOODBYE),
    (closes_then_half_closes, LinkEnd.GOODBYE),
    (closes_and_stays, LinkEnd.GOODBYE),
    (goes_away, LinkEnd.GOODBYE),
    (closes_without_a_code, LinkEnd.GOODBYE),
    (closes_and_goes_on_sending, LinkEnd.GOODBYE),
    (closes_for_a_fault, LinkEnd.LOST),
    (drops, LinkEnd.LOST),
    (resets, LinkEnd.LOST),
    (half_closes, LinkEnd.LOST),
    (drops_in_a_header, LinkEnd.LOST),
    (resets_in_a_payload, LinkEnd.LOST),
    (drops_in_a_close, LinkEnd.LOST),
    (half_closes_between_fragments, LinkEnd.LOST),
    (sends_text, LinkEnd.LOST),
    (sends_rubbish, LinkEnd.LOST),
    (sends_too_much, LinkEnd.LOST),
    (sends_too_much_in_fragments, LinkEnd.LOST),
]


@BOTH
@pytest.mark.parametrize(("way", "end"), WAYS, ids=[way.__name__ for way, _ in WAYS])
async def test_however_a_peer_ends_the_link_ends_once_and_soon(
    we_dial: bool, way: Callable[[RawPeer], Awaitable[None]], end: LinkEnd
) -> None:
    async with opened(we_dial=we_dial) as (ours, peer, link):
        with trio.fail_after(LIMIT):
            await way(peer)
            await ours.sink.until("ends")
            ours.links.send(link, b"too late")
            await ours.links.wait_closed()
        assert ours.sink.ends == [(link, end)]
        assert len(ours.links) == 0


@BOTH
@pytest.mark.parametrize("way", [None, closes_and_stays, half_closes, resets, sends_rubbish])
async def test_our_close_ends_in_bounded_time_whatever_the_peer_answers(
    we_dial: bool, way: Callable[[RawPeer], Awaitable[None]] | None
) -> None:
    async with opened(we_dial=we_dial) as (ours, peer, link):
        ours.links.send(link, b"last words")
        ours.links.close(link, abort=False)
        assert (await peer.receive_items(2))[0] == b"last words"
        with trio.fail_after(LIMIT):
            if way is not None:
                await way(peer)
            await ours.links.wait_closed()
        assert ours.sink.ends == []


@BOTH
async def test_a_dripping_peer_does_not_extend_our_close(we_dial: bool) -> None:
    async with opened(we_dial=we_dial) as (ours, peer, link):
        ours.links.close(link, abort=False)
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:

                async def drip() -> None:
                    for byte in peer.frames.send_data(b"x" * 60_000):
                        try:
                            await peer.send(bytes([byte]))
                        except OSError:
                            return
                        await trio.sleep(0.01)

                nursery.start_soon(drip)
                await ours.links.wait_closed()
                nursery.cancel_scope.cancel()


@BOTH
async def test_abort_resets_at_once_and_reports_nothing(we_dial: bool) -> None:
    async with opened(we_dial=we_dial) as (ours, peer, link):
        ours.links.close(link, abort=True)
        with trio.fail_after(0.3):
            assert await peer.wait_end() == "reset"
            await ours.links.wait_closed()
        assert ours.sink.ends == []


@BOTH
async def test_a_cancelled_node_leaves_no_socket_open(we_dial: bool) -> None:
    async with opened(we_dial=we_dial) as (ours, peer, _):
        ours.links._nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True), trio.fail_after(0.3):
            assert await peer.wait_end() in ("end", "reset")


# Sending to those who do not read (B39)


@BOTH
async def test_a_peer_that_stops_reading_loses_its_own_link_only(we_dial: bool) -> None:
    async with opened(we_dial=we_dial) as (ours, _, link):
        other = await RawPeer.connect(ours.address)
        await other.open()
        await ours.sink.until("opened", 2)
        while not ours.sink.ends:
            for _ in range(20):
                ours.links.send(link, bytes(65_536))
            await trio.lowlevel.checkpoint()
        assert ours.sink.ends == [(link, LinkEnd.LOST)]
        assert ours.counters.value("links.dropped.queue_full") >= 1
        ours.links.send(ours.sink.opened[1], b"still here")
        assert await other.receive_items(1) == [b"still here"]
        other.close()


async def test_the_queue_is_bounded_and_reports_its_room() -> None:
    async with opened(we_dial=False) as (ours, peer, link):
        while ours.links.queued_bytes == 0:
            ours.links.send(link, bytes(50_000))
        assert 0 < ours.links.queued_bytes <= QUEUE_MAX
        rooms = len(ours.sink.rooms)
        with trio.fail_after(2):
            while ours.links.queued_bytes:
                await peer.receive()
                await trio.lowlevel.checkpoint()
        assert ours.sink.rooms[rooms:]
        assert ours.sink.rooms[-1] > ours.sink.rooms[rooms - 1] // 2
        ours.links.send(link, b"x" * 70_000)
        assert ours.links.take_report(link) is not None
        assert ours.links.take_report(link) is None


@pytest.fixture
def jumping_clock() -> trio.testing.MockClock:
    """Time jumps when nothing has happened for a moment, so that real sockets have theirs."""
    return trio.testing.MockClock(autojump_threshold=0.05)


async def test_a_frame_that_cannot_be_sent_in_time_ends_the_link(
    jumping_clock: trio.testing.MockClock,
) -> None:
    async with opened(we_dial=False) as (ours, _, link):
        while ours.links.queued_bytes == 0:
            ours.links.send(link, bytes(50_000))
        begun = trio.current_time()
        with trio.fail_after(SEND_TIMEOUT + 1):
            await ours.links.wait_closed()
        assert trio.current_time() - begun == pytest.approx(SEND_TIMEOUT, abs=0.5)
        assert ours.sink.ends == [(link, LinkEnd.LOST)]
        assert ours.counters.value("links.dropped.send_timeout") == 1


@pytest.mark.parametrize("unread", [0, 1, 1_000])
async def test_leaving_with_unread_messages_ends_in_bounded_time(unread: int) -> None:
    async with opened(we_dial=True) as (ours, peer, link):
        for _ in range(unread):
            await peer.send_message(b"u" * 100)
        ours.links.close(link, abort=False)
        with trio.fail_after(LIMIT):
            await ours.links.wait_closed()


@BOTH
async def test_a_ping_is_answered_and_a_pong_ignored(we_dial: bool) -> None:
    async with opened(we_dial=we_dial) as (_, peer, _):
        await peer.send(peer.frames.ping(b"there?") + peer.frames.pong(b"unasked"))
        assert await peer.receive_items(1) == [(Opcode.PONG, b"there?")]


# Opening


async def until_over(ours: House) -> list[LinkEnd]:
    await ours.sink.until("ends")
    return [end for _, end in ours.sink.ends]


async def test_a_dial_to_nobody_is_refused() -> None:
    with listening() as listener:
        address = Address(*listener.getsockname())
    async with trio.open_nursery() as nursery:
        ours = house(nursery)
        ours.dial(address)
        assert await until_over(ours) == [LinkEnd.REFUSED]
        nursery.cancel_scope.cancel()


async def test_a_dial_that_connects_to_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """TCP lets a socket connect to its own port if the kernel happens to choose it: make it happen."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    real = socket.socket

    class Bound(real):  # type: ignore[misc, valid-type]
        def connect_ex(self, address: tuple[str, int]) -> int:
            self.bind(("127.0.0.1", port))
            return super().connect_ex(address)

    async with trio.open_nursery() as nursery:
        ours = house(nursery)
        monkeypatch.setattr(socket, "socket", Bound)
        ours.dial(Address("127.0.0.1", port))
        assert await until_over(ours) == [LinkEnd.REFUSED]
        monkeypatch.undo()
        nursery.cancel_scope.cancel()


async def stays_silent(peer: RawPeer) -> None:
    await trio.sleep(5)


async def drips_its_answer(peer: RawPeer) -> None:
    for byte in ANSWER * 10:
        await peer.send(bytes([byte]))
        await trio.sleep(0.02)


async def answers_half_and_drops(peer: RawPeer) -> None:
    await peer.send(ANSWER[:20])
    peer.close()


async def answers_with_a_page(peer: RawPeer) -> None:
    await peer.receive()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def answers_with_rubbish(peer: RawPeer) -> None:
    await peer.send(b"\x00" * 10_000)


@pytest.mark.parametrize(
    ("way", "end"),
    [
        (drops, LinkEnd.LOST),
        (resets, LinkEnd.LOST),
        (half_closes, LinkEnd.LOST),
        (answers_half_and_drops, LinkEnd.LOST),
        (answers_with_a_page, LinkEnd.TIMEOUT),
        (answers_with_rubbish, LinkEnd.TIMEOUT),
        (stays_silent, LinkEnd.TIMEOUT),
        (drips_its_answer, LinkEnd.TIMEOUT),
    ],
)
async def test_a_dial_ends_once_and_in_time_whatever_the_peer_does_in_the_handshake(
    way: Callable[[RawPeer], Awaitable[None]], end: LinkEnd
) -> None:
    async with trio.open_nursery() as nursery:
        ours = house(nursery)
        with listening() as listener:
            ours.dial(Address(*listener.getsockname()), timeout=0.4)
            peer = await RawPeer.accept(listener)
            with trio.move_on_after(LIMIT):
                async with trio.open_nursery() as inner:
                    inner.start_soon(way, peer)
                    assert await until_over(ours) == [end]
                    inner.cancel_scope.cancel()
            peer.close()
        assert (ours.sink.opened, len(ours.links)) == ([], 0)
        nursery.cancel_scope.cancel()


async def test_a_dial_that_is_no_longer_wanted_reports_nothing() -> None:
    async with trio.open_nursery() as nursery:
        ours = house(nursery)
        with listening() as listener:
            link = ours.dial(Address(*listener.getsockname()), timeout=5)
            peer = await RawPeer.accept(listener)
            ours.links.close(link, abort=False)
            with trio.fail_after(0.5):
                assert await peer.wait_end() == "end"
            peer.close()
        unstarted = ours.dial(ours.address, number=2)
        ours.links.close(unstarted, abort=False)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (ours.sink.opened, ours.sink.ends) == ([], [])
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("data", "counter"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "links.refused.opening"),
        (b"\x16\x03\x01\x02\x00" + bytes(9_000), "links.refused.opening"),
        (b"GET /reachp2p", "links.refused.opening_timeout"),
        (b"", "links.refused.opening_timeout"),
    ],
)
async def test_a_connection_that_is_no_link_is_closed_in_time_and_counted(data: bytes, counter: str) -> None:
    async with trio.open_nursery() as nursery:
        ours = house(nursery)
        peer = await RawPeer.connect(ours.address)
        await peer.send(data)
        with trio.fail_after(LIMIT):
            await peer.wait_end()
        peer.close()
        assert ours.counters.value(counter) == 1
        assert ours.sink.opened == []
        nursery.cancel_scope.cancel()


async def test_half_open_connections_are_bounded_and_do_not_keep_others_out() -> None:
    async with trio.open_nursery() as nursery:
        ours = house(nursery, Protocol(link_open_timeout=30))
        silent = [await RawPeer.connect(ours.address) for _ in range(OPENINGS_MAX + 5)]
        peer = await RawPeer.connect(ours.address)
        with trio.fail_after(1):
            await peer.open()
            await ours.sink.until("opened")
            assert await silent[0].wait_end() == "end"
        assert ours.counters.value("links.refused.opening_displaced") == 6
        for one in [*silent, peer]:
            one.close()
        nursery.cancel_scope.cancel()


async def test_links_are_bounded() -> None:
    async with trio.open_nursery() as nursery:
        ours = house(nursery, Protocol(links_max=2))
        peers = [await RawPeer.connect(ours.address) for _ in range(2)]
        for peer in peers:
            await peer.open()
        await ours.sink.until("opened", 2)
        third = await RawPeer.connect(ours.address)
        with trio.fail_after(1):
            assert await third.wait_end() in ("end", "reset")
        ours.links.dial(Dial(LinkId(9), ours.address, None, 1.0))
        await ours.sink.until("ends")
        assert ours.sink.ends == [(9, LinkEnd.TIMEOUT)]
        assert ours.counters.value("links.refused.too_many") == 1
        assert ours.counters.value("links.dropped.dial_too_many") == 1
        for peer in [*peers, third]:
            peer.close()
        nursery.cancel_scope.cancel()


# The oracle: another implementation of WebSocket


async def test_trio_websocket_talks_to_us_and_we_to_it() -> None:
    async with trio.open_nursery() as nursery:
        ours = house(nursery)
        url = f"ws://{ours.address}/reachp2p"
        async with trio_websocket.open_websocket_url(url) as client:
            await client.send_message(b"hello")
            await ours.sink.until("frames")
            assert ours.sink.frames == [(-1, b"hello")]
            ours.links.send(LinkId(-1), b"x" * 66_000)
            assert await client.get_message() == b"x" * 66_000
        await ours.sink.until("ends")
        assert ours.sink.ends == [(-1, LinkEnd.GOODBYE)]

        async def echo(request: trio_websocket.WebSocketRequest) -> None:
            server = await request.accept()
            try:
                while True:
                    await server.send_message(await server.get_message())
            except trio_websocket.ConnectionClosed:
                pass

        server = await nursery.start(trio_websocket.serve_websocket, echo, "127.0.0.1", 0, None)
        link = ours.dial(Address("127.0.0.1", server.port))
        await ours.sink.until("opened", 2)
        ours.links.send(link, b"y" * 3_000)
        await ours.sink.until("frames", 2)
        assert ours.sink.frames[1] == (link, b"y" * 3_000)
        ours.links.close(link, abort=False)
        with trio.fail_after(LIMIT):
            await ours.links.wait_closed()
        nursery.cancel_scope.cancel()
