"""Evidence about members is a join-semilattice: what a table holds depends on the set of evidence alone (I-LATTICE,
I-MONO, I-NORES of the simulator).

Evidence is a head, or a head with a doubt of our own about exactly this life and incarnation. A doubt is local, so it
presupposes that its head has been seen; whatever is held by then decides whether it means anything.
"""

from __future__ import annotations

from itertools import permutations, product

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.membership.member import RANK, Precedence, precedence
from reachp2p.core.membership.table import MemberTable
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Head
from tests.support import Author, node_id

ALIVE, SUSPECT, DEAD, LEFT = MemberState
OWN = node_id(500)


class Evidence(msgspec.Struct, frozen=True):
    """A head, and whether we doubt its subject."""

    head: Checked[Head]
    doubt: MemberState = ALIVE


HEADS = [
    Author(number).head(epoch, incarnation, version, left=left, salt=salt, zone=zone)
    for number, epoch, salt, left, incarnation, version, zone in product(
        (1, 2), (1, 2), (0, 1), (False, True), (0, 1, 2), (0, 1), ("", "other")
    )
]
evidence = st.builds(Evidence, st.sampled_from(HEADS), st.sampled_from([ALIVE, ALIVE, SUSPECT, DEAD]))
histories = st.lists(evidence, max_size=12)


def empty() -> MemberTable:
    return MemberTable(OWN, 100, Counters())


def hear(table: MemberTable, item: Evidence, now: float = 0.0) -> None:
    """What a node does with a piece of evidence."""
    table.merge(item.head, now)
    fact = item.head.fact
    row = table.get(NodeId(fact.node))
    assert row is not None
    if item.doubt is not ALIVE and (row.life, row.incarnation) == (fact.life, fact.incarnation):
        table.doubt(row.node, item.doubt, now, "our own doubt")


def view(table: MemberTable) -> list[tuple[NodeId, bytes, MemberState]]:
    return [(row.node, row.head.digest, row.state) for row in table]


def after(items: list[Evidence]) -> MemberTable:
    table = empty()
    for item in items:
        hear(table, item)
    return table


def numbers(head: Checked[Head]) -> tuple[Life, bool, int, int]:
    fact = head.fact
    return fact.life, fact.left, fact.incarnation, fact.version


def join(items: list[Evidence]) -> list[tuple[NodeId, bytes, MemberState]]:
    """What must be held, worked out from the whole set at once."""
    held: list[tuple[NodeId, bytes, MemberState]] = []
    for node in sorted({NodeId(item.head.fact.node) for item in items}):
        about = [item for item in items if item.head.fact.node == node]
        top = max(numbers(item.head) for item in about)
        digest = min(item.head.digest for item in about if numbers(item.head) == top)
        life, left, incarnation, _ = top
        doubts = [
            item.doubt
            for item in about
            if (item.head.fact.life, item.head.fact.incarnation) == (life, incarnation)
        ]
        held.append((node, digest, LEFT if left else max(doubts, key=RANK.__getitem__)))
    return held


@given(histories, st.randoms(use_true_random=False))
def test_a_table_depends_on_the_set_of_evidence_alone(items: list[Evidence], random: object) -> None:
    shuffled = [*items, *items[: len(items) // 2]]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert view(after(items)) == view(after(shuffled)) == join(items)


@given(st.lists(evidence, max_size=4))
def test_every_order_gives_the_same_table(items: list[Evidence]) -> None:
    expected = join(items)
    for order in permutations(items):
        assert view(after(list(order))) == expected


@given(histories, histories, histories)
def test_joining_tables_is_associative_commutative_and_idempotent(
    a: list[Evidence], b: list[Evidence], c: list[Evidence]
) -> None:
    """A table told what another holds knows what that one knew: nothing is lost in the telling."""

    def told(*parts: list[Evidence]) -> list[Evidence]:
        table = after([item for part in parts for item in part])
        return [Evidence(row.head, row.state if row.state is not LEFT else ALIVE) for row in table]

    left = view(after(told(told(a, b), c)))
    assert left == view(after(told(a, told(b, c))))
    assert left == view(after(told(c, told(b, a))))
    assert left == view(after(told(a, a, b, b, c, c)))
    assert left == join([*a, *b, *c])


@given(histories)
def test_what_is_held_never_decreases(items: list[Evidence]) -> None:
    table = empty()
    for item in items:
        before = {row.node: row.evidence for row in table}
        hear(table, item)
        for row in table:
            assert row.node not in before or row.evidence >= before[row.node]


@given(histories)
def test_after_left_a_node_is_present_only_in_a_higher_life(items: list[Evidence]) -> None:
    table = empty()
    left_in: dict[NodeId, Life] = {}
    for item in items:
        hear(table, item)
        for row in table:
            assert (row.state is LEFT) is row.head.fact.left
            if row.state is LEFT:
                left_in[row.node] = max(row.life, left_in.get(row.node, row.life))
            elif row.node in left_in:
                assert row.life > left_in[row.node]


@given(histories)
def test_a_doubt_ends_with_a_higher_incarnation_or_life_and_with_nothing_else(items: list[Evidence]) -> None:
    table = empty()
    for item in items:
        before = {row.node: (row.state, row.life, row.incarnation) for row in table}
        hear(table, item)
        for row in table:
            if row.node in before:
                state, life, incarnation = before[row.node]
                if RANK[row.state] < RANK[state]:
                    assert (row.life, row.incarnation) > (life, incarnation)


@given(histories)
def test_the_size_counts_who_is_present(items: list[Evidence]) -> None:
    table = after(items)
    assert table.size == 1 + sum(row.state in (ALIVE, SUSPECT) for row in table)


def test_precedence_is_a_total_order_on_heads_of_one_node() -> None:
    heads = [head for head in HEADS if head.fact.node == node_id(1)]
    newer = (Precedence.NEW_LIFE, Precedence.LEFT, Precedence.REFUTES, Precedence.UPDATES)
    for one, other in product(heads, repeat=2):
        seen, back = precedence(one, other), precedence(other, one)
        if numbers(one) == numbers(other):
            assert seen is back is (Precedence.SAME if one is other else Precedence.EQUIVOCATES)
        else:
            assert (seen in newer) is (numbers(one) > numbers(other))
            assert (back is Precedence.OUTDATED) is (seen in newer)
