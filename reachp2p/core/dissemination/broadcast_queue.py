"""News in circulation: where updates wait until they have been sent often enough (SWIM §4.1, LESSONS 7).

One slot for each (kind, subject): a newer update takes the place of the older and starts again. Those sent least go
first. Kinds take turns, so that a flood of one never starves another, and an update that does not fit into what is left
of a datagram is passed over, so that a big one never blocks small ones behind it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

from reachp2p.core.counters import Counters


class Kind(Enum):
    """Kinds of news, in the order in which they take turns."""

    HEAD = 0
    ACCUSATION = 1
    RECORD = 2


@dataclass(slots=True)
class Entry:
    """One update on its way."""

    kind: Kind
    key: Hashable
    encoded: bytes
    sent: int


class BroadcastQueue:
    """Updates by kind and key. Size: at most `entries_max`; beyond it the most often sent is dropped and counted."""

    def __init__(self, entries_max: int, counters: Counters) -> None:
        self._entries_max = entries_max
        self._counters = counters
        self._slots: dict[tuple[Kind, Hashable], Entry] = {}
        self._buckets: dict[Kind, dict[int, dict[Hashable, Entry]]] = {kind: {} for kind in Kind}

    def put(self, kind: Kind, key: Hashable, encoded: bytes) -> None:
        """Let an update circulate in place of what its slot held. `encoded`: the message as it travels."""
        self.drop(kind, key)
        if len(self._slots) >= self._entries_max:
            self._evict()
        self._place(Entry(kind, key, encoded, 0))

    def drop(self, kind: Kind, key: Hashable) -> None:
        """Stop circulating what this slot holds, if anything."""
        entry = self._slots.get((kind, key))
        if entry is not None:
            self._remove(entry)

    def _place(self, entry: Entry) -> None:
        self._slots[entry.kind, entry.key] = entry
        self._buckets[entry.kind].setdefault(entry.sent, {})[entry.key] = entry

    def _remove(self, entry: Entry) -> None:
        del self._slots[entry.kind, entry.key]
        bucket = self._buckets[entry.kind][entry.sent]
        del bucket[entry.key]
        if not bucket:
            del self._buckets[entry.kind][entry.sent]

    def _evict(self) -> None:
        most = max((sent, kind.value, kind) for kind, buckets in self._buckets.items() for sent in buckets)
        bucket = self._buckets[most[2]][most[0]]
        self._remove(next(iter(bucket.values())))
        self._counters.add("broadcast_queue.evicted")

    def take(self, room: int, limit: int) -> list[bytes]:
        """Updates that fit into `room` bytes together, each now sent once more; gone after `limit` sends."""
        taken: list[Entry] = []
        waiting = {kind: iter(self._candidates(kind)) for kind in Kind if self._buckets[kind]}
        while waiting:
            for kind in list(waiting):
                for entry in waiting[kind]:
                    if len(entry.encoded) <= room:
                        taken.append(entry)
                        room -= len(entry.encoded)
                        break
                else:
                    del waiting[kind]
        for entry in taken:
            self._remove(entry)
            entry.sent += 1
            if entry.sent < limit:
                self._place(entry)
        return [entry.encoded for entry in taken]

    def _candidates(self, kind: Kind) -> list[Entry]:
        buckets = self._buckets[kind]
        found: list[Entry] = []
        for sent in sorted(buckets):
            found.extend(reversed(buckets[sent].values()))  # newest first among those sent equally often
            if len(found) >= 64:  # no datagram holds more
                break
        return found

    def __len__(self) -> int:
        return len(self._slots)
