"""Takes events in: numbers them against loss, and hands each to the streams and handlers that want it.

Own subscriptions are counted by pattern; what the node's record has to say follows from them with a delay that keeps
a program that subscribes again and again from filling the network (docs/protocol/events.md).
"""

from __future__ import annotations

from math import inf

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects
from reachp2p.core.events import EventReceived
from reachp2p.core.ids import PATTERNS_MAX, Life, NodeId, is_topic
from reachp2p.core.topics.handling import EventHandlers
from reachp2p.core.topics.matching import Matching
from reachp2p.core.wire.messages import Publication
from reachp2p.errors import LocalProtocolError

PUBLISHERS_MAX = 4_096
"""Nodes whose last sequence number is remembered: as many members publish, and few do."""
SUBSCRIPTIONS_MAX = 65_536
"""Subscriptions of a node: as many as calls may be pending."""
TELL_INTERVAL = 0.5
"""Seconds between two records of subscriptions, at least."""
NOT_TOLD_INTERVAL = 5.0
"""Seconds until a record for which there was no room is tried again."""
LINGER = 5.0
"""Seconds that a pattern stays in the record after its last subscriber has gone."""


class SubscriptionsDue(msgspec.Struct, frozen=True):
    """The record of this node's subscriptions may have to say something else."""


class Subscriber:
    """Own subscriptions. Sizes: `PATTERNS_MAX` patterns, `SUBSCRIPTIONS_MAX` subscriptions,
    `PUBLISHERS_MAX` sequence numbers."""

    def __init__(self, handlers: EventHandlers, *, effects: Effects, counters: Counters) -> None:
        self._handlers = handlers
        self._effects = effects
        self._counters = counters
        self._streams: dict[int, str] = {}
        """The pattern of each subscription."""
        self._matching: Matching[int] = Matching()
        self._used: dict[str, int] = {}
        """How many subscriptions have a pattern."""
        self._lingering: dict[str, float] = {}
        """Patterns without subscriptions, and until when the record names them."""
        self._told: tuple[str, ...] = ()
        self._told_at = -inf
        self._last_number = 0
        self._sequences: dict[NodeId, tuple[Life, int]] = {}

    # Own subscriptions

    def subscribe(self, pattern: str) -> int:
        """Want events of a well-formed pattern from now on; returns the subscription's number. Raises 1704."""
        if len(self._streams) >= SUBSCRIPTIONS_MAX:
            raise LocalProtocolError(
                f"this node has {SUBSCRIPTIONS_MAX} subscriptions already; end some of them"
            )
        if pattern not in self._used and len(self._used) + len(self._lingering) >= PATTERNS_MAX:
            if not self._lingering:
                raise LocalProtocolError(
                    f"this node subscribes to {PATTERNS_MAX} patterns already; subscribe to a wider one"
                )
            del self._lingering[next(iter(self._lingering))]
        self._last_number += 1
        self._streams[self._last_number] = pattern
        self._matching.add(pattern, self._last_number)
        self._used[pattern] = self._used.get(pattern, 0) + 1
        self._lingering.pop(pattern, None)
        return self._last_number

    def unsubscribe(self, number: int, now: float) -> None:
        """Want them no more; unknown numbers have ended already."""
        pattern = self._streams.pop(number, None)
        if pattern is None:
            return
        self._matching.remove(pattern, number)
        self._used[pattern] -= 1
        if not self._used[pattern]:
            del self._used[pattern]
            self._lingering[pattern] = now + LINGER

    def due_at(self, now: float) -> float | None:
        """When the record has to say something else than it does; None if it is right as it is."""
        ends = min(self._lingering.values(), default=inf)
        if any(pattern not in self._told for pattern in self._used):
            ends = now
        at = max(ends, self._told_at + TELL_INTERVAL)
        return None if ends == inf else at

    def take_patterns(self, now: float) -> tuple[str, ...] | None:
        """What the record is to say from now on, or None if it says so already."""
        self._lingering = {pattern: until for pattern, until in self._lingering.items() if until > now}
        wanted = tuple(sorted({**self._used, **self._lingering}))
        if wanted == self._told:
            return None
        self._told, self._told_at = wanted, now
        return wanted

    @property
    def told(self) -> tuple[str, ...]:
        """What the record says."""
        return self._told

    def not_told(self, told: tuple[str, ...], now: float) -> None:
        """There was no room for what was taken last: the record says this, as before. Try again in a while."""
        self._told, self._told_at = told, now + NOT_TOLD_INTERVAL - TELL_INTERVAL

    # Events

    def on_publication(self, node: NodeId, life: Life, event: Publication, now: float) -> None:
        """An event has arrived, or was published here."""
        if not is_topic(event.topic):
            self._counters.add("dropped.publication.bad_topic")
            return
        gap = self._gap(node, life, event.sequence)
        received = EventReceived(
            at=now,
            subscriptions=self._matching.match(event.topic),
            topic=event.topic,
            content_type=event.content_type,
            payload=event.payload,
            publisher=node,
            agent=event.agent,
            sequence=event.sequence,
            gap=gap,
            published_at=event.published_at,
            session_id=event.session_id,
            traceparent=event.traceparent,
            hops_left=event.hops_left,
        )
        is_wanted = bool(received.subscriptions)
        self._counters.add("topics.received")
        if is_wanted:
            self._effects.notify(received)
        if not self._handlers.on_event(received, now) and not is_wanted:
            self._counters.add("topics.unwanted")

    def _gap(self, node: NodeId, life: Life, sequence: int) -> int:
        """How many events of this publisher were lost on the way just before this one."""
        known = self._sequences.pop(node, None)
        if known is None or known[0] != life:
            self._sequences[node] = (life, sequence)
            if len(self._sequences) > PUBLISHERS_MAX:
                del self._sequences[next(iter(self._sequences))]
                self._counters.add("topics.publishers_forgotten")
            return 0
        last = known[1]
        self._sequences[node] = (life, max(last, sequence))
        if sequence <= last:
            self._counters.add("topics.late")
            return 0
        lost = sequence - last - 1
        if lost:
            self._counters.add("topics.lost", lost)
        return lost

    def gauges(self) -> dict[str, int]:
        """The sizes of what is bounded, by name."""
        return {
            "topics.subscriptions": len(self._streams),
            "topics.own_patterns": len(self._used) + len(self._lingering),
            "topics.publishers": len(self._sequences),
            **self._handlers.gauges(),
        }
