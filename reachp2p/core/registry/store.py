"""The replicated registry: for each node the records of its present life (docs/protocol/registry.md).

One version counter a life orders all changes of a node. `complete` says through which version we know everything; a
record ahead of it is used at once, and `complete` follows when the versions between have been seen or when a delta
says so (Scuttlebutt, LADIS 2008 §3). What is not here at or below `complete` is gone, and no late copy brings it back.
A new life of a node empties its shelf at once, so at most one life of a node is ever listed (case B17).

A withdrawal is a record, too; the owner lets it go after its retention and says so by raising `floor` in its head.
Whoever was not complete by then becomes complete only by the whole rest, and drops what is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.registry.record import RECORD_BYTES_MAX, RECORDS_BYTES_MAX
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import AgentRecord

SHELF_BYTES_MAX = RECORDS_BYTES_MAX + 98_304
"""Signed bytes held of one node: what it may offer, and beside it tombstones for each of 256 records: about 200 bytes
each, and no more than 384 with the longest names and a claim. A node's own shelf must never be full."""


class Outcome(Enum):
    """What became of a record that was heard."""

    NEW = "new"
    SAME = "same"
    OUTDATED = "outdated"
    AHEAD = "ahead"
    """Its life is above the head we hold: the head has to come first."""
    FULL = "full"


_EMPTY: dict[Any, Any] = {}
"""What a shelf has until it has something; never written to. Most shelves of a large group stay so."""


class Shelf(msgspec.Struct, gc=False):
    """The records of one node's life."""

    life: Life
    complete: int = 0
    floor: int = 0
    floor_version: int = 0
    """Version of the head that raised the floor: who holds an older one does not know it."""
    records: dict[str, Checked[AgentRecord]] = {}
    size: int = 0
    """Signed bytes of `records`."""
    ahead: dict[int, None] = {}
    """Versions above `complete` that have been seen; at most as many as records."""


class RecordStore:
    """Records by node and agent. Size: `records_per_node_max` and `SHELF_BYTES_MAX` for each member; more are refused
    and counted."""

    def __init__(self, records_per_node_max: int, counters: Counters) -> None:
        self._max = records_per_node_max
        self._counters = counters
        self._shelves: dict[NodeId, Shelf] = {}
        self.version = 0
        """Grows with whatever changes what `complete` answers."""

    def open(self, node: NodeId, life: Life) -> list[Checked[AgentRecord]]:
        """A node has this life now: begin an empty shelf; returns what stood on the former one."""
        shelf = self._shelves.get(node)
        if shelf is not None and shelf.life == life:
            return []
        self._shelves[node] = Shelf(life, records=_EMPTY, ahead=_EMPTY)
        self.version += 1
        return list(shelf.records.values()) if shelf is not None else []

    def close(self, node: NodeId) -> list[Checked[AgentRecord]]:
        """The node is forgotten; returns what stood on its shelf."""
        shelf = self._shelves.pop(node, None)
        self.version += 1
        return list(shelf.records.values()) if shelf is not None else []

    def put(self, record: Checked[AgentRecord]) -> Outcome:
        """Keep a verified record if it is newer than what is known of its node and agent."""
        fact = record.fact
        shelf = self._shelves.get(NodeId(fact.node))
        if shelf is None or fact.life > shelf.life:
            return Outcome.AHEAD
        if fact.life < shelf.life:
            return Outcome.OUTDATED
        outcome = self._shelve(shelf, record)
        if outcome in (Outcome.NEW, Outcome.OUTDATED):
            self._see(shelf, fact.version)
        return outcome

    def _shelve(self, shelf: Shelf, record: Checked[AgentRecord]) -> Outcome:
        fact = record.fact
        held = shelf.records.get(fact.agent)
        if held is not None and fact.version <= held.fact.version:
            if fact.version < held.fact.version:
                return Outcome.OUTDATED
            if held.digest == record.digest:
                return Outcome.SAME
            self._counters.add("registry.equivocation")
            if held.digest < record.digest:  # a fixed choice, whatever came first
                return Outcome.SAME
        if held is None:
            if fact.version <= min(shelf.complete, shelf.floor):
                return Outcome.OUTDATED  # replaced or withdrawn since, and its tombstone may be forgotten
            if fact.withdrawn and fact.version <= shelf.floor:
                return Outcome.OUTDATED  # its retention is over; nobody needs to learn of it any more
            if len(shelf.records) >= self._max:
                self._counters.add("dropped.record.node_full")
                return Outcome.FULL
            if fact.version <= shelf.complete:
                # Above the floor even tombstones are kept: whoever said that we had everything was wrong.
                shelf.complete = fact.version - 1
                self.version += 1
                self._counters.add("registry.not_complete")
        size = shelf.size + len(record.data) - (len(held.data) if held is not None else 0)
        if len(record.data) > RECORD_BYTES_MAX or size > SHELF_BYTES_MAX:
            self._counters.add("dropped.record.node_bytes")
            return Outcome.FULL
        self._keep(shelf, record)
        return Outcome.NEW

    def _keep(self, shelf: Shelf, record: Checked[AgentRecord]) -> None:
        self._drop(shelf, record.fact.agent)
        if not shelf.records:
            shelf.records = {}
        shelf.records[record.fact.agent] = record
        shelf.size += len(record.data)

    def _drop(self, shelf: Shelf, agent: str) -> None:
        held = shelf.records.pop(agent, None)
        if held is not None:
            shelf.size -= len(held.data)

    def _see(self, shelf: Shelf, version: int) -> None:
        """A record of this version has been seen, whether it is kept or has been replaced since."""
        if version <= shelf.complete:
            return
        if version > shelf.complete + 1 and len(shelf.ahead) >= self._max:
            self._counters.add("registry.ahead_full")  # a delta will say so
            return
        if not shelf.ahead:
            shelf.ahead = {}
        shelf.ahead[version] = None
        self._advance(shelf)

    def _advance(self, shelf: Shelf) -> None:
        """Follow what has been seen without a gap; below the floor only a delta completes us."""
        while shelf.complete >= shelf.floor and shelf.complete + 1 in shelf.ahead:
            shelf.complete += 1
            self.version += 1
            del shelf.ahead[shelf.complete]

    def completed(
        self, node: NodeId, life: Life, through: int, listed: dict[str, None], version: int | None = None
    ) -> list[Checked[AgentRecord]]:
        """A delta has brought everything of this life up to version `through`.

        If we were not complete up to the floor before, what is at or below the floor and not `listed` in the delta has
        been withdrawn and forgotten by its owner: it is dropped here and returned. That needs a sender that knows the
        floor, so a delta that ends below it, or comes from the holder of an older head (`version`), completes nothing.
        """
        shelf = self._shelves.get(node)
        if shelf is None or shelf.life != life or through <= shelf.complete:
            return []
        gone: list[Checked[AgentRecord]] = []
        if shelf.complete < shelf.floor:
            if through < shelf.floor or (version is not None and version < shelf.floor_version):
                self._counters.add("registry.delta_below_floor")
                return []
            gone = [
                r
                for agent, r in shelf.records.items()
                if r.fact.version <= shelf.floor and agent not in listed
            ]
            for record in gone:
                self._drop(shelf, record.fact.agent)
        shelf.complete = through
        self.version += 1
        shelf.ahead = {seen: None for seen in shelf.ahead if seen > through}
        self._advance(shelf)
        return gone

    def highest(self, node: NodeId) -> int:
        """The highest version of a record that is held of a node; 0 if none is."""
        shelf = self._shelves.get(node)
        return max((r.fact.version for r in shelf.records.values()), default=0) if shelf is not None else 0

    def raise_floor(self, node: NodeId, floor: int, version: int = 0) -> list[Checked[AgentRecord]]:
        """The owner keeps no tombstones up to `floor`, says its head of this `version`; if we have them all, neither do
        we. Returns those let go."""
        shelf = self._shelves.get(node)
        if shelf is None or floor <= shelf.floor:
            return []
        shelf.floor, shelf.floor_version = floor, version
        if shelf.complete < floor:
            return []
        gone = [r for r in shelf.records.values() if r.fact.withdrawn and r.fact.version <= floor]
        for record in gone:
            self._drop(shelf, record.fact.agent)
        return gone

    def has_room(self, node: NodeId, agent: str) -> bool:
        """Whether a record of this agent could be kept, as far as their number goes."""
        shelf = self._shelves.get(node)
        return shelf is None or agent in shelf.records or len(shelf.records) < self._max

    def complete(self, node: NodeId) -> int:
        """Through which version everything of the node's present life is here."""
        shelf = self._shelves.get(node)
        return shelf.complete if shelf is not None else 0

    def newest(self, node: NodeId) -> int:
        """The highest version of the node's present life that a record here, or one seen before, has."""
        shelf = self._shelves.get(node)
        return max(shelf.ahead, default=shelf.complete) if shelf is not None else 0

    def after(self, node: NodeId, version: int) -> list[Checked[AgentRecord]]:
        """Records of the node's present life above `version`, in version order. Below the floor that is all of them."""
        shelf = self._shelves.get(node)
        if shelf is None:
            return []
        start = 0 if version < shelf.floor else version
        newer = [r for r in shelf.records.values() if r.fact.version > start]
        return sorted(newer, key=lambda record: record.fact.version)

    def records(self, node: NodeId) -> Iterator[Checked[AgentRecord]]:
        """All records of a node, tombstones included."""
        shelf = self._shelves.get(node)
        return iter(shelf.records.values()) if shelf is not None else iter(())

    def __len__(self) -> int:
        return sum(len(shelf.records) for shelf in self._shelves.values())
