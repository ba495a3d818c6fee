"""What streams say on links: one after the other, when the driver takes the effects, and never much at once.

A stream is *ready* while it may have something to say. Streams to one node take turns, a message each, and only while
little waits for the link: so neither calls nor other streams find a long queue before them (case B36).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from reachp2p.core.calls.stream import Stream
from reachp2p.core.commands import StreamKey
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.wire.messages import Message

BACKLOG_MAX = 65_536
"""Bytes that may wait for a link, a frame's worth, before streams wait instead."""
FAREWELLS_MAX = 4_096
"""Last words of streams that are over here, over all nodes."""


class StreamPump:
    """Sizes: one entry a ready stream; `FAREWELLS_MAX`."""

    def __init__(
        self,
        own: NodeId,
        links: Links,
        counters: Counters,
        *,
        locally: Callable[[Stream, Message, float], None],
    ) -> None:
        """`locally` takes what a stream of this node says to another of this node."""
        self._own = own
        self._links = links
        self._counters = counters
        self._locally = locally
        self._ready: dict[NodeId, dict[StreamKey, Stream]] = {}
        self._farewells: dict[NodeId, deque[tuple[Life, Message]]] = {}
        self._farewells_count = 0

    @property
    def is_ready(self) -> bool:
        """Whether anybody may have something to say."""
        return bool(self._ready or self._farewells)

    @property
    def farewells(self) -> int:
        """Last words that wait for their link."""
        return self._farewells_count

    def ready(self, stream: Stream) -> None:
        """A stream may have something to say."""
        if stream.node is not None:
            self._ready.setdefault(stream.node, {})[stream.key] = stream

    def forget(self, stream: Stream) -> None:
        """A stream has ended."""
        of_node = self._ready.get(stream.node) if stream.node is not None else None
        if of_node is not None:
            of_node.pop(stream.key, None)

    def farewell(self, node: NodeId, life: Life, message: Message) -> None:
        """Say something for a stream that is over here, as soon as there is room; it is lost with its link."""
        link = self._links.link_to(node)
        is_first = link is not None and node not in self._farewells and self._links.life_of(link) == life
        if is_first and link is not None and self._links.send(link, message):
            return
        if self._farewells_count >= FAREWELLS_MAX:
            self._counters.add("streams.farewell_dropped")
            return
        self._farewells.setdefault(node, deque()).append((life, message))
        self._farewells_count += 1

    def drop_farewells(self, node: NodeId) -> None:
        """No link leads there any more: whoever waits there will notice."""
        dropped = self._farewells.pop(node, ())
        self._farewells_count -= len(dropped)

    def pump(self, now: float) -> bool:
        """Hand over what may leave now; whether anything did."""
        said = False
        for node in list(self._farewells):
            said = self._say_farewells(node) or said
        for node in list(self._ready):
            said = (self._pump_locally(now) if node == self._own else self._pump(node)) or said
            if not self._ready.get(node, True):
                del self._ready[node]
        return said

    def _pump(self, node: NodeId) -> bool:
        ready = self._ready[node]
        link = self._links.link_to(node)
        if link is None:  # they are ready again when there is one
            ready.clear()
            return False
        life = self._links.life_of(link)
        said = False
        while ready and self._links.backlog(link) < BACKLOG_MAX:
            key, stream = next(iter(ready.items()))
            message = stream.next_message() if stream.life == life else None
            if message is None:
                del ready[key]
                continue
            if not self._links.send(link, message):
                break
            stream.said(message)
            del ready[key]
            ready[key] = stream  # its turn is over
            said = True
        return said

    def _pump_locally(self, now: float) -> bool:
        ready = self._ready[self._own]
        said = False
        while ready:
            key, stream = next(iter(ready.items()))
            message = stream.next_message()
            if message is None:
                del ready[key]
                continue
            stream.said(message)
            self._locally(stream, message, now)
            said = True
        return said

    def _say_farewells(self, node: NodeId) -> bool:
        waiting = self._farewells[node]
        link = self._links.link_to(node)
        if link is None:
            self.drop_farewells(node)
            return False
        said = False
        while waiting and self._links.backlog(link) < BACKLOG_MAX:
            life, message = waiting[0]
            if life == self._links.life_of(link):
                if not self._links.send(link, message):
                    break
                said = True
            waiting.popleft()
            self._farewells_count -= 1
        if not waiting:
            del self._farewells[node]
        return said
