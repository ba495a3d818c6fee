"""Forged facts about others: heads, records, accusations and whole datagrams in another node's name.

Without the other's key the signatures are this node's own, so nobody may take any of it for true: each must be dropped
for its signature, and counted.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from reachp2p.core.ids import COUNTER_MAX, EPOCH_MAX, Life
from reachp2p.core.wire.codec import encode_message, pack_messages
from reachp2p.core.wire.datagram import DatagramWriter
from reachp2p.core.wire.facts import Accusation, AgentRecord, Capability
from reachp2p.core.wire.messages import AccusationUpdate, Challenge, HeadUpdate, RecordUpdate
from reachp2p_sim.hostile.base import COUNTER_APART, Behaviour


class Forgery(Behaviour):
    """Every period: a victim's goodbye, its next life, an agent it never offered, a word it never said, its
    datagram."""

    name: ClassVar[str] = "forgery"
    summary: ClassVar[str] = "says in others' names what only their keys could sign"

    def act(self) -> None:
        """To three others, and to the victim itself."""
        victim = self.chance.choice(self.victims)
        view = self.member(victim)
        if view is None:
            return
        if view.incarnation >= COUNTER_MAX or view.life.epoch >= EPOCH_MAX:
            return  # the victim has come to the end of all numbers, and nothing above it can be forged
        wall = int(self.host.wall)
        head = msgspec.structs.replace(
            self.own_head(), node=victim.node, life=view.life, incarnation=view.incarnation + 1
        )
        left = msgspec.structs.replace(head, left=True)
        next_life = msgspec.structs.replace(head, life=Life(view.life.epoch + 1, self.chance.randbytes(16)))
        record = AgentRecord(
            node=victim.node,
            life=view.life,
            version=min(view.version + 1, COUNTER_MAX),
            agent="work/forged",
            issued_at=wall,
            capabilities=[Capability(name="work.do")],
        )
        framed = self.chance.choice(self.others)
        accusation = Accusation(
            accuser=framed.node,
            subject=victim.node,
            life=view.life,
            incarnation=view.incarnation,
            grade=2,
            issued_at=wall,
        )
        for other in [*self.some(3), victim]:
            self.send(other, HeadUpdate(head=self.sign(left)), HeadUpdate(head=self.sign(next_life)))
            self.send(
                other,
                RecordUpdate(record=self.sign(record)),
                AccusationUpdate(accusation=self.sign(accusation)),
            )
            in_its_name = DatagramWriter(
                self.world.cluster_id, victim.node, view.life, self.host.signer.sign, counter=COUNTER_APART
            )
            challenge = Challenge(nonce=self.chance.randbytes(8), life=view.life)
            self.send_bytes(other, in_its_name.write(pack_messages([encode_message(challenge)]), other.node))
