"""Calls whose link is lost and that will be joined again by their keys: what else may happen meanwhile."""

from __future__ import annotations

import pytest

from reachp2p.core.calls import dedupe, waiting_cancels
from reachp2p.core.calls.dedupe import KEEP
from reachp2p.core.calls.hops import HopFilter
from reachp2p.core.calls.waiting_cancels import WaitingCancelsDue
from reachp2p.core.commands import Lasting
from reachp2p.core.ids import LinkId
from reachp2p.core.wire.messages import Request
from reachp2p.errors import ErrorCode
from tests.unit.calls.world import Node, World
from tests.unit.links.pair import life


def pair() -> tuple[World, Node, Node]:
    """A caller and a node that offers the capability."""
    world = World()
    a, b = world.node("a"), world.node("b")
    b.offer()
    return world, a, b


def nothing_left(*nodes: Node) -> bool:
    return all(node.leftovers == {} for node in nodes)


def test_a_task_that_is_cancelled_while_its_link_is_lost_stops_its_handler_once_there_is_one() -> None:
    world, a, b = pair()
    task = a.call(lasting=Lasting.TASK)
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    world.sleep(1.0)
    assert a.cancel(task)
    assert list(b.running), "its handler still runs"
    world.silent.clear()
    world.sleep(60.0)
    assert a.end_of(task).code == ErrorCode.CANCELLED
    assert not b.running
    assert nothing_left(a, b)


def test_a_caller_that_asks_again_in_a_later_life_gets_the_end() -> None:
    world, a, b = pair()
    call = a.call(idempotency_key="k", timeout=60.0)
    world.run()
    a.life = life(2)
    world.lose(a, b)
    world.sleep(5.0)
    b.finish()
    world.sleep(1.0)
    assert (a.end_of(call).code, len(b.invoked)) == (0, 1)
    assert nothing_left(a, b)


def test_a_node_that_ends_dials_nobody_any_more() -> None:
    world, a, b = pair()
    a.call(lasting=Lasting.TASK)
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    a.caller.end_all(ErrorCode.NODE_LOST, "this node is over", world.now)
    a.perform()
    assert nothing_left(a)
    assert a.timers.due_at(WaitingCancelsDue()) is None


def test_cancels_that_wait_are_bounded_and_end_with_the_life_that_they_are_for() -> None:
    world, a, b = pair()
    tasks = [a.call(lasting=Lasting.TASK) for _ in range(3)]
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    for task in tasks:
        a.cancel(task)
    assert len(a.caller.waiting_cancels) == 3
    a.gone(b)
    assert nothing_left(a)


def test_beyond_the_bound_the_oldest_cancel_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_cancels, "CANCELS_MAX", 2)
    world, a, b = pair()
    tasks = [a.call(lasting=Lasting.TASK) for _ in range(3)]
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    for task in tasks:
        a.cancel(task)
    world.silent.clear()
    world.sleep(60.0)
    assert list(b.running) == [b.invoked[0].invocation]
    assert a.counters.value("calls.cancels_dropped") == 1


def test_its_hop_says_that_the_request_was_handed_over() -> None:
    world, a, b = pair()
    a.call(idempotency_key="k", timeout=5.0)
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    world.sleep(6.0)
    (hop,) = a.hops.find(HopFilter(), world.now).hops
    assert (hop.code, hop.handed, hop.answered) == (ErrorCode.DEADLINE_EXCEEDED, True, False)
    assert hop.queued < 1.0


def unheard(*, others: int = 0, queue: int = 0) -> tuple[World, Node, Node, bytes]:
    """A call with a key whose request was lost with its link, and an instance that is full when it is joined again."""
    world = World()
    a, b = world.node("a"), world.node("b")
    b.offer(concurrency=1, queue=queue)
    for number in range(others):
        world.node(f"c{number}").offer()
    a.dial(b)
    world.run()
    call = a.call(idempotency_key="k", timeout=900.0)
    world.silent.add(b.address)
    world.lose(a, b)
    assert b.invoked == [], "it has never arrived"
    b.call(b"its own")  # takes the only place
    world.run()
    return world, a, b, call


def test_an_instance_that_refuses_and_does_not_know_the_key_has_not_executed_it_either() -> None:
    world, a, b, call = unheard(others=1)
    world.silent.clear()
    world.sleep(20.0)
    other = world.nodes[2]
    assert [invoke.message_id for invoke in other.invoked] == [call]
    other.finish()
    world.run()
    assert (a.end_of(call).code, len(b.invoked)) == (0, 1)


def test_if_nobody_else_can_be_asked_the_refusal_is_the_end_and_not_doubt() -> None:
    world, a, b, call = unheard()
    world.silent.clear()
    world.sleep(20.0)
    assert a.end_of(call).code == ErrorCode.REFUSED_FULL
    b.finish()
    world.run()
    assert nothing_left(a, b)


def executed_and_forgotten() -> tuple[World, Node, Node, bytes]:
    """A call with a key that was executed; its answer was lost with the link, and its end made room for another."""
    world, a, b = pair()
    world.node("c").offer()
    call = a.call(idempotency_key="k", timeout=900.0)
    world.run()
    assert [invoke.message_id for invoke in b.invoked] == [call]
    world.silent.add(b.address)
    world.lose(a, b)
    b.finish()
    b.call(b"its own", idempotency_key="another")
    world.run()
    b.finish()
    world.run()
    return world, a, b, call


def executions(world: World, call: bytes) -> int:
    return [invoke.message_id for node in world.nodes for invoke in node.invoked].count(call)


@pytest.mark.parametrize("refuses", [False, True])
def test_what_an_instance_has_no_memory_of_is_not_executed_twice(
    monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    """A request that was sent again was taken for a first one, or refused as one that nobody had executed."""
    monkeypatch.setattr(dedupe, "ENDS_MAX", 1)
    world, a, b, call = executed_and_forgotten()
    if refuses:
        b.callee.pause(world.now)
        b.perform()
    world.silent.clear()
    world.sleep(20.0)
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    assert executions(world, call) == 1
    assert b.counters.value("calls.key_forgotten") == (0 if refuses else 1)


def test_after_its_time_an_end_is_forgotten_and_leaves_doubt() -> None:
    world, a, _, call = executed_and_forgotten()
    world.sleep(KEEP + 1)
    world.silent.clear()
    world.sleep(20.0)
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    assert executions(world, call) == 1


def test_an_instance_that_has_forgotten_nothing_of_that_time_executes_what_has_never_arrived() -> None:
    world, a, b = pair()
    b.call(b"its own", idempotency_key="old")
    world.run()
    b.finish()
    world.sleep(KEEP + 1)
    a.dial(b)
    world.run()
    call = a.call(idempotency_key="k", timeout=60.0)
    world.silent.add(b.address)
    world.lose(a, b)
    world.silent.clear()
    world.sleep(20.0)
    assert executions(world, call) == 1
    b.finish()
    world.run()
    assert a.end_of(call).code == 0


def test_an_instance_that_is_paused_after_it_has_executed_says_so_when_it_refuses() -> None:
    world, a, b = pair()
    world.node("c").offer()
    call = a.call(idempotency_key="k", timeout=60.0)
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    b.finish()
    b.callee.pause(world.now)
    b.perform()
    world.silent.clear()
    world.sleep(20.0)
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    assert world.nodes[2].invoked == []


def test_what_was_refused_is_not_executed_when_a_copy_of_it_comes_later() -> None:
    world, a, b, call = unheard(others=1)
    world.silent.clear()
    world.sleep(20.0)
    assert len(world.nodes[2].invoked) == 1
    b.finish()  # there is room now
    world.run()
    (request,) = [
        message for message in b.received if isinstance(message, Request) and message.message_id == call
    ]
    b.callee.on_request(LinkId(999), a.node, a.life, request, world.now)
    b.perform()
    assert [invoke.message_id for invoke in b.invoked].count(call) == 0
    assert b.counters.value("calls.refused.1411") == 1


def test_so_many_refusals_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "REFUSALS_MAX", 2)
    world, a, b = pair()
    b.callee.drain(world.now)
    for key in ("1", "2", "3", None):
        a.call(idempotency_key=key)
    world.run()
    assert b.counters.value("calls.refused.1411") == 4
    assert b.counters.value("calls.refusals_forgotten") == 1
