"""News in circulation: where updates wait until they have been sent often enough (SWIM §4.1).

One slot for each (kind, subject): a newer update takes the place of the older and starts again. Those sent least go
first. Kinds take turns, and a full queue drops from its most numerous kind, so that a flood of one starves no other. An
update that does not fit into what is left of a datagram is passed over, so that a big one never blocks small ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import IntEnum

import msgspec

from reachp2p.core.counters import Counters

MISFITS_MAX = 64
"""Updates of one kind passed over in a row before the rest of a datagram is given to the others: 3 µs."""


class Kind(IntEnum):
    """Kinds of news, in the order in which they take turns. Integers, because they are hashed for every update."""

    HEAD = 0
    ACCUSATION = 1
    RECORD = 2
    RULES = 3


_KINDS = tuple(Kind)


class Entry(msgspec.Struct, gc=False):
    """One update on its way."""

    kind: Kind
    key: Hashable
    encoded: bytes
    sent: int


class BroadcastQueue:
    """Updates by kind and key. Size: at most `entries_max`; beyond it the most often sent of the most numerous kind is
    dropped and counted."""

    def __init__(self, entries_max: int, counters: Counters) -> None:
        self._entries_max = entries_max
        self._counters = counters
        self.size = 0
        """How many updates circulate. Read only."""
        self._slots: dict[Kind, dict[Hashable, Entry]] = {kind: {} for kind in Kind}
        self._buckets: dict[Kind, dict[int, dict[Hashable, Entry]]] = {kind: {} for kind in Kind}
        self._smallest: dict[Kind, int] = {}
        """Bytes of the smallest update of a kind so far: in less room than that nothing is looked for."""

    def put(self, kind: Kind, key: Hashable, encoded: bytes) -> None:
        """Let an update circulate in place of what its slot held. `encoded`: the message as it travels."""
        self.drop(kind, key)
        if self.size >= self._entries_max:
            self._evict()
        self._smallest[kind] = min(self._smallest.get(kind, len(encoded)), len(encoded))
        self._place(Entry(kind, key, encoded, 0))

    def drop(self, kind: Kind, key: Hashable) -> None:
        """Stop circulating what this slot holds, if anything."""
        entry = self._slots[kind].get(key)
        if entry is not None:
            self._remove(entry)

    def _place(self, entry: Entry) -> None:
        self._slots[entry.kind][entry.key] = entry
        self._buckets[entry.kind].setdefault(entry.sent, {})[entry.key] = entry
        self.size += 1

    def _remove(self, entry: Entry) -> None:
        del self._slots[entry.kind][entry.key]
        self.size -= 1
        bucket = self._buckets[entry.kind][entry.sent]
        del bucket[entry.key]
        if not bucket:
            del self._buckets[entry.kind][entry.sent]

    def _evict(self) -> None:
        kind = max(Kind, key=lambda k: (len(self._slots[k]), k.value))
        buckets = self._buckets[kind]
        self._remove(next(iter(buckets[max(buckets)].values())))
        self._counters.add("broadcast_queue.evicted")

    def take(self, room: int, limit: int) -> list[bytes]:
        """Updates that fit into `room` bytes together, each now sent once more; gone after `limit` sends."""
        taken: list[Entry] = []
        turns = [(self._smallest[kind], self._in_order(kind)) for kind in _KINDS if self._slots[kind]]
        while turns:
            going_on: list[tuple[int, Iterator[Entry]]] = []
            for turn in turns:
                smallest, entries = turn
                entry = _first_fit(entries, room) if room >= smallest else None
                if entry is not None:
                    taken.append(entry)
                    room -= len(entry.encoded)
                    going_on.append(turn)
            turns = going_on
        for entry in taken:
            self._remove(entry)
            entry.sent += 1
            if entry.sent < limit:
                self._place(entry)
        return [entry.encoded for entry in taken]

    def _in_order(self, kind: Kind) -> Iterator[Entry]:
        """Fewest sends first, newest first among those sent equally often."""
        buckets = self._buckets[kind]
        for sent in sorted(buckets):
            yield from reversed(buckets[sent].values())

    def keys(self, kind: Kind) -> list[Hashable]:
        """Of what the updates of this kind speak."""
        return list(self._slots[kind])

    def __len__(self) -> int:
        return self.size


def _first_fit(entries: Iterator[Entry], room: int) -> Entry | None:
    for misfits, entry in enumerate(entries):
        if len(entry.encoded) <= room:
            return entry
        if misfits == MISFITS_MAX:
            break
    return None
