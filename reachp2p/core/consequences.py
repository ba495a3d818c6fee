"""What follows from a change of membership or of the registry: for suspicions, records, routes, calls, disk, users.

Every change, wherever it comes from (a head, an accusation, an own verdict, a retention that is over), passes through
here, so that no two parts of a node ever disagree about who is there.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from reachp2p.core.events import MemberChanged, MemberState, NameShared, RecordChanged
from reachp2p.core.ids import SUBSCRIPTIONS, NodeId
from reachp2p.core.membership.member import Member, Precedence
from reachp2p.core.membership.probe import ProbeResult
from reachp2p.core.membership.table import PRESENT, Change
from reachp2p.core.parts import Parts
from reachp2p.core.routing.instance import InstanceInfo
from reachp2p.core.routing.unsteady import REFUTED, RETURNED
from reachp2p.core.wire.facts import AgentRecord

NAMES_MAX = 256
"""Pairs of nodes with one display name that have been reported; further ones are not (the table still lists them)."""


class Consequences:
    """Draws the consequences of changes. Size: one name a member, `NAMES_MAX` reported pairs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._by_name: dict[str, NodeId] = {parts.own.name: parts.own.node}
        self._names: dict[NodeId, str] = {}
        """Under which name a member stands in `_by_name`."""
        self._shared: dict[tuple[NodeId, NodeId], None] = {}
        self.alive_changed = False
        """The set of ALIVE members has changed since this was last cleared."""

    def probed(self, result: ProbeResult, now: float) -> None:
        """A probe round of ours has ended: what it says about its target, and about us."""
        parts = self._parts
        if not result.void:
            answered, silent = result.helped, result.silent
            if result.answered:
                answered += (result.node,)
            else:
                silent += (result.node,)
            parts.touch.on_round(answered, silent, now)
        self.draw(parts.detector.on_probe(result, now), now)

    def draw(self, changes: Iterable[Change], now: float) -> None:
        """All consequences of changes of membership, in order."""
        for change in changes:
            if change.new is None:
                self._forgotten(change.member, change, now)
            else:
                self._changed(change, change.new, now)

    def _changed(self, change: Change, state: MemberState, now: float) -> None:
        parts = self._parts
        member, node = change.member, change.node
        if change.is_new_life:
            self._new_life(change, now)
        elif change.seen in (Precedence.REFUTES, Precedence.LEFT):
            parts.detector.end(node)
        for lost in parts.store.raise_floor(node, member.head.fact.floor, member.head.fact.version):
            self.unroute(lost.fact, now)
        if state is MemberState.ALIVE and not change.is_new_life:
            if change.old is MemberState.DEAD:
                parts.unsteady.on_setback(node, RETURNED, now)
            elif change.old is MemberState.SUSPECT:
                parts.unsteady.on_setback(node, REFUTED, now)
        fact = member.head.fact
        parts.routing.set_node(node, member.state, member.refused, fact.name, member.life, fact.zone)
        if change.seen is not None:
            parts.snapshot.mark(node, now)
        if member.state in (MemberState.DEAD, MemberState.LEFT) and change.old is not member.state:
            parts.caller.on_member_gone(node, member.life, now, left=state is MemberState.LEFT)
            parts.callee.on_member_gone(node, member.life, now)
            parts.publisher.on_gone(node)
        for agent in parts.claims.agents_of(node):
            parts.own_claims.on_changed(agent, now)
        if change.old is not state or change.is_new_life:
            self.alive_changed = True
            parts.counters.add(f"members.became_{state.value.lower()}")
            self._notify(change, now)

    def _new_life(self, change: Change, now: float) -> None:
        """What belonged to the former life ends with it."""
        parts = self._parts
        member, node = change.member, change.node
        parts.detector.end(node)
        parts.unsteady.forget(node)
        for lost in parts.store.open(node, member.life):
            self.unroute(lost.fact, now)
        if change.old_life is not None:
            parts.caller.on_member_gone(node, change.old_life, now)
            parts.callee.on_member_gone(node, change.old_life, now)
            parts.links.supersede(node, member.life, now)
        if member.state is MemberState.ALIVE:
            parts.prober.add(node)
        self._check_name(member, now)

    def _forgotten(self, member: Member, change: Change, now: float) -> None:
        parts = self._parts
        node = member.node
        parts.detector.forget(node)
        parts.unsteady.forget(node)
        for lost in parts.store.close(node):
            self.unroute(lost.fact, now)
        parts.routing.set_node(node, None)
        parts.publisher.forget(node)
        parts.loads.forget(node)
        parts.places.forget(node)
        self._unname(node)
        if member.state is MemberState.DEAD:
            parts.contacts.remember(node, member.addresses)
        parts.snapshot.mark(node, now)
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

    def _check_name(self, member: Member, now: float) -> None:
        """Two keys with one display name are both listed, and reported once (case B01)."""
        parts = self._parts
        name = member.head.fact.name
        self._unname(member.node)  # a new life may have a new name
        if member.state not in PRESENT or not name or len(self._shared) >= NAMES_MAX:
            return
        twin = self._by_name.get(name)
        twin_member = parts.table.get(twin) if twin is not None else None
        is_gone = twin_member is None or twin_member.state not in PRESENT
        if twin is None or (twin != parts.own.node and is_gone):
            if twin is not None:
                self._unname(twin)
            self._by_name[name] = member.node
            self._names[member.node] = name
        elif twin != member.node:
            pair = (min(twin, member.node), max(twin, member.node))
            if pair not in self._shared:
                self._shared[pair] = None
                parts.counters.add("members.name_shared")
                parts.effects.notify(NameShared(at=now, name=name, nodes=pair))

    def _unname(self, node: NodeId) -> None:
        name = self._names.pop(node, None)
        if name is not None:
            del self._by_name[name]

    # Records

    def route(self, fact: AgentRecord, now: float) -> None:
        """A record is new here: its agent is offered, changed or withdrawn."""
        parts = self._parts
        node = NodeId(fact.node)
        if fact.topics or parts.interest.has(node, fact.agent):
            parts.interest.put(node, fact.agent, () if fact.withdrawn else fact.topics)
        if fact.agent == SUBSCRIPTIONS:  # of the node itself: no instance, and no news
            if node != parts.own.node:
                parts.snapshot.mark(node, now)
            return
        owners = self._follow_claim(fact, now) if self._is_claimed(fact) else None
        if fact.withdrawn:
            parts.routing.remove_instance(node, fact.agent)
        else:
            parts.routing.put_instance(node, fact.agent, InstanceInfo.from_record(fact))
        if owners is not None:
            self._claim_followed(fact.agent, *owners, now)
        self._tell(fact, present=not fact.withdrawn, now=now)

    def unroute(self, fact: AgentRecord, now: float) -> None:
        """A record is gone without a withdrawal: its life is over, or its owner has forgotten it."""
        if self._parts.interest.has(NodeId(fact.node), fact.agent):
            self._parts.interest.put(NodeId(fact.node), fact.agent, ())
        if self._is_claimed(fact):
            ended = replace(fact, withdrawn=True, claim=None)
            self._claim_followed(fact.agent, *self._follow_claim(ended, now), now)
        if self._parts.routing.remove_instance(NodeId(fact.node), fact.agent):
            self._tell(fact, present=False, now=now)
        elif fact.node != self._parts.own.node:
            self._parts.snapshot.mark(NodeId(fact.node), now)

    # Exclusive agents

    def _is_claimed(self, fact: AgentRecord) -> bool:
        return fact.claim is not None or self._parts.claims.offers(NodeId(fact.node), fact.agent)

    def _follow_claim(self, fact: AgentRecord, now: float) -> tuple[NodeId | None, NodeId | None]:
        """What a record says of a claim; returns the owner before and now."""
        parts, node, agent = self._parts, NodeId(fact.node), fact.agent
        patience = parts.own_claims.suspicion_min()
        if fact.withdrawn or fact.claim is None:
            before = parts.claims.on_gone(node, agent, fact.claim, now, patience)
        else:
            before = parts.claims.on_record(node, agent, fact.claim, now, patience)
        return before, parts.claims.owner(agent)

    def _claim_followed(self, agent: str, before: NodeId | None, after: NodeId | None, now: float) -> None:
        """Instances are judged anew if another node owns the agent, and an own one may claim or step back."""
        parts = self._parts
        if before != after:
            for node in (before, after):
                if node is not None:
                    parts.routing.reconsider(node, agent)
        parts.own_claims.on_changed(agent, now)

    def _tell(self, fact: AgentRecord, *, present: bool, now: float) -> None:
        node = NodeId(fact.node)
        event = RecordChanged(at=now, node=node, agent=fact.agent, version=fact.version, present=present)
        self._parts.effects.notify(event)
        if node != self._parts.own.node:
            self._parts.snapshot.mark(node, now)
