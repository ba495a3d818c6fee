"""Selective silence: a node that looks well to whoever probes it and does not do its part.

One kind forwards nothing: of its datagrams only probes, their answers and its own head leave. Another says nothing at
all to its victims. On links it does as its engine wants: what it holds back there, others learn from others.
"""

from __future__ import annotations

from typing import ClassVar

from reachp2p.core.effects import SendDatagram
from reachp2p.core.ids import NodeId
from reachp2p.core.wire.codec import decode_messages
from reachp2p.core.wire.datagram import ADDRESSED, parse_datagram
from reachp2p.core.wire.messages import Ack, Ping
from reachp2p_sim.hostile.base import Behaviour

MESSAGES_MAX = 64


class ForwardsNothing(Behaviour):
    """Pings and answers pings, and passes nothing on: no news, no request for a ping, no relayed answer."""

    name: ClassVar[str] = "forwards-nothing"
    summary: ClassVar[str] = "answers probes and passes nothing on: no news, no help with others' probes"

    def on_send(self, effect: SendDatagram) -> None:
        """Only what belongs to its own probes leaves."""
        datagram = parse_datagram(effect.data)
        messages, _ = decode_messages(
            datagram.body, bytes_max=len(datagram.body), messages_max=MESSAGES_MAX, datagram=True
        )
        kept = [message for message in messages if isinstance(message, Ack | Ping) and message.origin is None]
        self.acts += len(messages) - len(kept)
        if len(kept) == len(messages):
            self.pass_on(effect)
        elif kept:
            target = self.world.network.by_address.get(effect.address)
            is_addressed = effect.data[1] & ADDRESSED
            audience: NodeId | None = target.node if is_addressed and target is not None else None
            self.pass_on(SendDatagram(effect.address, self.rewrite(kept, audience)))


class SilentToVictims(Behaviour):
    """Sends its victims no datagram, and everybody else all of them."""

    name: ClassVar[str] = "silent-to-victims"
    summary: ClassVar[str] = "sends some members nothing, and does its part for all others"

    def on_send(self, effect: SendDatagram) -> None:
        """Links stay."""
        target = self.world.network.by_address.get(effect.address)
        if target in self.victims:
            self.acts += 1
        else:
            self.pass_on(effect)
