"""The record of this node's own subscriptions: signed anew when patterns come and go (docs/protocol/events.md)."""

from __future__ import annotations

from reachp2p.core.hearing import Hearing
from reachp2p.core.parts import Parts
from reachp2p.core.topics.subscriber import SubscriptionsDue


class Subscribing:
    """Tells others what this node wants. Keeps nothing."""

    def __init__(self, parts: Parts, hearing: Hearing) -> None:
        self._parts = parts
        self._hearing = hearing

    def subscribe(self, pattern: str, now: float) -> int:
        """Want events of a well-formed pattern; returns the subscription's number. Raises 1704."""
        number = self._parts.subscriber.subscribe(pattern)
        self._follow(now)
        return number

    def unsubscribe(self, number: int, now: float) -> None:
        """Want them no more."""
        self._parts.subscriber.unsubscribe(number, now)
        self._follow(now)

    def on_due(self, now: float) -> None:
        """The record may have to say something else."""
        self._follow(now)

    def _follow(self, now: float) -> None:
        parts = self._parts
        if parts.life.is_leaving or parts.life.is_over:
            return  # its record is withdrawn for good
        at = parts.subscriber.due_at(now)
        if at is not None and at <= now:
            patterns = parts.subscriber.take_patterns(now)
            record = parts.agents.subscribe(patterns, now) if patterns is not None else None
            if record is not None and parts.life.is_running:
                self._hearing.own_record(record, now)
            at = parts.subscriber.due_at(now)
        if at is None:
            parts.timers.cancel(SubscriptionsDue())
        else:
            parts.timers.set(SubscriptionsDue(), max(at, now))
