"""Counters only grow, and are shown in order."""

from __future__ import annotations

from reachp2p.core.counters import Counters


def test_counters_add_up_by_name_and_begin_at_zero() -> None:
    counters = Counters()
    counters.add("dropped.head.expired")
    counters.add("bytes.datagrams_sent", 1_400)
    counters.add("dropped.head.expired", 2)
    assert counters.value("dropped.head.expired") == 3
    assert counters.value("never.counted") == 0
    assert list(counters.snapshot().items()) == [("bytes.datagrams_sent", 1_400), ("dropped.head.expired", 3)]


def test_a_snapshot_does_not_change_any_more() -> None:
    counters = Counters()
    counters.add("one")
    before = counters.snapshot()
    counters.add("one")
    assert before == {"one": 1}
