"""The ring by hand: order, ties, changes and questions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reachp2p.core.ids import NodeId
from reachp2p.core.ring.placement import InstanceKey, instance_tokens, key_position
from reachp2p.core.ring.ring import Ring

TOP = 2**64


def key(number: int, agent: str = "a/b") -> InstanceKey:
    return NodeId(number.to_bytes(32, "big")), agent


def given(tokens: dict[InstanceKey, list[int]]) -> Callable[[InstanceKey, int], list[int]]:
    return lambda instance, count: tokens[instance][:count]


def test_an_empty_ring_owns_nothing() -> None:
    ring = Ring(150)
    assert ring.owner("k") is None
    assert ring.preference_list("k", 3) == []
    assert ring.entries() == []
    assert ring.shares() == {}
    assert len(ring) == 0


def test_one_instance_owns_every_key() -> None:
    ring = Ring(150)
    ring.add(key(1))
    assert [ring.owner(f"k{number}") for number in range(20)] == [key(1)] * 20
    assert ring.shares() == {key(1): pytest.approx(1.0)}


def test_a_key_belongs_to_the_first_token_at_or_after_it_and_wraps() -> None:
    at = key_position("k")
    tokens = {key(1): [at], key(2): [at + 1], key(3): [at - 1]}
    ring = Ring(1, given(tokens))
    ring.update(dict.fromkeys(tokens, 100))
    assert ring.preference_list("k", 9) == [key(1), key(2), key(3)]
    ring.remove(key(1))
    assert ring.owner("k") == key(2)
    ring.remove(key(2))
    assert ring.owner("k") == key(3)


def test_a_preference_list_names_each_instance_once_and_stops_at_its_count() -> None:
    ring = Ring(150)
    ring.update({key(number): 100 for number in range(10)})
    everybody = ring.preference_list("k", 99)
    assert sorted(everybody) == [key(number) for number in range(10)]
    assert ring.preference_list("k", 3) == everybody[:3]
    assert ring.preference_list("k", 0) == []


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_equal_tokens_are_ordered_by_instance_whatever_the_history(
    order: tuple[int, ...], one_by_one: bool
) -> None:
    filler = {key(9): list(range(100, 200))}  # large enough that single changes are spliced
    ties = {key(number): [150, 150, 7] for number in order}
    ring = Ring(100, given(filler | ties))
    ring.add(key(9))
    if one_by_one:
        for number in order:
            ring.add(key(number), 10)
    else:
        ring.update({key(number): 10 for number in order})
    expected = [(7, key(n)) for n in (1, 2, 3)]
    expected += [(token, key(9)) for token in range(100, 150)]
    expected += [(150, key(n)) for n in (1, 1, 2, 2, 3, 3, 9)]
    expected += [(token, key(9)) for token in range(151, 200)]
    assert ring.entries() == expected
    ring.remove(key(2))
    assert ring.entries() == [entry for entry in expected if entry[1] != key(2)]


def test_another_weight_changes_only_the_tokens_in_between() -> None:
    ring = Ring(150)
    ring.update({key(number): 100 for number in range(20)})
    before = ring.entries()
    ring.add(key(3), 130)
    added = sorted((token, key(3)) for token in instance_tokens(key(3), 195)[150:])
    assert ring.entries() == sorted(before + added)
    ring.add(key(3), 100)
    assert ring.entries() == before
    assert ring.weights[key(3)] == 100


def test_changing_nothing_changes_nothing() -> None:
    ring = Ring(150)
    ring.update({key(1): 100, key(2): 50})
    before = ring.entries()
    ring.remove(key(7))
    ring.add(key(1), 100)
    ring.update({})
    assert ring.entries() == before
    assert key(1) in ring
    assert key(7) not in ring


def test_two_agents_of_one_node_are_two_instances() -> None:
    ring = Ring(150)
    ring.update({key(1, "a/b"): 100, key(1, "a/c"): 100})
    assert sorted(ring.preference_list("k", 9)) == [key(1, "a/b"), key(1, "a/c")]


def test_shares_are_arcs_and_follow_who_can_be_asked() -> None:
    tokens = {key(1): [TOP // 4], key(2): [TOP // 2], key(3): [0]}
    ring = Ring(1, given(tokens))
    ring.update(dict.fromkeys(tokens, 100))
    assert ring.shares() == {key(1): 0.25, key(2): 0.25, key(3): 0.5}
    assert ring.shares([key(2), key(3)]) == {key(2): 0.5, key(3): 0.5}
    assert ring.shares([key(1)]) == {key(1): 1.0}
    assert ring.shares([]) == {}


def test_the_fingerprint_follows_instances_and_weights() -> None:
    ring = Ring(150)
    ring.add(key(1))
    first = ring.fingerprint()
    ring.add(key(1), 200)
    second = ring.fingerprint()
    ring.add(key(1), 100)
    assert first == ring.fingerprint() != second


def test_numbers_of_those_who_left_are_used_again() -> None:
    ring = Ring(20)
    ring.update({key(number): 100 for number in range(50)})
    for number in range(50, 500):
        ring.add(key(number))
        ring.remove(key(number))
    assert len(ring._keys) <= 51
