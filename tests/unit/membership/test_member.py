"""The merge rule: every pair of heads, and what a rank becomes (docs/protocol/membership.md; case B22)."""

from __future__ import annotations

from itertools import product

import pytest

from reachp2p.core.events import MemberState
from reachp2p.core.ids import COUNTER_MAX, EPOCH_MAX, Address
from reachp2p.core.membership.member import Member, Precedence, precedence, rank_after
from reachp2p.core.trust.facts import Checked
from reachp2p.core.wire.facts import Head
from tests.support import Author, address

ANN = Author(1)
NUMBERS = list(product((1, 2), (0, 1), (False, True), (0, 1), (0, 1)))
"""(epoch, salt of the life id, left, incarnation, version)"""


def head(numbers: tuple[int, int, bool, int, int]) -> Checked[Head]:
    epoch, salt, left, incarnation, version = numbers
    return ANN.head(epoch, incarnation, version, left=left, salt=salt)


def member(held: Checked[Head], state: MemberState = MemberState.ALIVE) -> Member:
    return Member(ANN.node, held, state, since=0.0, learned_at=0.0)


def test_of_any_two_heads_the_one_with_the_higher_numbers_supersedes() -> None:
    heads = {numbers: head(numbers) for numbers in NUMBERS}
    for (a, new), (b, held) in product(heads.items(), repeat=2):
        seen = precedence(new, held)
        if a == b:
            assert seen is Precedence.SAME
        elif a < b:
            assert seen is Precedence.OUTDATED
        else:
            assert seen not in (Precedence.SAME, Precedence.OUTDATED, Precedence.EQUIVOCATES)


@pytest.mark.parametrize(
    ("new", "held", "seen"),
    [
        ((2, 0, False, 0, 0), (1, 1, True, 1, 1), Precedence.NEW_LIFE),  # only a higher life beats LEFT
        ((1, 1, False, 0, 0), (1, 0, False, 1, 1), Precedence.NEW_LIFE),  # clones: the higher life id
        (
            (1, 0, True, 0, 0),
            (1, 0, False, 1, 1),
            Precedence.LEFT,
        ),  # LEFT beats every incarnation of its life
        ((1, 0, False, 1, 1), (1, 0, True, 0, 0), Precedence.OUTDATED),
        ((1, 0, False, 1, 0), (1, 0, False, 0, 1), Precedence.REFUTES),
        ((1, 0, False, 0, 1), (1, 0, False, 0, 0), Precedence.UPDATES),
    ],
)
def test_the_first_number_that_differs_says_what_a_head_means(
    new: tuple[int, int, bool, int, int], held: tuple[int, int, bool, int, int], seen: Precedence
) -> None:
    assert precedence(head(new), head(held)) is seen


def test_the_largest_numbers_can_be_held_and_compared() -> None:
    top = ANN.head(EPOCH_MAX, COUNTER_MAX, COUNTER_MAX)
    assert precedence(top, ANN.head(EPOCH_MAX, COUNTER_MAX, COUNTER_MAX - 1)) is Precedence.UPDATES
    assert precedence(ANN.head(EPOCH_MAX - 1, 0, 0), top) is Precedence.OUTDATED


def test_two_bodies_with_equal_numbers_are_an_equivocation_both_ways() -> None:
    one, other = ANN.head(zone="east"), ANN.head(zone="west")
    assert precedence(one, other) is Precedence.EQUIVOCATES
    assert precedence(other, one) is Precedence.EQUIVOCATES
    assert precedence(one, ANN.head(zone="east")) is Precedence.SAME


@pytest.mark.parametrize("old", MemberState)
@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Precedence.NEW_LIFE, MemberState.ALIVE),
        (Precedence.REFUTES, MemberState.ALIVE),
        (Precedence.UPDATES, None),
        (Precedence.LEFT, MemberState.LEFT),
    ],
)
def test_doubt_ends_with_a_new_life_or_a_refutation_and_leaving_with_a_new_life_only(
    old: MemberState, seen: Precedence, expected: MemberState | None
) -> None:
    after = rank_after(old, seen)
    if old is MemberState.LEFT and seen is not Precedence.NEW_LIFE:
        assert after is MemberState.LEFT
    else:
        assert after is (old if expected is None else expected)


def test_evidence_is_ordered_as_the_merge_rule_orders_it() -> None:
    steps = [
        member(ANN.head(1, 0, 0)),
        member(ANN.head(1, 0, 0), MemberState.SUSPECT),
        member(ANN.head(1, 0, 0), MemberState.DEAD),
        member(ANN.head(1, 0, 9), MemberState.DEAD),
        member(ANN.head(1, 1, 0)),
        member(ANN.head(1, 0, 0, left=True), MemberState.LEFT),
        member(ANN.head(1, 0, 0, salt=1)),
        member(ANN.head(2, 0, 0)),
    ]
    evidence = [step.evidence for step in steps]
    assert evidence == sorted(evidence)
    assert len(set(evidence)) == len(evidence)


def test_datagrams_go_to_an_address_that_has_answered_before_the_others() -> None:
    first, second = address(1), Address("::1", 7946)
    row = member(ANN.head(addresses=[first, second]))
    assert row.addresses == (first, second)
    assert row.address == first
    row.answered_at(second)
    assert row.address == second
    row.answered_at(first)
    assert row.address == first


def test_a_member_may_have_no_address() -> None:
    assert member(ANN.head(addresses=[])).address is None


def test_round_trips_are_smoothed_with_a_gain_of_one_eighth() -> None:
    row = member(ANN.head())
    row.measured(0.080)
    assert row.rtt == pytest.approx(0.080)
    row.measured(0.160)
    assert row.rtt == pytest.approx(0.090)
