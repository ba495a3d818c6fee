"""Suspicion: the formulas against tables of values, and who shortens a timer by how much."""

from __future__ import annotations

from itertools import permutations

import pytest

from reachp2p.core.membership.suspicion import (
    Grade,
    Suspicion,
    kept_accusers,
    suspicion_min,
    suspicion_timeout,
    transmit_limit,
)
from tests.support import life, node_id

REFUSAL_FLOOR = 1.2


def suspicion(
    *,
    started: float = 100.0,
    minimum: float = 10.0,
    maximum: float = 60.0,
    expected: int = 3,
    floor: float = 102.0,
) -> Suspicion:
    return Suspicion(
        node=node_id(1),
        life=life(),
        incarnation=0,
        started=started,
        minimum=minimum,
        maximum=maximum,
        expected=expected,
        floor=floor,
    )


# Formulas


@pytest.mark.parametrize(
    ("members", "seconds"),
    [
        (0, 4.0),
        (1, 4.0),
        (2, 4.0),
        (10, 4.0),
        (11, 4.1656),
        (32, 6.0206),
        (128, 8.4288),
        (1_000, 12.0),
        (10_000, 16.0),
    ],
)
def test_the_shortest_time_out_grows_with_log10_of_the_members(members: int, seconds: float) -> None:
    assert suspicion_min(4.0, members, 1.0) == pytest.approx(seconds, abs=1e-4)
    assert suspicion_min(4.0, members, 0.2) == pytest.approx(seconds / 5, abs=1e-4)


@pytest.mark.parametrize(
    ("confirmations", "seconds"), [(0, 63.2), (1, 36.9), (2, 21.5), (3, 10.5), (4, 10.5), (9, 10.5)]
)
def test_confirmations_shorten_the_time_out_as_in_the_lifeguard_paper(
    confirmations: int, seconds: float
) -> None:
    minimum = suspicion_min(5.0, 128, 1.0)  # n = 128, α = 5, β = 6
    assert suspicion_timeout(minimum, 6 * minimum, 3, confirmations) == pytest.approx(seconds, abs=0.05)


def test_where_nobody_could_confirm_the_time_out_is_the_shortest() -> None:
    assert suspicion_timeout(4.0, 24.0, 0, 0) == 4.0


def test_without_beta_confirmations_change_nothing() -> None:
    assert [suspicion_timeout(5.0, 5.0, 3, c) for c in range(5)] == [5.0] * 5


@pytest.mark.parametrize(
    ("members", "sends"),
    [
        (1, 3),
        (2, 6),
        (6, 6),
        (7, 9),
        (19, 9),
        (20, 12),
        (53, 12),
        (54, 15),
        (147, 15),
        (148, 18),
        (1_000, 21),
    ],
)
def test_an_update_is_sent_three_times_the_natural_logarithm(members: int, sends: int) -> None:
    assert transmit_limit(3, members) == sends  # SWIM's figure 3c breaks at 20 and 54 members


# Accusers


def test_the_first_accuser_confirms_nothing_and_later_ones_do() -> None:
    doubt = suspicion()
    ends = [doubt.ends_at(REFUSAL_FLOOR)]
    for number in (2, 3, 4, 5, 6):
        assert doubt.hear(node_id(number), Grade.SILENCE) is (number <= 5)
        ends.append(doubt.ends_at(REFUSAL_FLOOR))
    assert ends == [pytest.approx(end, abs=0.01) for end in (160.0, 160.0, 135.0, 120.38, 110.0, 110.0)]


def test_our_own_doubt_is_one_of_the_confirmations() -> None:
    doubt = suspicion()
    doubt.own = True
    assert doubt.confirmations == 0
    doubt.hear(node_id(2), Grade.SILENCE)
    assert doubt.confirmations == 1


def test_accusers_beyond_those_that_shorten_the_timer_are_not_worth_passing_on() -> None:
    doubt = suspicion()
    assert all(doubt.hear(node_id(number), Grade.SILENCE) for number in (9, 8, 7, 6))
    assert not doubt.hear(node_id(2), Grade.SILENCE)  # kept, as the lowest; nothing changes for anybody
    assert node_id(2) in doubt.others
    assert doubt.hear(node_id(3), Grade.REFUSAL)
    mine = suspicion()
    mine.own = True
    assert [mine.hear(node_id(number), Grade.SILENCE) for number in (9, 8, 7, 6)] == [True] * 3 + [False]


def test_one_member_confirms_once_however_often_it_speaks() -> None:
    doubt = suspicion()
    assert doubt.hear(node_id(2), Grade.SILENCE)
    for _ in range(5):
        assert not doubt.hear(node_id(2), Grade.SILENCE)
    assert doubt.confirmations == 0
    assert doubt.hear(node_id(2), Grade.REFUSAL)  # it knows more now, which is worth passing on
    assert not doubt.hear(node_id(2), Grade.SILENCE)
    assert doubt.others == {node_id(2): Grade.REFUSAL}


def test_what_is_kept_does_not_depend_on_the_order_in_which_it_was_heard() -> None:
    said = [
        (node_id(7), Grade.REFUSAL),
        (node_id(2), Grade.SILENCE),
        (node_id(3), Grade.SILENCE),
        (node_id(4), Grade.SILENCE),
        (node_id(5), Grade.SILENCE),
        (node_id(2), Grade.DEAD),
    ]
    results = []
    for order in permutations(said):
        doubt = suspicion()
        doubt.own_refusal_at = 101.0
        for accuser, grade in [*order, *order]:
            doubt.hear(accuser, grade)
        results.append(
            (
                sorted(doubt.others.items()),
                doubt.confirmations,
                doubt.ends_at(REFUSAL_FLOOR),
            )
        )
    assert results == [results[0]] * len(results)
    assert [accuser for accuser, _ in results[0][0]] == [node_id(n) for n in (2, 3, 4, 5)]
    assert len(results[0][0]) == kept_accusers(3)


# Refusals


def test_a_refusal_counts_only_once_another_member_was_refused_too() -> None:
    doubt = suspicion()
    doubt.own_refusal_at = 101.0
    assert doubt.ends_at(REFUSAL_FLOOR) == 160.0
    doubt.hear(node_id(2), Grade.SILENCE)
    assert doubt.ends_at(REFUSAL_FLOOR) == 160.0
    doubt.hear(node_id(3), Grade.REFUSAL)
    assert doubt.ends_at(REFUSAL_FLOOR) == 101.0 + REFUSAL_FLOOR


def test_others_refusals_alone_shorten_nothing() -> None:
    doubt = suspicion()
    for number in range(2, 9):
        doubt.hear(node_id(number), Grade.REFUSAL)
    assert doubt.ends_at(REFUSAL_FLOOR) == 110.0  # as confirmations only


def test_a_refusal_is_not_forgotten_when_lower_members_accuse() -> None:
    doubt = suspicion()
    doubt.own_refusal_at = 101.0
    assert doubt.hear(node_id(90), Grade.REFUSAL)
    for number in (2, 3, 4, 5):
        doubt.hear(node_id(number), Grade.SILENCE)
    assert node_id(90) not in doubt.others
    assert doubt.ends_at(REFUSAL_FLOOR) == 101.0 + REFUSAL_FLOOR


def test_the_first_refusal_is_worth_passing_on_even_from_a_member_that_is_not_kept() -> None:
    doubt = suspicion()
    for number in (2, 3, 4, 5):
        doubt.hear(node_id(number), Grade.SILENCE)
    assert doubt.hear(node_id(90), Grade.REFUSAL)
    assert not doubt.hear(node_id(91), Grade.REFUSAL)
    assert len(doubt.others) == kept_accusers(3)


def test_a_late_refusal_never_lengthens_a_timer() -> None:
    doubt = suspicion()
    for number in (2, 3, 4, 5):
        doubt.hear(node_id(number), Grade.SILENCE)
    assert doubt.ends_at(REFUSAL_FLOOR) == 110.0
    doubt.own_refusal_at = 109.9
    doubt.hear(node_id(2), Grade.REFUSAL)
    assert doubt.ends_at(REFUSAL_FLOOR) == 110.0


# The floor, and what a newcomer is told


def test_no_age_moves_the_end_below_the_floor() -> None:
    doubt = suspicion(started=-1e6)
    assert doubt.ends_at(REFUSAL_FLOOR) == 102.0


def test_a_newcomer_told_of_a_death_doubts_for_the_shortest_time() -> None:
    doubt = suspicion()
    doubt.told_dead = True
    assert doubt.ends_at(REFUSAL_FLOOR) == 110.0
    doubt.started = 50.0
    assert doubt.ends_at(REFUSAL_FLOOR) == 102.0
