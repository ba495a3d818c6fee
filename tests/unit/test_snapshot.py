"""The view on disk: written in bursts, read as a whole, no larger than the living and the lost."""

from __future__ import annotations

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Delete, Effects, Fetch, Persist, Table
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.member import Precedence
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.snapshot import FLUSH_INTERVAL, FLUSH_NODES_MAX, Snapshot, SnapshotDue
from reachp2p.core.timers import Timers
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import AgentRecord, Head
from tests.support import Author, node_id

ANN, BOB = Author(1), Author(2)
Rows = dict[tuple[Table, bytes], bytes]


class Node:
    """A view with its disk; writes succeed at once."""

    def __init__(self, disk: Rows | None = None, page: int = 1_000, addresses_max: int = 100) -> None:
        self.disk: Rows = {} if disk is None else disk
        self.now = 0.0
        self.writes = 0
        self.reads = 0
        self.counters = Counters()
        self.timers = Timers()
        self.effects = Effects()
        self.table = MemberTable(node_id(50), 10_000, self.counters)
        self.store = RecordStore(256, self.counters)
        self.snapshot = Snapshot(
            self.table,
            self.store,
            effects=self.effects,
            timers=self.timers,
            counters=self.counters,
            addresses_max=addresses_max,
        )
        self.snapshot.load(page)
        self.perform()
        self.loaded = self.snapshot.take_loaded()

    def perform(self) -> None:
        """What a driver does with storage effects."""
        for effect in self.effects.take():
            match effect:
                case Fetch():
                    self.reads += 1
                    keys = sorted(k for t, k in self.disk if t is effect.table and k >= effect.start)
                    rows = [(k, self.disk[effect.table, k]) for k in keys[: effect.limit]]
                    assert self.snapshot.is_asked(effect.request)
                    self.is_whole = self.snapshot.on_fetched(effect.request, rows)
                    self.perform()
                case Persist():
                    self.writes += 1
                    self.disk[effect.table, effect.key] = effect.value
                case Delete():
                    self.writes += 1
                    del self.disk[effect.table, effect.key]  # nothing is removed that is not there
                case _:
                    raise AssertionError(effect)

    def meet(self, head: Checked[Head], *records: Checked[AgentRecord]) -> None:
        node = NodeId(head.fact.node)
        seen, _ = self.table.merge(head, self.now)
        if seen is Precedence.NEW_LIFE:
            self.store.open(node, head.fact.life)
        for record in records:
            self.store.put(record)
        self.snapshot.mark(node, self.now)

    def forget(self, author: Author) -> None:
        self.table.forget(author.node, "its retention is over")
        self.store.close(author.node)
        self.snapshot.mark(author.node, self.now)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.timers.next_deadline()) is not None and due <= until:
            self.now = due
            assert self.timers.pop_due(due) == SnapshotDue()
            self.snapshot.on_due(due)
            self.perform()
        self.now = until

    def rows(self, table: Table) -> dict[bytes, bytes]:
        return {key: value for (t, key), value in self.disk.items() if t is table}


HEADS, RECORDS = Table.HEADS, Table.RECORDS


def test_an_empty_disk_is_an_empty_view() -> None:
    node = Node()
    assert node.is_whole
    assert node.loaded == ([], [])
    assert len(node.timers) == 0


def test_changes_are_written_together_after_a_while() -> None:
    node = Node()
    head, record = ANN.head(), ANN.record("a/a", 1)
    node.meet(head, record)
    node.run(1.0)
    node.meet(BOB.head())
    assert node.disk == {}
    node.run(FLUSH_INTERVAL - 1.0)
    assert node.rows(HEADS) == {ANN.node: head.data, BOB.node: BOB.head().data}
    assert node.rows(RECORDS) == {ANN.node + b"a/a": record.data}
    assert len(node.timers) == 0


def test_a_burst_of_changes_costs_one_write_each_and_no_change_costs_none() -> None:
    node = Node()
    for version in range(1, 50):
        node.meet(ANN.head(version=version), ANN.record("a/a", version))
    node.run(10.0)
    assert node.writes == 2
    node.snapshot.mark(ANN.node, node.now)
    node.run(10.0)
    assert node.writes == 2


def test_records_that_are_gone_are_removed() -> None:
    node = Node()
    node.meet(ANN.head(), ANN.record("a/a", 1), ANN.record("a/b", 2))
    node.run(5.0)
    node.meet(ANN.head(2), ANN.record("a/b", 1, epoch=2))
    node.run(5.0)
    assert node.rows(HEADS) == {ANN.node: ANN.head(2).data}
    assert node.rows(RECORDS) == {ANN.node + b"a/b": ANN.record("a/b", 1, epoch=2).data}


def test_what_was_written_is_there_after_a_restart_and_is_not_written_again() -> None:
    before = Node()
    before.meet(ANN.head(), ANN.record("a/a", 1))
    before.meet(BOB.head())
    before.snapshot.flush()
    before.perform()
    assert len(before.timers) == 0

    after = Node(before.disk)
    assert after.loaded == ([ANN.head().data, BOB.head().data], [ANN.record("a/a", 1).data])
    after.meet(ANN.head(), ANN.record("a/a", 1))
    after.meet(BOB.head(version=1))
    after.run(5.0)
    assert after.writes == 1
    assert after.rows(HEADS)[BOB.node] == BOB.head(version=1).data


@pytest.mark.parametrize("page", [1, 2, 3, 5, 6, 1_000])
def test_tables_of_any_size_are_read_as_a_whole(page: int) -> None:
    before = Node()
    for number in range(1, 6):
        author = Author(number)
        before.meet(author.head(), author.record("a/a", 1), author.record("a/b", 2))
    before.snapshot.flush()
    before.perform()
    after = Node(before.disk, page)
    assert after.is_whole
    heads, records = after.loaded
    assert sorted(heads) == sorted(before.rows(HEADS).values())
    assert sorted(records) == sorted(before.rows(RECORDS).values())


def test_reads_of_others_are_not_ours() -> None:
    node = Node()
    assert not node.snapshot.is_asked(77)
    assert node.snapshot.on_fetched(77, [(b"k", b"v")]) is False


def test_a_flush_writes_a_bounded_number_of_nodes_and_goes_on_in_the_next() -> None:
    node = Node()
    for number in range(FLUSH_NODES_MAX + 10):
        node.meet(Author(number + 100).head())
    node.run(FLUSH_INTERVAL)
    assert len(node.rows(HEADS)) == FLUSH_NODES_MAX
    node.run(FLUSH_INTERVAL)
    assert len(node.rows(HEADS)) == FLUSH_NODES_MAX + 10


# What stays of the gone


def test_the_address_of_a_lost_node_stays_over_restarts_but_none_of_its_records() -> None:
    """A partition may last longer than a process: what it was split from is still on disk."""
    node = Node()
    node.meet(ANN.head(), ANN.record("a/a", 1))
    node.run(5.0)
    node.forget(ANN)
    node.run(5.0)
    assert node.rows(HEADS) == {ANN.node: ANN.head().data}
    assert node.rows(RECORDS) == {}
    again = Node(node.disk)
    assert again.loaded[0] == [ANN.head().data]
    again.meet(BOB.head())
    again.run(5.0)
    assert sorted(again.rows(HEADS)) == [ANN.node, BOB.node]


def test_a_node_that_left_leaves_no_row_behind() -> None:
    node = Node()
    node.meet(ANN.head(), ANN.record("a/a", 1))
    node.run(5.0)
    node.meet(ANN.head(left=True))
    node.run(5.0)
    assert len(node.rows(HEADS)) == 1  # so that a restart does not take it for alive
    node.forget(ANN)
    node.run(5.0)
    assert node.disk == {}


def test_rows_that_the_view_did_not_take_are_removed_after_a_restart() -> None:
    """Heads of nodes that left, records without their node, damaged rows: nothing else would ever remove them."""
    disk: Rows = {
        (HEADS, ANN.node): ANN.head(left=True).data,
        (HEADS, BOB.node): BOB.head().data,
        (HEADS, node_id(3)): b"damaged",
        (RECORDS, ANN.node + b"a/a"): ANN.record("a/a", 1).data,
        (RECORDS, BOB.node + b"a/a"): BOB.record("a/a", 1).data,
        (RECORDS, node_id(3) + b"a/\xff"): b"damaged",
    }
    node = Node(disk)
    node.meet(Author(9).head())
    node.run(5.0)
    assert sorted(node.rows(HEADS)) == [BOB.node, node_id(9)]
    assert node.rows(RECORDS) == {}


def test_addresses_on_disk_are_bounded_and_the_first_to_go_is_removed_first() -> None:
    node = Node(addresses_max=3)
    for number in range(1, 7):
        author = Author(number)
        node.meet(author.head())
        node.run(5.0)
        node.forget(author)
        node.run(5.0)
    assert sorted(node.rows(HEADS)) == [node_id(4), node_id(5), node_id(6)]
    assert node.counters.value("snapshot.addresses_evicted") == 3


def test_a_lost_node_that_returns_is_no_address_any_more() -> None:
    node = Node(addresses_max=1)
    for author in (ANN, BOB):
        node.meet(author.head())
    node.run(5.0)
    node.forget(ANN)
    node.run(5.0)
    node.meet(ANN.head(2))
    node.forget(BOB)
    node.run(5.0)
    assert node.rows(HEADS) == {ANN.node: ANN.head(2).data, BOB.node: BOB.head().data}


def test_a_lost_node_that_returns_and_leaves_is_gone() -> None:
    node = Node()
    node.meet(ANN.head())
    node.run(5.0)
    node.forget(ANN)
    node.run(5.0)
    node.meet(ANN.head(2, left=True))
    node.run(5.0)
    node.forget(ANN)
    node.run(5.0)
    assert node.disk == {}


def test_after_any_amount_of_churn_the_disk_holds_the_living() -> None:
    """Case B06."""
    node = Node()
    for number in range(100, 400):
        author = Author(number)
        node.meet(author.head(), author.record("a/a", 1))
        node.run(2.0)
        node.meet(author.head(left=True))
        node.run(2.0)
        node.forget(author)
    node.meet(ANN.head())
    node.run(10.0)
    assert sorted(key for _, key in node.disk) == [ANN.node]
    assert node.snapshot._written == {}
    assert list(node.snapshot._heads) == [ANN.node]
