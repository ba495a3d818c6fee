"""The rule book: the newest rules records of a cluster, the same on all nodes that have heard of the same ones.

Records are ordered by (version, author, digest of the signed bytes), a total order that nobody has to agree on first.
The book is the greatest `HISTORY_MAX` of all records that a node has ever seen: a union that forgets its lowest, so its
content does not depend on the order or the number of times in which they came. What was applied on the losing side of
a partition is therefore not lost: it stands in the history of every node, below what won.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from hashlib import blake2b

import cbor2

from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import RulesRecord
from reachp2p.core.wire.limits import WireError, load
from reachp2p.core.wire.messages import RULE_RECORDS_MAX, RulesEntry

HISTORY_MAX = RULE_RECORDS_MAX
"""Records kept, the newest among them; as many as one message names."""
ROW_BYTES_MAX = 1_114_112
"""Of all of them together on disk: 16 of at most 65,536 bytes, and a little."""
HASH_BYTES = 16


class Outcome(Enum):
    """What became of a record: NEWEST counts from now on; ADDED is history; KNOWN; OLD: below a full book."""

    NEWEST = "newest"
    ADDED = "added"
    KNOWN = "known"
    OLD = "old"


class RuleBook:
    """At most `HISTORY_MAX` records, in their order."""

    def __init__(self) -> None:
        self._held: dict[RulesEntry, Checked[RulesRecord]] = {}
        """In the order of entries."""

    def put(self, record: Checked[RulesRecord]) -> Outcome:
        """Take in one record."""
        entry = entry_of(record)
        if entry in self._held:
            return Outcome.KNOWN
        if not self.lacks(entry):
            return Outcome.OLD
        held = sorted([*self._held.items(), (entry, record)], key=lambda pair: pair[0])
        self._held = dict(held[-HISTORY_MAX:])
        return Outcome.NEWEST if self.newest is record else Outcome.ADDED

    def lacks(self, entry: RulesEntry) -> bool:
        """Whether a record would be taken in."""
        return entry not in self._held and (len(self._held) < HISTORY_MAX or entry > next(iter(self._held)))

    def get(self, digests: Iterable[bytes]) -> list[Checked[RulesRecord]]:
        """Those of these digests that are held, in their order."""
        wanted = dict.fromkeys(digests)
        return [record for entry, record in self._held.items() if entry.digest in wanted]

    def missing_from(self, theirs: Iterable[RulesEntry]) -> list[Checked[RulesRecord]]:
        """What whoever holds `theirs`, and nothing else, would take in from this book."""
        known = dict.fromkeys(theirs)
        lowest = min(known) if len(known) >= HISTORY_MAX else None
        return [
            record
            for entry, record in self._held.items()
            if entry not in known and (lowest is None or entry > lowest)
        ]

    @property
    def records(self) -> list[Checked[RulesRecord]]:
        """All of them, the oldest first."""
        return list(self._held.values())

    @property
    def entries(self) -> list[RulesEntry]:
        """Their entries, the oldest first."""
        return list(self._held)

    @property
    def newest(self) -> Checked[RulesRecord] | None:
        """The record that counts."""
        return next(reversed(self._held.values()), None)

    def summary(self) -> list[int | bytes]:
        """The newest version, and a hash over the digests of all: equal books have equal summaries."""
        newest = self.newest
        digests = b"".join(entry.digest for entry in self._held)
        return [
            newest.fact.version if newest is not None else 0,
            blake2b(digests, digest_size=HASH_BYTES).digest(),
        ]

    def row(self) -> bytes:
        """The book as it is stored."""
        return cbor2.dumps([record.data for record in self._held.values()])

    def __len__(self) -> int:
        return len(self._held)


def entry_of(record: Checked[RulesRecord]) -> RulesEntry:
    """What orders a record."""
    return RulesEntry(record.fact.version, record.fact.author, record.digest)


def read_row(row: bytes) -> list[bytes]:
    """The signed records of a stored book. Raises `WireError` if it is damaged."""
    item = load(row, bytes_max=ROW_BYTES_MAX)
    if type(item) is not list or not all(type(one) is bytes for one in item):
        raise WireError("bad_field", "not a list of records")
    return item[-HISTORY_MAX:]
