"""The part of the view that is on disk: heads (which are also the address book) and records.

A change marks its node; every `FLUSH_INTERVAL` the marked rows are written, so that a burst of changes costs one write
each. After a restart the rows are verified like anything else that arrives, and calls can be routed before anybody has
answered. Nothing waits for these writes, and losing the last of them loses nothing that others do not know.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Table
from reachp2p.core.ids import NODE_ID_BYTES, NodeId
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.timers import Timers

FLUSH_INTERVAL = 2.0
FLUSH_NODES_MAX = 256
"""Nodes written in one flush; the others follow in the next."""


class SnapshotDue(msgspec.Struct, frozen=True):
    """Write what has changed."""


class Snapshot:
    """Which rows differ from the disk. Size: one mark a member, one remembered row a record."""

    def __init__(
        self, table: MemberTable, store: RecordStore, *, effects: Effects, timers: Timers, counters: Counters
    ) -> None:
        self._table = table
        self._store = store
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._marked: dict[NodeId, None] = {}
        self._written: dict[NodeId, dict[str, bytes]] = {}
        self._heads: dict[NodeId, bytes] = {}
        self._requests: dict[int, Table] = {}
        self._loaded: dict[Table, Sequence[tuple[bytes, bytes]]] = {}

    def load(self, rows_max: int) -> None:
        """Ask for both tables."""
        for table in (Table.HEADS, Table.RECORDS):
            self._requests[self._effects.fetch(table, b"", None, rows_max)] = table

    def is_asked(self, request: int) -> bool:
        """Whether this read is ours."""
        return request in self._requests

    def on_fetched(self, request: int, rows: Sequence[tuple[bytes, bytes]]) -> bool:
        """Rows of one of our tables; true when both are here."""
        table = self._requests.pop(request, None)
        if table is None:
            return False
        self._loaded[table] = rows
        return not self._requests

    def take_loaded(self) -> tuple[list[bytes], list[bytes]]:
        """The signed heads and records that were on disk; they count as written."""
        heads = [value for _, value in self._loaded.get(Table.HEADS, ())]
        for key, value in self._loaded.get(Table.HEADS, ()):
            self._heads[NodeId(key)] = value
        records = [value for _, value in self._loaded.get(Table.RECORDS, ())]
        for key, value in self._loaded.get(Table.RECORDS, ()):
            node, agent = NodeId(key[:NODE_ID_BYTES]), key[NODE_ID_BYTES:].decode("utf-8", "replace")
            self._written.setdefault(node, {})[agent] = value
        self._loaded.clear()
        return heads, records

    def mark(self, node: NodeId, now: float) -> None:
        """The rows of `node` have changed."""
        self._marked[node] = None
        if self._timers.due_at(SnapshotDue()) is None:
            self._timers.set(SnapshotDue(), now + FLUSH_INTERVAL)

    def on_due(self, now: float) -> None:
        """Write rows of marked nodes."""
        for node in list(self._marked)[:FLUSH_NODES_MAX]:
            del self._marked[node]
            self._write(node)
        if self._marked:
            self._timers.set(SnapshotDue(), now + FLUSH_INTERVAL)

    def flush(self) -> None:
        """Write everything that is marked, at the end."""
        for node in list(self._marked):
            self._write(node)
        self._marked.clear()
        self._timers.cancel(SnapshotDue())

    def _write(self, node: NodeId) -> None:
        member = self._table.get(node)
        if member is not None:
            if self._heads.get(node) != member.head.data:
                self._heads[node] = member.head.data
                self._effects.persist(Table.HEADS, node, member.head.data)
        elif self._heads.pop(node, None) is not None:
            self._effects.delete(Table.HEADS, node)
        current = {r.fact.agent: r.data for r in self._store.records(node)} if member is not None else {}
        written = self._written.get(node, {})
        for agent, data in current.items():
            if written.get(agent) != data:
                self._effects.persist(Table.RECORDS, node + agent.encode(), data)
        for agent in written:
            if agent not in current:
                self._effects.delete(Table.RECORDS, node + agent.encode())
        if current:
            self._written[node] = current
        else:
            self._written.pop(node, None)
