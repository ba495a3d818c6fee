"""The part of the view that is on disk: heads (which are also the address book) and records.

A change marks its node; every `FLUSH_INTERVAL` the marked rows are written, so that a burst of changes costs one write
each. After a restart the rows are verified like anything else that arrives, and calls can be routed before anybody has
answered. Nothing waits for these writes, and losing the last of them loses nothing that others do not know.

The head of a node that has gone without leaving stays on disk as an address to try, also over restarts;
its records do not. Whatever else is not in the view is removed, so that the disk returns to the level of the living.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Effects, Table
from reachp2p.core.ids import NODE_ID_BYTES, NodeId, Ticket
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.timers import Timers
from reachp2p.core.wire.codec import decode_fact
from reachp2p.core.wire.cose import parse1
from reachp2p.core.wire.facts import Head
from reachp2p.core.wire.limits import WireError

FLUSH_INTERVAL = 2.0
FLUSH_NODES_MAX = 256
"""Nodes written in one flush; the others follow in the next."""
ADDRESSES_MAX = 4_096
"""Heads on disk of nodes that are not in the view, as many as the address book holds; the first to go is removed first,
and counted."""


class SnapshotDue(msgspec.Struct, frozen=True):
    """Write what has changed."""


class Snapshot:
    """Which rows differ from the disk. Size: a mark and a remembered head for each member, a remembered row for each
    record, and `ADDRESSES_MAX` heads of others."""

    def __init__(
        self,
        table: MemberTable,
        store: RecordStore,
        *,
        effects: Effects,
        timers: Timers,
        counters: Counters,
        addresses_max: int = ADDRESSES_MAX,
    ) -> None:
        self._table = table
        self._store = store
        self._effects = effects
        self._timers = timers
        self._counters = counters
        self._addresses_max = addresses_max
        self._marked: dict[NodeId, None] = {}
        self._written: dict[NodeId, dict[bytes, bytes]] = {}
        """Records by node and agent id."""
        self._heads: dict[NodeId, bytes] = {}
        self._addresses: dict[NodeId, None] = {}
        """Whose heads are on disk as addresses only."""
        self._open: dict[Ticket, tuple[NodeId, Table, bytes]] = {}
        """Writes and removals not answered yet."""
        self._page = 0
        self._requests: dict[int, Table] = {}
        self._loaded: dict[Table, list[tuple[bytes, bytes]]] = {Table.HEADS: [], Table.RECORDS: []}

    def load(self, page: int) -> None:
        """Ask for both tables, this many rows at a time."""
        self._page = page
        for table in (Table.HEADS, Table.RECORDS):
            self._requests[self._effects.fetch(table, b"", None, page)] = table

    def is_asked(self, request: int) -> bool:
        """Whether this read is ours."""
        return request in self._requests

    def on_fetched(self, request: int, rows: Sequence[tuple[bytes, bytes]]) -> bool:
        """Rows of one of our tables; true when both are here as a whole."""
        table = self._requests.pop(request, None)
        if table is None:
            return False
        self._loaded[table] += rows
        if len(rows) >= self._page:
            following = rows[-1][0] + b"\x00"
            self._requests[self._effects.fetch(table, following, None, self._page)] = table
        return not self._requests

    def take_loaded(self) -> tuple[list[bytes], list[bytes]]:
        """The signed heads and records that were on disk. They count as written; what the view does not take is removed
        in the next flushes."""
        heads, records = self._loaded[Table.HEADS], self._loaded[Table.RECORDS]
        for key, value in heads:
            self._heads[NodeId(key)] = value
        for key, value in records:
            self._written.setdefault(NodeId(key[:NODE_ID_BYTES]), {})[key[NODE_ID_BYTES:]] = value
        self._marked.update(dict.fromkeys([*self._heads, *self._written]))
        self._loaded = {Table.HEADS: [], Table.RECORDS: []}
        return [value for _, value in heads], [value for _, value in records]

    def hold(self, node: NodeId, head: bytes) -> None:
        """This head of `node` is on disk already: the driver has it from there."""
        self._heads[node] = head
        self._marked.pop(node, None)

    def on_persisted(self, ticket: Ticket) -> None:
        """A row is on disk."""
        self._open.pop(ticket, None)

    def on_failed(self, ticket: Ticket, now: float) -> None:
        """A row could not be written or removed: it differs from the disk again, and is tried with the next flush."""
        row = self._open.pop(ticket, None)
        if row is None:
            return
        node, table, agent = row
        self._counters.add("snapshot.write_failed")
        if table is Table.RECORDS:
            self._written.setdefault(node, {})[agent] = b""
        else:
            self._heads[node] = b""
        self.mark(node, now)

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
        self._addresses.pop(node, None)
        if member is not None:
            if self._heads.get(node) != member.head.data:
                self._heads[node] = member.head.data
                self._open[self._effects.persist(Table.HEADS, node, member.head.data)] = (
                    node,
                    Table.HEADS,
                    b"",
                )
            self._write_records(node, {r.fact.agent.encode(): r.data for r in self._store.records(node)})
            return
        if node in self._heads:
            if _is_address(self._heads[node]):
                self._addresses[node] = None
            else:
                self._remove_head(node)
        if len(self._addresses) > self._addresses_max:
            self._counters.add("snapshot.addresses_evicted")
            self._remove_head(next(iter(self._addresses)))
        self._write_records(node, {})

    def _remove_head(self, node: NodeId) -> None:
        self._addresses.pop(node, None)
        del self._heads[node]
        self._open[self._effects.delete(Table.HEADS, node)] = (node, Table.HEADS, b"")

    def _write_records(self, node: NodeId, current: dict[bytes, bytes]) -> None:
        written = self._written.pop(node, {})
        for agent, data in current.items():
            if written.get(agent) != data:
                ticket = self._effects.persist(Table.RECORDS, node + agent, data)
                self._open[ticket] = (node, Table.RECORDS, agent)
        for agent in written:
            if agent not in current:
                ticket = self._effects.delete(Table.RECORDS, node + agent)
                self._open[ticket] = (node, Table.RECORDS, agent)
        if current:
            self._written[node] = current


def _is_address(head: bytes) -> bool:
    """Whether this signed head says where a node may still be: readable, and no LEFT."""
    try:
        fact = decode_fact(Head, parse1(head).payload)
    except WireError:
        return False
    return not fact.left and bool(fact.addresses)
