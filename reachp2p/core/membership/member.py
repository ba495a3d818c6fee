"""What one node knows about another, and the one rule by which knowledge is merged (docs/protocol/membership.md).

Evidence about a member is ordered by (life, left, incarnation); inside one incarnation the rank (ALIVE < SUSPECT <
DEAD) and the head's version grow independently and are joined one by one. This is a join-semilattice: the result
depends on the set of evidence only, never on order or repetition. We depart from a single total order (rank before
version) because that would drop a registry change signed just before a suspicion, depending on which came first.

Only heads, signed by their subject, carry numbers. A rank is local: SUSPECT and DEAD always quote the numbers of the
head that is held. A higher incarnation beats DEAD, LEFT beats every incarnation of its life, only a higher life beats
LEFT.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from reachp2p.core.events import MemberState
from reachp2p.core.ids import LIFE_ID_BYTES, Address, Life, NodeId
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Head

NO_LIFE = Life(0, bytes(LIFE_ID_BYTES))
RANK = {MemberState.ALIVE: 0, MemberState.SUSPECT: 1, MemberState.DEAD: 2, MemberState.LEFT: 3}


class Precedence(Enum):
    """How a head compares with the one that is held."""

    NEW_LIFE = "new life"
    LEFT = "left"
    REFUTES = "refutes"
    UPDATES = "updates"
    SAME = "same"
    OUTDATED = "outdated"
    EQUIVOCATES = "equivocates"


def precedence(new: Checked[Head], held: Checked[Head]) -> Precedence:
    """Compare two heads of one node; pure. Everything but SAME, OUTDATED and EQUIVOCATES supersedes what is held.

    Two different bodies with equal numbers are an equivocation: both are valid, neither is newer.
    """
    a, b = new.fact, held.fact
    if a.life != b.life:
        return Precedence.NEW_LIFE if a.life > b.life else Precedence.OUTDATED
    if a.left != b.left:
        return Precedence.LEFT if a.left else Precedence.OUTDATED
    if a.incarnation != b.incarnation:
        return Precedence.REFUTES if a.incarnation > b.incarnation else Precedence.OUTDATED
    if a.version != b.version:
        return Precedence.UPDATES if a.version > b.version else Precedence.OUTDATED
    return Precedence.SAME if new.digest == held.digest else Precedence.EQUIVOCATES


def rank_after(old: MemberState, seen: Precedence) -> MemberState:
    """The rank a member has once a superseding head is held: doubt ends with a new life or a new incarnation only,
    LEFT with a new life only (a second LEFT with a higher incarnation is still LEFT)."""
    if old is MemberState.LEFT and seen is not Precedence.NEW_LIFE:
        return MemberState.LEFT
    match seen:
        case Precedence.LEFT:
            return MemberState.LEFT
        case Precedence.NEW_LIFE | Precedence.REFUTES:
            return MemberState.ALIVE
        case _:
            return old


class Member(msgspec.Struct, gc=False):
    """One row of the member table. Everything but `node` belongs to the life in `head` and ends with it."""

    node: NodeId
    head: Checked[Head]
    """What the subject has signed. Replaced by `take` only: other fields are read from it."""
    state: MemberState
    since: float
    """When `state` began, monotonic seconds."""
    learned_at: float
    """When the first head of this life was merged."""
    rtt: float | None = None
    """Smoothed direct round trip in seconds (RFC 6298's gain of 1/8)."""
    reached: tuple[Address, ...] = ()
    """Addresses at which a direct round trip with this life was completed; at most those in the head."""
    helper: NodeId | None = None
    """Who brought this life's latest Ack that came by way of a helper: both of us have reached it then."""
    asked: tuple[NodeId, ...] = ()
    """Helpers that were asked in vain since this life last answered; all others have been before one is again."""
    refused: bool = False
    """A dial to an address where this life once answered was refused: its process is gone."""
    life: Life = NO_LIFE
    """The life all other fields belong to."""
    address: Address | None = None
    """Where to send datagrams: an address that has answered before the others."""

    def __post_init__(self) -> None:
        """Read the head."""
        self.take(self.head)

    @property
    def incarnation(self) -> int:
        """The subject's own number inside the life."""
        return self.head.fact.incarnation

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where the subject says it can be reached, first choice first."""
        return tuple(self.head.fact.addresses)

    def take(self, head: Checked[Head]) -> None:
        """Hold a newer head. What is known of the life stays; addresses that are not told any more are forgotten."""
        self.head = head
        self.life = head.fact.life
        if self.reached:
            self.reached = tuple(address for address in self.reached if address in head.fact.addresses)
        self._choose_address()

    def answered_at(self, address: Address) -> None:
        """A whole round trip with this life was completed at an address."""
        if address not in self.reached:
            self.reached += (address,)
            self._choose_address()

    def _choose_address(self) -> None:
        told = self.head.fact.addresses
        self.address = next(
            (address for address in told if address in self.reached), told[0] if told else None
        )

    @property
    def evidence(self) -> tuple[int, bytes, bool, int, int, int]:
        """(epoch, life id, left, incarnation, rank, version): grows and never shrinks while the row exists."""
        fact = self.head.fact
        return (
            fact.life.epoch,
            fact.life.life_id,
            fact.left,
            fact.incarnation,
            RANK[self.state],
            fact.version,
        )

    def measured(self, seconds: float) -> None:
        """Fold one direct round trip into `rtt`."""
        self.rtt = seconds if self.rtt is None else self.rtt + (seconds - self.rtt) / 8
