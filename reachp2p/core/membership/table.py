"""The member table: one row a node, changed by merged evidence and own verdicts only.

The table decides nothing: it applies the merge rule of `member`, keeps the order that other machines iterate in, and
answers with what changed. Bound: `members_max` rows; a head about a further node is refused and counted.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.membership.member import Member, Precedence, precedence, rank_after
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Head

PRESENT = (MemberState.ALIVE, MemberState.SUSPECT)


class Change(msgspec.Struct, frozen=True):
    """What a merge or verdict did to one member. `old` is None for a new row, `new` None for a forgotten one."""

    node: NodeId
    member: Member
    old: MemberState | None
    new: MemberState | None
    old_life: Life | None
    seen: Precedence | None
    reason: str

    @property
    def is_new_life(self) -> bool:
        """A row that began, or began again under a higher life."""
        return (self.old_life is not None and self.old_life != self.member.life) or self.old is None


class MemberTable:
    """All members but this node itself, in NodeId order. Size: at most `members_max`."""

    def __init__(
        self, own: NodeId, members_max: int, counters: Counters, *, refutable_death: bool = True
    ) -> None:
        self._own = own
        self._members_max = members_max
        self._counters = counters
        self._refutable_death = refutable_death
        self._rows: dict[NodeId, Member] = {}
        self._order: list[NodeId] = []
        self._present = 0
        self.version = 0
        """Grows with every change of a row's head or state."""

    def merge(self, head: Checked[Head], now: float) -> tuple[Precedence, Change | None]:
        """Apply one verified head of another node; returns how it compared and what changed, if anything."""
        node = NodeId(head.fact.node)
        assert node != self._own, "our own head is judged by OwnLife, never merged"
        member = self._rows.get(node)
        if member is None:
            return self._insert(node, head, now)
        seen = precedence(head, member.head)
        if seen is Precedence.EQUIVOCATES:
            self._counters.add("membership.equivocation")
            if head.digest < member.head.digest:  # a fixed choice, so that views agree whatever came first
                member.take(head)
                self.version += 1
            return seen, None
        if seen in (Precedence.SAME, Precedence.OUTDATED):
            return seen, None
        old, old_life = member.state, member.life
        state = rank_after(old, seen)
        if old is MemberState.DEAD and seen is Precedence.REFUTES and not self._refutable_death:
            state = old
        if seen is Precedence.NEW_LIFE:
            if head.fact.left:
                state = MemberState.LEFT
            self._rows[node] = member = Member(node, head, state, now, now)
        else:
            if seen is Precedence.REFUTES:
                member.refused = False
            member.take(head)
            if state is not old:
                member.state, member.since = state, now
        self._changed(old, state)
        return seen, Change(node, member, old, state, old_life, seen, seen.value)

    def _insert(self, node: NodeId, head: Checked[Head], now: float) -> tuple[Precedence, Change | None]:
        if len(self._rows) >= self._members_max:
            self._counters.add("dropped.head.members_full")
            return Precedence.OUTDATED, None
        state = MemberState.LEFT if head.fact.left else MemberState.ALIVE
        member = Member(node, head, state, now, now)
        self._rows[node] = member
        insort(self._order, node)
        self._changed(None, state)
        return Precedence.NEW_LIFE, Change(node, member, None, state, None, Precedence.NEW_LIFE, "new member")

    def doubt(self, node: NodeId, state: MemberState, now: float, reason: str) -> Change | None:
        """Raise a member's rank to SUSPECT or DEAD; None if that is not a rise. The caller has its grounds."""
        member = self._rows[node]
        old = member.state
        assert state in (MemberState.SUSPECT, MemberState.DEAD)
        if old is MemberState.LEFT or (old is MemberState.DEAD) or old is state:
            return None
        member.state, member.since = state, now
        self._changed(old, state)
        return Change(node, member, old, state, member.life, None, reason)

    def forget(self, node: NodeId, reason: str) -> Change | None:
        """Remove a row whose retention is over."""
        member = self._rows.pop(node, None)
        if member is None:
            return None
        del self._order[bisect_left(self._order, node)]
        self._changed(member.state, None)
        return Change(node, member, member.state, None, member.life, None, reason)

    def _changed(self, old: MemberState | None, new: MemberState | None) -> None:
        self.version += 1
        self._present += (new in PRESENT) - (old in PRESENT)

    def get(self, node: NodeId) -> Member | None:
        """The row of `node`, or None."""
        return self._rows.get(node)

    def __iter__(self) -> Iterator[Member]:
        """All rows in NodeId order."""
        return (self._rows[node] for node in self._order)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._rows

    @property
    def nodes(self) -> Sequence[NodeId]:
        """The nodes of all rows, in order. Valid until the table changes."""
        return self._order

    @property
    def all_present(self) -> bool:
        """Whether every row is ALIVE or SUSPECT."""
        return self._present == len(self._order)

    @property
    def size(self) -> int:
        """n of the formulas: ALIVE and SUSPECT members plus this node."""
        return self._present + 1

    def successors(self, count: int, of: NodeId | None = None) -> list[NodeId]:
        """The next `count` ALIVE members after a node (this one) in NodeId order, around the end.

        Of another node, this one may be among them: it counts, and is not named.
        """
        order, begin = self._order, self._own
        if of is not None:
            order, begin = list(order), of
            insort(order, self._own)
        start = bisect_left(order, begin)
        found: list[NodeId] = []
        for node in order[start:] + order[:start]:
            if len(found) >= count:
                break
            if node != of and (node == self._own or self._rows[node].state is MemberState.ALIVE):
                found.append(node)
        return [node for node in found if node != self._own]
