"""What is heard, and what follows from it: heads, accusations, records and deltas from any source.

Datagrams and links bring the same facts; each is opened (verified once), compared with what is held by the merge rules,
and spread only if it changed something here (LESSONS 7). Whoever says something outdated is answered with the fresher
evidence, once for each sender and subject in a period (LESSONS 3). All consequences of a change of membership (routing,
suspicions, calls, records, events) are drawn in one place, `changes`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reachp2p.core.dissemination.broadcast_queue import Kind
from reachp2p.core.effects import ToNode
from reachp2p.core.events import MemberChanged, MemberState, NameShared, RecordChanged
from reachp2p.core.ids import Address, LinkId, NodeId
from reachp2p.core.membership.life import Step
from reachp2p.core.membership.member import Member, Precedence
from reachp2p.core.membership.table import Change
from reachp2p.core.parts import Parts
from reachp2p.core.registry.replica import is_expired
from reachp2p.core.registry.store import Outcome
from reachp2p.core.routing.instance import InstanceInfo
from reachp2p.core.trust.facts import Checked, FactRejected
from reachp2p.core.wire.codec import encode_message
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
PULL_TRIES = 5
"""After so many pulls in vain the periodic anti-entropy has to find somebody who has the records."""
RECORD_UPDATE_MAX = 1_100
"""Bytes of a record that still travels by datagram; larger ones are pulled over a link."""
PRESENT = (MemberState.ALIVE, MemberState.SUSPECT)
NAMES_MAX = 256
"""Pairs of nodes with one display name that have been reported."""


class Source(msgspec.Struct, frozen=True):
    """Where something was heard, and so where an answer goes. Both None: from our own disk."""

    node: NodeId
    address: Address | None = None
    link: LinkId | None = None

    @property
    def is_disk(self) -> bool:
        """From the snapshot: nobody to answer, nothing to spread."""
        return self.address is None and self.link is None


class Pull(msgspec.Struct, frozen=True):
    """Records of `node` are missing; `teller` has told us of a newer version of it."""

    node: NodeId
    teller: NodeId
    tries: int = 0


class Hearing:
    """Merges facts and draws the consequences."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._answered: dict[tuple[NodeId, NodeId], float] = {}
        self._pulls: dict[NodeId, Pull] = {}
        self._names: dict[tuple[NodeId, NodeId], None] = {}
        self._by_name: dict[str, NodeId] = {parts.own.name: parts.own.node}
        self.alive_changed = False
        """The set of ALIVE members has changed since this was last cleared."""
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
            self.answer_about(NodeId(fact.node), source, now)
        if change is None:
            return None
        if (
            not source.is_disk
            and (self.spreads if by_sync else True)
            and not (
                by_sync and seen is Precedence.UPDATES  # a renewal travels by anti-entropy alone
            )
        ):
            parts.queue.put(Kind.HEAD, fact.node, encode_message(HeadUpdate(head=data)))
        self._follow_records(change.member, source)
        self.changes([change], now)
        return change

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
            self.answer_about(subject, source, now)
        else:
            self.changes(parts.detector.on_accusation(checked, now, newcomer=newcomer), now)

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
            self.reply(source, HeadUpdate(head=own.head(now).data))
        else:
            self.answer_about(own.node, source, now)

    def announce(self, now: float) -> None:
        """Spread our own head as it stands."""
        head = self._parts.own.head(now)
        self._parts.queue.put(Kind.HEAD, self._parts.own.node, encode_message(HeadUpdate(head=head.data)))

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
            if not source.is_disk and (self.spreads or not by_sync):
                self.spread_record(checked)
            self._route(fact, now)
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
            update = encode_message(RecordUpdate(record=record.data))
            self._parts.queue.put(Kind.RECORD, (record.fact.node, record.fact.agent), update)
        else:
            self._parts.counters.add("records.by_pull_only")

    def _route(self, fact: AgentRecord, now: float) -> None:
        parts = self._parts
        node = NodeId(fact.node)
        if fact.withdrawn:
            parts.routing.remove_instance(node, fact.agent)
        else:
            parts.routing.put_instance(node, fact.agent, InstanceInfo.from_record(fact))
        event = RecordChanged(
            at=now, node=node, agent=fact.agent, version=fact.version, present=not fact.withdrawn
        )
        parts.effects.notify(event)
        if node != parts.own.node:
            parts.snapshot.mark(node, now)

    def own_record(self, record: Checked[AgentRecord], now: float) -> None:
        """A record that we have signed ourselves."""
        self._route(record.fact, now)
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
            gone = self._parts.store.completed(node, entry.life, entry.complete, listed.get(entry.node, {}))
            for lost in gone:
                self._unroute(lost.fact, now)
        for data in delta.doubts:
            subject = self._subject_of(data)
            self.accusation(data, source, now, newcomer=subject in inserted)

    def _subject_of(self, data: bytes) -> bytes | None:
        try:
            return self._parts.checker.open(Accusation, data).fact.subject
        except FactRejected:
            return None  # counted when `accusation` opens it

    def _unroute(self, fact: AgentRecord, now: float) -> None:
        if self._parts.routing.remove_instance(NodeId(fact.node), fact.agent):
            self._parts.effects.notify(
                RecordChanged(
                    at=now, node=NodeId(fact.node), agent=fact.agent, version=fact.version, present=False
                )
            )
        self._parts.snapshot.mark(NodeId(fact.node), now)

    # Answers

    def answer_about(self, subject: NodeId, source: Source, now: float) -> None:
        """Tell `source` what we hold about `subject`, because it has said something older."""
        parts = self._parts
        if source.is_disk or not self._may_answer(source.node, subject, now):
            return
        data = self.head_data(subject, now)
        if data is not None:
            parts.counters.add("answers.fresher_evidence")
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

    # Consequences

    def changes(self, changes: Iterable[Change], now: float) -> None:
        """Draw all consequences of changes of membership, in order."""
        for change in changes:
            self._change(change, now)

    def _change(self, change: Change, now: float) -> None:
        parts = self._parts
        member, node = change.member, change.node
        if change.new is None:
            self._forgotten(member, change, now)
            return
        if change.is_new_life:
            parts.detector.end(node)
            for lost in parts.store.open(node, member.life):
                self._unroute(lost.fact, now)
            if change.old_life is not None:
                parts.caller.on_member_gone(node, change.old_life, now)
                parts.links.supersede(node, member.life, now)
            if member.state is MemberState.ALIVE:
                parts.prober.add(node)
            self._check_name(member, now)
        elif change.seen in (Precedence.REFUTES, Precedence.LEFT):
            parts.detector.end(node)
        for lost in parts.store.raise_floor(node, member.head.fact.floor):
            self._unroute(lost.fact, now)
        parts.routing.set_node(node, member.state, member.refused, member.head.fact.name, member.life)
        if change.seen is not None:
            parts.snapshot.mark(node, now)
        if member.state in (MemberState.DEAD, MemberState.LEFT) and change.old is not member.state:
            parts.caller.on_member_gone(node, member.life, now)
        if change.old is not change.new or change.is_new_life:
            self.alive_changed = True
            parts.counters.add(f"members.became_{change.new.value.lower()}")
            self._notify(change, now)

    def _notify(self, change: Change, now: float) -> None:
        member = change.member
        self._parts.effects.notify(
            MemberChanged(
                at=now,
                node=change.node,
                name=member.head.fact.name,
                life=member.life,
                incarnation=member.incarnation,
                old=change.old,
                new=change.new,
                reason=change.reason,
            )
        )

    def _forgotten(self, member: Member, change: Change, now: float) -> None:
        parts = self._parts
        node = member.node
        parts.detector.forget(node)
        for lost in parts.store.close(node):
            self._unroute(lost.fact, now)
        parts.routing.set_node(node, None)
        self._pulls.pop(node, None)
        if self._by_name.get(member.head.fact.name) == node:
            del self._by_name[member.head.fact.name]
        if member.state is MemberState.DEAD:
            parts.contacts.remember(node, member.addresses)
        parts.snapshot.mark(node, now)
        self._notify(change, now)

    def _check_name(self, member: Member, now: float) -> None:
        parts = self._parts
        name = member.head.fact.name
        if not name or len(self._names) >= NAMES_MAX:
            return
        twin = self._by_name.get(name)
        twin_member = parts.table.get(twin) if twin is not None else None
        if twin is None or (
            twin != parts.own.node and (twin_member is None or twin_member.state not in PRESENT)
        ):
            self._by_name[name] = member.node
        elif twin != member.node:
            pair = (min(twin, member.node), max(twin, member.node))
            if pair not in self._names:
                self._names[pair] = None
                parts.counters.add("members.name_shared")
                parts.effects.notify(NameShared(at=now, name=name, nodes=pair))

    # Records that are missing

    def _follow_records(self, member: Member, source: Source) -> None:
        behind = member.head.fact.version > self._parts.store.complete(member.node)
        if behind and not source.is_disk and (member.node in self._pulls or len(self._pulls) < ANSWERS_MAX):
            self._pulls[member.node] = Pull(member.node, source.node)

    def take_pulls(self, most: int) -> list[Pull]:
        """Pulls that are still needed, at most `most`; the others stay due."""
        due: list[Pull] = []
        for node, pull in list(self._pulls.items()):
            member = self._parts.table.get(node)
            is_needed = (
                member is not None
                and member.state in PRESENT
                and member.head.fact.version > self._parts.store.complete(node)
                and pull.tries < PULL_TRIES
            )
            if not is_needed or len(due) < most:
                del self._pulls[node]
            if is_needed and len(due) < most:
                due.append(pull)
        return due

    def retry_pull(self, pull: Pull) -> None:
        """Look again in a while whether `pull` has brought what it was for."""
        if pull.node not in self._pulls:
            self._pulls[pull.node] = Pull(pull.node, pull.teller, pull.tries + 1)

    @property
    def has_pulls(self) -> bool:
        """Whether records of some node are known to be missing."""
        return bool(self._pulls)
