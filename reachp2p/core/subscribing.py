"""The record of this node's own subscriptions: signed anew when patterns come and go (docs/protocol/events.md)."""

from __future__ import annotations

from reachp2p.core.hearing import Hearing
from reachp2p.core.parts import Parts
from reachp2p.core.topics.subscriber import SubscriptionsDue
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import AgentRecord
from reachp2p.errors import LocalProtocolError


class Subscribing:
    """Tells others what this node wants. Keeps nothing."""

    def __init__(self, parts: Parts, hearing: Hearing) -> None:
        self._parts = parts
        self._hearing = hearing

    def subscribe(self, pattern: str, now: float) -> int:
        """Want events of a well-formed pattern; returns the subscription's number. Raises 1704 or 1707 if there is no
        room for it, here or in what this node may tell of itself."""
        number = self._parts.subscriber.subscribe(pattern)
        refused = self._follow(now)
        if refused is not None:
            self._parts.subscriber.unsubscribe(number, now)
            raise refused
        return number

    def unsubscribe(self, number: int, now: float) -> None:
        """Want them no more."""
        self._parts.subscriber.unsubscribe(number, now)
        self._follow(now)

    def on_due(self, now: float) -> None:
        """The record may have to say something else."""
        self._follow(now)

    def _follow(self, now: float) -> LocalProtocolError | None:
        """Tell what is due; why that cannot be, if it cannot. It is tried again later: agents come and go."""
        parts = self._parts
        if parts.life.is_leaving or parts.life.is_over:
            return None  # its record is withdrawn for good
        refused: LocalProtocolError | None = None
        at = parts.subscriber.due_at(now)
        if at is not None and at <= now:
            told = parts.subscriber.told
            patterns = parts.subscriber.take_patterns(now)
            record: Checked[AgentRecord] | None = None
            try:
                record = parts.agents.subscribe(patterns, now) if patterns is not None else None
            except LocalProtocolError as error:
                refused = error
                parts.counters.add("topics.not_told")
                parts.subscriber.not_told(told, now)
            if record is not None and parts.life.is_running:
                self._hearing.own_record(record, now)
            at = parts.subscriber.due_at(now)
        if at is None:
            parts.timers.cancel(SubscriptionsDue())
        else:
            parts.timers.set(SubscriptionsDue(), max(at, now))
        return refused
