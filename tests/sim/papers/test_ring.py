"""The ring's experiments: what they measure is right, and what ships passes them."""

from __future__ import annotations

from random import Random

import pytest
from reachp2p_sim.papers.random_rings import instances, ring_of
from reachp2p_sim.papers.ring import BalanceCase, measure_balance
from reachp2p_sim.papers.ring_loads import LoadCase, measure_loads
from reachp2p_sim.papers.ring_movement import MovementCase, _movement, measure_movement
from reachp2p_sim.papers.ring_theory import chance_of_largest, fewest_hits, largest_at


def test_movement_is_that_of_the_whole_circle() -> None:
    *members, stranger = instances(21, "test")
    ring = ring_of(members, 150)
    before = ring.entries()
    ring.add(stranger)
    joined = _movement("join", before, ring.entries(), stranger)
    assert joined.moved == pytest.approx(ring.shares()[stranger])
    assert joined.among_survivors == 0
    assert _movement("none", before, before, stranger).moved == 0


def test_movement_between_survivors_is_noticed() -> None:
    one, two, three = instances(3, "test")
    top = 2**64
    before = [(top // 4, one), (top // 2, two)]
    after = [(top // 4, two), (top // 2, one)]
    found = _movement("leave", before, after, three)
    assert (found.moved, found.among_survivors) == (1.0, 1.0)
    shifted = _movement("join", before, [*before, (3 * top // 4, three)], three)
    assert (shifted.moved, shifted.among_survivors) == (0.25, 0.0)


def test_balance_is_in_units_of_the_mean_share() -> None:
    case = BalanceCase(seed=1, nodes=400, virtual_nodes=10, first=0, rings=1)
    (found,) = measure_balance(case)
    assert 0.08 < found.square < 0.12
    assert found.smallest <= found.low < 1 < found.high <= found.largest


def test_the_largest_share_of_ideal_rings_is_computed_as_it_is_sampled() -> None:
    chance = Random(1)
    below = 0
    for _ in range(2_000):
        sizes = [chance.gammavariate(60, 1.0) for _ in range(12)]
        below += max(sizes) * 12 <= 1.25 * sum(sizes)
    assert chance_of_largest(12, 60, 1.25) == pytest.approx(below / 2_000, abs=0.02)
    assert chance_of_largest(12, 60, 1.0) == pytest.approx(0.0, abs=1e-6)  # somebody has the mean or more
    assert chance_of_largest(1_000, 150, largest_at(1_000, 150, 0.99)) == pytest.approx(0.99)
    assert largest_at(100, 150, 0.99) == pytest.approx(1.3302, abs=1e-4)


def test_fewer_hits_than_the_fewest_are_rarer_than_the_alarm() -> None:
    assert fewest_hits(500, 0.99, 0.01) == 489
    assert fewest_hits(2, 0.5, 0.25) == 1
    assert fewest_hits(2, 0.5, 0.24) == 0


def test_no_instance_is_fuller_than_its_bound() -> None:
    found = measure_loads(LoadCase(seed=1, number=0, virtual_nodes=1, slack=1.1, nodes=10, keys=500))
    assert found.fullest <= 1
    assert found.forwarded > 0
    assert found.moved > 0


def test_the_ring_that_ships_moves_what_it_must_and_nothing_else() -> None:
    found = measure_movement(MovementCase(seed=2, nodes=20, changes=3))
    assert [change.kind for change in found] == ["join", "leave"] * 3
    assert all(0.6 < change.moved * 21 < 1.4 and change.among_survivors == 0 for change in found)
