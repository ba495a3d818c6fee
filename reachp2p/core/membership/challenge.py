"""One challenge of another life of our own key: a nonce that only this key can answer, sent until its time is over.

It ends when the life cycle cancels it (an answer, or a decision) or when nobody has answered (`ChallengeEnds`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reachp2p.core.effects import Effects, ToNode
from reachp2p.core.ids import NONCE_BYTES, Address, Entropy, Life, NodeId
from reachp2p.core.timers import Timers
from reachp2p.core.wire.messages import Challenge, ChallengeAnswer


class ChallengeDue(msgspec.Struct, frozen=True):
    """Challenge again, since datagrams get lost."""


class ChallengeEnds(msgspec.Struct, frozen=True):
    """Nobody has answered for the other life."""


class Challenging:
    """At most one challenge at a time; `interval` in seconds from one datagram to the next."""

    def __init__(
        self, node: NodeId, interval: float, *, effects: Effects, timers: Timers, entropy: Entropy
    ) -> None:
        self._node = node
        self._interval = interval
        self._effects = effects
        self._timers = timers
        self._entropy = entropy
        self._nonce = b""

    def begin(self, patience: float, now: float) -> None:
        """A fresh nonce, sent at once and then again and again for `patience` seconds."""
        self._nonce = self._entropy.token(NONCE_BYTES)
        self._timers.set(ChallengeEnds(), now + patience)
        self._timers.set(ChallengeDue(), now)

    def send(self, other: Life, addresses: Sequence[Address], now: float) -> None:
        """Send it to every address of the other life, and plan the next time."""
        message = Challenge(nonce=self._nonce, life=other)
        for address in addresses:
            self._effects.add(ToNode(self._node, message, address=address, piggyback=False))
        self._timers.set(ChallengeDue(), now + self._interval)

    def is_answered_by(self, answer: ChallengeAnswer) -> bool:
        """Whether an answer is to the challenge that runs."""
        return bool(self._nonce) and answer.nonce == self._nonce

    def cancel(self) -> None:
        """It is over."""
        self._nonce = b""
        self._timers.cancel(ChallengeDue())
        self._timers.cancel(ChallengeEnds())
