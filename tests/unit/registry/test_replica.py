"""What one side of an exchange says it holds, and what it sends to a side that holds less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reachp2p.core.commands import AgentSpec
from reachp2p.core.dissemination.anti_entropy import absent
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.membership.member import Precedence
from reachp2p.core.membership.own import OwnNode
from reachp2p.core.membership.suspicion import Grade
from reachp2p.core.registry.own import OwnAgents
from reachp2p.core.registry.record import RECORDS_BYTES_MAX
from reachp2p.core.registry.replica import ITEMS_MAX, Replica, is_expired
from reachp2p.core.registry.schemas import Schemas
from reachp2p.core.registry.store import RecordStore
from reachp2p.core.trust.facts import Checked, FactChecker
from reachp2p.core.wire.codec import encode_message
from reachp2p.core.wire.facts import Accusation, AgentRecord, Head
from reachp2p.core.wire.messages import DigestEntry, SyncDelta
from tests.support import CLUSTER, WALL, Author, KeyedHash, checker, life, node_id, settings, wall_clock
from tests.unit.membership.watch import OWN, Watch

ME, ANN, BOB = Author(OWN), Author(1), Author(99)
DEAD = MemberState.DEAD


class Desk:
    """Node 50's view: itself, a table and a store."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.table = self.watch.table
        self.clock = wall_clock()
        facts = FactChecker(KeyedHash(ME.node), CLUSTER, self.watch.counters)
        self.own = OwnNode(ME.node, settings(OWN), ME.signer, facts, self.clock)
        self.store = RecordStore(256, self.watch.counters)
        self.agents = OwnAgents(
            self.own, self.store, Schemas(self.watch.counters), ME.signer, facts, self.clock, 128
        )
        self.replica = Replica(self.own, self.table, self.store, self.watch.detector, self.clock, 600.0)
        self.own.open(life(1), 0.0)
        self.agents.open(life(1), 0.0)

    def meet(self, head: Checked[Head], *records: Checked[AgentRecord], complete: int = 0) -> None:
        seen, change = self.table.merge(head, 0.0)
        node = NodeId(head.fact.node)
        if seen is Precedence.NEW_LIFE:
            assert change is not None
            self.store.open(node, head.fact.life)
        self.store.raise_floor(node, head.fact.floor, head.fact.version)
        for record in records:
            self.store.put(record)
        self.store.completed(node, head.fact.life, complete, {r.fact.agent: None for r in records})

    def entry(self, author: Author) -> DigestEntry:
        (found,) = [e for e in self.replica.digest(0.0) if e.node == author.node]
        return found

    def deltas(self, *theirs: DigestEntry, now: float = 0.0) -> list[SyncDelta]:
        return self.replica.deltas(theirs, 7, now)

    def delta(self, *theirs: DigestEntry) -> SyncDelta:
        (only,) = self.deltas(*theirs)
        assert only.exchange == 7
        return only


@pytest.fixture
def desk() -> Desk:
    return Desk()


def changed(entry: DigestEntry, **fields: Any) -> DigestEntry:
    values = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return DigestEntry(**{**values, **fields})


def versions(delta: SyncDelta) -> Iterator[int]:
    return (checker().open(AgentRecord, data).fact.version for data in delta.records)


# The digest


def test_a_digest_has_an_entry_for_each_node_this_one_included_in_the_order_of_ids(desk: Desk) -> None:
    desk.meet(BOB.head(2, 3, 4), complete=2)
    desk.meet(ANN.head())
    assert desk.replica.digest(0.0) == [
        DigestEntry(ANN.node, life(1), False, 0, 0, 0, False),
        DigestEntry(ME.node, life(1), False, 0, 0, 0, False),
        DigestEntry(BOB.node, life(2), False, 3, 4, 2, False),
    ]


def test_a_node_knows_all_of_itself(desk: Desk) -> None:
    desk.agents.register(AgentSpec(agent="a/a"), 0.0)
    desk.own.next_version()
    assert (desk.entry(ME).version, desk.entry(ME).complete) == (2, 2)


def test_before_a_life_is_open_a_digest_has_only_others() -> None:
    desk = Desk()
    desk.own.life = None
    desk.meet(ANN.head())
    assert [e.node for e in desk.replica.digest(0.0)] == [ANN.node]
    assert desk.deltas(absent(ME.node)) == []


def test_equal_views_have_equal_hashes_and_every_difference_shows(desk: Desk) -> None:
    hashes = [desk.replica.digest_hash(0.0)]
    desk.meet(ANN.head(version=1))
    hashes.append(desk.replica.digest_hash(0.0))
    desk.store.completed(ANN.node, life(1), 1, {})
    hashes.append(desk.replica.digest_hash(0.0))
    desk.table.doubt(ANN.node, DEAD, 0.0, "")
    hashes.append(desk.replica.digest_hash(0.0))
    desk.meet(ANN.head(incarnation=1, version=1))
    hashes.append(desk.replica.digest_hash(0.0))
    desk.own.next_version()
    hashes.append(desk.replica.digest_hash(0.0))
    assert len(set(hashes)) == len(hashes)

    other = Desk()
    other.own.next_version()
    other.meet(ANN.head(incarnation=1, version=1), complete=1)
    assert other.replica.digest_hash(0.0) == hashes[-1]


def test_a_suspicion_is_ones_own_and_a_death_is_said(desk: Desk) -> None:
    desk.meet(ANN.head())
    desk.table.doubt(ANN.node, MemberState.SUSPECT, 0.0, "")
    assert not desk.entry(ANN).dead
    desk.table.doubt(ANN.node, DEAD, 0.0, "")
    assert desk.entry(ANN).dead


def test_views_need_not_agree_on_the_records_of_a_life_that_has_left(desk: Desk) -> None:
    """Nobody passes them on any more, so the views of two nodes could not become equal otherwise."""
    desk.meet(ANN.head(version=3), ANN.record("a/a", 1))
    desk.meet(ANN.head(version=3, left=True))
    other = Desk()
    other.meet(ANN.head(version=3, left=True))
    assert desk.entry(ANN) == other.entry(ANN)
    assert desk.deltas(other.entry(ANN)) == []


@pytest.mark.parametrize(("age", "expired"), [(0, False), (4_200, False), (4_201, True)])
def test_a_head_is_valid_for_its_time_and_the_tolerance_of_clocks(age: int, expired: bool) -> None:
    assert is_expired(ANN.head().fact, WALL + age, 600.0) is expired


def test_expired_heads_are_neither_said_nor_sent(desk: Desk) -> None:
    desk.meet(ANN.head(version=1), ANN.record("a/a", 1))
    assert ANN.node in [e.node for e in desk.replica.digest(4_200.0)]
    assert ANN.node not in [e.node for e in desk.replica.digest(4_201.0)]
    assert desk.deltas(absent(ANN.node), now=4_201.0) == []


# Deltas


def test_who_has_nothing_gets_the_head_and_all_records_in_version_order(desk: Desk) -> None:
    head = ANN.head(version=3)
    desk.meet(head, ANN.record("a/c", 3), ANN.record("a/a", 1), ANN.record("a/b", 2, withdrawn=True))
    delta = desk.delta(absent(ANN.node))
    assert delta.heads == [head.data]
    assert list(versions(delta)) == [1, 2, 3]
    assert delta.through == [desk.entry(ANN)]
    assert not delta.last


def test_who_has_the_same_gets_nothing(desk: Desk) -> None:
    desk.meet(ANN.head(version=2), ANN.record("a/a", 1), ANN.record("a/b", 2))
    assert desk.deltas(desk.entry(ANN), absent(node_id(77))) == []


def test_who_lacks_some_records_gets_those(desk: Desk) -> None:
    desk.meet(ANN.head(version=2), ANN.record("a/a", 1), ANN.record("a/b", 2))
    delta = desk.delta(changed(desk.entry(ANN), complete=1))
    assert (delta.heads, list(versions(delta))) == ([], [2])
    assert delta.through[0].complete == 2


def test_who_knows_a_former_life_gets_everything_of_the_present_one(desk: Desk) -> None:
    desk.meet(ANN.head(2, version=1), ANN.record("a/a", 1, epoch=2))
    delta = desk.delta(changed(desk.entry(ANN), life=life(1), version=9, complete=9))
    assert len(delta.heads) == 1
    assert list(versions(delta)) == [1]


@pytest.mark.parametrize("newer", [{"life": life(2)}, {"left": True}, {"incarnation": 1}, {"version": 9}])
def test_who_has_a_newer_head_gets_no_records_from_us(desk: Desk, newer: dict[str, Any]) -> None:
    """It may know of a floor that we do not know, and would take our list for a whole one."""
    desk.meet(ANN.head(version=2), ANN.record("a/a", 1), ANN.record("a/b", 2))
    assert desk.deltas(changed(desk.entry(ANN), complete=0, **newer)) == []


def test_below_the_floor_everything_is_sent(desk: Desk) -> None:
    desk.meet(ANN.head(version=4, floor=2), ANN.record("a/a", 1), ANN.record("a/b", 3), complete=4)
    entry = desk.entry(ANN)
    assert list(versions(desk.delta(changed(entry, complete=1)))) == [1, 3]
    assert list(versions(desk.delta(changed(entry, complete=2)))) == [3]


def test_our_own_head_and_records_are_sent_like_others(desk: Desk) -> None:
    desk.agents.register(AgentSpec(agent="a/a"), 0.0)
    delta = desk.delta(absent(ME.node))
    assert delta.heads == [desk.own.head(0.0).data]
    assert list(versions(delta)) == [1]


# Doubts


def doubts(delta: SyncDelta) -> list[Accusation]:
    return [checker().open(Accusation, data).fact for data in delta.doubts]


def test_a_death_is_told_as_our_doubt_to_who_does_not_know_it(desk: Desk) -> None:
    desk.meet(ANN.head())
    desk.table.doubt(ANN.node, DEAD, 0.0, "")
    (doubt,) = doubts(desk.delta(changed(desk.entry(ANN), dead=False)))
    assert (doubt.accuser, doubt.subject, doubt.grade) == (ME.node, ANN.node, Grade.DEAD)
    assert desk.deltas(desk.entry(ANN)) == []


def test_a_death_is_told_with_the_head_that_it_is_about(desk: Desk) -> None:
    """Also to who holds an older incarnation for dead: the newer head would bring it to life there."""
    desk.meet(ANN.head(incarnation=1))
    desk.table.doubt(ANN.node, DEAD, 0.0, "")
    for older in (absent(ANN.node), changed(desk.entry(ANN), incarnation=0, dead=True)):
        delta = desk.delta(older)
        assert [checker().open(Head, data).fact.node for data in delta.heads] == [ANN.node, ME.node]
        assert [d.incarnation for d in doubts(delta)] == [1]


def test_a_suspicion_is_told_with_a_head_that_is_news_and_only_then(desk: Desk) -> None:
    """Accusations circulate for a moment only: whoever comes later would take the suspect for alive."""
    desk.meet(ANN.head(incarnation=1))
    desk.table.doubt(ANN.node, MemberState.SUSPECT, 0.0, "")
    assert [d.grade for d in doubts(desk.delta(absent(ANN.node)))] == [Grade.SILENCE]
    assert [d.incarnation for d in doubts(desk.delta(changed(desk.entry(ANN), incarnation=0)))] == [1]
    assert desk.deltas(desk.entry(ANN)) == []


def test_our_own_head_goes_before_our_first_doubt_once(desk: Desk) -> None:
    """Nobody believes the doubt of a stranger, and our own entry may come a page later."""
    for number in range(100, 300):
        desk.meet(Author(number).head())
    desk.table.doubt(node_id(100), DEAD, 0.0, "")
    desk.table.doubt(node_id(290), DEAD, 0.0, "")
    deltas = desk.deltas(*(absent(node_id(number)) for number in range(100, 300)))
    own = [[checker().open(Head, d).fact.node for d in delta.heads].count(ME.node) for delta in deltas]
    assert own == [1] + [0] * (len(deltas) - 1)
    told = [len(delta.doubts) for delta in deltas]
    assert (told[0], sum(told)) == (1, 2)


@pytest.mark.parametrize("newer", [{"incarnation": 1}, {"life": life(2)}, {"left": True}])
def test_who_holds_newer_numbers_is_not_told_of_an_outdated_death(desk: Desk, newer: dict[str, Any]) -> None:
    desk.meet(ANN.head(), complete=1)
    desk.table.doubt(ANN.node, DEAD, 0.0, "")
    assert desk.deltas(changed(desk.entry(ANN), dead=False, complete=0, **newer)) == []


# Frames


def test_a_delta_has_at_most_64_heads_and_64_records(desk: Desk) -> None:
    for number in range(100, 300):
        author = Author(number)
        desk.meet(author.head(version=1), author.record("a/a", 1))
    deltas = desk.deltas(*(absent(node_id(number)) for number in range(100, 300)))
    assert sum(len(d.heads) for d in deltas) == 200
    assert sum(len(d.records) for d in deltas) == 200
    for delta in deltas:
        assert max(len(delta.heads), len(delta.records), len(delta.through)) <= ITEMS_MAX


def test_the_records_of_one_node_are_never_split(desk: Desk) -> None:
    for number, count in ((101, 40), (102, 40), (103, 200), (104, 1)):
        author = Author(number)
        records = [author.record(f"a/{v}", v) for v in range(1, count + 1)]
        desk.meet(author.head(version=count), *records)
    deltas = desk.deltas(*(absent(node_id(number)) for number in (101, 102, 103, 104)))
    listed = [[(e.node, e.complete) for e in d.through] for d in deltas]
    assert listed == [[(node_id(101), 40)], [(node_id(102), 40)], [(node_id(103), 200)], [(node_id(104), 1)]]
    assert [len(d.records) for d in deltas] == [40, 40, 200, 1]


def test_a_head_never_travels_behind_what_it_stands_for(desk: Desk) -> None:
    for number in range(100, 180):
        author = Author(number)
        desk.meet(author.head(version=2), author.record("a/a", 1), author.record("a/b", 2))
    known: dict[bytes, None] = {}
    for delta in desk.deltas(*(absent(node_id(number)) for number in range(100, 180))):
        known.update(dict.fromkeys(checker().open(Head, data).fact.node for data in delta.heads))
        assert all(e.node in known for e in delta.through)


def test_large_records_of_many_nodes_travel_in_several_messages_that_a_link_can_carry(desk: Desk) -> None:
    for number in range(100, 164):
        author = Author(number)
        record = author.record("a/a", 1, limits={"x": bytes(32_000)})
        desk.meet(author.head(version=1), record)
    deltas = desk.deltas(*(absent(node_id(number)) for number in range(100, 164)))
    assert sum(len(d.records) for d in deltas) == 64
    assert max(sum(map(len, d.records)) for d in deltas) <= RECORDS_BYTES_MAX
    assert max(len(encode_message(d)) for d in deltas) < 1_048_576
