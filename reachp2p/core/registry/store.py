"""The replicated registry: for each node the records of its present life (DESIGN §6).

One version counter a life orders all changes of a node. `complete` says through which version we hold everything; a
record ahead of it is used at once, but only a delta in version order moves `complete` (Scuttlebutt, LADIS 2008 §3).
A new life of a node empties its shelf at once, so at most one life of a node is ever listed (case B17). A withdrawal is
a record, too; the owner lets it go after its retention and says so by raising `floor` in its head: whoever was not
complete by then receives the whole rest and drops what is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import AgentRecord


class Outcome(Enum):
    """What became of a record that was heard."""

    NEW = "new"
    SAME = "same"
    OUTDATED = "outdated"
    AHEAD = "ahead"
    """Its life is above the head we hold: the head has to come first."""
    FULL = "full"


@dataclass(slots=True)
class Shelf:
    """The records of one node's life."""

    life: Life
    complete: int = 0
    floor: int = 0
    records: dict[str, Checked[AgentRecord]] = field(default_factory=dict)


class RecordStore:
    """Records by node and agent. Size: `records_per_node_max` for each member; more are refused and counted."""

    def __init__(self, records_per_node_max: int, counters: Counters) -> None:
        self._max = records_per_node_max
        self._counters = counters
        self._shelves: dict[NodeId, Shelf] = {}

    def open(self, node: NodeId, life: Life) -> list[Checked[AgentRecord]]:
        """A node has this life now: begin an empty shelf; returns what stood on the former one."""
        shelf = self._shelves.get(node)
        if shelf is not None and shelf.life == life:
            return []
        self._shelves[node] = Shelf(life)
        return list(shelf.records.values()) if shelf is not None else []

    def close(self, node: NodeId) -> list[Checked[AgentRecord]]:
        """The node is forgotten; returns what stood on its shelf."""
        shelf = self._shelves.pop(node, None)
        return list(shelf.records.values()) if shelf is not None else []

    def put(self, record: Checked[AgentRecord]) -> Outcome:
        """Keep a verified record if it is newer than what is held for its node and agent."""
        fact = record.fact
        shelf = self._shelves.get(NodeId(fact.node))
        if shelf is None or fact.life > shelf.life:
            return Outcome.AHEAD
        if fact.life < shelf.life:
            return Outcome.OUTDATED
        held = shelf.records.get(fact.agent)
        if held is None and len(shelf.records) >= self._max:
            self._counters.add("dropped.record.node_full")
            return Outcome.FULL
        if held is None and fact.version <= shelf.floor and fact.withdrawn:
            return Outcome.OUTDATED  # its retention is over; nobody needs to learn of it any more
        if held is not None and fact.version <= held.fact.version:
            if fact.version < held.fact.version:
                return Outcome.OUTDATED
            if held.digest != record.digest:
                self._counters.add("registry.equivocation")
                if record.digest < held.digest:  # a fixed choice, whatever came first
                    shelf.records[fact.agent] = record
            return Outcome.SAME
        shelf.records[fact.agent] = record
        if fact.version == shelf.complete + 1:
            shelf.complete = fact.version
        return Outcome.NEW

    def completed(
        self, node: NodeId, life: Life, through: int, listed: dict[str, None]
    ) -> list[Checked[AgentRecord]]:
        """A delta has brought everything of this life up to version `through`.

        If we were not complete up to the floor before, what is at or below the floor and not `listed` in the delta has
        been withdrawn and forgotten by its owner: it is dropped here and returned.
        """
        shelf = self._shelves.get(node)
        if shelf is None or shelf.life != life or through <= shelf.complete:
            return []
        gone: list[Checked[AgentRecord]] = []
        if shelf.complete < shelf.floor <= through:
            gone = [
                r
                for agent, r in shelf.records.items()
                if r.fact.version <= shelf.floor and agent not in listed
            ]
            for record in gone:
                del shelf.records[record.fact.agent]
        shelf.complete = through
        return gone

    def raise_floor(self, node: NodeId, floor: int) -> list[Checked[AgentRecord]]:
        """The owner keeps no tombstones up to `floor`; if we have them all, neither do we. Returns those let go."""
        shelf = self._shelves.get(node)
        if shelf is None or floor <= shelf.floor:
            return []
        shelf.floor = floor
        if shelf.complete < floor:
            return []
        gone = [r for r in shelf.records.values() if r.fact.withdrawn and r.fact.version <= floor]
        for record in gone:
            del shelf.records[record.fact.agent]
        return gone

    def complete(self, node: NodeId) -> int:
        """Through which version everything of the node's present life is here."""
        shelf = self._shelves.get(node)
        return shelf.complete if shelf is not None else 0

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
