"""Replies on their way to a caller's link: one that finds its link full waits for room, and delays nobody.

Several large results that are ready in one moment are more than a link takes at once, although the caller reads. They
wait here in order; small replies go past them. A caller that reads nothing loses its link by the link's own rules, and
with it what waits for it. Bound: `WAITING_BYTES_MAX`. Beyond it the newest reply to the caller for whom most waits is
replaced by a short 1411, so that it learns at once that the result is lost: one who reads slowly costs nobody else any.
"""

from __future__ import annotations

from collections import deque

import msgspec

from reachp2p.core.calls.replies import without_answer
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import Reply

WAITING_BYTES_MAX = 67_108_864
"""Bytes of replies that wait, over all callers: 63 of the largest, or 65,536 without a payload."""
OVERHEAD_BYTES = 1_024
"""What a reply counts besides payload and detail: refusals carry neither much, and must be bounded, too."""
SMALL = 16_384
"""A reply with a payload of at most this many bytes goes past those that wait."""
RETRY_INTERVAL = 0.02
"""Seconds between two looks for room: at the 8 MiB of a link's queue, up to 400 MB a second."""


class WaitingRepliesDue(msgspec.Struct, frozen=True):
    """Look for room again."""


class _Waiting(msgspec.Struct):
    link: LinkId
    reply: Reply
    deadline: float
    """Nobody waits for the reply after this."""


class WaitingReplies:
    """Replies to other nodes' calls. `send` never fails; what becomes of a reply is counted."""

    def __init__(self, links: Links, timers: Timers, counters: Counters) -> None:
        self._links = links
        self._timers = timers
        self._counters = counters
        self._waiting: dict[tuple[NodeId, Life], deque[_Waiting]] = {}
        self._count = 0
        self._bytes = 0
        self._bytes_for: dict[tuple[NodeId, Life], int] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait, `OVERHEAD_BYTES` for each reply included."""
        return self._bytes

    def waits_for(self, node: NodeId) -> bool:
        """Whether a reply to this node waits."""
        return any(waiting == node for waiting, _ in self._waiting)

    def send(self, link: LinkId, node: NodeId, life: Life, reply: Reply, deadline: float, now: float) -> None:
        """To the caller `node` in its `life`, over its link or a later one; after `deadline` nobody waits for it."""
        in_use = self._link(link, node, life)
        if in_use is None:
            self._counters.add("calls.reply_dropped")  # the end of its link has told the caller
            return
        size = _size(reply)
        key = (node, life)
        if (key not in self._waiting or len(reply.payload) <= SMALL) and self._links.send(in_use, reply):
            return
        if not self._make_room(key, size, now):
            self.on_unsent(in_use, reply, now)
            return
        self._waiting.setdefault(key, deque()).append(_Waiting(link, reply, deadline))
        self._count += 1
        self._bytes += size
        self._bytes_for[key] = self._bytes_for.get(key, 0) + size
        self._counters.add("calls.reply_waited")
        if self._timers.due_at(WaitingRepliesDue()) is None:
            self._timers.set(WaitingRepliesDue(), now + RETRY_INTERVAL)

    def _make_room(self, key: tuple[NodeId, Life], size: int, now: float) -> bool:
        """Make room for a reply to one caller, at the cost of those for whom more waits; false if nobody's is more."""
        while self._bytes + size > WAITING_BYTES_MAX:
            most = max(self._bytes_for, key=self._bytes_for.__getitem__)
            if self._bytes_for[most] <= self._bytes_for.get(key, 0) + size:
                return False
            waiting = self._waiting[most].pop()
            self._forget(most, waiting)
            if not self._waiting[most]:
                del self._waiting[most]
            link = self._link(waiting.link, *most)
            if link is not None:
                self.on_unsent(link, waiting.reply, now)
        return True

    def on_unsent(self, link: LinkId, reply: Reply, now: float) -> None:
        """A reply will never leave. Its caller is told in a few bytes that there is none; if they do not fit either, or
        the link is not open any more, its end tells the caller."""
        self._counters.add("calls.reply_unsent")
        short = without_answer(reply)
        if reply == short or not self._links.send(link, short):
            self._counters.add("calls.reply_dropped")
            self._links.give_up(link, now)

    def on_due(self, now: float) -> None:
        """Send what there is room for now; forget what nobody waits for any more."""
        for key in list(self._waiting):
            queue = self._waiting[key]
            while queue and self._is_done(queue[0], *key, now):
                self._forget(key, queue.popleft())
            if not queue:
                del self._waiting[key]
        if self._waiting:
            self._timers.set(WaitingRepliesDue(), now + RETRY_INTERVAL)

    def withdraw(self, now: float) -> None:
        """This node may return no result any more: what waits is replaced by the news that it is lost."""
        for (node, life), queue in self._waiting.items():
            for waiting in queue:
                link = self._link(waiting.link, node, life)
                if link is not None:
                    self.on_unsent(link, waiting.reply, now)
                self._forget((node, life), waiting)
        self._waiting.clear()
        self._timers.cancel(WaitingRepliesDue())

    def _is_done(self, waiting: _Waiting, node: NodeId, life: Life, now: float) -> bool:
        if now >= waiting.deadline:
            self._counters.add("calls.reply_late")
            return True
        link = self._link(waiting.link, node, life)
        if link is None:
            self._counters.add("calls.reply_dropped")
            return True
        return self._links.send(link, waiting.reply)

    def _forget(self, key: tuple[NodeId, Life], waiting: _Waiting) -> None:
        size = _size(waiting.reply)
        self._count -= 1
        self._bytes -= size
        self._bytes_for[key] -= size
        if not self._bytes_for[key]:
            del self._bytes_for[key]

    def _link(self, link: LinkId, node: NodeId, life: Life) -> LinkId | None:
        """The link the call came by while it takes replies, else another one to the same life."""
        if self._links.takes_replies(link):
            return link
        other = self._links.link_to(node)
        return other if other is not None and self._links.life_of(other) == life else None


def _size(reply: Reply) -> int:
    return OVERHEAD_BYTES + len(reply.payload) + len(reply.detail)
