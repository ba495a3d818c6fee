"""Floods: far more of the same, and far more members than there are."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from reachp2p.core.effects import SendDatagram
from reachp2p.core.ids import Life
from reachp2p.core.trust.facts import external_data
from reachp2p.core.wire.codec import encode_fact
from reachp2p.core.wire.cose import sign1
from reachp2p.core.wire.messages import HeadRequest, HeadUpdate, Ping, PingReq
from reachp2p_sim.hostile.base import Behaviour

TIMES = 100
SYBILS_A_PERIOD = 2


class Flood(Behaviour):
    """Every datagram of its engine leaves a hundred times, and it asks its victims for work a hundred times a
    period."""

    name: ClassVar[str] = "flood"
    summary: ClassVar[str] = (
        "sends everything a hundred times, and asks its victims for pings and heads as often"
    )

    def on_send(self, effect: SendDatagram) -> None:
        """Byte for byte the same."""
        self.acts += TIMES - 1
        for _ in range(TIMES):
            self.pass_on(effect)

    def act(self) -> None:
        """Pings, requests to ping others (which are limited for each origin), and requests for heads."""
        for victim in self.victims:
            for _ in range(TIMES // len(self.victims)):
                nonce = self.chance.randbytes(8)
                target = self.chance.choice(self.others)
                self.send(
                    victim,
                    Ping(nonce=nonce),
                    PingReq(nonce=nonce, target=target.node, timeout_ms=500),
                    HeadRequest(subjects=[target.node]),
                )


class Sybils(Behaviour):
    """Makes members up: two keys of its own every period, each with a head that is in order, and nobody behind
    it."""

    name: ClassVar[str] = "sybils"
    summary: ClassVar[str] = "invents members: keys of its own with proper heads and nobody behind them"

    def act(self) -> None:
        """In an open cluster every key is a member; admission is what will end this."""
        for _ in range(SYBILS_A_PERIOD):
            signer = self.world.signing.signer(f"sybil {self.host.name} {self.acts}")
            head = msgspec.structs.replace(
                self.own_head(),
                node=signer.node,
                life=Life(1, self.chance.randbytes(16)),
                incarnation=0,
                version=0,
                name=f"sybil{self.acts}",
                addresses=[self.host.address],
            )
            external = external_data(head.PURPOSE, self.world.cluster_id)
            self.world.signed.add(head, encode_fact(head))
            word = HeadUpdate(head=sign1(encode_fact(head), external, signer.sign))
            for other in self.some(1):
                self.send(other, word)
