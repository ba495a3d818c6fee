"""Idempotency keys: one execution for each, and its end for everybody who asks again, now or later."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.calls import dedupe
from reachp2p.core.calls.dedupe import KEEP, DedupeDue
from reachp2p.core.calls.hops import HopFilter
from reachp2p.core.commands import InvokeResult, Lasting, RouteQuery
from reachp2p.core.ids import LinkId
from reachp2p.core.wire.messages import Request
from reachp2p.errors import ErrorCode
from tests.unit.calls.world import AGENT, CAPABILITY, Node, World
from tests.unit.links.pair import life, node_id


def pair(*, others: int = 0, **offer: Any) -> tuple[World, Node, Node]:
    """A caller, a node that offers the capability, and others that do."""
    world = World()
    a, b = world.node("a"), world.node("b")
    b.offer(**offer)
    for number in range(others):
        world.node(f"c{number}").offer(**offer)
    return world, a, b


def ask(a: Node, key: str | None = "k", payload: bytes = b"question", **fields: Any) -> bytes:
    return a.call(payload, idempotency_key=key, **fields)


def nothing_left(*nodes: Node) -> bool:
    return all(node.leftovers == {} for node in nodes)


# At the callee


def test_a_second_request_waits_for_the_end_of_the_first_and_a_late_one_gets_it_at_once() -> None:
    world, a, b = pair()
    first, second = ask(a), ask(a)
    world.run()
    assert len(b.invoked) == 1
    b.finish(result=InvokeResult(payload=b"once", content_type="text/plain"))
    world.run()
    late = ask(a)
    world.run()
    assert [(a.end_of(call).code, a.end_of(call).payload) for call in (first, second, late)] == [
        (0, b"once")
    ] * 3
    assert (len(b.invoked), b.counters.value("calls.deduplicated")) == (1, 2)
    assert nothing_left(a, b)


def test_a_key_counts_for_one_caller_agent_and_capability() -> None:
    world, a, b = pair()
    other = world.node("other")
    b.offer(agent="test/other", capability="test.other")
    ask(a), ask(other), ask(a, "another")
    ask(a, query=RouteQuery(capability="test.other"))
    ask(a, None), ask(a, None)
    world.run()
    assert len(b.invoked) == 6


def test_another_payload_under_the_same_key_is_refused_while_it_runs_and_after() -> None:
    world, a, b = pair(others=1)
    first, second = ask(a), ask(a, payload=b"another question")
    world.run()
    b.finish()
    world.run()
    third, fourth = ask(a, payload=b"another question"), ask(a, content_type="application/json")
    world.run()
    for call in (second, third, fourth):
        assert a.end_of(call).code == ErrorCode.KEY_CONFLICT
        assert "'k' was used by this node for another payload" in a.end_of(call).detail
    assert a.end_of(first).code == 0
    assert nothing_left(a, b)


@pytest.mark.parametrize(
    "result",
    [
        InvokeResult(code=1403, detail="ValueError: no"),
        InvokeResult(code=1403, detail="no", caller_fault=True),
    ],
)
def test_a_failure_is_an_end_like_others(result: InvokeResult) -> None:
    world, a, b = pair()
    first = ask(a)
    world.run()
    b.finish(result=result)
    world.run()
    again = ask(a)
    world.run()
    ends = [a.end_of(call) for call in (first, again)]
    assert [(end.code, end.detail, end.caller_fault) for end in ends] == [
        (1403, result.detail, result.caller_fault)
    ] * 2
    assert len(b.invoked) == 1


def test_what_was_not_executed_is_forgotten() -> None:
    world, a, b = pair()
    first = ask(a)
    world.run()
    b.finish(result=InvokeResult(code=1405, detail="$.text: missing", executed=False))
    world.run()
    assert a.end_of(first).code == ErrorCode.SCHEMA_MISMATCH
    assert b.callee.gauges()["calls.keys"] == 0
    ask(a)
    world.run()
    assert len(b.invoked) == 2


def test_a_deadline_while_it_runs_leaves_the_others_in_doubt_and_in_the_queue_it_is_forgotten() -> None:
    world, a, b = pair(concurrency=1)
    first, second = ask(a, timeout=1.0), ask(a, timeout=5.0)
    queued = [ask(a, "queued", timeout=0.5)]
    world.sleep(0.6)
    assert a.end_of(queued[0]).code == ErrorCode.DEADLINE_EXCEEDED
    assert b.callee.gauges()["calls.keys"] == 1
    world.sleep(0.6)
    assert a.end_of(first).code == ErrorCode.DEADLINE_EXCEEDED
    assert a.end_of(second).code == ErrorCode.OUTCOME_UNKNOWN, "its own deadline has not come"
    assert [cancel.reason for cancel in b.cancelled] == ["its deadline has passed"]
    assert nothing_left(a, b)
    again = ask(a)
    world.run()
    assert a.end_of(again).code == ErrorCode.OUTCOME_UNKNOWN
    assert "stopped at the deadline of the request that began it" in a.end_of(again).detail
    assert len(b.invoked) == 1


def test_a_follower_takes_the_place_in_the_queue_of_one_whose_deadline_comes() -> None:
    world, a, b = pair(concurrency=1, queue=9)
    before = ask(a, "before")
    first, second, third = ask(a, timeout=1.0), ask(a, timeout=2.0), ask(a, timeout=9.0)
    behind = ask(a, "behind")
    world.sleep(1.1)
    assert a.end_of(first).code == ErrorCode.DEADLINE_EXCEEDED
    assert b.callee.gauges()["calls.serving"] == 4
    world.sleep(1.0)
    assert a.end_of(second).code == ErrorCode.DEADLINE_EXCEEDED
    told = [hop.detail for hop in b.hops.find(HopFilter(), world.now).hops]
    assert told == ["the deadline passed in the queue"] * 2, "nothing was executed for either"
    b.finish()
    world.run()
    assert b.invoked[1].message_id == third, "it has kept the place of the first"
    b.finish(result=InvokeResult(payload=b"for the third"))
    world.run()
    assert (a.end_of(third).code, a.end_of(third).payload) == (0, b"for the third")
    b.finish()
    world.run()
    assert [a.end_of(call).code for call in (before, behind)] == [0, 0]
    assert b.counters.value("calls.passed_on") == 1
    assert nothing_left(a, b)


def test_a_follower_takes_the_place_in_the_queue_of_one_that_is_cancelled() -> None:
    world, a, b = pair(concurrency=1)
    ask(a, "before")
    first, second = ask(a, timeout=1.0), ask(a, timeout=9.0)
    world.run()
    a.cancel(first)
    world.run()
    world.sleep(2.0)
    b.finish()
    world.run()
    assert b.invoked[1].message_id == second
    assert b.invoked[1].deadline - world.now > 6.0, "its own deadline"
    b.finish()
    world.run()
    assert a.end_of(second).code == 0
    assert nothing_left(a, b)


def test_all_that_wait_for_one_deadline_end_with_it_and_nothing_is_remembered() -> None:
    world, a, b = pair(concurrency=1)
    before = ask(a, "before")
    calls = [ask(a, timeout=1.0), ask(a, timeout=1.0)]
    world.sleep(1.1)
    assert [a.end_of(call).code for call in calls] == [ErrorCode.DEADLINE_EXCEEDED] * 2
    b.finish()
    world.run()
    assert (a.end_of(before).code, len(b.invoked), len(b.callee.dedupe)) == (0, 1, 1)
    assert nothing_left(a, b)


def test_a_follower_can_go_and_the_last_who_waits_takes_the_handler_with_it() -> None:
    world, a, b = pair()
    first, second, third = ask(a), ask(a, timeout=1.0), ask(a)
    world.run()
    a.cancel(third)
    world.sleep(1.1)
    assert a.end_of(second).code == ErrorCode.DEADLINE_EXCEEDED
    assert (len(b.running), b.callee.gauges()["calls.serving"]) == (1, 1)
    a.cancel(first)
    world.run()
    assert b.running == {}
    assert nothing_left(a, b)
    again = ask(a)
    world.run()
    ended = a.end_of(again)
    assert (ended.code, ended.detail) == (ErrorCode.CANCELLED, "its caller cancelled it while it ran")


def test_the_first_who_asked_can_go_while_others_wait() -> None:
    world, a, b = pair()
    first, second = ask(a), ask(a)
    world.run()
    a.cancel(first)
    world.run()
    b.finish()
    world.run()
    assert (a.end_of(first).code, a.end_of(second).code) == (ErrorCode.CANCELLED, 0)
    assert b.cancelled == []
    assert nothing_left(a, b)


def test_the_last_who_goes_after_the_first_takes_the_handler_with_it() -> None:
    world, a, b = pair()
    first, second = ask(a), ask(a)
    world.run()
    a.cancel(first)
    a.cancel(second)
    world.run()
    assert b.running == {}
    assert nothing_left(a, b)


def test_only_so_many_wait_for_one_end() -> None:
    world, a, b = pair(others=1)
    calls = [ask(a) for _ in range(dedupe.FOLLOWERS_MAX + 2)]
    world.run()
    assert a.end_of(calls[-1]).code == ErrorCode.REFUSED_FULL
    assert world.nodes[2].invoked == [], "nobody else executes what runs here"
    b.finish()
    world.run()
    assert [a.end_of(call).code for call in calls[:-1]] == [0] * (dedupe.FOLLOWERS_MAX + 1)


def executed(world: World, a: Node, b: Node, key: str, payload: bytes = b"") -> None:
    ask(a, key)
    world.run()
    b.finish(result=InvokeResult(payload=payload))
    world.run()


def knows(world: World, a: Node, b: Node, key: str) -> bool:
    before = len(b.invoked)
    call = ask(a, key)
    world.run()
    if len(b.invoked) == before:
        return True
    a.cancel(call)
    world.run()
    return False


def test_a_callers_flood_of_keys_evicts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "ENDS_MAX", 6)
    world, a, b = pair()
    other = world.node("other")
    for key in ("1", "2"):
        executed(world, other, b, key)
    for number in range(20):
        executed(world, a, b, f"flood {number}")
    assert b.counters.value("calls.keys_evicted") == 16
    executed(world, other, b, "3")  # below its share: the flood makes room
    assert b.counters.value("calls.keys_evicted") == 17
    assert [knows(world, other, b, key) for key in ("1", "2", "3")] == [True] * 3
    assert knows(world, a, b, "flood 19")
    assert not knows(world, a, b, "flood 16")


def test_large_ends_of_one_caller_evict_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "ENDS_BYTES_MAX", 100)
    world, a, b = pair()
    other = world.node("other")
    executed(world, other, b, "1", b"x" * 30)
    for number in range(3):
        executed(world, a, b, f"large {number}", b"x" * 60)
    assert knows(world, other, b, "1")
    assert b.callee.gauges()["calls.key_bytes"] == 90
    executed(world, other, b, "2", b"x" * 80)  # not all of that fits beside anything
    assert b.callee.gauges()["calls.key_bytes"] == 80
    assert knows(world, other, b, "2")
    world.sleep(KEEP + 1)
    assert (b.callee.gauges()["calls.keys"], b.callee.gauges()["calls.key_bytes"]) == (0, 0)


def test_ends_are_forgotten_by_age_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    world, a, b = pair()
    monkeypatch.setattr(dedupe, "ENDS_MAX", 2)
    monkeypatch.setattr(dedupe, "ENDS_BYTES_MAX", 100)
    for key, size in (("1", 10), ("2", 10), ("3", 10), ("4", 95)):
        ask(a, key)
        world.run()
        b.finish(result=InvokeResult(payload=b"x" * size))
        world.run()
    assert (b.callee.gauges()["calls.keys"], b.callee.gauges()["calls.key_bytes"]) == (1, 95)
    assert b.counters.value("calls.keys_evicted") == 3
    world.sleep(KEEP - 1)
    assert b.callee.gauges()["calls.keys"] == 1
    world.sleep(1.1)
    assert (b.callee.gauges()["calls.keys"], b.callee.gauges()["calls.key_bytes"]) == (0, 0)
    assert b.timers.due_at(DedupeDue()) is None


def test_a_node_that_drains_still_gives_the_end_of_what_it_has_begun() -> None:
    world, a, b = pair()
    ask(a)
    world.run()
    b.callee.drain(world.now)
    follower, other = ask(a), ask(a, "another")
    world.run()
    assert a.end_of(other).code == ErrorCode.NODE_LOST
    b.finish()
    world.run()
    assert a.end_of(follower).code == 0


def test_a_node_that_pauses_tells_all_who_wait_that_nobody_knows() -> None:
    world, a, b = pair()
    calls = [ask(a), ask(a)]
    world.run()
    b.callee.pause(world.now)
    b.perform()
    world.run()
    assert [a.end_of(call).code for call in calls] == [ErrorCode.OUTCOME_UNKNOWN] * 2
    b.callee.resume()
    again = ask(a)
    world.run()
    assert a.end_of(again).code == ErrorCode.OUTCOME_UNKNOWN
    assert nothing_left(a, b)


def test_an_agent_that_is_owned_no_more_hands_back_all_who_wait_for_one_end() -> None:
    world, a, b = pair(concurrency=1)
    running, following, queued = ask(a), ask(a), ask(a, "another")
    world.run()
    b.callee.hand_back(AGENT, world.now)
    b.perform()
    world.run()
    ends = [a.end_of(call).code for call in (running, following, queued)]
    assert ends == [ErrorCode.OUTCOME_UNKNOWN, ErrorCode.OUTCOME_UNKNOWN, ErrorCode.NODE_LOST]
    assert nothing_left(a, b)


# At the caller: the same instance, and a lost link


@pytest.mark.parametrize(
    ("query", "policy", "key"),
    [
        ({}, "consistent_hash", "order-4711"),
        ({"policy": "random"}, "random", None),
        ({"key": "customer-17"}, None, "customer-17"),
    ],
)
def test_whoever_asks_again_meets_the_same_instance_unless_the_caller_chooses_otherwise(
    query: dict[str, Any], policy: str | None, key: str | None
) -> None:
    _, a, _ = pair()
    call = ask(a, "order-4711", query=RouteQuery(capability=CAPABILITY, **query))
    pending = a.caller._pending.get(call)
    assert pending is not None
    assert (pending.query.policy, pending.query.key) == (policy, key)


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_call_whose_link_is_lost_is_joined_again_at_the_same_instance(repeatable: bool) -> None:
    world, a, b = pair(others=1, repeatable=repeatable)
    call = ask(a)
    world.run()
    world.lose(a, b)
    world.run()
    assert (len(b.invoked), len(b.running), a.caller.pending) == (1, 1, 1)
    b.finish()
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.attempts, ended.node) == (0, 1, b.node)
    assert a.counters.value("calls.rejoined") == 1
    assert nothing_left(a, b)


def test_an_end_that_was_lost_with_its_link_is_told_again() -> None:
    world, a, b = pair()
    call = ask(a)
    world.run()
    b.callee.on_invoke_result(next(iter(b.running)), InvokeResult(payload=b"answer"), world.now)
    b.running.clear()
    b.effects.take()  # the reply never leaves
    world.lose(a, b)
    world.run()
    assert a.end_of(call).payload == b"answer"
    assert len(b.invoked) == 1


def test_a_request_that_never_arrived_is_executed_when_it_is_sent_again() -> None:
    world, a, b = pair()
    a.dial(b)
    world.run()
    call = ask(a)
    for wire in list(world.wires):
        world.cut(wire)  # with the request on it
    world.run()
    assert len(b.invoked) == 1
    b.finish()
    world.run()
    assert a.end_of(call).code == 0


def test_it_is_tried_again_and_again_until_the_link_opens() -> None:
    world, a, b = pair()
    call = ask(a, timeout=60.0)
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    world.sleep(20.0)
    assert (a.caller.pending, a.ended) == (1, [])
    world.silent.discard(b.address)
    world.sleep(20.0)
    b.finish()
    world.run()
    assert a.end_of(call).code == 0
    assert nothing_left(a, b)


def test_the_death_of_the_node_ends_the_waiting() -> None:
    world, a, b = pair(others=1)
    call = ask(a, timeout=60.0)
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    world.sleep(1.0)
    a.gone(b)
    world.run()
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    assert nothing_left(a)


def test_a_new_life_has_forgotten_and_is_not_asked() -> None:
    world, a, b = pair()
    call = ask(a, timeout=60.0)
    world.run()
    b.callee.pause(world.now)
    b.effects.take()
    b.running.clear()
    b.life = life(2)
    world.lose(a, b)
    b.callee.resume()
    world.sleep(5.0)
    ended = a.end_of(call)
    assert (ended.code, len(b.invoked)) == (ErrorCode.OUTCOME_UNKNOWN, 1)
    assert "another life" in ended.detail


def test_the_deadline_and_the_caller_can_end_it_meanwhile() -> None:
    world, a, b = pair()
    late, unwanted = ask(a, timeout=5.0), ask(a, "other", timeout=60.0)
    world.run()
    world.silent.add(b.address)
    world.lose(a, b)
    world.sleep(1.0)
    assert a.cancel(unwanted)
    world.sleep(5.0)
    assert a.end_of(unwanted).code == ErrorCode.CANCELLED
    ended = a.end_of(late)
    assert (ended.code, ended.detail) == (
        ErrorCode.DEADLINE_EXCEEDED,
        "no answer in time; it may have been executed",
    )
    world.sleep(70.0)  # until the deadline of what is not wanted any more
    assert nothing_left(a)


def test_a_submitted_task_has_a_key_of_its_own_and_outlives_its_link() -> None:
    world, a, b = pair()
    task = ask(a, None, lasting=Lasting.TASK)
    world.run()
    assert b.invoked[0].idempotency_key == task.hex()
    world.lose(a, b)
    world.sleep(1.0)
    b.finish()
    world.run()
    assert a.end_of(task).code == 0
    assert nothing_left(a, b)


def test_the_tasks_of_a_node_that_is_gone_are_cancelled_and_what_its_program_may_ask_for_again_goes_on() -> (
    None
):
    world, a, b = pair(concurrency=2)
    running, keyed, queued = ask(a, None, lasting=Lasting.TASK), ask(a), ask(a, None, lasting=Lasting.TASK)
    world.run()
    world.silent |= {a.address, b.address}
    world.lose(a, b)
    b.gone(a, life(9))  # another life of it
    assert len(b.running) == 2
    b.gone(a)
    assert [invoke.message_id for invoke in b.running.values()] == [keyed]
    assert b.callee.gauges()["calls.serving"] == 1
    assert {running, queued}.isdisjoint(invoke.message_id for invoke in b.running.values())
    assert [cancel.reason for cancel in b.cancelled] == ["its caller is gone"]
    assert b.counters.value("calls.caller_lost") == 2


def test_the_tasks_of_a_node_that_is_linked_go_on_whatever_is_said_of_it() -> None:
    world, a, b = pair()
    task = ask(a, None, lasting=Lasting.TASK)
    world.run()
    b.gone(a)
    b.finish()
    world.run()
    assert a.end_of(task).code == 0


def test_without_a_key_a_lost_link_ends_the_call_as_before() -> None:
    world, a, b = pair()
    call = ask(a, None)
    world.run()
    for wire in list(world.wires):
        world.cut(wire)
    world.run()
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    assert b.running == {}


def test_refusals_of_one_caller_do_not_make_a_node_forget_those_of_another() -> None:
    """What its caller was promised not to be executed is not, also if a copy comes late from a lost link."""
    world = World()
    b, c = world.node("b"), world.node("c")
    b.offer(concurrency=1, queue=0)
    c.call()
    world.run()  # b is full

    def ask(link: int, name: str, number: int) -> None:
        request = Request(
            message_id=number.to_bytes(16), life=b.life, agent=AGENT, capability=CAPABILITY, remaining_ms=60_000,
            payload=b"once", idempotency_key=f"key {number}",
        )  # fmt: skip
        b.callee.on_request(LinkId(link), node_id(name), life(1), request, world.now)
        b.perform()

    ask(98, "honest", 1)
    for number in range(2, 2_000):
        ask(99, "hostile", number)
    b.finish()
    ask(97, "honest", 1)
    assert not b.running
    assert b.counters.value("calls.refusals_forgotten") > 1_000
