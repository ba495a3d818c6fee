"""What a node records of calls: both sides of every attempt, how it went, and no more than it has room for."""

from __future__ import annotations

from typing import Any

from reachp2p.core.calls.hops import Hop, HopFilter, Side
from reachp2p.core.calls.trace import asked_span, served_span, write_traceparent
from reachp2p.core.commands import CallSpec, InvokeResult, RouteQuery
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode
from tests.unit.calls.world import AGENT, CAPABILITY, Node, World


def pair(**protocol: Any) -> tuple[World, Node, Node]:
    world = World()
    a, b = (world.node(name, protocol=Protocol(**protocol)) for name in "ab")
    b.offer()
    for node in (a, b):
        node.hops.begin(world.now)
    return world, a, b


def hops(node: Node, **wanted: Any) -> list[Hop]:
    return node.hops.find(HopFilter(**wanted), node.net.now).hops


def test_a_call_is_one_hop_on_each_side() -> None:
    world, a, b = pair()
    call = a.call(b"question")
    world.run()
    world.sleep(0.25)
    b.finish()
    world.run()
    (asked,), (served,) = hops(a), hops(b)
    assert (asked.side, served.side) == (Side.ASKED, Side.SERVED)
    assert (asked.node, asked.other, served.node, served.other) == (a.node, b.node, b.node, a.node)
    assert {hop.session for hop in (asked, served)} == {hop.trace for hop in (asked, served)} == {call}
    assert (asked.parent, asked.span, served.parent) == (None, asked_span(call, 1), asked.span)
    assert served.span == served_span(call, 1)
    assert (asked.agent, asked.capability, asked.attempt, asked.depth) == (AGENT, CAPABILITY, 1, 0)
    assert (asked.bytes_out, asked.bytes_in, served.bytes_in, served.bytes_out) == (8, 6, 8, 6)
    assert (asked.code, asked.retries, asked.handed, asked.answered) == (0, 0, True, True)
    assert round(served.duration, 2) == 0.25
    assert asked.duration >= served.duration
    assert World.WALL <= asked.started <= served.started <= served.ended <= asked.ended


def test_a_call_of_a_handler_goes_on_in_its_trace() -> None:
    world, a, b = pair()
    session = b"session of mine!"
    a.call(session_id=session)
    world.run()
    (invoke,) = b.invoked
    assert invoke.traceparent == write_traceparent(a.started[0], served_span(a.started[0], 1))
    assert invoke.session_id == session
    world.sleep(0.1)
    nested = b.call(
        session_id=invoke.session_id, traceparent=invoke.traceparent, path=invoke.path, hops_left=5
    )
    world.run()
    b.finish()
    world.run()
    outer, inner, refused = hops(b, session=session)
    assert (outer.side, inner.side, refused.side) == (Side.SERVED, Side.ASKED, Side.SERVED)
    assert (inner.trace, inner.session, inner.parent) == (a.started[0], session, outer.span)
    assert (inner.depth, inner.code, inner.message_id) == (1, ErrorCode.LOOP, nested)
    assert (refused.parent, refused.session, refused.code) == (inner.span, session, ErrorCode.LOOP)


def test_the_trace_is_the_session_of_who_names_none() -> None:
    world, a, b = pair()
    call = a.call()
    world.run()
    assert b.invoked[0].session_id == call


def test_each_attempt_is_a_hop_and_says_how_it_ended() -> None:
    world, a, b = pair()
    c = world.node("c")
    c.offer()
    b.has_started = False  # its life is over, says it
    call = a.call()
    world.run()
    c.finish(result=InvokeResult(code=ErrorCode.HANDLER_FAILED, detail="no luck"))
    world.run()
    first, second = hops(a)
    assert (first.attempt, first.other, first.code, first.answered) == (1, b.node, ErrorCode.NODE_LOST, True)
    assert (second.attempt, second.other, second.retries) == (2, c.node, 1)
    assert (second.code, second.detail) == (ErrorCode.HANDLER_FAILED, "no luck")
    (refused,), (served,) = hops(b), hops(c)
    assert (refused.attempt, refused.code, refused.parent) == (1, ErrorCode.NODE_LOST, first.span)
    assert (served.attempt, served.code, served.parent) == (2, ErrorCode.HANDLER_FAILED, second.span)
    assert first.span != second.span
    assert {hop.trace for hop in (first, second, refused, served)} == {call}


def test_time_in_the_queue_is_told() -> None:
    world, a, b = pair()
    b.offer(concurrency=1)
    for _ in range(2):
        a.call()
    world.run()
    world.sleep(1.0)
    b.finish()
    world.run()
    b.finish()
    world.run()
    first, second = hops(b)
    assert (round(first.queued, 3), round(second.queued, 3)) == (0.0, 1.0)


def test_an_attempt_that_no_link_took_was_not_handed_over() -> None:
    world, a, b = pair()
    world.kill(b)
    call = a.call()
    world.run()
    (hop,) = hops(a)
    assert a.end_of(call).code == hop.code == ErrorCode.NODE_LOST
    assert not hop.handed
    assert not hop.answered


def test_a_caller_that_cancels_and_one_that_is_lost_are_told_apart() -> None:
    world, a, b = pair()
    a.call()
    world.run()
    a.cancel(a.started[0])
    world.run()
    a.call()
    world.run()
    world.lose(a, b)
    assert [hop.code for hop in hops(b)] == [ErrorCode.CANCELLED, ErrorCode.NODE_LOST]
    assert not any(hop.answered for hop in hops(b))


def test_a_traceparent_that_cannot_be_read_begins_a_trace() -> None:
    world, a, b = pair()
    call = a.call(traceparent="nonsense")
    world.run()
    b.finish()
    world.run()
    (asked,), (served,) = hops(a), hops(b)
    assert asked.trace == served.trace == call
    assert asked.parent is None
    assert a.counters.value("calls.traceparent_malformed") == 1


def test_payloads_are_recorded_on_request_redacted_and_cut() -> None:
    world, a, b = pair()
    a.hops.payload_max, b.hops.payload_max = 4, 100
    b.hops.redact = lambda agent, capability, payload: payload.replace(b"question", b"secret")
    a.call(b"question")
    world.run()
    b.finish()
    world.run()
    (asked,), (served,) = hops(a), hops(b)
    assert (asked.payload_out, asked.payload_in) == (b"ques", b"answ")
    assert (served.payload_in, served.payload_out) == (b"secret", b"answer")


def test_a_redaction_that_fails_costs_the_payload_and_not_the_call() -> None:
    world, a, b = pair()
    b.hops.payload_max = 100

    def redact(agent: str, capability: str, payload: bytes) -> bytes:
        raise ValueError(agent)

    b.hops.redact = redact
    call = a.call()
    world.run()
    b.finish()
    world.run()
    assert a.end_of(call).code == 0
    assert hops(b)[0].payload_in == b""
    assert b.counters.value("hops.redact_failed") == 2


def test_a_flood_of_successes_pushes_out_no_failure() -> None:
    world, a, b = pair(hops_kept_max=5, hops_failed_max=3)
    for number in range(20):
        a.call()
        world.run()
        code = ErrorCode.HANDLER_FAILED if number in (1, 2) else 0
        b.finish(result=InvokeResult(code=code, payload=b"" if code else b"x"))
        world.run()
    assert len(hops(a)) == 7
    assert len(hops(a, failed=True)) == 2
    assert a.hops.counts()["hops.dropped"] == 13
    found = a.hops.find(HopFilter(), world.now)
    assert found.since == World.WALL + 1_000.0
    assert found.complete_since >= found.since


def test_what_is_too_old_is_forgotten() -> None:
    world, a, b = pair(hops_keep=10.0)
    a.call()
    world.run()
    b.finish()
    world.run()
    assert len(hops(b, age=5.0)) == 1
    world.sleep(6.0)
    assert hops(b, age=5.0) == []
    assert len(hops(b)) == 1
    world.sleep(5.0)
    assert hops(b) == []
    assert b.hops.counts()["hops.expired"] == 1


def test_filters_and_limits() -> None:
    world, a, b = pair()
    b.offer(agent="test/other", capability="test.rest")
    for capability in ("test.rest", "test.rest", "test.rest"):
        a.call(query=RouteQuery(capability=capability))
        world.run()
        b.finish()
        world.run()
    assert len(hops(a, capability="test.rest")) == 3
    assert hops(a, capability=CAPABILITY) == []
    assert len(hops(a, agent="test/other")) == 3
    found = a.hops.find(HopFilter(limit=2), world.now)
    assert (found.left_out, [hop.message_id for hop in found.hops]) == (1, a.started[1:])


def test_a_call_that_begins_a_trace_while_another_is_served_is_a_stray() -> None:
    world, a, b = pair()
    session = a.call()
    world.run()
    world.sleep(0.1)
    stray = b.call()  # without the context of its handler
    world.sleep(0.1)
    while b.running:
        b.finish()
        world.run()
    later = b.call()
    world.run()
    b.finish()
    world.run()
    found = hops(b, session=session, strays=True)
    assert stray in [hop.session for hop in found]
    assert later not in [hop.session for hop in found]
    assert {hop.session for hop in hops(b, session=session)} == {session}


def test_calls_that_found_nobody_are_told_apart_by_their_first_digits() -> None:
    """`reachp2p trace` takes eight of them."""
    world, a, _ = pair()
    spec = CallSpec(query=RouteQuery(capability="no.such"), payload=b"")
    names = [a.hops.unplaced(spec, ErrorCode.UNKNOWN_TARGET, "nobody", world.now) for _ in range(300)]
    assert len({name.hex()[:8] for name in names}) == len(set(names)) == 300
    assert all(len(name) == 16 for name in names)
