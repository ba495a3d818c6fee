"""One node's failure detection put together as the engine does it, driven by hand.

`watch.run(until)` fires timers in order, as `core.timing` does; `watch.sent` collects what was sent.
"""

from __future__ import annotations

from typing import Any

from reachp2p.core.counters import Counters
from reachp2p.core.dissemination.broadcast_queue import BroadcastQueue
from reachp2p.core.effects import Effects
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Address, NodeId, Rng
from reachp2p.core.membership.accuser import Accuser
from reachp2p.core.membership.detector import Detector, SuspicionEnds
from reachp2p.core.membership.health import LocalHealth
from reachp2p.core.membership.looks import Looks, RefusalDialDue, VerifyDue
from reachp2p.core.membership.member import Member, Precedence
from reachp2p.core.membership.probe import (
    DirectProbeDue,
    ProbeDue,
    ProbeEnds,
    Prober,
    ProbeResult,
)
from reachp2p.core.membership.relays import RelayEnds, RelayNackDue, Relays
from reachp2p.core.membership.table import Change, MemberTable
from reachp2p.core.timers import TimerKey, Timers
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Accusation, Head
from reachp2p.core.wire.messages import Message, Nack, Ping, PingReq
from tests.support import Author, CountingEntropy, Steady, messages, node_id, settings, wall_clock

OWN = 50


class Watch:
    """Node `OWN`: a table, a prober and a detector over shared timers. Members are named by their numbers."""

    def __init__(self, *numbers: int, rng: Rng | None = None, **protocol: Any) -> None:
        self.now = 0.0
        self.settings = settings(OWN, **protocol)
        self.protocol = self.settings.protocol
        self.counters = Counters()
        self.timers = Timers()
        self.effects = Effects()
        rules = self.protocol.rules
        self.table = MemberTable(
            node_id(OWN), self.protocol.members_max, self.counters, refutable_death=rules.refutable_death
        )
        self.health = LocalHealth(self.protocol.health_max)
        self.queue = BroadcastQueue(self.protocol.broadcast_queue_max, self.counters)
        self.probed_links: list[tuple[NodeId, bytes]] = []
        self.relayed_over_links: list[tuple[NodeId, Ping]] = []
        self.dialled: list[NodeId] = []
        self.changes: list[Change] = []
        self.relayed: list[tuple[NodeId, Address, Message]] = []
        chance = rng or Steady()
        self.prober = Prober(
            self.protocol,
            self.table,
            self.health,
            lambda node, nonce, now: self.probed_links.append((node, nonce)),
            lambda node: self.detector.word(node),
            effects=self.effects,
            timers=self.timers,
            rng=chance,
            entropy=CountingEntropy(),
            counters=self.counters,
        )
        self.relays = Relays(
            self.protocol,
            self.table,
            lambda node, ping: self.relayed_over_links.append((node, ping)),
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
        )
        self.looks = Looks(
            self.protocol,
            self.table,
            self.prober,
            self.health,
            lambda member, now: self.dialled.append(member.node),
            own=node_id(OWN),
            timers=self.timers,
            rng=chance,
        )
        self.accuser = Accuser(
            rules, self.queue, Author(OWN).signer, wall_clock(), own=node_id(OWN), counters=self.counters
        )
        self.detector = Detector(
            self.protocol,
            self.table,
            self.looks,
            self.accuser,
            self.health,
            timers=self.timers,
            counters=self.counters,
        )
        for number in numbers:
            self.meet(Author(number).head())

    # What happens

    def meet(self, head: Checked[Head]) -> None:
        """Merge a head and do what the engine does about suspicions and probing."""
        _, change = self.table.merge(head, self.now)
        if change is None:
            return
        if change.is_new_life:
            self.detector.end(change.node)
            self.prober.add(change.node)
        elif change.seen in (Precedence.REFUTES, Precedence.LEFT):
            self.detector.end(change.node)
        self.changes.append(change)

    def run(self, until: float) -> None:
        """Let time pass, firing what is due on the way."""
        while (deadline := self.timers.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            key = self.timers.pop_due(self.now)
            assert key is not None
            self._fire(key)
        self.now = until

    def _fire(self, key: TimerKey) -> None:
        now = self.now
        match key:
            case ProbeDue():
                self.prober.on_probe_due(now)
            case DirectProbeDue(nonce=nonce):
                self.prober.on_direct_late(nonce, now)
            case ProbeEnds(nonce=nonce):
                self.ended(self.prober.on_probe_ends(nonce))
            case RelayNackDue(nonce=nonce):
                relayed = self.relays.on_nack_due(nonce)
                if relayed is not None:
                    self.relayed.append(relayed)
            case RelayEnds(nonce=nonce):
                self.relays.on_ends(nonce)
            case SuspicionEnds(node=node):
                self.changes += self.detector.on_suspicion_ends(node, now)
            case VerifyDue(node=node):
                self.detector.on_verify_due(node, now)
            case RefusalDialDue(node=node):
                self.looks.on_refusal_dial_due(node, now)
            case _:
                raise AssertionError(f"nobody owns {key!r}")

    def ended(self, result: ProbeResult | None) -> None:
        """Hand the end of a round to the detector."""
        if result is not None:
            self.changes += self.detector.on_probe(result, self.now)

    def ack(self, nonce: bytes, head: Checked[Head], *, direct: bool = True) -> ProbeResult | None:
        """An Ack by the life of `head`; returns how the round ended, if it did, after the detector has heard it."""
        node = NodeId(head.fact.node)
        source = head.fact.addresses[0] if direct else None
        result = self.prober.on_ack(nonce, node, head.fact.life, source, self.now)
        self.ended(result)
        return result

    def relayed_ack(self, nonce: bytes, head: Checked[Head], helper: int) -> ProbeResult | None:
        """The same by way of a helper."""
        node = NodeId(head.fact.node)
        result = self.prober.on_ack(nonce, node, head.fact.life, None, self.now, helper=node_id(helper))
        self.ended(result)
        return result

    def nack(self, nonce: bytes, helper: int) -> None:
        self.prober.on_nack(nonce, node_id(helper))

    def accuse(self, accusation: Checked[Accusation], *, newcomer: bool = False) -> None:
        self.changes += self.detector.on_accusation(accusation, self.now, newcomer=newcomer)

    def refuse(self, number: int, address: Address | None = None) -> None:
        """A dial of ours is answered by RST."""
        author = Author(number)
        self.changes += self.detector.on_refused(author.node, address or author.address, self.now)

    # What can be seen

    @property
    def sent(self) -> list[tuple[NodeId, Message | None]]:
        """Messages for nodes since this was last asked."""
        return messages(self.effects)

    def pings(self) -> dict[NodeId, bytes]:
        """Nonces of own Pings since messages were last asked for, by target."""
        return {node: m.nonce for node, m in self.sent if isinstance(m, Ping) and m.origin is None}

    def row(self, number: int) -> Member:
        member = self.table.get(node_id(number))
        assert member is not None
        return member

    def state(self, number: int) -> MemberState:
        return self.row(number).state

    def story(self) -> list[tuple[int, MemberState | None, MemberState | None]]:
        """Changes so far as (number, old, new)."""
        return [(int.from_bytes(c.node[:2], "big"), c.old, c.new) for c in self.changes]

    def reach(self, number: int) -> None:
        """This life of the member has answered us directly."""
        row = self.row(number)
        row.answered_at(row.addresses[0])


__all__ = ["OWN", "Nack", "Ping", "PingReq", "Watch"]
