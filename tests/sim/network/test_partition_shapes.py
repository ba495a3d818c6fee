from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reachp2p_sim.network import partition_shapes
from reachp2p_sim.network.partition_shapes import SHAPES, Shape

sizes = st.integers(4, 40)
seeds = st.integers(0, 2**32)


def reach(count: int, shape: Shape[int]) -> list[set[int]]:
    """Whom each of `count` hosts can send to, itself included."""
    reached = [set(range(count)) for _ in range(count)]
    for sources, targets in shape:
        for source in sources:
            reached[source] -= set(targets)
    return reached


@given(name=st.sampled_from(sorted(SHAPES)), count=sizes, seed=seeds)
def test_every_shape_cuts_something_and_nobody_from_itself(name: str, count: int, seed: int) -> None:
    shape = SHAPES[name](list(range(count)), Random(seed))
    reached = reach(count, shape)
    assert any(len(who) < count for who in reached)
    assert all(host in who for host, who in enumerate(reached))
    assert shape == SHAPES[name](list(range(count)), Random(seed))


@given(count=sizes, seed=seeds)
def test_groups_have_the_sizes_of_their_names(count: int, seed: int) -> None:
    hosts, chance = list(range(count)), Random(seed)
    for function, size in (
        (partition_shapes.majority_and_minority, count // 2 + 1),
        (partition_shapes.third_and_rest, count // 3),
        (partition_shapes.one_and_rest, 1),
    ):
        chosen, rest = function(hosts, chance)
        assert len(chosen) == size
        assert sorted(chosen + rest) == hosts
    groups = partition_shapes.random_groups(hosts, 3, chance)
    assert all(groups)
    assert sorted(host for group in groups for host in group) == hosts


@given(count=sizes)
def test_in_a_ring_of_majorities_no_two_reach_the_same_majority(count: int) -> None:
    reached = reach(count, partition_shapes.majorities_ring(list(range(count))))
    assert all(count // 2 < len(who) < count for who in reached)
    assert len({frozenset(who) for who in reached}) == count
    assert all((a in reached[b]) == (b in reached[a]) for a in range(count) for b in range(count))


def test_a_bridge_reaches_both_halves() -> None:
    reached = reach(7, partition_shapes.bridge(list(range(7))))
    assert reached[3] == set(range(7))
    assert reached[0] == {0, 1, 2, 3}
    assert reached[6] == {3, 4, 5, 6}


def test_one_who_is_deaf_is_heard_and_one_who_is_mute_hears() -> None:
    assert reach(4, partition_shapes.deaf([0], [1, 2, 3]))[0] == {0, 1, 2, 3}
    assert 0 not in reach(4, partition_shapes.deaf([0], [1, 2, 3]))[1]
    assert reach(4, partition_shapes.mute([0], [1, 2, 3]))[0] == {0}
    assert 0 in reach(4, partition_shapes.mute([0], [1, 2, 3]))[1]


def test_a_pair_that_is_not_transitive_reaches_each_other_through_all_others() -> None:
    reached = reach(5, partition_shapes.non_transitive(list(range(5)), Random(1)))
    assert sorted(len(who) for who in reached) == [4, 4, 5, 5, 5]


@given(count=sizes, seed=seeds)
def test_swizzling_cuts_each_of_a_share_once_and_mends_all(count: int, seed: int) -> None:
    turns = partition_shapes.swizzle(list(range(count)), Random(seed), share=0.25, seconds=5.0)
    cut = [host for at, act, host in turns if act == "cut" and 0 <= at <= 5]
    mended = [host for at, act, host in turns if act == "mend" and 5 <= at <= 10]
    assert len(cut) == max(1, round(count * 0.25))
    assert len(turns) == 2 * len(cut)
    assert sorted(cut) == sorted(mended)
    assert [at for at, _, _ in turns] == sorted(at for at, _, _ in turns)


def test_flapping_ends_mended() -> None:
    turns = partition_shapes.flapping("h", on=20, off=20, seconds=90)
    assert turns == [(0, "cut", "h"), (20, "mend", "h"), (40, "cut", "h"), (60, "mend", "h"), (80, "cut", "h"),
                     (90, "mend", "h")]  # fmt: skip


def test_impossible_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        partition_shapes.majorities_ring([1, 2, 3])
    with pytest.raises(ValueError, match="1 to 2 are possible"):
        partition_shapes.random_groups([1, 2], 3, Random(0))
    with pytest.raises(ValueError, match="more than 0"):
        partition_shapes.flapping("h", on=0, off=1, seconds=5)
