"""Bounded load: a hot key spills over to the next in its list, a few calls at once do not."""

from __future__ import annotations

from math import ceil
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.hashing import BOUND_FACTOR, BOUND_FROM, bound
from reachp2p.core.routing.stages import Selector
from tests.unit.routing.conftest import Desk


def started(desk: Any, key: str) -> Any:
    pick = desk.router.route(desk.query(policy="consistent_hash", key=key))
    desk.router.start(pick, 0.0)
    return pick


def test_a_few_calls_at_once_for_one_key_find_its_owner(desk: Any) -> None:
    for number in range(1, 11):
        desk.offer(number)
    assert len({started(desk, "hot").instance.node for _ in range(BOUND_FROM)}) == 1


def test_a_hot_key_goes_down_its_preference_list_and_comes_back(desk: Any) -> None:
    for number in range(1, 11):
        desk.offer(number)
    ring = desk.table.pool(Selector("text.summarize", None)).ring()
    order = [node[0] for node, _ in ring.preference_list("hot", 10)]
    picks = [started(desk, "hot") for _ in range(200)]
    numbers = [pick.instance.node[0] for pick in picks]
    assert sorted(set(numbers), key=numbers.index) == order[: len(set(numbers))]
    assert numbers.count(order[0]) == ceil(BOUND_FACTOR * 200 / 10)
    picks.append(started(desk, "hot"))
    told = explain(desk.router, desk.query(policy="consistent_hash", key="hot"))
    assert "have their part of the load" in told.reason
    for pick in picks:
        desk.router.end(pick, 0, 1.0)
    assert started(desk, "hot").instance.node[0] == order[0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(10, 1_000), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=150),
)
def test_nobody_has_more_than_its_bound_and_the_key_goes_to_the_first_with_room(
    weights: list[int], steps: list[tuple[int, bool]]
) -> None:
    desk = Desk()
    for number, weight in enumerate(weights, 1):
        desk.offer(number, weight=weight)
    pool = desk.table.pool(Selector("text.summarize", None))
    assert pool is not None
    flying: list[Any] = []
    for key, is_end in steps:
        if is_end and flying:
            desk.router.end(flying.pop(key % len(flying)), 0, 0.0)
            continue
        has = {k: sum(p.instance.key == k for p in flying) for k in pool.placed.keys}
        pick = started(desk, f"k{key}")
        most = {i.key: bound(len(flying) + 1, i.info.weight_percent, sum(weights)) for i in pool.placed.items}
        order = pool.ring().preference_list(f"k{key}", len(weights))
        assert pick.instance.key == next(k for k in order if has[k] < most[k])
        flying.append(pick)
    for pick in flying:
        desk.router.end(pick, 0, 0.0)
    assert started(desk, "k").choice.pool.notes["consistent_hash"].total == 1


def test_a_retry_takes_who_is_next_whatever_it_has(desk: Any) -> None:
    for number in (1, 2):
        desk.offer(number)
    picks = [started(desk, "hot") for _ in range(40)]
    owner = picks[0].instance.node
    other = desk.router.pick(desk.query(policy="consistent_hash", key="hot"), [owner])
    assert other.node != owner
