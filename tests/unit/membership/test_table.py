"""The member table: what merges and verdicts change, in which order rows come, and its bound."""

from __future__ import annotations

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Address, NodeId
from reachp2p.core.membership.member import Precedence
from reachp2p.core.membership.table import MemberTable
from tests.support import Author, address, life, node_id

ALIVE, SUSPECT, DEAD, LEFT = MemberState
ANN, BOB = Author(1), Author(2)


class Desk:
    """A table of node 50 with its counters."""

    def __init__(self, members_max: int = 100, own: int = 50) -> None:
        self.counters = Counters()
        self.table = MemberTable(node_id(own), members_max, self.counters)

    def fill(self, *numbers: int) -> None:
        for number in numbers:
            self.table.merge(Author(number).head(), 0.0)

    def state(self, node: NodeId) -> MemberState:
        member = self.table.get(node)
        assert member is not None
        return member.state


@pytest.fixture
def desk() -> Desk:
    return Desk()


# Merging


def test_a_first_head_makes_a_row(desk: Desk) -> None:
    seen, change = desk.table.merge(ANN.head(3, 1, 4), 7.0)
    assert seen is Precedence.NEW_LIFE
    assert change is not None
    assert (change.node, change.old, change.new, change.old_life) == (ANN.node, None, ALIVE, None)
    assert change.is_new_life
    assert change.member is desk.table.get(ANN.node)
    assert (change.member.since, change.member.learned_at) == (7.0, 7.0)


def test_a_first_head_may_say_that_its_node_has_left(desk: Desk) -> None:
    _, change = desk.table.merge(ANN.head(left=True), 0.0)
    assert change is not None
    assert (change.old, change.new) == (None, LEFT)
    assert desk.table.size == 1


def test_the_same_head_again_changes_nothing(desk: Desk) -> None:
    desk.table.merge(ANN.head(1, 1, 1), 0.0)
    assert desk.table.merge(ANN.head(1, 1, 1), 5.0) == (Precedence.SAME, None)
    assert desk.table.merge(ANN.head(1, 0, 9), 5.0) == (Precedence.OUTDATED, None)
    assert desk.table.merge(ANN.head(1, 1, 0), 5.0) == (Precedence.OUTDATED, None)


def test_an_update_keeps_the_rank_and_its_time(desk: Desk) -> None:
    desk.table.merge(ANN.head(), 0.0)
    desk.table.doubt(ANN.node, SUSPECT, 3.0, "silence")
    seen, change = desk.table.merge(ANN.head(version=1), 5.0)
    assert seen is Precedence.UPDATES
    assert change is not None
    assert (change.old, change.new, change.is_new_life) == (SUSPECT, SUSPECT, False)
    assert change.member.since == 3.0


@pytest.mark.parametrize("doubt", [SUSPECT, DEAD])
def test_a_higher_incarnation_beats_every_doubt(desk: Desk, doubt: MemberState) -> None:
    desk.table.merge(ANN.head(), 0.0)
    desk.table.doubt(ANN.node, doubt, 3.0, "silence")
    seen, change = desk.table.merge(ANN.head(incarnation=1), 5.0)
    assert seen is Precedence.REFUTES
    assert change is not None
    assert (change.old, change.new, change.member.since) == (doubt, ALIVE, 5.0)


def test_a_refutation_ends_what_we_knew_of_a_refusal_but_not_where_it_answered(desk: Desk) -> None:
    desk.table.merge(ANN.head(), 0.0)
    row = desk.table.get(ANN.node)
    assert row is not None
    row.refused = True
    row.answered_at(ANN.address)
    desk.table.merge(ANN.head(incarnation=1), 5.0)
    assert (row.refused, row.reached) == (False, (ANN.address,))


def test_a_new_life_begins_with_nothing_of_the_former_one(desk: Desk) -> None:
    desk.table.merge(ANN.head(), 0.0)
    old = desk.table.get(ANN.node)
    assert old is not None
    old.measured(0.1)
    old.refused = True
    old.answered_at(ANN.address)
    desk.table.doubt(ANN.node, DEAD, 1.0, "silence")
    seen, change = desk.table.merge(ANN.head(2), 5.0)
    assert seen is Precedence.NEW_LIFE
    assert change is not None
    assert (change.old, change.new, change.old_life, change.is_new_life) == (DEAD, ALIVE, life(1), True)
    row = desk.table.get(ANN.node)
    assert row is change.member is not old
    assert (row.rtt, row.reached, row.refused, row.since, row.learned_at) == (None, (), False, 5.0, 5.0)


def test_a_new_life_may_begin_as_left(desk: Desk) -> None:
    desk.table.merge(ANN.head(), 0.0)
    _, change = desk.table.merge(ANN.head(2, left=True), 5.0)
    assert change is not None
    assert (change.new, change.is_new_life) == (LEFT, True)


def test_nothing_but_a_higher_life_ends_left(desk: Desk) -> None:
    desk.table.merge(ANN.head(1, 0, 0, left=True), 0.0)
    for head in (ANN.head(1, 9, 9), ANN.head(1, 9, 9, left=True), ANN.head(1, 10, 10, left=True)):
        desk.table.merge(head, 1.0)
        assert desk.state(ANN.node) is LEFT
    assert desk.table.doubt(ANN.node, DEAD, 2.0, "silence") is None
    desk.table.merge(ANN.head(1, 0, 0, salt=1), 3.0)
    assert desk.state(ANN.node) is ALIVE


def test_addresses_that_a_head_no_longer_names_are_forgotten(desk: Desk) -> None:
    moved = Address("10.9.9.9", 1)
    desk.table.merge(ANN.head(addresses=[ANN.address, moved]), 0.0)
    row = desk.table.get(ANN.node)
    assert row is not None
    row.answered_at(ANN.address)
    row.answered_at(moved)
    desk.table.merge(ANN.head(version=1, addresses=[moved]), 1.0)
    assert row.reached == (moved,)
    assert row.address == moved


def test_of_two_contradictory_heads_every_table_keeps_the_same_one() -> None:
    one, other = ANN.head(zone="east"), ANN.head(zone="west")
    kept = []
    for order in ([one, other], [other, one]):
        desk = Desk()
        desk.table.merge(order[0], 0.0)
        assert desk.table.merge(order[1], 1.0) == (Precedence.EQUIVOCATES, None)
        assert desk.counters.value("membership.equivocation") == 1
        row = desk.table.get(ANN.node)
        assert row is not None
        kept.append(row.head.data)
    assert kept[0] == kept[1]


def test_our_own_head_is_never_merged(desk: Desk) -> None:
    with pytest.raises(AssertionError):
        desk.table.merge(Author(50).head(), 0.0)


# Doubt


def test_doubt_only_rises(desk: Desk) -> None:
    desk.table.merge(ANN.head(), 0.0)
    change = desk.table.doubt(ANN.node, SUSPECT, 1.0, "no answer")
    assert change is not None
    assert (change.old, change.new, change.seen, change.reason) == (ALIVE, SUSPECT, None, "no answer")
    assert desk.table.doubt(ANN.node, SUSPECT, 2.0, "again") is None
    assert desk.table.doubt(ANN.node, DEAD, 3.0, "timer") is not None
    assert desk.table.doubt(ANN.node, SUSPECT, 4.0, "late") is None
    row = desk.table.get(ANN.node)
    assert row is not None
    assert (row.state, row.since) == (DEAD, 3.0)


# Size, order, forgetting


def test_rows_come_in_the_order_of_their_ids_whatever_the_order_of_arrival(desk: Desk) -> None:
    desk.fill(7, 3, 300, 99, 4)
    assert [row.node for row in desk.table] == [node_id(n) for n in (3, 4, 7, 99, 300)]
    desk.table.forget(node_id(7), "over")
    assert [row.node for row in desk.table] == [node_id(n) for n in (3, 4, 99, 300)]
    assert node_id(7) not in desk.table
    assert len(desk.table) == 4


def test_the_size_counts_this_node_and_all_that_are_alive_or_suspect(desk: Desk) -> None:
    desk.fill(1, 2, 3, 4)
    assert desk.table.size == 5
    desk.table.doubt(node_id(1), SUSPECT, 1.0, "")
    assert desk.table.size == 5
    desk.table.doubt(node_id(1), DEAD, 1.0, "")
    desk.table.merge(Author(2).head(left=True), 1.0)
    assert desk.table.size == 3
    desk.table.merge(Author(1).head(incarnation=1), 2.0)
    assert desk.table.size == 4
    desk.table.forget(node_id(3), "over")
    desk.table.forget(node_id(2), "over")
    assert desk.table.size == 3


def test_a_forgotten_row_is_reported_once(desk: Desk) -> None:
    desk.fill(1)
    change = desk.table.forget(node_id(1), "its retention is over")
    assert change is not None
    assert (change.old, change.new, change.is_new_life) == (ALIVE, None, False)
    assert desk.table.forget(node_id(1), "again") is None


def test_a_full_table_refuses_further_nodes_and_still_hears_of_those_it_has() -> None:
    desk = Desk(members_max=2)
    desk.fill(1, 2)
    assert desk.table.merge(Author(3).head(), 1.0) == (Precedence.OUTDATED, None)
    assert desk.counters.value("dropped.head.members_full") == 1
    seen, _ = desk.table.merge(BOB.head(2), 2.0)
    assert seen is Precedence.NEW_LIFE
    assert len(desk.table) == 2
    desk.table.forget(node_id(1), "over")
    assert desk.table.merge(Author(3).head(), 3.0)[1] is not None


def test_successors_are_the_next_alive_members_around_the_end() -> None:
    desk = Desk(own=50)
    desk.fill(10, 20, 60, 70, 80)
    assert desk.table.successors(3) == [node_id(n) for n in (60, 70, 80)]
    desk.table.doubt(node_id(70), SUSPECT, 1.0, "")
    assert desk.table.successors(3) == [node_id(n) for n in (60, 80, 10)]
    assert desk.table.successors(9) == [node_id(n) for n in (60, 80, 10, 20)]
    assert desk.table.successors(0) == []
    assert Desk().table.successors(3) == []


def test_among_the_successors_of_another_this_node_counts_and_is_not_named() -> None:
    desk = Desk(own=50)
    desk.fill(10, 20, 60, 70, 80)
    assert desk.table.successors(3, of=node_id(60)) == [node_id(n) for n in (70, 80, 10)]
    assert desk.table.successors(3, of=node_id(10)) == [node_id(n) for n in (20, 60)]
    assert desk.table.successors(3, of=node_id(20)) == [node_id(n) for n in (60, 70)]
    assert desk.table.successors(9, of=node_id(20)) == [node_id(n) for n in (60, 70, 80, 10)]


# Case B01: the address is only an attribute


def test_a_node_that_returns_elsewhere_moves_its_address(desk: Desk) -> None:
    desk.table.merge(ANN.head(1), 0.0)
    elsewhere = address(999)
    desk.table.merge(ANN.head(2, addresses=[elsewhere]), 1.0)
    row = desk.table.get(ANN.node)
    assert row is not None
    assert row.address == elsewhere
    assert len(desk.table) == 1


def test_two_keys_with_one_name_and_address_are_two_members(desk: Desk) -> None:
    desk.table.merge(ANN.head(name="twin"), 0.0)
    desk.table.merge(BOB.head(name="twin", addresses=[ANN.address]), 0.0)
    assert [row.node for row in desk.table] == [ANN.node, BOB.node]
