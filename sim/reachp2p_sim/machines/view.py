"""What one process has told its application about the others, kept up with each event.

Checkers and `converged` ask this mirror instead of building all member lists again and again; a checker compares it
with `engine.members()`, so that the events are proven complete, too.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.ids import Life, NodeId


class Held(msgspec.Struct, frozen=True):
    """One member as last told."""

    life: Life
    incarnation: int
    state: MemberState


@lru_cache(maxsize=65_536)
def _held(life: Life, incarnation: int, state: MemberState) -> Held:
    """One object for all who hold the same."""
    return Held(life, incarnation, state)


class View:
    """Members by NodeId, and a fingerprint of the ALIVE ones."""

    def __init__(self) -> None:
        self.members: dict[NodeId, Held] = {}
        self.before: Held | None = None
        """What was held about the member that the last event speaks of, before that event."""
        self.alive = 0
        """XOR of the life ids of ALIVE members: equal sets, equal number (life ids are random, 128 bits)."""

    def note(self, event: Event) -> None:
        """Follow an event."""
        if not isinstance(event, MemberChanged):
            return
        known = self.before = self.members.pop(event.node, None)
        if known is not None and known.state is MemberState.ALIVE:
            self.alive ^= fingerprint(known.life)
        if event.new is not None:
            self.members[event.node] = _held(event.life, event.incarnation, event.new)
            if event.new is MemberState.ALIVE:
                self.alive ^= fingerprint(event.life)


def fingerprint(life: Life) -> int:
    """One life in the XOR of a set of lives."""
    return int.from_bytes(life.life_id, "big")
