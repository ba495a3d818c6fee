"""Calls go by the rules of their node: times, retries and whom they ask."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.calls.times import times_of
from reachp2p.core.commands import CallSpec, Lasting, RouteQuery
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.routing.instance import CapabilityInfo, Instance, InstanceInfo
from reachp2p.core.routing.rule_reading import read_rules
from reachp2p.core.routing.rules import Layer, Timeouts
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode
from tests.unit.calls.test_caller import nothing_left, trio
from tests.unit.calls.world import Node

NODE, LIFE = NodeId(bytes(32)), Life(1, bytes(16))
QUERY = RouteQuery(capability="x")


def rule(node: Node, **settings: Any) -> None:
    """Let a node go by one rule."""
    node.rules.set([Layer("f", read_rules({"rule": [settings]}, ("random", "round_robin")))])


def times(rules: Timeouts, timeout: float | None = None, declared: float | None = 20.0, **spec: Any) -> Any:
    info = CapabilityInfo(False, declared)
    instance = Instance(
        key=(NODE, "a/b"), node_name="", state=MemberState.ALIVE, refused=False, node_life=LIFE,
        info=InstanceInfo(life=LIFE, capabilities={"x": info}),
    )  # fmt: skip
    return times_of(
        CallSpec(query=QUERY, payload=b"", timeout=timeout, **spec), info, instance, Protocol(), rules
    )


def test_a_rules_total_comes_before_what_is_declared_and_after_what_the_call_says() -> None:
    assert times(Timeouts()).deadline == 20.0
    assert times(Timeouts(total=7.0)).deadline == 7.0
    assert times(Timeouts(total=7.0), timeout=9.0).deadline == 9.0
    assert times(Timeouts(total=7.0), within=3.0).deadline == 3.0
    outlasting = times(Timeouts(total=7.0), lasting=Lasting.OUTLAST)
    assert outlasting.limit == 7.0
    assert outlasting.deadline > 7.0


def test_a_rules_connect_part_is_that_of_calls_that_name_none() -> None:
    assert times(Timeouts(connect=0.5)).connect == 0.5
    assert times(Timeouts(connect=0.5), connect=2.0).connect == 2.0


def test_a_call_ends_at_the_time_of_its_rule() -> None:
    world, a, b, _ = trio()
    rule(a, timeouts={"total": 2})
    call = a.call()
    world.sleep(1.9)
    assert not a.ended
    world.sleep(0.2)
    assert a.end_of(call).code == ErrorCode.DEADLINE_EXCEEDED
    assert nothing_left(a, b)


@pytest.mark.parametrize("retry", [None, True, False])
def test_a_refused_call_goes_elsewhere_unless_a_rule_says_no(retry: bool | None) -> None:
    world, a, b, c = trio()
    b.agents.clear()  # it refuses: nobody offers that here
    if retry is not None:
        rule(a, retry=retry)
    call = a.call()
    world.run()
    if retry is False:
        assert (a.end_of(call).code, a.end_of(call).attempts) == (ErrorCode.UNKNOWN_TARGET, 1)
        assert not c.invoked
    else:
        c.finish()
        world.run()
        assert (a.end_of(call).code, a.end_of(call).attempts) == (0, 2)
    assert nothing_left(a, b, c)


def test_without_a_retry_who_cannot_be_dialled_is_passed_over_all_the_same() -> None:
    world, a, b, c = trio()
    world.kill(b)
    rule(a, retry=False)
    call = a.call()
    world.run()
    c.finish()
    world.run()
    assert (a.end_of(call).code, a.end_of(call).node) == (0, c.node)


def test_a_lost_repeatable_call_without_a_retry_ends_as_outcome_unknown() -> None:
    world, a, b, c = trio(repeatable=True)
    rule(a, retry=False)
    call = a.call()
    world.run()
    world.kill(b)
    world.sleep(40)
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    assert a.end_of(call).detail.endswith("it may have been executed, and a rule allows no second attempt")
    assert not c.invoked


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_slow_answer_is_given_up_after_the_read_time_where_another_may_be_asked(repeatable: bool) -> None:
    world, a, b, c = trio(repeatable=repeatable)
    rule(a, timeouts={"read": 0.5})
    call = a.call(timeout=10.0)
    world.sleep(0.4)
    assert (len(b.running), len(c.running)) == (1, 0)
    world.sleep(0.3)
    asked = c if repeatable else b
    assert (len(b.running), len(c.running)) == ((0, 1) if repeatable else (1, 0))
    asked.finish()
    world.run()
    assert a.end_of(call).node == asked.node
    assert nothing_left(a, b, c)


def test_a_rule_for_callers_is_for_calls_that_an_agent_makes() -> None:
    world, a, b, _ = trio()
    rule(a, match={"caller": "web"}, timeouts={"total": 2})
    a.call()
    a.call(path=("shop/cart", "web/page"))
    world.sleep(2.1)
    assert [ended.code for ended in a.ended] == [ErrorCode.DEADLINE_EXCEEDED]
    b.finish()
    world.run()
    assert len(a.ended) == 2
