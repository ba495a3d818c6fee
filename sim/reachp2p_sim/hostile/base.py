"""What a hostile node is: a machine with its own key and a running engine, and a behaviour beside it that does harm.

It is an insider: it may sign with its own key whatever it likes, send to whom it likes, repeat what it has heard,
leave out what its engine would send, and it knows where everybody is. It never has anybody else's key. Its engine
goes on as an honest one would, unless the behaviour comes between it and the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, ClassVar

from reachp2p.core.effects import SendDatagram
from reachp2p.core.ids import Address, Life, NodeId
from reachp2p.core.trust.facts import external_data
from reachp2p.core.views import MemberView
from reachp2p.core.wire.codec import encode_fact, encode_message, pack_messages
from reachp2p.core.wire.cose import sign1
from reachp2p.core.wire.datagram import DatagramWriter
from reachp2p.core.wire.facts import Fact, Head
from reachp2p.core.wire.messages import Message

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.world.signed_facts import SaidHead

COUNTER_APART = 1 << 40
"""Where the counters of datagrams begin that a behaviour makes itself, far above those of the engine beside it."""


class Behaviour:
    """Base of all. `act` is called once in every `every` periods while the process runs."""

    name: ClassVar[str]
    summary: ClassVar[str]
    every: ClassVar[float] = 1.0
    """Periods of the protocol between two acts."""

    def __init__(self, host: Host, victims: Sequence[Host], chance: Random) -> None:
        self.host = host
        self.world = host.world
        self.victims = list(victims)
        """Whom it is about: others than the host itself, at least one."""
        self.chance = chance
        self.acts = 0
        """What it has done so far, in the unit that fits."""
        self._has_ended = False
        self._writer: DatagramWriter | None = None
        self._writer_life: Life | None = None

    def begin(self) -> None:
        """Act from now on, the first time within a period."""
        self.world.timeline.after(self._interval * self.chance.random(), self._due)

    def end(self) -> None:
        """Never act again."""
        self._has_ended = True

    # What a behaviour may override

    def act(self) -> None:
        """Do harm, once."""

    def on_send(self, effect: SendDatagram) -> None:
        """The engine wants to send a datagram."""
        self.pass_on(effect)

    def on_hear(self, source: Address, data: bytes) -> bool:
        """A datagram has arrived; false if the engine shall not see it."""
        return True

    # What it may use

    @property
    def life(self) -> Life:
        """The life of the running process."""
        life = self.host.life
        assert life is not None, "a behaviour acts only while a life runs"
        return life

    @property
    def others(self) -> list[Host]:
        """Running machines but this one."""
        return [host for host in self.world.running if host is not self.host]

    def some(self, count: int) -> list[Host]:
        """At most so many of the others, drawn."""
        others = self.others
        return self.chance.sample(others, min(count, len(others)))

    def member(self, host: Host) -> MemberView | None:
        """What this node's own engine holds about a machine."""
        return next((m for m in self.host.engine.members() if m.node == host.node), None)

    def own_head(self) -> Head:
        """What this node's engine has last said of itself."""
        return self._said()[-1].head

    def _said(self) -> list[SaidHead]:
        """The heads that this node has signed with its present numbers: none before its life is announced."""
        view = next((m for m in self.host.engine.members() if m.is_self), None)
        if view is None:
            return []
        return self.world.signed.heads.get((self.host.node, view.life, view.incarnation), [])

    def sign(self, fact: Fact) -> bytes:
        """A fact with a signature of this node's key, whoever should have signed it."""
        external = external_data(fact.PURPOSE, self.world.cluster_id)
        return sign1(encode_fact(fact), external, self.host.signer.sign)

    def pass_on(self, effect: SendDatagram) -> None:
        """Send what the engine wants to send."""
        self.world.network.send(self.host, effect.address, effect.data, self.world.now)

    def send(self, to: Host, *messages: Message) -> None:
        """Send messages in a datagram of this node's present life."""
        if self._writer is None or self._writer_life != self.life:
            self._writer_life = self.life
            self._writer = DatagramWriter(
                self.world.cluster_id,
                self.host.node,
                self.life,
                self.host.signer.sign,
                counter=COUNTER_APART,
            )
        body = pack_messages([encode_message(message) for message in messages])
        self.send_bytes(to, self._writer.write(body, to.node))

    def send_bytes(self, to: Host, data: bytes) -> None:
        """Send any bytes."""
        self.acts += 1
        self.world.network.send(self.host, to.address, data, self.world.now)

    def rewrite(self, messages: Sequence[Message], audience: NodeId | None) -> bytes:
        """A datagram with these messages instead of one that the engine made."""
        writer = DatagramWriter(self.world.cluster_id, self.host.node, self.life, self.host.signer.sign)
        return writer.write(pack_messages([encode_message(message) for message in messages]), audience)

    # How it is driven

    @property
    def _interval(self) -> float:
        return self.every * self.world.protocol.probe_interval

    def _due(self, _: None) -> None:
        if self._has_ended:
            return
        self.world.timeline.after(self._interval, self._due)
        host = self.host
        if (
            host.is_running
            and host.life is not None
            and host.hindered is None
            and self.others
            and self._said()
        ):
            self.act()
