"""What anti-entropy keeps equal: heads, records and verdicts, as digests and deltas.

A digest has one entry for each node whose head is still valid, this node included. Rows with an expired head are left
out on both sides, so that two nodes which forget a dead member at different moments do not teach it to each other
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import inf

from reachp2p.core.clock import WallClock
from reachp2p.core.dissemination.anti_entropy import numbers
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.detector import Detector
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.digest import Line, line
from reachp2p.core.registry.record import RECORDS_BYTES_MAX
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.cose import head as cbor_head
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.messages import DigestEntry, SyncDelta

ITEMS_MAX = 64
"""Of each kind in one delta, but that one node's records always travel together: at most
`records_per_node_max`, of `SHELF_BYTES_MAX`. Those of several nodes have at most `RECORDS_BYTES_MAX` in a delta."""


DEAD = MemberState.DEAD


def is_expired(head: Head, wall: int, tolerance: float) -> bool:
    """Whether a head's validity is over, with tolerance for clocks that differ."""
    return wall > head.issued_at + head.valid_for + tolerance


class Replica:
    """This node's view as the other side of an exchange sees it."""

    def __init__(
        self,
        own: OwnNode,
        table: MemberTable,
        store: RecordStore,
        detector: Detector,
        clock: WallClock,
        tolerance: float,
    ) -> None:
        self._own = own
        self._table = table
        self._store = store
        self._detector = detector
        self._clock = clock
        self._tolerance = tolerance
        # What the summary was worked out from, and between which wall times it stays true.
        self._state = (-1, -1)
        self._own_at_summary: Checked[Head] | None = None
        self._since = self._until = 0.0
        self._summary = (b"", 0)

    def digest(self, now: float) -> list[DigestEntry]:
        """One entry for each node with a valid head, in NodeId order."""
        return [line.entry for line in self._lines(now)]

    def summary(self, now: float) -> tuple[bytes, int]:
        """BLAKE2b-128 over the digest (equal hashes, equal views), and its number of entries.

        Worked out again only after something has changed or a head's validity is over.
        """
        wall = self._clock.at(now)
        own = self._own.head(now) if self._own.life is not None else None
        state = (self._table.version, self._store.version)
        if state != self._state or own is not self._own_at_summary or not self._since <= wall <= self._until:
            self._state, self._own_at_summary = state, own
            self._since, self._until = wall, inf
            lines = self._lines(now)
            digest = b"".join([line.row for line in lines])
            hashed = blake2b(cbor_head(0x80, len(lines)) + digest, digest_size=16).digest()
            self._summary = hashed, len(lines)
            if lines:
                self._until = min([line.ends for line in lines]) + self._tolerance
        return self._summary

    def _lines(self, now: float) -> list[Line]:
        """The lines of valid heads, in NodeId order."""
        earliest = self._clock.at(now) - self._tolerance
        own = self._own.head(now) if self._own.life is not None else None
        lines: list[Line] = []
        for member in self._table:
            if own is not None and member.node > own.fact.node:
                lines.append(self._own_line(own))
                own = None
            its = self._member_line(member)
            if earliest <= its.ends:
                lines.append(its)
        if own is not None:
            lines.append(self._own_line(own))
        return lines

    def _own_line(self, own: Checked[Head]) -> Line:
        return line(own, 0 if own.fact.left else own.fact.version, False)

    def _member_line(self, member: Member) -> Line:
        # Nobody passes on the records of a life that has left, so views need not agree on them.
        complete = 0 if member.head.fact.left else self._store.complete(member.node)
        return line(member.head, complete, member.state is DEAD)

    def _line(self, node: NodeId, now: float) -> tuple[Checked[Head], Line, Member | None] | None:
        """What we hold of a node: its head, its line, and its row in the view, which we have none of ourselves."""
        if node == self._own.node:
            own = self._own.head(now) if self._own.life is not None else None
            return None if own is None else (own, self._own_line(own), None)
        member = self._table.get(node)
        if member is None:
            return None
        return member.head, self._member_line(member), member

    def digest_hash(self, now: float) -> bytes:
        """The hash of `summary`."""
        return self.summary(now)[0]

    def deltas(self, theirs: Sequence[DigestEntry], exchange: int, now: float) -> list[SyncDelta]:
        """What we hold beyond these entries, in frames of at most `ITEMS_MAX` of each kind.

        The records of one node are never split over two frames, and the frame that has them says through which version
        the receiver is now complete: a node whose frame got lost is incomplete, never wrong.
        """
        packer = _Packer(exchange, self._own_head(now))
        earliest = self._clock.at(now) - self._tolerance
        for entry in theirs:
            held = self._line(NodeId(entry.node), now)
            if held is None or held[1].ends < earliest:
                continue
            head, its, member = held
            ours = its.entry
            if numbers(ours) > numbers(entry):
                packer.head(head.data)
            same_life = ours.life == entry.life
            # Whoever holds a newer head may know of a higher floor than we do (RecordStore.completed).
            if not ours.left and numbers(ours) >= numbers(entry):
                have = entry.complete if same_life else 0
                if ours.complete > have:
                    packer.records([r.data for r in self._store.after(NodeId(entry.node), have)], ours)
            if member is not None and _is_doubt_news(member.state, entry, ours):
                doubt = self._detector.doubt(member, now)
                if doubt is not None:
                    packer.doubt(doubt)
        return packer.finish()

    def _own_head(self, now: float) -> bytes:
        return self._own.head(now).data if self._own.life is not None else b""


def _is_doubt_news(state: MemberState, theirs: DigestEntry, ours: DigestEntry) -> bool:
    """Whether our doubt of a member is to be told: a death they do not know of, and any doubt with a head that is news
    to them. What else we suspect reaches them by gossip, but that may have fallen silent before a newcomer came."""
    if ours.dead:
        return not _knows_of_death(theirs, ours)
    return state is MemberState.SUSPECT and numbers(ours) > numbers(theirs)


def _knows_of_death(theirs: DigestEntry, ours: DigestEntry) -> bool:
    """Whether our doubt would tell them nothing: they have it for these numbers, or hold newer ones."""
    one = (theirs.life, theirs.left, theirs.incarnation)
    other = (ours.life, ours.left, ours.incarnation)
    return one > other or (one == other and theirs.dead)


class _Packer:
    """Fills deltas one after the other."""

    def __init__(self, exchange: int, own_head: bytes) -> None:
        """`own_head` goes before the first doubt: nobody believes the doubt of a stranger."""
        self._exchange = exchange
        self._own_head = own_head
        self._done: list[SyncDelta] = []
        self._clear()

    def _clear(self) -> None:
        self._size = 0
        self._heads: list[bytes] = []
        self._records: list[bytes] = []
        self._through: list[DigestEntry] = []
        self._doubts: list[bytes] = []

    def _room(self, items: Sequence[object]) -> None:
        if len(items) >= ITEMS_MAX:
            self._flush()

    def _flush(self) -> None:
        self._done.append(
            SyncDelta(
                exchange=self._exchange,
                heads=self._heads,
                records=self._records,
                through=self._through,
                doubts=self._doubts,
            )
        )
        self._clear()

    def head(self, data: bytes) -> None:
        if data == self._own_head:
            self._own_head = b""
        self._room(self._heads)
        self._heads.append(data)

    def records(self, data: list[bytes], through: DigestEntry) -> None:
        self._room(self._through)
        size = sum(map(len, data))
        too_many = len(self._records) + len(data) > ITEMS_MAX
        if self._records and (too_many or self._size + size > RECORDS_BYTES_MAX):
            self._flush()
        self._records += data
        self._size += size
        self._through.append(through)

    def doubt(self, data: bytes) -> None:
        if self._own_head:
            self.head(self._own_head)
        self._room(self._doubts)
        self._doubts.append(data)

    def finish(self) -> list[SyncDelta]:
        if self._heads or self._records or self._through or self._doubts:
            self._flush()
        return self._done
