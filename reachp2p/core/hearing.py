"""What is heard: heads, accusations, records and deltas from any source.

Datagrams and links bring the same facts; each is opened (verified once), compared with what is held by the merge rules,
and spread only if it changed something here. Whoever says something outdated is answered with the fresher
evidence, once for each sender and subject in a period. What follows from a change is `consequences`.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.consequences import Consequences
from reachp2p.core.dissemination.broadcast_queue import Kind
from reachp2p.core.effects import ToNode
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.membership.life import Step
from reachp2p.core.membership.member import Member, Precedence
from reachp2p.core.membership.table import Change
from reachp2p.core.parts import Parts
from reachp2p.core.pulls import Pulls
from reachp2p.core.registry.replica import is_expired
from reachp2p.core.registry.store import Outcome
from reachp2p.core.trust.facts import Checked, FactRejected
from reachp2p.core.wire.facts import Accusation, AgentRecord, Head
from reachp2p.core.wire.messages import (
    HeadRequest,
    HeadUpdate,
    Message,
    RecordUpdate,
    SyncDelta,
)

ANSWERS_MAX = 4_096
"""Remembered (sender, subject) pairs that were answered lately; the oldest are forgotten, which costs a repetition."""
RECORD_UPDATE_MAX = 1_100
"""Bytes of a record that still travels by datagram; larger ones are pulled over a link."""


class Source(msgspec.Struct, frozen=True):
    """Where something was heard, and so where an answer goes. Both None: from our own disk."""

    node: NodeId
    address: Address | None = None
    link: LinkId | None = None

    @property
    def is_disk(self) -> bool:
        """From the snapshot: nobody to answer, nothing to spread."""
        return self.address is None and self.link is None


class Hearing:
    """Opens, merges and spreads facts, and answers those who know less. Size: `ANSWERS_MAX` remembered answers."""

    def __init__(self, parts: Parts, consequences: Consequences, pulls: Pulls) -> None:
        self._parts = parts
        self._consequences = consequences
        self._pulls = pulls
        self._answered: dict[tuple[NodeId, NodeId], float] = {}
        self.steps: list[Step] = []
        """Steps of the life cycle that the engine has to take; it clears them."""
        self.spreads = False
        """Whether what a delta teaches is spread: not before the first exchange after a start, when all is news."""

    # Facts

    def head(self, data: bytes, source: Source, now: float, *, by_sync: bool = False) -> Change | None:
        """A signed head. Returns the change it made, whose consequences have been drawn."""
        parts = self._parts
        try:
            checked = parts.checker.open(Head, data)
        except FactRejected as rejected:
            parts.counters.add(f"dropped.head.{rejected.reason}")
            return None
        fact = checked.fact
        held = parts.table.get(NodeId(fact.node))
        if held is not None and held.head is checked:
            return None  # as most of what gossip brings
        if fact.node == parts.own.node:
            self._own_head(checked, source, now)
            return None
        wall = parts.clock.at(now)
        tolerance = parts.settings.protocol.clock_tolerance
        if is_expired(fact, wall, tolerance):
            parts.counters.add("dropped.head.expired")
            return None
        if fact.issued_at > wall + tolerance:
            parts.counters.add("dropped.head.from_the_future")
            return None
        seen, change = parts.table.merge(checked, now)
        if seen is Precedence.OUTDATED:
            self._note_tombstone(parts.table.get(NodeId(fact.node)))
            self.answer_about(NodeId(fact.node), source, now)
        elif seen is Precedence.EQUIVOCATES:
            self._equivocation(checked, source, now)
        if change is None:
            return None
        if by_sync and change.old is MemberState.DEAD and change.new is MemberState.ALIVE:
            parts.counters.add("sync.healed")
        # A renewal travels by anti-entropy alone.
        if self._is_news(source, by_sync=by_sync) and not (by_sync and seen is Precedence.UPDATES):
            parts.queue.put(Kind.HEAD, fact.node, self._parts.codec.encode(HeadUpdate(head=data)))
        if not source.is_disk:
            self._pulls.follow(change.node, source.node)
        self._consequences.draw([change], now)
        return change

    def subject(self, data: bytes) -> NodeId | None:
        """Whom a head that was just heard speaks of, if its signature is right: known or not, news or not."""
        try:
            return NodeId(self._parts.checker.open(Head, data).fact.node)
        except FactRejected:
            return None  # counted when it was heard

    def _is_news(self, source: Source, *, by_sync: bool) -> bool:
        """Whether what has changed something here is worth telling others."""
        if not self._parts.settings.protocol.rules.infection:
            return False
        return not source.is_disk and (self.spreads or not by_sync)

    def _equivocation(self, heard: Checked[Head], source: Source, now: float) -> None:
        """Of two words with the same numbers all must hold the same one: who changes over says so, who does not,
        too."""
        node = NodeId(heard.fact.node)
        member = self._parts.table.get(node)
        assert member is not None, "its head contradicts what is held"
        if member.head.digest != heard.digest:
            self.answer_about(node, source, now)
        elif self._is_news(source, by_sync=False):
            self._parts.queue.put(Kind.HEAD, node, self._parts.codec.encode(HeadUpdate(head=heard.data)))

    def _note_tombstone(self, member: Member | None) -> None:
        """Count what would have come back if we did not remember its end."""
        if member is not None and member.state in (MemberState.LEFT, MemberState.DEAD):
            self._parts.counters.add("tombstones.hit")

    def _own_head(self, checked: Checked[Head], source: Source, now: float) -> None:
        parts = self._parts
        if source.is_disk:
            return
        mine, theirs = parts.own.life, checked.fact
        rivals = parts.life.is_starting and mine is not None and theirs.life.epoch >= mine.epoch
        if mine is None or theirs.life > mine or rivals:
            self.steps += parts.life.on_own_head(checked, now)
        elif (theirs.life, theirs.left, theirs.incarnation, theirs.version) < (
            mine,
            parts.own.has_left,
            parts.own.incarnation,
            parts.own.version,
        ):
            self.answer_about(parts.own.node, source, now)

    def accusation(self, data: bytes, source: Source, now: float, *, newcomer: bool = False) -> None:
        """A signed accusation; `newcomer`: its subject's row came with it."""
        parts = self._parts
        try:
            checked = parts.checker.open(Accusation, data)
        except FactRejected as rejected:
            parts.counters.add(f"dropped.accusation.{rejected.reason}")
            return
        fact = checked.fact
        subject = NodeId(fact.subject)
        if parts.detector.has_heard(subject, checked.digest):
            return  # as most of what gossip brings
        if fact.accuser == fact.subject or fact.accuser == parts.own.node:
            parts.counters.add("dropped.accusation.own_echo")
            return
        if subject == parts.own.node:
            self._accused(fact, source, now)
            return
        member = parts.table.get(subject)
        theirs = (fact.life, fact.incarnation)
        if member is None or (member.life, member.incarnation) < theirs:
            # An accusation raises nobody's numbers: the head has to come first.
            parts.counters.add("accusation.head_missing")
            self.ask_head(subject, source, now)
        elif (member.life, member.incarnation) > theirs or member.state is MemberState.LEFT:
            parts.counters.add("accusation.outdated")
            self._note_tombstone(member)
            self.answer_about(subject, source, now)
        else:
            self._consequences.draw(parts.detector.on_accusation(checked, now, newcomer=newcomer), now)

    def _accused(self, fact: Accusation, source: Source, now: float) -> None:
        parts = self._parts
        own = parts.own
        if own.life is None or not parts.life.is_running:
            return
        if (fact.life, fact.incarnation) > (own.life, own.incarnation):
            # Nobody but us can have signed these numbers, and we have not: forged, or a clone's (its head will tell).
            parts.counters.add("dropped.accusation.impossible_numbers")
            return
        if fact.life == own.life and own.refute(fact.incarnation):
            parts.health.worse()
            parts.counters.add("refutations")
            self.announce(now)
            if parts.settings.protocol.rules.answers:
                self.reply(source, HeadUpdate(head=own.head(now).data))
        else:
            self.answer_about(own.node, source, now)

    def announce(self, now: float) -> None:
        """Spread our own head as it stands."""
        head = self._parts.own.head(now)
        self._parts.queue.put(
            Kind.HEAD, self._parts.own.node, self._parts.codec.encode(HeadUpdate(head=head.data))
        )

    def record(self, data: bytes, source: Source, now: float, *, by_sync: bool = False) -> AgentRecord | None:
        """A signed record. Returns it if it is one, kept or not."""
        parts = self._parts
        try:
            checked = parts.checker.open(AgentRecord, data)
        except FactRejected as rejected:
            parts.counters.add(f"dropped.record.{rejected.reason}")
            return None
        fact = checked.fact
        node = NodeId(fact.node)
        if node == parts.own.node:
            return fact
        outcome = parts.store.put(checked)
        if outcome is Outcome.NEW:
            if self._is_news(source, by_sync=by_sync):
                self.spread_record(checked)
            self._consequences.route(fact, now)
            if not source.is_disk:
                self._pulls.follow(node, source.node)
        elif outcome is Outcome.AHEAD and not source.is_disk:
            self.ask_head(node, source, now)
        elif outcome is Outcome.OUTDATED:
            member = parts.table.get(node)
            if member is not None and fact.life < member.life:
                self.answer_about(node, source, now)
        return fact

    def spread_record(self, record: Checked[AgentRecord]) -> None:
        """Let a record circulate if it fits a datagram; a larger one is pulled when its head's version is seen."""
        if len(record.data) <= RECORD_UPDATE_MAX:
            update = self._parts.codec.encode(RecordUpdate(record=record.data))
            self._parts.queue.put(Kind.RECORD, (record.fact.node, record.fact.agent), update)
        else:
            self._parts.counters.add("records.by_pull_only")

    def own_record(self, record: Checked[AgentRecord], now: float) -> None:
        """A record that we have signed ourselves."""
        self._consequences.route(record.fact, now)
        self.spread_record(record)
        self.announce(now)

    def delta(self, delta: SyncDelta, source: Source, now: float) -> None:
        """Apply one delta: heads first, then records, then what is complete, then doubts."""
        inserted: dict[bytes, None] = {}
        for data in delta.heads:
            change = self.head(data, source, now, by_sync=True)
            if change is not None and change.old is None:
                inserted[change.node] = None
        listed: dict[bytes, dict[str, None]] = {}
        for data in delta.records:
            record = self.record(data, source, now, by_sync=True)
            if record is not None:
                listed.setdefault(record.node, {})[record.agent] = None
        for entry in delta.through:
            node = NodeId(entry.node)
            if node == self._parts.own.node:
                continue
            member = self._parts.table.get(node)
            if member is None or member.life != entry.life:
                continue
            # Nobody knows more of a node than it has signed: else one lie would have its next records refused.
            signed = max(member.head.fact.version, self._parts.store.highest(node))
            through = min(entry.complete, signed)
            of_node = listed.get(entry.node, {})
            gone = self._parts.store.completed(node, entry.life, through, of_node, entry.version)
            for lost in gone:
                self._consequences.unroute(lost.fact, now)
        for data in delta.doubts:
            subject = self._subject_of(data)
            self.accusation(data, source, now, newcomer=subject in inserted)

    def _subject_of(self, data: bytes) -> bytes | None:
        try:
            return self._parts.checker.open(Accusation, data).fact.subject
        except FactRejected:
            return None  # counted when `accusation` opens it

    # Answers

    def answer_about(self, subject: NodeId, source: Source, now: float) -> None:
        """Tell `source` what we hold about `subject`, because it has said something older."""
        parts = self._parts
        if source.is_disk or not parts.settings.protocol.rules.answers:
            return
        if not self._may_answer(source.node, subject, now):
            return
        data = self.head_data(subject, now)
        if data is not None:
            parts.counters.add("answers.fresher_evidence")
            self.reply(source, HeadUpdate(head=data))

    def answer_request(self, subject: NodeId, source: Source, now: float) -> None:
        """Send a member the head that it asks for, if we hold it; by datagram once in a period, because the answer is
        larger than the question and goes wherever the question says that it came from."""
        data = self.head_data(subject, now)
        if data is None or source.node not in self._parts.table:
            return
        if source.link is None and not self._may_answer(source.node, subject, now):
            self._parts.counters.add("dropped.head_request.rate")
            return
        self.reply(source, HeadUpdate(head=data))

    def head_data(self, subject: NodeId, now: float) -> bytes | None:
        """The signed head held for `subject`, our own included."""
        if subject == self._parts.own.node:
            # While we still ask, or doubt that we may go on, nobody is told of our life.
            return self._parts.own.head(now).data if self._parts.life.is_running else None
        member = self._parts.table.get(subject)
        return member.head.data if member is not None else None

    def ask_head(self, subject: NodeId, source: Source, now: float) -> None:
        """Ask `source` for the head of a node whose numbers are above what we hold."""
        if not source.is_disk and self._may_answer(source.node, subject, now):
            self.reply(source, HeadRequest(subjects=[subject]))

    def _may_answer(self, sender: NodeId, subject: NodeId, now: float) -> bool:
        key = (sender, subject)
        last = self._answered.get(key)
        if last is not None and now - last < self._parts.settings.protocol.probe_interval:
            return False
        self._answered.pop(key, None)
        self._answered[key] = now
        if len(self._answered) > ANSWERS_MAX:
            del self._answered[next(iter(self._answered))]
        return True

    def reply(self, source: Source, message: Message) -> None:
        """Answer where something was heard."""
        if source.link is not None:
            self._parts.links.send(source.link, message)
        else:
            self._parts.effects.add(ToNode(source.node, message, address=source.address))
