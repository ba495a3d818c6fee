"""Own verdicts (I-SANE): nobody's word kills. DEAD follows a doubt that could be refuted, and a probe of one's own.

A node that declares a member DEAD has held it SUSPECT, in this life and incarnation, for at least one period (the time
to refute), and has probed it itself meanwhile or was probing it when the doubt began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.ids import Address, Life, LinkId, NodeId, short
from reachp2p.core.wire.codec import decode_messages
from reachp2p.core.wire.datagram import parse_datagram
from reachp2p.core.wire.messages import Ping
from reachp2p_sim.checkers.accepted import overlook
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.listening import listen
from reachp2p_sim.world.world import World

MESSAGES_MAX = 64


@dataclass(slots=True)
class Doubt:
    """One member that is SUSPECT in one view, since a time on its own clock."""

    life: Life
    incarnation: int
    since: float
    addresses: tuple[Address, ...]
    probed: bool


class Verdicts(Checker):
    """Follows every doubt, and listens to who doubts for its probes."""

    name = "verdicts"
    invariant = "I-SANE"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._doubts: dict[tuple[int, int], dict[NodeId, Doubt]] = {}
        self._listening: dict[int, Callable[[], None]] = {}
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        rules = self.world.protocol.rules
        if not isinstance(event, MemberChanged) or not (rules.own_verdict and rules.suspicion):
            return
        doubts = self._doubts.setdefault((host.index, host.process_number), {})
        if event.new is MemberState.SUSPECT:
            self._begin(host, event, doubts)
            return
        doubt = doubts.pop(event.node, None)
        if event.new is MemberState.DEAD and event.old is not event.new:
            self._judge(host, event, doubt)
        if not doubts and host.index in self._listening:
            self._listening.pop(host.index)()

    def _begin(self, host: Host, event: MemberChanged, doubts: dict[NodeId, Doubt]) -> None:
        signed = self.world.signed.heads.get((event.node, event.life, event.incarnation), ())
        addresses = tuple({address: None for one in signed for address in one.head.addresses})
        doubts[event.node] = Doubt(
            event.life, event.incarnation, host.now, addresses, host.engine.is_probing(event.node)
        )
        if host.index not in self._listening:
            self._listening[host.index] = listen(host, sent=self._on_sent)

    def _judge(self, host: Host, event: MemberChanged, doubt: Doubt | None) -> None:
        name = event.name or short(event.node)
        if doubt is None or (doubt.life, doubt.incarnation) != (event.life, event.incarnation):
            self.fail(f"declared {name} DEAD without a doubt that could be refuted: {event.reason}", host)
        took, least = host.now - doubt.since, self.world.protocol.probe_interval
        if took < least - 1e-6:
            self.fail(
                f"declared {name} DEAD {took:.3f} s after it became SUSPECT; {least:g} s at least", host
            )
        if doubt.addresses and not doubt.probed:
            self.fail(
                f"declared {name} DEAD after {took:.1f} s of doubt without a probe of its own: {event.reason}",
                host,
            )

    def _on_sent(self, host: Host, data: bytes, to: Address | LinkId) -> None:
        if not isinstance(to, Address):
            return
        for doubt in self._doubts.get((host.index, host.process_number), {}).values():
            if not doubt.probed and to in doubt.addresses:
                doubt.probed = _has_ping(data)


def _has_ping(data: bytes) -> bool:
    body = parse_datagram(data).body
    messages, _ = decode_messages(
        body, bytes_max=len(body), messages_max=MESSAGES_MAX, datagram=True, on_rejected=overlook
    )
    return any(isinstance(message, Ping) and message.origin is None for message in messages)
