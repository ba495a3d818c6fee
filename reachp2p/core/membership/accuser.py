"""What a node says of those whom it doubts, and what it passes on of what others say (SWIM §4.2, Lifeguard §IV.B).

An accusation is signed and circulates in a slot of its own for each subject and accuser, until its object refutes, or
is gone. When somebody is doubted is decided elsewhere (`detector`).
"""

from __future__ import annotations

from reachp2p.core.clock import WallClock
from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue, Kind
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.suspicion import Grade, Suspicion, kept_accusers
from reachp2p.core.rules import Rules
from reachp2p.core.trust.facts import FactSigner
from reachp2p.core.wire.engine_codec import CODEC, Codec
from reachp2p.core.wire.facts import Accusation
from reachp2p.core.wire.messages import AccusationUpdate

AGE_MS_MAX = 86_400_000


class Accuser:
    """Signs and spreads accusations. Size: one signed accusation for each member at most, besides the queue's."""

    def __init__(
        self,
        rules: Rules,
        queue: BroadcastQueue,
        signer: FactSigner,
        clock: WallClock,
        *,
        own: NodeId,
        counters: Counters,
        codec: Codec = CODEC,
    ) -> None:
        self._rules = rules
        self._queue = queue
        self._signer = signer
        self._clock = clock
        self._own = own
        self._counters = counters
        self._codec = codec
        self._signed: dict[NodeId, tuple[tuple[object, ...], bytes]] = {}
        """What somebody who may not know was told of a member: for which life, incarnation and grade, and the bytes."""

    # News

    def accuse(self, suspicion: Suspicion, grade: Grade, now: float) -> None:
        """Say once for each grade that we doubt, too, unless enough others have said so.

        As long as nobody else has said it, all that we sent may be lost (in a partition, most of it is): then each
        failed probe of ours says it again, so that its object hears of it before the timer ends.
        """
        is_heard = bool(suspicion.others) or not self._rules.own_verdict
        again = suspicion.own and grade is not Grade.REFUSAL and is_heard
        suspicion.own = True
        as_much = sum(told >= grade for told in suspicion.others.values())
        if again or as_much >= kept_accusers(suspicion.expected):
            return
        suspicion.word = self._sign(suspicion, grade, suspicion.started, now)
        self.spread(suspicion, self._own, suspicion.word)
        self._counters.add("suspicion.accused")

    def spread(self, suspicion: Suspicion, accuser: NodeId, accusation: bytes) -> None:
        """Let an accusation of the suspicion's object circulate, our own or another's."""
        if accuser != self._own and not self._rules.infection:
            return
        slot = (suspicion.node, accuser)
        if not self._rules.own_verdict:  # memberlist's queue has one place for all that is said of a member
            slot = _confirm_slot(suspicion.node)
        self._put(slot, accusation)
        suspicion.spread[accuser] = None

    def confirm(self, node: NodeId, accusation: bytes) -> None:
        """Without own verdicts: whoever hears this believes that a member is DEAD (SWIM's Confirm)."""
        self._put(_confirm_slot(node), accusation)

    def _put(self, slot: tuple[NodeId, NodeId], accusation: bytes) -> None:
        self._queue.put(Kind.ACCUSATION, slot, self._codec.encode(AccusationUpdate(accusation=accusation)))

    def withdraw(self, node: NodeId, suspicion: Suspicion | None) -> None:
        """What is said of a member has no object any more: it stops circulating."""
        self._queue.drop(Kind.ACCUSATION, _confirm_slot(node))
        if suspicion is not None:
            for accuser in suspicion.spread:
                self._queue.drop(Kind.ACCUSATION, (node, accuser))

    # Answers

    def doubt(self, member: Member, suspicion: Suspicion | None, now: float) -> bytes | None:
        """Our signed accusation of a member that we hold SUSPECT or DEAD, for somebody who may not know; else None."""
        if member.state not in (MemberState.SUSPECT, MemberState.DEAD):
            return None
        grade = Grade.DEAD if member.state is MemberState.DEAD else Grade.SILENCE
        key = (member.life, member.incarnation, grade)
        held = self._signed.get(member.node)
        if held is not None and held[0] == key:
            return held[1]
        started = suspicion.started if suspicion is not None else member.since
        signed = self._sign(member, grade, started, now)
        self._signed[member.node] = (key, signed)
        return signed

    def forget(self, node: NodeId) -> None:
        """The member's row is gone."""
        self._signed.pop(node, None)

    def _sign(self, about: Suspicion | Member, grade: Grade, started: float, now: float) -> bytes:
        age_ms = int(max(0.0, now - started) * 1000)
        return self._signer.sign(
            Accusation(
                accuser=self._own,
                subject=about.node,
                life=about.life,
                incarnation=about.incarnation,
                grade=grade,
                age_ms=min(AGE_MS_MAX, age_ms),
                issued_at=self._clock.at(now),
            )
        )

    def __len__(self) -> int:
        return len(self._signed)


def _confirm_slot(node: NodeId) -> tuple[NodeId, NodeId]:
    """Where a Confirm circulates: nobody accuses itself, so no accusation is ever there."""
    return (node, node)
