"""Sends events to the nodes that want them: one message each, best effort (docs/protocol/events.md; case B36).

Nothing waits for anybody. What finds its link full, or no link in time, is dropped and counted, and the sequence tells
the receiver. `deliver_locally` is how own events reach own subscribers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from reachp2p.core.clock import WallClock
from reachp2p.core.commands import PublishSpec
from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, LinkId, NodeId
from reachp2p.core.links.table import Links
from reachp2p.core.membership.table import PRESENT, MemberTable
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.settings import Protocol
from reachp2p.core.timers import Timers
from reachp2p.core.topics.interest import Interest
from reachp2p.core.wire.messages import Publication
from reachp2p.errors import CallFailed, ErrorCode

LINK_SHARE = 0.25
"""Of `link_queue_max`: beyond it events are dropped, so that calls to the same node get through."""
WAITING_MAX = 64
"""Events that wait for a link to one node."""
WAITING_BYTES_MAX = 262_144
"""The same in bytes; one event of any size may wait."""
ALL_WAITING_MAX = 4_096
ALL_WAITING_BYTES_MAX = 33_554_432
WAIT_MAX = 5.0
"""Seconds that an event waits: as long as a link has for its opening."""
EVENT_BYTES = 512
"""What an event costs besides its payload, about."""


class WaitingEventsDue(msgspec.Struct, frozen=True):
    """Events have waited for a link long enough."""


class _Waiting(msgspec.Struct):
    """What waits for a link to one node."""

    events: deque[tuple[float, Publication]]
    """With the time until which each may wait."""
    size: int = 0


class Publisher:
    """Publishes. Sizes: a sequence for each member that was sent to, and what waits (`ALL_WAITING_MAX`)."""

    def __init__(
        self,
        protocol: Protocol,
        own: NodeId,
        interest: Interest,
        table: MemberTable,
        routing: RoutingTable,
        links: Links,
        *,
        clock: WallClock,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self._protocol = protocol
        self._own = own
        self._interest = interest
        self._table = table
        self._routing = routing
        self._links = links
        self._clock = clock
        self._timers = timers
        self._counters = counters
        self._link_max = int(protocol.link_queue_max * LINK_SHARE)
        self._sequences: dict[NodeId, tuple[Life | None, int]] = {}
        """What the present life of each node was sent."""
        self._waiting: dict[NodeId, _Waiting] = {}
        self._waiting_events = 0
        self._waiting_bytes = 0
        self.deliver_locally: Callable[[Publication, float], None] = lambda publication, now: None
        """Hands an own event to own subscribers; set when the engine is put together."""

    # Commands

    def publish(self, spec: PublishSpec, now: float) -> int:
        """Send an event to whoever wants it; to how many nodes, this one and those that a link opens to included.

        Raises `CallFailed`, and nothing was sent: 1404 the payload is too large, 1407 the chain of events is too long.
        The topic is well formed.
        """
        if len(spec.payload) > self._protocol.payload_max:
            raise CallFailed(
                ErrorCode.PAYLOAD_TOO_LARGE,
                f"the event has {len(spec.payload):,} bytes, at most {self._protocol.payload_max:,}",
            )
        hops_left = self._protocol.hops_max if spec.hops_left is None else spec.hops_left
        if hops_left < 1:
            raise CallFailed(ErrorCode.HOPS_USED_UP, "the chain of calls and events is too long")
        self._counters.add("topics.published")
        event = Publication(
            topic=spec.topic,
            payload=spec.payload,
            sequence=0,
            published_at=self._clock.milliseconds(now),
            content_type=spec.content_type,
            agent=spec.agent,
            session_id=spec.session_id,
            traceparent=spec.traceparent,
            hops_left=hops_left,
        )
        sent = 0
        is_wanted_here = False
        for node in self._interest.targets(spec.topic):
            if node == self._own:
                is_wanted_here = True
            elif self._send(node, event, now):
                sent += 1
        if is_wanted_here:
            sent += 1
            self.deliver_locally(self._numbered(self._own, None, event), now)
        return sent

    def begin(self) -> None:
        """A life begins: its sequences do, too."""
        self._sequences.clear()
        for node in list(self._waiting):
            self._drop_all(node, "unreached")

    # Sending

    def _send(self, node: NodeId, event: Publication, now: float) -> bool:
        member = self._table.get(node)
        if member is None or member.state not in PRESENT:
            return False
        numbered = self._numbered(node, member.life, event)
        link = self._links.link_to(node)
        if link is not None:
            return self._hand_over(link, numbered)
        if self._routing.is_unreached(node):
            self._counters.add("topics.dropped.unreached")
            return False
        if self._links.ensure(node, member.addresses, now) is None:
            self._counters.add("topics.dropped.unreached")
            return False
        return self._wait(node, numbered, now)

    def _numbered(self, node: NodeId, life: Life | None, event: Publication) -> Publication:
        known = self._sequences.get(node)
        sequence = known[1] + 1 if known is not None and known[0] == life else 1
        self._sequences[node] = (life, sequence)
        return Publication(
            topic=event.topic,
            payload=event.payload,
            sequence=sequence,
            published_at=event.published_at,
            content_type=event.content_type,
            agent=event.agent,
            session_id=event.session_id,
            traceparent=event.traceparent,
            hops_left=event.hops_left,
        )

    def _hand_over(self, link: LinkId, event: Publication) -> bool:
        is_full = self._links.backlog(link) + len(event.payload) > self._link_max
        if is_full or not self._links.send(link, event):
            self._counters.add("topics.dropped.link_full")
            return False
        self._counters.add("topics.sent")
        return True

    # Waiting for a link

    def _wait(self, node: NodeId, event: Publication, now: float) -> bool:
        size = EVENT_BYTES + len(event.payload)
        waiting = self._waiting.get(node)
        if waiting is not None:
            while waiting.events and (
                len(waiting.events) >= WAITING_MAX or waiting.size + size > WAITING_BYTES_MAX
            ):
                self._pop(waiting, "waiting_full")
        if self._waiting_events >= ALL_WAITING_MAX or self._waiting_bytes + size > ALL_WAITING_BYTES_MAX:
            self._counters.add("topics.dropped.waiting_full")
            return False
        if waiting is None:
            waiting = self._waiting[node] = _Waiting(deque())
        waiting.events.append((now + WAIT_MAX, event))
        waiting.size += size
        self._waiting_events += 1
        self._waiting_bytes += size
        if self._timers.due_at(WaitingEventsDue()) is None:
            self._timers.set(WaitingEventsDue(), now + WAIT_MAX)
        return True

    def _pop(self, waiting: _Waiting, reason: str | None) -> Publication:
        _, event = waiting.events.popleft()
        size = EVENT_BYTES + len(event.payload)
        waiting.size -= size
        self._waiting_events -= 1
        self._waiting_bytes -= size
        if reason is not None:
            self._counters.add(f"topics.dropped.{reason}")
        return event

    def _drop_all(self, node: NodeId, reason: str) -> None:
        waiting = self._waiting.pop(node, None)
        while waiting is not None and waiting.events:
            self._pop(waiting, reason)

    # Inputs

    def on_link_up(self, node: NodeId) -> None:
        """There is a link to a node: what waits for it goes."""
        link = self._links.link_to(node)
        waiting = self._waiting.pop(node, None) if link is not None else None
        while waiting is not None and link is not None and waiting.events:
            self._hand_over(link, self._pop(waiting, None))

    def on_link_down(self, node: NodeId) -> None:
        """A link or a dial has ended: if no other is under way, nothing waits for it any more."""
        if node in self._waiting and self._links.link_to(node) is None and not self._links.is_dialling(node):
            self._drop_all(node, "unreached")

    def on_gone(self, node: NodeId) -> None:
        """A node is DEAD or has left."""
        self._drop_all(node, "unreached")

    def forget(self, node: NodeId) -> None:
        """A node is forgotten."""
        self._sequences.pop(node, None)
        self._drop_all(node, "unreached")

    def on_waiting_due(self, now: float) -> None:
        """Some events have waited long enough."""
        for node in list(self._waiting):
            waiting = self._waiting[node]
            while waiting.events and waiting.events[0][0] <= now:
                self._pop(waiting, "expired")
            if not waiting.events:
                del self._waiting[node]
        soonest = min((waiting.events[0][0] for waiting in self._waiting.values()), default=None)
        if soonest is not None:
            self._timers.set(WaitingEventsDue(), soonest)

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        return {
            "topics.patterns": self._interest.size,
            "topics.sequences": len(self._sequences),
            "topics.waiting": self._waiting_events,
            "topics.waiting_bytes": self._waiting_bytes,
        }
