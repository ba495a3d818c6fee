"""What anti-entropy keeps equal: heads, records and verdicts, as digests and deltas.

A digest has one entry for each node whose head is still valid, this node included. Rows with an expired head are left
out on both sides, so that two nodes which forget a dead member at different moments do not teach it to each other
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import cbor2

from reachp2p.core.clock import WallClock
from reachp2p.core.dissemination.anti_entropy import numbers
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.detector import Detector
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.record import RECORDS_BYTES_MAX
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.messages import DigestEntry, SyncDelta

ITEMS_MAX = 64
"""Of each kind in one delta, but that one node's records always travel together: at most
`records_per_node_max`, of `SHELF_BYTES_MAX`. Those of several nodes have at most `RECORDS_BYTES_MAX` in a delta."""


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

    def digest(self, now: float) -> list[DigestEntry]:
        """One entry for each node with a valid head, in NodeId order."""
        wall = self._clock.at(now)
        entries: list[DigestEntry] = []
        own_done = self._own.life is None
        for member in self._table:
            if not own_done and member.node > self._own.node:
                entries.append(self._entry(self._own.head(now).fact, False))
                own_done = True
            if not is_expired(member.head.fact, wall, self._tolerance):
                entries.append(self._entry(member.head.fact, member.state is MemberState.DEAD))
        if not own_done:
            entries.append(self._entry(self._own.head(now).fact, False))
        return entries

    def _entry(self, head: Head, dead: bool) -> DigestEntry:
        if head.left:  # nobody passes on the records of a life that has left, so views need not agree on them
            complete = 0
        elif head.node == self._own.node:
            complete = head.version
        else:
            complete = self._store.complete(NodeId(head.node))
        return DigestEntry(head.node, head.life, head.left, head.incarnation, head.version, complete, dead)

    def digest_hash(self, now: float) -> bytes:
        """BLAKE2b-128 over the digest: equal hashes, equal views."""
        flat = [
            (e.node, e.life.epoch, e.life.life_id, e.left, e.incarnation, e.version, e.complete, e.dead)
            for e in self.digest(now)
        ]
        return blake2b(cbor2.dumps(flat), digest_size=16).digest()

    def deltas(self, theirs: Sequence[DigestEntry], exchange: int, now: float) -> list[SyncDelta]:
        """What we hold beyond these entries, in frames of at most `ITEMS_MAX` of each kind.

        The records of one node are never split over two frames, and the frame that has them says through which version
        the receiver is now complete: a node whose frame got lost is incomplete, never wrong.
        """
        packer = _Packer(exchange, self._own_head(now))
        wall = self._clock.at(now)
        for entry in theirs:
            head = self._head(NodeId(entry.node), now)
            if head is None or is_expired(head.fact, wall, self._tolerance):
                continue
            member = self._table.get(NodeId(entry.node))
            ours = self._entry(head.fact, member is not None and member.state is MemberState.DEAD)
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

    def _head(self, node: NodeId, now: float) -> Checked[Head] | None:
        if node == self._own.node:
            return self._own.head(now) if self._own.life is not None else None
        member = self._table.get(node)
        return member.head if member is not None else None


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
