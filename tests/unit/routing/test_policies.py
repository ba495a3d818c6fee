"""Random, round robin and consistent hash: fair, repeatable, and stable where they promise to be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from reachp2p.core.events import MemberState
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.errors import ErrorCode


def test_random_is_fair_and_follows_its_seed(twin_desks: Any) -> None:
    one, other = twin_desks
    for desk in twin_desks:
        for number in (1, 2, 3, 4):
            desk.offer(number)
    picks = one.picks(4_000)
    assert picks == other.picks(4_000)
    counts = Counter(picks)
    assert all(abs(counts[number] - 1_000) < 4 * (4_000 * 0.25 * 0.75) ** 0.5 for number in (1, 2, 3, 4))


def test_round_robin_takes_turns_in_key_order_from_a_random_start(desk: Any) -> None:
    for number in (3, 1, 2):
        desk.offer(number)
    query = desk.query(policy="round_robin")
    picks = desk.picks(7, query)
    first = picks[0]
    assert picks == [(first - 1 + turn) % 3 + 1 for turn in range(7)]


def test_round_robin_neither_skips_nor_repeats_when_the_pool_changes(desk: Any) -> None:
    for number in (2, 4, 6):
        desk.offer(number)
    query = desk.query(policy="round_robin")
    while desk.picks(1, query) != [4]:
        pass
    desk.offer(1)
    desk.offer(5)
    assert desk.picks(2, query) == [5, 6]
    desk.table.remove_instance(desk.node(6), "nlp/summarizer")
    assert desk.picks(3, query) == [1, 2, 4]
    desk.believe(5, MemberState.SUSPECT)
    assert desk.picks(1, query) == [1]


def test_round_robin_keeps_a_turn_for_each_pool(desk: Any) -> None:
    for number in (1, 2):
        desk.offer(number, "nlp/all", "a", "b")
    a, b = desk.query("a", policy="round_robin"), desk.query("b", policy="round_robin")
    first = desk.picks(1, a)
    assert desk.picks(1, b) == first
    assert desk.picks(1, a) == desk.picks(1, b) != first


def test_consistent_hash_gives_a_key_to_one_owner_in_every_view(twin_desks: Any) -> None:
    one, other = twin_desks
    for number in range(1, 9):
        one.offer(number)
    for number in reversed(range(1, 9)):
        other.offer(number)
    owners = []
    for k in range(100):
        query = one.query(policy="consistent_hash", key=f"user:{k}")
        owners.append(one.picks(2, query))
        assert owners[-1] == other.picks(2, query)
    assert {len(set(pair)) for pair in owners} == {1}
    assert len({pair[0] for pair in owners}) == 8


@pytest.mark.parametrize(("state", "refused"), [(MemberState.SUSPECT, False), (MemberState.ALIVE, True)])
def test_the_keys_of_a_doubtful_owner_go_to_the_next_in_their_preference_list_and_return(
    desk: Any, state: MemberState, refused: bool
) -> None:
    for number in range(1, 7):
        desk.offer(number)
    queries = [desk.query(policy="consistent_hash", key=f"user:{k}") for k in range(60)]
    before = [desk.picks(1, query)[0] for query in queries]
    desk.believe(3, state, refused)
    during = [desk.picks(1, query)[0] for query in queries]
    desk.believe(3, MemberState.ALIVE)
    assert [desk.picks(1, query)[0] for query in queries] == before
    desk.believe(3, MemberState.DEAD)
    assert [desk.picks(1, query)[0] for query in queries] == during
    moved = [old for old, new in zip(before, during, strict=True) if old != new]
    assert moved == [3] * before.count(3) != []


def test_a_doubtful_owner_is_asked_when_nobody_else_is_left(desk: Any) -> None:
    for number in (1, 2):
        desk.offer(number)
    query = desk.query(policy="consistent_hash", key="k")
    owner = desk.picks(1, query)
    desk.believe(1, MemberState.SUSPECT)
    desk.believe(2, MemberState.SUSPECT)
    assert desk.picks(1, query) == owner
    assert desk.counters.value("routing.picked.last_resort") == 1


def test_weights_are_shares_of_keys(desk: Any) -> None:
    desk.offer(1, weight=100)
    desk.offer(2, weight=1_000)
    counts = Counter(
        desk.picks(1, desk.query(policy="consistent_hash", key=f"k{k}"))[0] for k in range(2_000)
    )
    assert 0.05 < counts[1] / 2_000 < 0.14


@pytest.mark.parametrize("policy", BUILT_IN)
def test_a_retry_asks_another_node_until_none_is_left(desk: Any, policy: str) -> None:
    for number in (1, 2, 3):
        desk.offer(number)
    desk.offer(2, "nlp/second")
    desk.believe(3, MemberState.SUSPECT)
    query = desk.query(policy=policy, key="k")
    tried: list[Any] = []
    for _ in range(3):
        tried.append(desk.router.pick(query, tried).node)
    assert sorted(node[0] for node in tried[:2]) == [1, 2]
    assert tried[2][0] == 3
    with pytest.raises(Exception, match=r"4 known \(4 already tried\) \[1303\]") as caught:
        desk.router.pick(query, tried)
    assert caught.value.code is ErrorCode.NO_HEALTHY_INSTANCE  # type: ignore[attr-defined]


@pytest.mark.parametrize("policy", [name for name in BUILT_IN if name != "consistent_hash"])
def test_a_retry_is_fair_among_the_rest(desk: Any, policy: str) -> None:
    for number in range(1, 6):
        desk.offer(number)
    counts = Counter(
        desk.router.pick(desk.query(policy=policy), {desk.node(3)}).node[0] for _ in range(2_000)
    )
    assert sorted(counts) == [1, 2, 4, 5]
    assert all(abs(count - 500) < 4 * (2_000 * 0.25 * 0.75) ** 0.5 for count in counts.values())
