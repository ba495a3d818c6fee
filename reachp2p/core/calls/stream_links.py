"""Streams and the links below them: interrupted, dialled again, given up in time (docs/protocol/streams.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from reachp2p.core.calls.stream import Stream, StreamDue, StreamInput, StreamState
from reachp2p.core.calls.stream_keeper import StreamKeeper
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Address, NodeId
from reachp2p.core.links.outputs import LinkDown, LinkUp
from reachp2p.core.links.table import Links
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode


class StreamLinks:
    """Keeps streams alive over broken links, and ends those that cannot go on."""

    def __init__(
        self,
        protocol: Protocol,
        keeper: StreamKeeper,
        links: Links,
        addresses: Callable[[NodeId], Sequence[Address]],
        counters: Counters,
    ) -> None:
        """`addresses` says where a member may be dialled again."""
        self._protocol = protocol
        self._keeper = keeper
        self._table = keeper.table
        self._pump = keeper.pump
        self._links = links
        self._addresses = addresses
        self._counters = counters

    def on_link_up(self, up: LinkUp, now: float) -> None:
        """A link is open: interrupted calls to the same life go on, those to a former life are lost."""
        for stream in self._table.of_node(up.node):
            assert stream.life is not None, "it knows its node"
            if stream.life < up.life:
                self._keeper.lose(stream, "its node has begun another life", now)
            elif stream.life == up.life:
                self._relink(stream, now)

    def on_link_down(self, down: LinkDown, now: float) -> None:
        """A proven link has ended: if not everything on it was delivered, its streams are interrupted."""
        if down.node is None or not down.was_proven:
            return
        other = self._links.link_to(down.node)
        goes_on = other is not None and self._links.life_of(other) == down.life
        if not goes_on:
            self._pump.drop_farewells(down.node)
        for stream in self._table.of_node(down.node):
            if stream.life != down.life:
                continue
            if goes_on and down.clean:
                self._pump.ready(stream)
                continue
            if stream.state is StreamState.FLOWING or stream.state is StreamState.RESUMING:
                self._interrupt(stream, now)
            if goes_on:
                self._relink(stream, now)

    def on_timer(self, key: StreamDue, now: float) -> None:
        """A stream is to be looked at."""
        stream = self._table.get(key.stream)
        if stream is None:
            return
        if now >= stream.lost_at + self._protocol.stream_resume_window:
            self._keeper.lose(
                stream, f"its link was broken for {self._protocol.stream_resume_window:g} s", now
            )
            return
        if now >= stream.forget_at:
            self._counters.add("streams.unconfirmed")
            self._keeper.end(stream)
            return
        if now >= stream.waits_since + stream.idle_timeout:
            self._counters.add("streams.idle")
            detail = f"nothing has come for {stream.idle_timeout:g} s"
            self._keeper.fail(stream, ErrorCode.DEADLINE_EXCEEDED, detail, now)
            return
        if stream.state is StreamState.INTERRUPTED and stream.is_caller:
            self._redial(stream, now)
        self._keeper.arm(stream, now)

    def _interrupt(self, stream: Stream, now: float) -> None:
        stream.move(StreamInput.LINK_LOST)
        self._counters.add("streams.interrupted")
        stream.is_resume_due = stream.is_answer_due = False
        stream.waits_since = inf
        stream.lost_at = min(stream.lost_at, now)
        self._pump.forget(stream)
        if stream.is_caller and not self._is_linked(stream):
            self._redial(stream, now)
        self._keeper.arm(stream, now)

    def _relink(self, stream: Stream, now: float) -> None:
        """A link leads to the other life."""
        if stream.state is StreamState.FLOWING:
            self._pump.ready(stream)
        elif stream.state is StreamState.INTERRUPTED:
            stream.move(StreamInput.LINKED)
            stream.is_resume_due = True
            self._pump.ready(stream)

    def _redial(self, stream: Stream, now: float) -> None:
        if stream.node is not None:
            self._links.ensure(stream.node, self._addresses(stream.node), now)

    def _is_linked(self, stream: Stream) -> bool:
        link = self._links.link_to(stream.node) if stream.node is not None else None
        return link is not None and self._links.life_of(link) == stream.life
