"""The calling side: one end for each call, and a second attempt only where it can do no harm."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from reachp2p.core.calls.call import INSTANCES_MAX
from reachp2p.core.commands import CallSpec, InvokeResult, RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.effects import LinkEnd, SendFrame
from reachp2p.core.events import MemberState
from reachp2p.core.ids import LinkId, NodeId
from reachp2p.core.routing.pick import Pick
from reachp2p.core.settings import Protocol
from reachp2p.core.wire import codec
from reachp2p.core.wire.limits import WireError
from reachp2p.core.wire.messages import Message, Reply, Request
from reachp2p.errors import CallFailed, ErrorCode, InvalidIdentifier
from tests.unit.calls.world import AGENT, CAPABILITY, Node, World
from tests.unit.links.pair import life

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def trio(*, repeatable: bool = False, **protocol: float) -> tuple[World, Node, Node, Node]:
    """A caller and two nodes that offer the capability, `b` being asked first."""
    world = World()
    settings = replace(Protocol(), **protocol)
    a, b, c = (world.node(name, protocol=settings) for name in "abc")
    b.offer(repeatable=repeatable)
    c.offer(repeatable=repeatable)
    return world, a, b, c


def nothing_left(*nodes: Node) -> bool:
    return all(node.leftovers == {} for node in nodes)


# The plain way


def test_a_call_dials_asks_and_ends_with_the_result() -> None:
    world, a, b, c = trio()
    call = a.call(
        b"question", session_id=b"s" * 16, idempotency_key="k", traceparent=PARENT, content_type="text/plain"
    )
    assert a.caller.pending == 1
    world.run()
    (invoke,) = b.invoked
    assert (invoke.agent, invoke.capability, invoke.payload, invoke.caller) == (
        AGENT,
        CAPABILITY,
        b"question",
        a.node,
    )
    assert (invoke.content_type, invoke.message_id, invoke.attempt) == ("text/plain", call, 1)
    assert (invoke.session_id, invoke.idempotency_key) == (b"s" * 16, "k")
    assert invoke.traceparent is not None
    assert invoke.traceparent.startswith(PARENT[:36])
    assert (invoke.path, invoke.hops_left) == ((AGENT,), 9)
    assert invoke.deadline == world.now + 30.0
    b.finish(result=InvokeResult(payload=b"answer", content_type="text/html"))
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.payload, ended.content_type) == (0, b"answer", "text/html")
    assert (ended.node, ended.agent, ended.attempts) == (b.node, AGENT, 1)
    assert nothing_left(a, b, c)


def test_a_second_call_uses_the_link_of_the_first_and_answers_may_cross() -> None:
    world, a, b, c = trio()
    first, second = a.call(b"1"), a.call(b"2")
    world.run()
    for number, invoke in sorted(b.running.items(), reverse=True):
        b.finish(number, InvokeResult(payload=b"to " + invoke.payload))
    world.run()
    assert a.end_of(first).payload == b"to 1"
    assert a.end_of(second).payload == b"to 2"
    assert a.counters.value("links.dialled") == 1
    assert nothing_left(a, b, c)


def test_a_callee_that_nobody_can_dial_is_called_over_the_link_it_has_opened() -> None:
    world, a, b, _ = trio()
    b.dial(a)
    world.run()
    world.silent.add(b.address)
    call = a.call()
    world.run()
    b.finish()
    world.run()
    assert a.end_of(call).code == 0
    assert a.counters.value("links.dialled") == 0


def test_a_call_to_this_very_node_needs_no_link() -> None:
    world = World()
    a = world.node("a")
    a.offer()
    call = a.call(b"to myself")
    (invoke,) = a.invoked
    assert invoke.caller == a.node
    a.finish()
    assert a.end_of(call).payload == b"answer"
    assert a.counters.value("links.dialled") == 0
    assert nothing_left(a)


def test_a_large_question_and_answer_travel_in_pieces() -> None:
    world, a, b, _ = trio()
    call = a.call(b"q" * 1_000_000)
    world.run()
    b.finish(result=InvokeResult(payload=b"a" * 1_048_576))
    world.run()
    assert b.invoked[0].payload == b"q" * 1_000_000
    assert a.end_of(call).payload == b"a" * 1_048_576


def test_an_agent_with_one_capability_needs_no_other_name() -> None:
    world, a, b, _ = trio()
    a.call(query=RouteQuery(agent=AGENT))
    world.run()
    assert b.invoked[0].capability == CAPABILITY


# Refused at once


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"payload": b"x" * 101}, ErrorCode.PAYLOAD_TOO_LARGE),
        ({"timeout": 0.0}, ErrorCode.DEADLINE_EXCEEDED),
        ({"timeout": -1.0}, ErrorCode.DEADLINE_EXCEEDED),
        ({"timeout": float("nan")}, ErrorCode.DEADLINE_EXCEEDED),
        ({"hops_left": 0}, ErrorCode.HOPS_USED_UP),
        ({"path": ("a/b",) * 16}, ErrorCode.HOPS_USED_UP),
        ({"query": RouteQuery(agent="no/body")}, ErrorCode.NO_HEALTHY_INSTANCE),
    ],
)
def test_what_cannot_succeed_is_refused_before_anything_is_sent(
    changes: dict[str, object], code: ErrorCode
) -> None:
    _, a, _, _ = trio(payload_max=100)
    with pytest.raises(CallFailed) as caught:
        a.call(**{"payload": b"x", **changes})  # type: ignore[arg-type]
    assert caught.value.code is code
    assert a.performed == []
    assert nothing_left(a)


@pytest.mark.parametrize(
    "changes",
    [
        {"idempotency_key": "k" * 257},
        {"content_type": "text/plain\n"},
        {"session_id": b"short"},
    ],
)
def test_text_that_would_not_survive_the_wire_is_refused(changes: dict[str, object]) -> None:
    _, a, _, _ = trio()
    with pytest.raises(InvalidIdentifier):
        a.call(**changes)  # type: ignore[arg-type]
    assert nothing_left(a)


def test_so_many_calls_may_be_pending_and_no_more() -> None:
    _, a, _, _ = trio(pending_calls_max=3)
    calls = [a.call() for _ in range(3)]
    with pytest.raises(CallFailed) as caught:
        a.call()
    assert caught.value.code is ErrorCode.REFUSED_FULL
    assert a.cancel(calls[0])
    a.call()


def test_a_draining_caller_starts_nothing_new_and_finishes_the_rest() -> None:
    world, a, b, _ = trio()
    call = a.call()
    a.caller.drain()
    with pytest.raises(CallFailed) as caught:
        a.call()
    assert caught.value.code is ErrorCode.NODE_LOST
    world.run()
    b.finish()
    world.run()
    assert a.end_of(call).code == 0


# Another instance


def test_a_node_that_refuses_the_dial_is_passed_over() -> None:
    world, a, b, c = trio()
    world.kill(b)
    call = a.call()
    world.run()
    c.finish()
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.node, ended.attempts) == (0, c.node, 2)
    assert c.invoked[0].attempt == 2
    assert nothing_left(a, c)


def crowd(size: int, *, repeatable: bool = False) -> tuple[World, Node, list[Node]]:
    """A caller, and so many nodes that offer the capability, asked in order."""
    world = World()
    names = [chr(ord("a") + number) for number in range(size + 1)]
    a, *others = (world.node(name) for name in names)
    for node in others:
        node.offer(repeatable=repeatable)
    return world, a, others


@pytest.mark.parametrize("repeatable", [True, False])
def test_what_was_certainly_not_sent_costs_no_attempt(repeatable: bool) -> None:
    """Half of all instances have died and the caller has just come: it does not know, and reaches the living."""
    world, a, others = crowd(6, repeatable=repeatable)
    for node in others[:5]:
        world.kill(node)
    call = a.call()
    world.run()
    others[5].finish()
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.node, ended.attempts) == (0, others[5].node, 6)
    assert a.counters.value("calls.passed_over") == 5
    assert nothing_left(a, others[5])


def test_one_call_turns_to_so_many_instances_and_no_more() -> None:
    world, a, others = crowd(INSTANCES_MAX + 3)
    for node in others:
        world.kill(node)
    call = a.call()
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.attempts) == (ErrorCode.NODE_LOST, INSTANCES_MAX)
    assert a.counters.value("links.dialled") == INSTANCES_MAX
    assert nothing_left(a)


def test_refusals_of_callees_are_counted_whatever_was_passed_over_between_them() -> None:
    world, a, others = crowd(5)
    others[0].agents.clear()
    world.kill(others[1])
    others[2].agents.clear()
    call = a.call()
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.attempts, ended.node) == (ErrorCode.UNKNOWN_TARGET, 3, others[2].node)
    assert others[3].invoked == []


def test_silent_instances_share_the_time_and_the_deadline_stands() -> None:
    world, a, others = crowd(4)
    world.silent |= {node.address for node in others[:3]}
    call = a.call(timeout=4.0)
    world.sleep(3.95)  # 70 % of 4 s, of 1.2 s, of 0.36 s
    others[3].finish()
    world.run()
    assert (a.end_of(call).code, a.end_of(call).attempts) == (0, 4)


def test_a_dial_that_fails_marks_its_node_before_another_is_picked() -> None:
    world, a, b, c = trio()
    a.table.set_node(b.node, MemberState.ALIVE)
    picked: list[bool] = []
    route = world.router.route

    def notes(query: RouteQuery, exclude: Collection[NodeId] = (), now: float = 0.0) -> Pick:
        picked.append(a.table.is_unreached(b.node))
        return route(query, exclude, now)

    world.router.route = notes  # type: ignore[method-assign]
    world.kill(b)
    a.call()
    world.run()
    assert picked == [False, True]
    assert len(c.running) == 1


def test_a_link_that_opens_from_either_side_takes_the_mark_away() -> None:
    world, a, b, _ = trio()
    a.table.set_node(b.node, MemberState.ALIVE)
    a.table.set_unreached(b.node, True)
    b.dial(a)
    world.run()
    assert not a.table.is_unreached(b.node)


def test_a_node_without_an_address_is_passed_over_at_once() -> None:
    world, a, b, c = trio()
    world.nodes.remove(b)
    call = a.call()
    world.run()
    c.finish()
    world.run()
    assert a.end_of(call).code == 0


def test_a_silent_dial_is_given_up_after_its_share_of_the_time() -> None:
    world, a, b, c = trio()
    world.silent.add(b.address)
    call = a.call(timeout=4.0)
    world.sleep(2.7)
    assert c.invoked == []
    world.sleep(0.2)  # 70 % of four seconds
    c.finish()
    world.run()
    assert a.end_of(call).code == 0
    assert nothing_left(a, c)


def test_one_refused_by_a_full_instance_goes_to_another() -> None:
    world, a, b, c = trio()
    b.agents.clear()
    b.offer(concurrency=1)
    world.router.instances.pop()
    for _ in range(2):
        a.call()  # one runs, one waits
    world.run()
    call = a.call()
    world.run()
    assert len(c.running) == 1
    c.finish()
    world.run()
    assert a.end_of(call).attempts == 2


def test_one_whose_registry_is_behind_goes_to_another() -> None:
    world, a, b, c = trio()
    b.agents.clear()
    call = a.call()
    world.run()
    c.finish()
    world.run()
    assert a.end_of(call).code == 0


def test_two_refusals_end_the_call_with_the_code_of_the_second() -> None:
    world, a, b, c = trio()
    b.agents.clear()
    c.callee.drain(world.now)
    call = a.call()
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.attempts, ended.node) == (ErrorCode.NODE_LOST, 2, c.node)
    assert nothing_left(a, b, c)


@pytest.mark.parametrize("code", [ErrorCode.SCHEMA_MISMATCH, ErrorCode.HANDLER_FAILED])
def test_a_mistake_of_the_caller_or_the_handler_is_not_tried_elsewhere(code: ErrorCode) -> None:
    world, a, b, c = trio(repeatable=True)
    call = a.call()
    world.run()
    b.finish(
        result=InvokeResult(code=code, detail="/text: missing", executed=code is ErrorCode.HANDLER_FAILED)
    )
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.detail, ended.attempts) == (code, "/text: missing", 1)
    assert nothing_left(a, b, c)


@pytest.mark.parametrize("how", ["link lost", "killed", "dead", "left", "new life"])
@pytest.mark.parametrize("repeatable", [True, False])
def test_what_was_asked_of_a_lost_node_is_repeated_only_if_it_may_be(how: str, repeatable: bool) -> None:
    world, a, b, c = trio(repeatable=repeatable)
    call = a.call()
    world.run()
    assert len(b.running) == 1
    if how == "link lost":
        world.lose(a, b)
    elif how == "killed":
        world.kill(b)
    elif how == "new life":
        a.links.supersede(b.node, life(2), world.now)
        a.fire()
    else:
        a.gone(b)
    world.run()
    if repeatable:
        assert a.caller.pending == 1
        c.finish()
        world.run()
        ended = a.end_of(call)
        assert (ended.code, ended.attempts, ended.node) == (0, 2, c.node)
    else:  # at once, not after the timeout (B31)
        ended = a.end_of(call)
        assert (ended.code, ended.attempts) == (ErrorCode.OUTCOME_UNKNOWN, 1)
        assert c.invoked == []
    assert a.leftovers == c.leftovers == {}


def test_a_repeatable_call_that_is_lost_twice_ends_as_outcome_unknown() -> None:
    world, a, b, c = trio(repeatable=True)
    call = a.call()
    world.run()
    world.lose(a, b)
    world.lose(a, c)
    ended = a.end_of(call)
    assert (ended.code, ended.attempts) == (ErrorCode.OUTCOME_UNKNOWN, 2)
    assert nothing_left(a, b, c)


@pytest.mark.parametrize("how", ["link lost", "its share of the time is over"])
def test_what_may_have_run_once_is_never_called_safe_to_repeat(how: str) -> None:
    world, a, b, c = trio(repeatable=True)
    call = a.call()
    world.run()
    assert len(b.running) == 1
    c.callee.drain(world.now)  # the second one refuses: it has not executed anything, the first one may have
    if how == "link lost":
        world.lose(a, b)
    else:
        world.sleep(Protocol().call_timeout * 0.75)
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.attempts, ended.node) == (ErrorCode.OUTCOME_UNKNOWN, 2, c.node)
    assert "an earlier attempt may have been executed" in ended.detail


def test_waiting_for_a_link_to_a_dead_node_ends_at_once() -> None:
    world, a, b, c = trio()
    world.silent |= {b.address, c.address}
    call = a.call()
    a.gone(b)
    a.gone(c)
    ended = a.end_of(call)
    assert (ended.code, ended.attempts) == (ErrorCode.NODE_LOST, 2)
    assert nothing_left(a)


def test_an_answer_that_a_leaving_node_has_sent_is_not_overtaken_by_its_goodbye_to_all() -> None:
    """LEFT comes by datagram, the answer on its link behind whatever else is there."""
    world, a, b, _ = trio()
    call = a.call()
    world.run()
    a.gone(b, left=True)
    assert a.caller.pending == 1
    b.finish()
    world.run()
    assert a.end_of(call).code == 0
    assert nothing_left(a, b)


def test_what_a_leaving_node_has_not_answered_ends_with_its_link() -> None:
    world, a, b, _ = trio()
    call = a.call()
    world.run()
    a.gone(b, left=True)
    world.lose(a, b)
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN


def test_what_waits_for_a_link_to_a_node_that_has_left_goes_elsewhere_at_once() -> None:
    world, a, b, c = trio()
    world.silent |= {b.address}
    call = a.call()
    a.gone(b, left=True)
    world.run()
    c.finish()
    world.run()
    assert (a.end_of(call).code, a.end_of(call).node) == (0, c.node)


def test_the_end_of_another_life_changes_nothing() -> None:
    world, a, b, _ = trio()
    call = a.call()
    world.run()
    a.gone(b, life(0))
    assert a.caller.pending == 1
    b.finish()
    world.run()
    assert a.end_of(call).code == 0


# Time


def test_a_slow_repeatable_attempt_is_cancelled_after_its_share_and_repeated() -> None:
    world, a, b, c = trio(repeatable=True)
    call = a.call(timeout=10.0)
    world.sleep(6.9)
    assert len(b.running) == 1
    world.sleep(0.2)
    assert b.running == {}
    assert [cancel.reason for cancel in b.cancelled] == ["cancelled by the caller"]
    assert c.invoked[0].deadline == pytest.approx(1_010.0, abs=0.01)
    c.finish()
    world.run()
    assert a.end_of(call).attempts == 2
    assert nothing_left(a, b, c)


@pytest.mark.parametrize("repeatable", [True, False])
def test_an_attempt_that_nobody_else_could_take_over_keeps_all_the_time(repeatable: bool) -> None:
    world, a, b, c = trio(repeatable=repeatable)
    world.router.instances.pop()
    call = a.call(timeout=10.0)
    world.sleep(9.9)
    b.finish()
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.attempts) == (0, 1)
    assert nothing_left(a, b, c)


def test_the_deadline_ends_the_call_on_both_sides() -> None:
    world, a, b, c = trio()
    call = a.call(timeout=10.0)
    world.sleep(10.1)
    ended = a.end_of(call)
    assert ended.code == ErrorCode.DEADLINE_EXCEEDED
    assert "may have been executed" in ended.detail
    assert b.running == {}
    assert nothing_left(a, b, c)


def test_a_deadline_before_any_link_says_that_nothing_was_executed() -> None:
    world, a, b, c = trio()
    world.silent |= {b.address, c.address}
    call = a.call(timeout=3.0)
    world.sleep(3.1)
    ended = a.end_of(call)
    assert (ended.code, ended.detail) == (ErrorCode.DEADLINE_EXCEEDED, "no link opened in time")
    assert nothing_left(a)


@pytest.mark.parametrize(
    ("argument", "declared", "expected"),
    [(2.0, 5.0, 2.0), (None, 5.0, 5.0), (None, None, 30.0), (1e9, None, 86_400.0)],
)
def test_the_callers_timeout_comes_before_the_capabilitys_and_that_before_the_default(
    argument: float | None, declared: float | None, expected: float
) -> None:
    world, a, b, _ = trio()
    (instance, *_) = world.router.instances
    info = instance.info.capabilities[CAPABILITY]
    instance.info.capabilities[CAPABILITY] = type(info)(info.repeatable, declared)
    a.call(timeout=argument)
    world.run()
    assert b.invoked[0].deadline - world.now == pytest.approx(expected)


# Cancelling


def test_cancelling_the_caller_cancels_the_handler() -> None:
    world, a, b, c = trio()
    call = a.call()
    world.run()
    assert a.cancel(call)
    world.run()
    assert a.end_of(call).code == ErrorCode.CANCELLED
    assert b.running == {}
    assert not a.cancel(call)
    assert nothing_left(a, b, c)


def test_a_call_that_is_cancelled_before_it_was_sent_is_never_sent() -> None:
    world, a, b, c = trio()
    call = a.call()
    a.cancel(call)
    world.run()
    assert b.invoked == []
    assert nothing_left(a, b, c)


def test_a_reply_that_crosses_the_cancellation_is_discarded() -> None:
    world, a, b, c = trio()
    call = a.call()
    world.run()
    b.finish()
    a.cancel(call)
    world.run()
    assert a.end_of(call).code == ErrorCode.CANCELLED
    assert a.counters.value("calls.reply_unmatched") == 1
    assert b.counters.value("calls.cancel_unmatched") == 1
    assert nothing_left(a, b, c)


def test_a_local_call_is_cancelled_like_any_other() -> None:
    world = World()
    a = world.node("a")
    a.offer()
    call = a.call()
    a.cancel(call)
    assert a.running == {}
    assert a.end_of(call).code == ErrorCode.CANCELLED
    assert nothing_left(a)


def test_all_calls_end_with_their_life() -> None:
    world, a, b, c = trio()
    calls = [a.call() for _ in range(3)]
    world.run()
    a.caller.end_all(ErrorCode.FENCED, "another life runs", world.now)
    a.perform()
    world.run()
    assert [a.end_of(call).code for call in calls] == [ErrorCode.FENCED] * 3
    assert b.running == {}
    assert nothing_left(a, b, c)


def test_a_node_that_stops_promises_nothing_about_what_it_has_asked() -> None:
    world, a, b, c = trio()
    asked = a.call()
    world.run()
    world.silent |= {b.address, c.address}
    world.lose(a, b)
    world.lose(a, c)
    linking = a.call()
    a.caller.end_all(ErrorCode.NODE_LOST, "this node has left", world.now)
    a.perform()
    assert a.end_of(asked).code == ErrorCode.OUTCOME_UNKNOWN
    assert (a.end_of(linking).code, a.end_of(linking).detail) == (ErrorCode.NODE_LOST, "this node has left")
    assert nothing_left(a)


# What a callee may send


def test_only_the_node_and_life_that_were_asked_can_answer() -> None:
    world, a, b, c = trio()
    call = a.call()
    world.run()
    forged = Reply(message_id=call, payload=b"forged")
    a.caller.on_reply(LinkId(1), c.node, c.life, forged, world.now)
    a.caller.on_reply(LinkId(1), b.node, life(2), forged, world.now)
    assert a.ended == []
    assert a.counters.value("calls.reply_unmatched") == 2
    b.finish()
    world.run()
    assert a.end_of(call).payload == b"answer"


def test_a_reply_before_the_request_was_sent_is_not_believed() -> None:
    world, a, b, _ = trio()
    call = a.call()
    a.caller.on_reply(LinkId(1), b.node, b.life, Reply(message_id=call), world.now)
    assert a.ended == []


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(message_id=bytes(16), payload=b"x" * 101), ErrorCode.PAYLOAD_TOO_LARGE),
        (Reply(message_id=bytes(16), code=9_999), ErrorCode.HANDLER_FAILED),
        (Reply(message_id=bytes(16), code=ErrorCode.OUTCOME_UNKNOWN), ErrorCode.OUTCOME_UNKNOWN),
        (Reply(message_id=bytes(16), code=ErrorCode.NODE_LOST, executed=True), ErrorCode.OUTCOME_UNKNOWN),
        (Reply(message_id=bytes(16), code=ErrorCode.LOOP, executed=False), ErrorCode.LOOP),
    ],
)
def test_each_reply_becomes_one_end_with_a_known_code(reply: Reply, code: ErrorCode) -> None:
    world, a, b, _ = trio(payload_max=100)
    call = a.call()
    world.run()
    answer = Reply(
        message_id=call, code=reply.code, payload=reply.payload, detail=reply.detail, executed=reply.executed
    )
    link = a.links.link_to(b.node)
    assert link is not None
    a.caller.on_reply(link, b.node, b.life, answer, world.now)
    a.perform()
    assert a.end_of(call).code == code
    assert a.leftovers == {}


# What a link has promised and cannot keep

LONG = {"idempotency_key": "é" * 256, "traceparent": PARENT, "path": ("é" * 256,) * 10}
"""Texts of 6 kB around a payload: more than a link's promise counts with."""


def test_a_request_larger_than_its_promise_goes_to_another_instance_at_once() -> None:
    world, a, b, c = trio(link_queue_max=8_000)
    for node in (b, c):
        a.dial(node)
    world.run()
    link = a.links.link_to(b.node)
    assert link is not None
    a.links.on_writable(link, 0, world.now)
    world.gated.add("a")
    first = a.call(b"x" * 3_000)  # waits on the link to b
    call = a.call(**LONG)
    world.run()
    assert a.counters.value("dropped.link.queue_full") == a.counters.value("calls.unsent") == 1
    assert [invoke.message_id for invoke in c.invoked] == [call]
    c.finish()
    world.writable(a, link)
    world.run()
    b.finish()
    world.run()
    assert (a.end_of(call).code, a.end_of(call).attempts) == (0, 2)
    assert (a.end_of(first).code, a.end_of(first).node) == (0, b.node)
    assert world.router.excused == [(b.node, ErrorCode.REFUSED_FULL)]
    assert nothing_left(a, b, c)


def test_a_link_that_is_full_already_says_nothing_about_the_instance() -> None:
    world, a, b, c = trio(link_queue_max=8_000)
    for node in (b, c):
        a.dial(node)
    world.run()
    link = a.links.link_to(b.node)
    assert link is not None
    a.links.on_writable(link, 0, world.now)
    world.gated.add("a")
    calls = [a.call(b"x" * 3_000) for _ in range(4)]
    assert world.router.excused == [(b.node, ErrorCode.REFUSED_FULL)] * len(world.router.excused) != []
    for call in calls:
        a.cancel(call)


def test_a_request_that_fits_no_link_ends_at_once_and_says_why() -> None:
    world, a, b, c = trio(link_queue_max=4_000)
    call = a.call(**LONG)
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.detail) == (ErrorCode.REFUSED_FULL, "too much waits for its link already")
    assert (ended.attempts, a.counters.value("calls.unsent")) == (2, 2)
    assert [node for node, _ in world.router.excused] == [b.node, c.node], "our link says nothing about them"
    assert b.invoked == c.invoked == []
    assert nothing_left(a, b, c)


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_reply_larger_than_its_promise_ends_the_call_at_once(repeatable: bool) -> None:
    world, a, b, c = trio(link_queue_max=4_000, repeatable=repeatable)
    call = a.call()
    world.run()
    b.finish(result=InvokeResult(code=ErrorCode.HANDLER_FAILED, detail="é" * 4_000))
    world.run()
    assert b.counters.value("calls.reply_unsent") == 1
    if repeatable:
        c.finish()
        world.run()
        assert (a.end_of(call).code, a.end_of(call).node) == (0, c.node)
    else:
        ended = a.end_of(call)
        assert ended.code == ErrorCode.OUTCOME_UNKNOWN
        assert "did not fit" in ended.detail
    assert a.downs == []  # nobody else on this link suffers
    assert nothing_left(a, b, c)


def test_a_reply_of_which_not_even_the_news_fits_ends_the_link() -> None:
    world, a, b, _ = trio(link_queue_max=4_000)
    call = a.call()
    world.run()
    link = b.links.link_to(a.node)
    assert link is not None
    b.links.on_writable(link, 0, world.now)
    for _ in range(3):  # promised, not yet queued
        assert b.links.send(link, Reply(message_id=bytes(16), detail="x" * 1_000))
    b.callee.on_unsent(link, Reply(message_id=call, payload=b"the answer"), world.now)
    b.fire()
    world.run()
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    assert [down.end for down in a.downs] == [LinkEnd.LOST]
    assert nothing_left(a, b)


# What one side does not understand


class _Newer(Message, frozen=True, kw_only=True):
    """Any message with one mandatory key more than this version knows."""

    NUMBER = Request.NUMBER
    KEYS: ClassVar[dict[str, int]] = {"message_id": 1, "padding": 8, "news": 90}
    message_id: bytes
    padding: bytes = b""
    news: int = 0


class _NewerReply(_Newer, frozen=True, kw_only=True):
    NUMBER = Reply.NUMBER
    KEYS: ClassVar[dict[str, int]] = {"message_id": 1, "padding": 4, "news": 90}


@pytest.mark.parametrize("size", [10, 40_000])
def test_a_request_that_a_callee_does_not_understand_is_refused_at_once_and_goes_elsewhere(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that came in pieces. A newer node may understand it."""
    world, a, b, c = trio()
    monkeypatch.setitem(codec._LAYOUTS, _Newer, codec._Layout(_Newer))
    original = a.caller._attempts._request
    made: list[int] = []

    def newer(*arguments: Any) -> Message:
        made.append(1)
        request = original(*arguments)
        return (
            _Newer(message_id=request.message_id, padding=bytes(size), news=1) if len(made) == 1 else request
        )

    monkeypatch.setattr(a.caller._attempts, "_request", newer)
    call = a.call()
    world.run()
    assert b.invoked == []
    assert b.counters.value("dropped.message.unknown_key") == b.counters.value("calls.refused.1708") == 1
    assert [invoke.message_id for invoke in c.invoked] == [call]
    c.finish()
    world.run()
    assert (a.end_of(call).code, a.end_of(call).attempts) == (0, 2)
    assert nothing_left(a, b, c)


def test_a_request_that_nobody_understands_ends_with_1708_and_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, a, b, c = trio()
    monkeypatch.setitem(codec._LAYOUTS, _Newer, codec._Layout(_Newer))
    monkeypatch.setattr(a.caller._attempts, "_request", lambda call, *_: _Newer(message_id=call.id, news=1))
    call = a.call()
    world.run()
    ended = a.end_of(call)
    assert (ended.code, ended.attempts) == (ErrorCode.WIRE_VERSION, 2)
    assert ended.detail.endswith("does not understand the request: unknown_key: 90")
    assert nothing_left(a, b, c)


def test_a_reply_that_its_caller_does_not_understand_ends_the_call_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, a, b, c = trio()
    monkeypatch.setitem(codec._LAYOUTS, _NewerReply, codec._Layout(_NewerReply))
    call = a.call()
    world.run()
    link = b.links.link_to(a.node)
    assert link is not None
    assert b.links.send(link, _NewerReply(message_id=call, news=1))
    b.perform()
    world.run()
    ended = a.end_of(call)
    assert ended.code == ErrorCode.OUTCOME_UNKNOWN
    assert "not understood by this version: unknown_key: 90" in ended.detail
    assert c.invoked == []


def test_what_cannot_be_read_and_names_no_call_has_no_answer() -> None:
    for item in (7, [50, 7], [50, {2: b""}], [50, {1: b"short"}], [1, {1: bytes(16)}], [50, {1: "t" * 16}]):
        assert codec.rejected_call(item, WireError("bad_field")) is None
    named = codec.rejected_call([50, {1: bytes(16)}], WireError("bad_field", "agent"))
    assert named == codec.RejectedCall(True, bytes(16), "bad_field: agent")


# Links that come and go


def test_a_clean_change_of_links_is_not_noticed() -> None:
    world, a, b, c = trio()
    calls = [a.call(bytes([n])) for n in range(5)]
    a.perform()
    b.dial(a)  # both dial at once; b's link is given up later
    world.run()
    assert b.downs[0].clean
    assert len(b.running) == 5
    while b.running:
        b.finish()
    world.run()
    assert [a.end_of(call).code for call in calls] == [0] * 5
    assert nothing_left(a, b, c)


def test_requests_on_the_link_that_is_given_up_are_answered_over_the_other() -> None:
    world = World()
    a, b = world.node("a"), world.node("b")
    a.offer()
    call = b.call()  # b, the higher node, dials; a dials too, and a's link stays
    world.run()
    assert len(a.running) == 1
    kept = a.dial(b)
    world.run()
    assert [down.clean for down in b.downs] == [True]
    assert a.links.link_to(b.node) == kept
    a.finish()
    world.run()
    assert b.end_of(call).code == 0
    assert nothing_left(a, b)


@pytest.mark.parametrize("how", ["cut", "cancelled"])
def test_after_a_change_of_links_calls_belong_to_the_new_one(how: str) -> None:
    world = World()
    a, b = world.node("a"), world.node("b")
    a.offer()
    call = b.call()
    world.run()
    a.dial(b)
    world.run()
    assert len(b.downs) == 1
    if how == "cut":
        world.lose(a, b)
        assert b.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    else:
        b.cancel(call)
        world.run()
    assert a.running == {}
    assert nothing_left(a, b)


def test_a_link_with_calls_under_way_is_not_idle() -> None:
    world, a, b, _ = trio()
    call = a.call(timeout=2_000.0)
    world.sleep(1_000.0)
    assert a.downs == []
    b.finish()
    world.run()
    assert a.end_of(call).code == 0
    world.sleep(330.0)
    assert len(a.downs) == 1


def test_a_full_link_fails_over_and_then_fails_clearly() -> None:
    world, a, b, c = trio(link_queue_max=100_000)
    for node in (b, c):
        a.dial(node)
    world.run()
    for node in (b, c):
        link = a.links.link_to(node.node)
        assert link is not None
        a.links.on_writable(link, 0, world.now)
    world.gated.add("a")
    first, second, third = a.call(b"x" * 60_000), a.call(b"x" * 60_000), a.call(b"x" * 60_000)
    assert a.end_of(third).code == ErrorCode.REFUSED_FULL
    assert "waits for its link" in a.end_of(third).detail
    for node in (b, c):
        world.writable(a, a.links.link_to(node.node) or LinkId(0))
    world.run()
    b.finish()
    c.finish()
    world.run()
    assert a.end_of(first).node == b.node
    assert a.end_of(second).node == c.node


def test_counters_say_what_became_of_calls() -> None:
    world, a, b, c = trio(repeatable=True)
    a.call()
    world.run()
    world.lose(a, b)
    c.finish()
    world.run()
    found: Counters = a.counters
    assert {name: n for name, n in found.snapshot().items() if name.startswith("calls.")} == {
        "calls.retried": 1,
        "calls.started": 1,
        "calls.succeeded": 1,
    }


def test_nothing_is_sent_to_the_instance_that_was_passed_over() -> None:
    world, a, b, c = trio()
    world.silent.add(b.address)
    a.call(timeout=2.0)
    world.sleep(1.5)
    world.silent.clear()
    world.run()
    assert b.invoked == []
    assert len(c.invoked) == 1
    assert isinstance(a.performed[-1], SendFrame)


def test_a_spec_is_plain_data() -> None:
    assert CallSpec(query=RouteQuery(), payload=b"").hops_left is None


def test_the_router_hears_how_every_attempt_has_ended() -> None:
    world, a, b, c = trio(repeatable=True)
    first = a.call()
    world.run()
    b.finish()
    world.run()
    assert world.router.ended == [(b.node, 0)]
    second = a.call()
    world.run()
    world.lose(a, b)
    c.finish(result=InvokeResult(code=1403, detail="raised"))
    world.run()
    assert world.router.ended[1:] == [(b.node, 1411), (c.node, 1403)]
    third = a.call()
    a.cancel(third)
    assert world.router.ended[3:] == [(b.node, 1402)]
    assert [a.end_of(call).code for call in (first, second, third)] == [0, 1403, 1402]
    assert world.router.started == []


def test_an_attempt_that_took_its_share_of_the_time_has_ended_late() -> None:
    world, a, b, c = trio(repeatable=True)
    a.call(timeout=10.0)
    world.run()
    world.sleep(7.5)
    assert world.router.ended == [(b.node, 1401)]
    assert [pick.instance.node for pick in world.router.started] == [c.node]


def test_without_budget_no_second_instance_is_asked() -> None:
    """B8.4: retries never become the load."""
    world = World()
    a, b, c = (world.node(name, protocol=Protocol(retries_free=0, retry_percent=50)) for name in "abc")
    for node in (b, c):
        node.offer(repeatable=True)
        a.dial(node)
    world.run()
    codes = []
    for _ in range(4):
        call = a.call()
        world.run()
        b.finish(result=InvokeResult(code=ErrorCode.REFUSED_FULL, executed=False))
        world.run()
        if c.running:
            c.finish()
            world.run()
        codes.append(a.end_of(call).code)
    assert codes == [1406, 0, 1406, 0]
    assert a.counters.value("calls.retry_budget_empty") == 2
