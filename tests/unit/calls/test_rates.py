"""Token buckets: so many calls of one caller at once, then so many a second, and who calls faster is told when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.calls import rates
from reachp2p.core.calls.rates import Buckets
from reachp2p.core.commands import Rate
from reachp2p.core.counters import Counters
from reachp2p.errors import ErrorCode
from tests.unit.calls.world import Node, World

KEY = ("a/b", "c", b"caller")


@given(
    rate=st.builds(Rate, st.floats(0.01, 1e4), st.integers(1, 100)),
    pauses=st.lists(st.floats(0, 30), max_size=60),
)
def test_no_window_has_more_calls_than_the_burst_and_what_the_rate_gives(
    rate: Rate, pauses: list[float]
) -> None:
    buckets, now, taken = Buckets(Counters()), 0.0, []
    for pause in pauses:
        now += pause
        wait = buckets.take(KEY, rate, now)
        assert 0 <= wait <= 1 / rate.per_second
        if not wait:
            taken.append(now)
    for first, begun in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= rate.burst + (taken[last] - begun) * rate.per_second + 1e-3


@given(rate=st.builds(Rate, st.floats(0.01, 1e4), st.integers(1, 20)), now=st.floats(0, 1e7))
def test_after_the_time_that_was_told_there_is_a_token(rate: Rate, now: float) -> None:
    buckets = Buckets(Counters())
    for _ in range(rate.burst):
        assert buckets.take(KEY, rate, now) == 0
    wait = buckets.take(KEY, rate, now)
    assert 0 < wait <= 1 / rate.per_second
    assert buckets.take(KEY, rate, now + wait + 1e-6 * (1 + now)) == 0


def test_so_many_callers_are_remembered_and_the_one_longest_silent_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rates, "BUCKETS_MAX", 2)
    counters, once = Counters(), Rate(0.001, 1)
    buckets = Buckets(counters)
    for caller in "aba":
        buckets.take(("a/b", "c", caller), once, 0.0)
    buckets.take(("a/b", "c", "c"), once, 0.0)
    assert (len(buckets), counters.value("calls.rates_evicted")) == (2, 1)
    assert buckets.take(("a/b", "c", "a"), once, 0.0) > 0
    assert buckets.take(("a/b", "c", "b"), once, 0.0) == 0


# At a callee


def pair(rate: Rate | None, **options: Any) -> tuple[World, Node, Node]:
    world = World()
    a, b = world.node("a"), world.node("b")
    b.offer(rate=rate, **options)
    return world, a, b


def test_who_calls_too_fast_is_refused_safely_and_told_when_to_come_again() -> None:
    world, a, b = pair(Rate(10, 2))
    calls = [a.call() for _ in range(3)]
    world.run()
    ended = a.end_of(calls[2])
    assert (ended.code, ended.retry_after) == (ErrorCode.RATE_LIMITED, pytest.approx(0.1, abs=0.01))
    assert "at most 10 calls of 'test.work' a second of one node; the next in 0.1" in ended.detail
    assert len(b.invoked) == 2
    world.sleep(0.11)
    a.call()
    world.run()
    assert len(b.invoked) == 3
    assert b.counters.value("calls.refused.1410") == 1


def test_it_is_asked_elsewhere_first() -> None:
    world, a, b = pair(Rate(10, 1))
    c = world.node("c")
    c.offer(rate=Rate(10, 1))
    calls = [a.call() for _ in range(2)]
    world.run()
    assert [len(b.invoked), len(c.invoked)] == [1, 1]
    assert c.invoked[0].message_id == calls[1]


def test_each_caller_has_tokens_of_its_own_and_without_a_rate_nothing_is_counted() -> None:
    world, a, b = pair(Rate(10, 1))
    other = world.node("other")
    for node in (a, other):
        node.call()
    world.run()
    assert len(b.invoked) == 2
    assert b.callee.gauges()["calls.rates"] == 2
    world, a, b = pair(None)
    for _ in range(60):
        a.call()
    world.run()
    assert len(b.invoked) == 60
    assert b.callee.gauges()["calls.rates"] == 0


def test_the_nodes_of_a_namespace_share_its_tokens_if_their_records_say_so() -> None:
    world, a, b = pair(Rate(10, 1, "namespace"))
    other, liar = world.node("other"), world.node("liar")
    for node in (a, other):
        b.offered[node.node, node.life] = ["shop/web"]
    first = a.call(path=("shop/web",))
    second = other.call(path=("shop/web",))
    third = liar.call(path=("shop/web",))  # offers nothing of that namespace: its own bucket
    world.run()
    assert a.caller.pending == 1
    assert first not in [ended.call for ended in a.ended]
    assert other.end_of(second).code == ErrorCode.RATE_LIMITED
    assert liar.ended == []
    assert third in [invoke.message_id for invoke in b.invoked]
