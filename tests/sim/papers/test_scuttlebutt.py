"""Scuttlebutt: reconciliation as the paper says, and our registry under its load."""

from __future__ import annotations

import pytest
from reachp2p_sim.papers.base import Scale
from reachp2p_sim.papers.reconciliation import ORDERS, Group, Look, Order, reconcile
from reachp2p_sim.papers.registry_load import LoadCase, measure_registry
from reachp2p_sim.papers.scuttlebutt import before, judge_registry


@pytest.mark.parametrize("order", ORDERS)
def test_two_that_exchange_everything_are_equal(order: Order) -> None:
    group = Group(3, 4, order, seed=1)
    for now in range(30):
        group.update(now % 3, float(now))
    group.exchange(0, 1, mtu=1_000)
    assert group.held[0] == group.held[1]
    assert group.look(30).stale > 0
    for one, other in ((1, 2), (0, 1)):
        group.exchange(one, other, mtu=1_000)
    assert group.held[0] == group.held[1] == group.held[2] == group.truth
    assert group.look(30) == Look(30, 0.0, 0.0, 0.0)
    assert group.violations == 0


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("precise-newest", [5, 6]),
        ("precise-oldest", [1, 2]),
        ("scuttle-depth", [1, 2]),
        ("scuttle-breadth", [1, 5]),
    ],
)
def test_what_is_sent_first(order: Order, wanted: list[int]) -> None:
    group = Group(4, 1_000, order, seed=1)
    for owner in (0, 0, 0, 0, 1, 1):  # versions 1 to 4, and 5 and 6
        group.update(owner, 0.0)
    group.held[2] = [max(pair) for pair in zip(group.held[0], group.held[1], strict=True)]
    group.highest[2] = [4, 6, 0, 0]
    group.exchange(2, 3, mtu=2)
    assert sorted(version for version in group.held[3] if version) == wanted


def test_a_scuttlebutt_never_leaves_a_gap() -> None:
    group = Group(2, 10, "scuttle-depth", seed=2)
    for now in range(40):
        group.update(0, float(now))
    while group.held[1] != group.held[0]:
        group.exchange(0, 1, mtu=1)
        highest = group.highest[1][0]
        assert all(
            held == truth or truth > highest for held, truth in zip(group.held[1], group.truth, strict=True)
        )
    assert group.violations == 0


def test_a_gap_is_noticed() -> None:
    group = Group(2, 10, "scuttle-depth", seed=2)
    for now in range(40):
        group.update(0, float(now))
    group.highest[1][0] = max(group.truth) - 1  # says that it holds what it does not
    group.exchange(0, 1, mtu=5)
    assert group.violations > 0


def test_overload_makes_stale_and_ends() -> None:
    outcome = reconcile(12, 16, "scuttle-depth", mtu=9, seed=1)
    assert len(outcome.looks) == 150
    assert before(outcome.looks) < max(look.oldest for look in outcome.looks)
    assert outcome.looks[-1].stale == 0
    assert outcome.violations == 0


def test_our_registry_holds_under_the_same_rate() -> None:
    case = LoadCase(seed=1, nodes=4, agents=3)
    outcome = measure_registry(case)
    assert max(look.stale for look in outcome.looks) > 0
    rows = judge_registry(Scale(True, 1), [(case, outcome)]).rows
    assert [row.verdict for row in rows] == ["holds", "holds", "holds", "reported", "holds"]
