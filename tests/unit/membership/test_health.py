"""Lifeguard's local health multiplier: a counter between two walls (arXiv 1707.00788 §IV.A)."""

from __future__ import annotations

from reachp2p.core.membership.health import LocalHealth


def test_a_healthy_node_uses_its_time_outs_as_they_are() -> None:
    health = LocalHealth(8)
    assert (health.value, health.multiplier) == (0, 1)


def test_the_counter_goes_up_and_down_one_by_one() -> None:
    health = LocalHealth(8)
    health.worse()
    health.worse(2)
    assert (health.value, health.multiplier) == (3, 4)
    health.better()
    assert (health.value, health.multiplier) == (2, 3)


def test_the_counter_stops_at_both_ends() -> None:
    health = LocalHealth(8)
    health.better()
    assert health.value == 0
    for _ in range(20):
        health.worse(3)
    assert (health.value, health.multiplier) == (8, 9)  # 1 s becomes 9 s, 500 ms becomes 4.5 s
    health.better()
    assert health.value == 7


def test_no_missing_nack_changes_nothing() -> None:
    health = LocalHealth(8)
    health.worse(0)
    assert health.value == 0
