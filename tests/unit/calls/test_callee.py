"""The serving side: each accepted request ends once, whatever becomes of handler, caller and node (B29, B31)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reachp2p.core.calls.waiting_replies import WAITING_BYTES_MAX
from reachp2p.core.commands import InvokeResult, RouteQuery
from reachp2p.core.ids import LinkId
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import Cancel, Reply, Request
from reachp2p.errors import ErrorCode
from tests.unit.calls.world import AGENT, CAPABILITY, Node, World
from tests.unit.links.pair import life


def pair(*, concurrency: int = 64, own: int = 1, **protocol: float) -> tuple[World, Node, Node]:
    """A caller and a node that offers the capability."""
    world = World()
    settings = replace(Protocol(), **protocol)
    a, b = world.node("a", protocol=settings), world.node("b", protocol=settings, own=life(own))
    b.offer(concurrency=concurrency)
    a.dial(b)
    world.run()
    return world, a, b


def ask(a: Node, b: Node, number: int = 1, **changes: object) -> None:
    """A request made by hand, so that any field of it can be wrong."""
    fields: dict[str, object] = {
        "message_id": number.to_bytes(16, "big"),
        "life": b.life,
        "agent": AGENT,
        "capability": CAPABILITY,
        "remaining_ms": 10_000,
        "payload": b"question",
    }
    assert a.send(b, Request(**{**fields, **changes}))  # type: ignore[arg-type]
    a.world.run()


def replies(a: Node) -> list[Reply]:
    return [message for message in a.received if isinstance(message, Reply)]


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"life": life(1, "other")}, ErrorCode.NODE_LOST, "has ended"),
        ({"agent": "no/body"}, ErrorCode.UNKNOWN_TARGET, "not offered"),
        ({"capability": "no.thing"}, ErrorCode.UNKNOWN_TARGET, "not offered"),
        ({"hops_left": 0}, ErrorCode.HOPS_USED_UP, "too long"),
        ({"path": ["x/y", AGENT]}, ErrorCode.LOOP, "on the path"),
        ({"payload": b"x" * 1_001}, ErrorCode.PAYLOAD_TOO_LARGE, "1000 bytes"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once_and_surely_not_executed(
    changes: dict[str, object], code: ErrorCode, said: str
) -> None:
    _, a, b = pair(payload_max=1_000)
    ask(a, b, **changes)
    (reply,) = replies(a)
    assert (reply.code, reply.executed) == (code, False)
    assert said in reply.detail
    assert b.invoked == []
    assert b.counters.value(f"calls.refused.{int(code)}") == 1
    assert b.leftovers == {}


@pytest.mark.parametrize("changes", [{"hops_left": 65}, {"hops_left": -1}, {"path": ["x/y"] * 17}])
def test_hops_and_path_out_of_their_bounds_are_answered_at_once_and_not_executed(
    changes: dict[str, object],
) -> None:
    """B25: whoever tampers with them, nobody waits and nothing runs."""
    _, a, b = pair()
    ask(a, b, **changes)
    (reply,) = replies(a)
    assert (reply.code, reply.executed) == (ErrorCode.WIRE_VERSION, False)
    assert b.invoked == []
    assert b.leftovers == {}


# How a handler ends


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (InvokeResult(payload=b"p", content_type="text/plain"), (0, b"p", True)),
        (InvokeResult(code=1403, detail="ValueError: no"), (1403, b"", True)),
        (InvokeResult(code=1405, detail="/text: missing", executed=False), (1405, b"", False)),
        (InvokeResult(code=1403, payload=b"leftover of a failure"), (1403, b"", True)),
        (InvokeResult(code=1403, detail="no such order", caller_fault=True), (1403, b"", True)),
        (InvokeResult(payload=b"x" * 1_001), (1404, b"", True)),
        (InvokeResult(payload=b"p", content_type="c" * 257), (1403, b"", True)),
        (InvokeResult(payload=b"p", content_type="text\x00"), (1403, b"", True)),
        (InvokeResult(code=1403, detail="\ud800 and " + "long " * 2_000), (1403, b"", True)),
    ],
)
def test_each_ending_of_a_handler_is_one_reply(
    result: InvokeResult, expected: tuple[int, bytes, bool]
) -> None:
    world, a, b = pair(payload_max=1_000)
    ask(a, b)
    b.finish(result=result)
    world.run()
    (reply,) = replies(a)
    assert (reply.code, reply.payload, reply.executed) == expected
    assert reply.caller_fault is result.caller_fault
    assert b.leftovers == {}


def test_a_handler_that_never_ends_ends_at_its_deadline() -> None:
    world, a, b = pair()
    ask(a, b, remaining_ms=2_000)
    world.sleep(2.1)
    (reply,) = replies(a)
    assert (reply.code, reply.executed) == (ErrorCode.DEADLINE_EXCEEDED, True)
    assert [cancel.reason for cancel in b.cancelled] == ["its deadline has passed"]
    assert b.leftovers == {}


def test_a_result_after_the_end_is_discarded_and_counted() -> None:
    world, a, b = pair()
    ask(a, b, remaining_ms=2_000)
    (number,) = b.running
    world.sleep(2.1)
    b.finish(number)
    b.finish(number)
    world.run()
    assert len(replies(a)) == 1
    assert b.counters.value("calls.result_discarded") == 2


def test_a_cancelled_request_gets_no_reply() -> None:
    world, a, b = pair()
    ask(a, b)
    a.send(b, Cancel(message_id=(1).to_bytes(16, "big")))
    world.run()
    assert [cancel.reason for cancel in b.cancelled] == ["cancelled by the caller"]
    assert replies(a) == []
    assert b.leftovers == {}


def test_nobody_else_can_cancel_a_request() -> None:
    world, a, b = pair()
    c = world.node("c")
    c.dial(b)
    world.run()
    ask(a, b)
    c.send(b, Cancel(message_id=(1).to_bytes(16, "big")))
    world.run()
    b.callee.on_cancel(a.node, life(2), Cancel(message_id=(1).to_bytes(16, "big")), world.now)
    assert len(b.running) == 1
    assert b.counters.value("calls.cancel_unmatched") == 2


def test_a_request_that_comes_twice_runs_once() -> None:
    world, a, b = pair()
    ask(a, b)
    ask(a, b)
    assert len(b.invoked) == 1
    assert b.counters.value("calls.request_repeated") == 1
    b.finish()
    world.run()
    assert len(replies(a)) == 1


# The bulkhead


def test_so_many_run_so_many_wait_and_the_next_is_told_at_once() -> None:
    world, a, b = pair(concurrency=2)
    for number in range(1, 6):
        ask(a, b, number)
    assert len(b.running) == 2
    (refused,) = replies(a)
    assert (refused.code, refused.executed) == (ErrorCode.REFUSED_FULL, False)
    assert refused.message_id == (5).to_bytes(16, "big")
    for number in range(1, 5):
        assert b.invoked[-1].message_id == (min(number + 1, 4)).to_bytes(16, "big")
        b.finish()
    world.run()
    assert [reply.code for reply in replies(a)] == [1406, 0, 0, 0, 0]
    assert b.leftovers == {}


@pytest.mark.parametrize(("queue", "waiting"), [(0, 0), (1, 1), (3, 3), (None, 2)])
def test_so_many_wait_as_the_capability_says(queue: int | None, waiting: int) -> None:
    world = World()
    a, b = world.node("a"), world.node("b")
    b.offer(concurrency=2, queue=queue)
    a.dial(b)
    world.run()
    for number in range(1, 8):
        ask(a, b, number)
    (view,) = b.callee.bulkheads()
    assert (view.running, view.waiting, view.concurrency, view.queue) == (2, waiting, 2, waiting)
    assert [reply.code for reply in replies(a)] == [ErrorCode.REFUSED_FULL] * (5 - waiting)
    while b.running:
        b.finish()
    (view,) = b.callee.bulkheads()
    assert (view.agent, view.capability, view.running, view.waiting) == (AGENT, CAPABILITY, 0, 0)
    assert b.leftovers == {}


def test_one_full_capability_stands_in_the_way_of_no_other() -> None:
    _, a, b = pair(concurrency=1)
    b.offer(agent="test/other", capability="test.other", concurrency=1)
    for number in range(1, 4):
        ask(a, b, number)
    ask(a, b, 9, agent="test/other", capability="test.other")
    assert b.invoked[-1].agent == "test/other"


def test_the_whole_node_has_a_bound_and_shares_it_fairly() -> None:
    world, a, b = pair(invocations_max=2)
    b.offer(agent="test/other", capability="test.other")
    for number in range(1, 7):
        ask(a, b, number)
    for number in range(7, 10):
        ask(a, b, number, agent="test/other", capability="test.other")
    order = []
    while b.running:
        assert len(b.running) <= 2
        order.append(next(iter(b.running.values())).agent)
        b.finish()
    world.run()
    assert order == [AGENT, AGENT, AGENT, "test/other", AGENT, "test/other", AGENT, "test/other", AGENT]
    assert len(replies(a)) == 9
    assert b.leftovers == {}


def test_one_that_waits_can_be_cancelled_or_expire_and_was_not_executed() -> None:
    world, a, b = pair(concurrency=2)
    for number in (1, 2):
        ask(a, b, number, remaining_ms=60_000)
    ask(a, b, 3, remaining_ms=1_000)
    ask(a, b, 4, remaining_ms=60_000)
    a.send(b, Cancel(message_id=(4).to_bytes(16, "big")))
    world.sleep(1.1)
    (reply,) = replies(a)
    assert (reply.message_id[-1], reply.code, reply.executed) == (3, ErrorCode.DEADLINE_EXCEEDED, False)
    assert b.cancelled == []
    b.finish()
    b.finish()
    assert b.leftovers == {}
    assert len(b.invoked) == 2


def test_a_place_that_a_lost_caller_had_goes_to_the_next() -> None:
    world, a, b = pair(concurrency=1)
    c = world.node("c")
    c.dial(b)
    world.run()
    ask(a, b, 1)
    ask(c, b, 2)
    assert len(b.invoked) == 1
    world.lose(a, b)
    assert [invoke.caller for invoke in b.invoked] == [a.node, c.node]


# Callers that are gone


def test_a_lost_caller_ends_its_handlers_and_leaves_nothing_behind() -> None:
    world, a, b = pair(concurrency=2)
    for number in range(1, 5):
        ask(a, b, number)
    running = list(b.running)
    world.lose(a, b)
    assert b.leftovers == {}
    assert b.counters.value("calls.caller_lost") == 4
    assert {cancel.reason for cancel in b.cancelled} == {"the caller's link is lost"}
    for number in running:  # a thread cannot be cancelled and still returns
        b.finish(number)
    assert b.counters.value("calls.result_discarded") == 2
    assert replies(a) == []


def test_a_new_life_of_the_caller_gets_no_reply_to_the_questions_of_the_former_one() -> None:
    world, a, b = pair()
    ask(a, b)
    reborn = world.node("a", own=life(2))
    reborn.dial(b)
    world.run()
    assert b.running == {}
    assert b.leftovers == {}
    assert replies(reborn) == []


def stuck(world: World, a: Node, b: Node, count: int) -> None:
    """The link takes nothing for now, and `count` replies of 40 kB are ready."""
    link = b.links.link_to(a.node)
    assert link is not None
    world.gated.add("b")
    b.links.on_writable(link, 0, world.now)
    for number in range(1, count + 1):
        ask(a, b, number)
    for _ in range(count):
        b.finish(result=InvokeResult(payload=b"x" * 40_000))


def flows(world: World, a: Node, b: Node) -> None:
    link = b.links.link_to(a.node)
    assert link is not None
    world.gated.discard("b")
    world.writable(b, link)


def test_replies_that_fill_a_link_wait_for_room_and_delay_nobody() -> None:
    world, a, b = pair(link_queue_max=100_000)
    stuck(world, a, b, count=6)
    assert b.callee.gauges()["calls.replies_waiting"] == 4
    assert b.callee.unfinished == 4
    ask(a, b, 9)
    b.finish(result=InvokeResult(payload=b"small"))  # goes past them
    flows(world, a, b)
    world.sleep(1.0)
    assert sorted(len(reply.payload) for reply in replies(a)) == [5, *[40_000] * 6]
    assert b.counters.value("calls.reply_waited") == 4
    assert b.links.link_to(a.node) is not None
    assert b.leftovers == {}


def test_a_caller_that_does_not_read_its_replies_loses_its_link_and_what_waits_for_it() -> None:
    world, a, b = pair(link_queue_max=100_000, call_timeout=600.0)
    stuck(world, a, b, count=4)
    world.sleep(Protocol().link_keepalive * 3)
    assert [down.end.value for down in b.downs] == ["lost"]
    assert b.counters.value("calls.reply_dropped") + b.counters.value("calls.reply_late") == 2
    assert b.leftovers == {}


def test_a_reply_that_waits_beyond_its_deadline_is_forgotten() -> None:
    world, a, b = pair(link_queue_max=100_000)
    stuck(world, a, b, count=4)
    world.sleep(11.0)
    assert b.counters.value("calls.reply_late") == 2
    assert b.leftovers == {}


def test_replies_beyond_what_may_wait_are_replaced_by_the_news_that_they_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reachp2p.core.calls.waiting_replies.WAITING_BYTES_MAX", 50_000)
    world, a, b = pair(link_queue_max=100_000)
    stuck(world, a, b, count=4)
    flows(world, a, b)
    world.sleep(1.0)
    ends = sorted((reply.code, len(reply.payload), reply.executed) for reply in replies(a))
    assert ends == [*[(0, 40_000, True)] * 3, (ErrorCode.NODE_LOST, 0, True)]
    assert b.counters.value("calls.reply_unsent") == 1
    assert b.links.link_to(a.node) is not None


def test_refusals_that_nobody_reads_are_bounded_like_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachp2p.core.calls.waiting_replies.WAITING_BYTES_MAX", 20_000)
    world, a, b = pair(link_queue_max=100_000)
    stuck(world, a, b, count=2)
    most = 0
    for number in range(10, 400):
        if b.links.link_to(a.node) is None:
            break
        ask(a, b, number, capability="no.thing")
        most = max(most, b.callee.gauges()["calls.replies_waiting"])
    assert 5 <= most <= 20
    b.fire()
    assert b.counters.value("links.closed.given_up") == 1
    world.sleep(1.0)
    assert b.leftovers == {}


def test_a_paused_node_returns_no_result_that_waited() -> None:
    world, a, b = pair(link_queue_max=100_000)
    stuck(world, a, b, count=3)
    b.callee.pause(world.now)
    b.perform()
    flows(world, a, b)
    world.sleep(1.0)
    assert sorted((reply.code, len(reply.payload)) for reply in replies(a)) == [
        *[(0, 40_000)] * 2,  # they were on the link before
        (ErrorCode.NODE_LOST, 0),
    ]
    assert b.leftovers == {}


# Stopping


def test_a_draining_node_finishes_what_runs_hands_back_what_waits_and_accepts_nothing() -> None:
    world, a, b = pair(concurrency=1)
    ask(a, b, 1)
    ask(a, b, 2)
    b.callee.drain(world.now)
    b.perform()
    ask(a, b, 3)
    assert [(r.message_id[-1], r.code, r.executed) for r in replies(a)] == [
        (2, 1411, False),
        (3, 1411, False),
    ]
    assert b.callee.unfinished == 1
    b.finish()
    world.run()
    assert [(r.message_id[-1], r.code) for r in replies(a)][2:] == [(1, 0)]
    assert b.callee.unfinished == 0


def test_a_paused_node_starts_nothing_cancels_what_runs_and_returns_no_result() -> None:
    world, a, b = pair(concurrency=1)
    ask(a, b, 1)
    ask(a, b, 2)
    (number,) = b.running
    b.callee.pause(world.now)
    b.perform()
    b.finish(number)  # what a thread still returns
    ask(a, b, 3)
    assert len(b.invoked) == 1
    assert [(r.message_id[-1], r.code, r.payload, r.executed) for r in replies(a)] == [
        (1, 1411, b"", True),
        (2, 1411, b"", False),
        (3, 1411, b"", False),
    ]
    assert b.leftovers == {}
    b.life = life(2)
    b.callee.resume()
    ask(a, b, 4, life=life(2))
    assert len(b.running) == 1


def test_a_stopped_node_never_serves_again() -> None:
    world, a, b = pair()
    b.callee.stop(world.now)
    b.callee.resume()
    ask(a, b)
    assert b.invoked == []


def test_a_pause_ends_local_calls_too() -> None:
    world = World()
    a = world.node("a")
    a.offer()
    call = a.call()
    a.callee.pause(world.now)
    a.perform()
    assert a.end_of(call).code == ErrorCode.OUTCOME_UNKNOWN
    assert a.leftovers == {}


def test_a_node_that_has_no_life_yet_serves_nothing() -> None:
    _, a, b = pair()
    b.has_started = False
    ask(a, b)
    assert [r.code for r in replies(a)] == [ErrorCode.NODE_LOST]


def test_links_that_were_never_open_mean_nothing_to_the_serving_side() -> None:
    world, a, b = pair()
    ask(a, b)
    c = world.node("c")
    world.kill(c)
    b.links.ensure(c.node, [c.address], world.now)
    b.perform()
    world.run()
    assert len(b.downs) == 1
    assert len(b.running) == 1
    assert b.links.send(LinkId(12_345), Reply(message_id=bytes(16))) is False


def test_who_is_not_among_the_callers_of_an_agent_is_refused_whatever_its_own_router_thinks() -> None:
    _, a, b = pair()
    b.agents[AGENT] = replace(b.agents[AGENT], access="restricted", callers=("shop",))
    ask(a, b, 1)
    b.offered[a.node, life(2)] = ["shop/cart"]
    ask(a, b, 2)
    b.offered[a.node, a.life] = ["nlp/cart"]
    ask(a, b, 3)
    assert [(reply.code, reply.executed) for reply in replies(a)] == [(ErrorCode.ACCESS_DENIED, False)] * 3
    assert "restricted" in replies(a)[0].detail
    b.offered[a.node, a.life].append("shop/cart")
    ask(a, b, 4)
    assert len(b.running) == 1
    assert b.counters.value("calls.refused.1304") == 3


def test_a_node_that_calls_its_own_agent_needs_no_leave() -> None:
    _, _, b = pair()
    b.agents[AGENT] = replace(b.agents[AGENT], access="private")
    b.call()
    assert len(b.running) == 1


def test_handlers_that_hang_make_a_node_slow_in_its_reports_while_they_run_and_after() -> None:
    world = World()
    world.tells_load = True
    a, b = world.node("a"), world.node("b")
    b.offer()
    for _ in range(10):
        a.call(timeout=5.0)
    world.run()
    world.sleep(3.0)
    running = b.load.report(world.now)
    assert running is not None
    assert running.p95 == pytest.approx(3.0)
    world.sleep(4.0)
    ended = b.load.report(world.now)
    assert ended is not None
    assert (ended.in_flight, ended.p95) == (0, pytest.approx(5.0))


def test_handlers_that_their_callers_cancel_took_so_long_at_least() -> None:
    world = World()
    world.tells_load = True
    a, b = world.node("a"), world.node("b")
    b.offer()
    calls = [a.call(timeout=5.0) for _ in range(10)]
    world.sleep(2.0)
    for call in calls:
        a.cancel(call)
    world.run()
    report = b.load.report(world.now + 1.0)
    assert report is not None
    assert (report.in_flight, report.p95) == (0, pytest.approx(2.0))


@pytest.mark.parametrize(("after", "stopped"), [(4.4, 0), (4.6, 1), (6.0, 1)])
def test_a_handler_whose_caller_has_no_time_left_counts_as_too_slow_whoever_ends_it(
    after: float, stopped: int
) -> None:
    world, a, b = pair()
    call = a.call(timeout=5.0)
    world.run()
    world.sleep(after)
    a.cancel(call)
    world.run()
    troubles = b.load.troubles(world.now)
    assert (0 if troubles is None else troubles.agents[0].stopped) == stopped


def test_handlers_that_fail_are_counted_by_agent_unless_their_callers_are_to_blame() -> None:
    world, a, b = pair()
    for caller_fault in (False, True):
        a.call()
        world.run()
        b.finish(result=InvokeResult(code=ErrorCode.HANDLER_FAILED, caller_fault=caller_fault))
    troubles = b.load.troubles(world.now)
    assert troubles is not None
    assert [(one.failed, one.stopped) for one in troubles.agents] == [(1, 0)]


def test_a_node_with_several_agents_tells_which_of_them_are_busy() -> None:
    world = World()
    world.tells_load = True
    a, b = world.node("a"), world.node("b")
    b.offer(concurrency=2)
    for _ in range(3):
        a.call()
    world.run()
    only = b.load.report(world.now)
    assert only is not None
    assert (only.in_flight, only.queued, only.agents) == (2, 1, ())
    b.offer(agent="test/other", capability="test.other")
    b.offer(agent="test/idle", capability="test.idle")
    a.call(query=RouteQuery(capability="test.other"))
    world.run()
    report = b.load.report(world.now)
    assert report is not None
    assert (report.in_flight, report.queued) == (3, 1)
    loads = [report.of(name) for name in (AGENT, "test/other", "test/idle")]
    assert [(load.in_flight, load.queued) for load in loads] == [(2, 1), (1, 0), (0, 0)]
    assert len(report.agents) == 2
    for number in list(b.running):
        b.finish(number)
    world.run()
    for number in list(b.running):
        b.finish(number)
    idle = b.load.report(world.now)
    assert idle is not None
    assert (idle.in_flight, idle.queued, idle.agents) == (0, 0, ())


def test_handlers_that_run_when_their_agent_is_offered_anew_count_for_its_concurrency() -> None:
    world, a, b = pair(concurrency=1)
    a.call()
    world.run()
    spec = b.agents.pop(AGENT)
    a.call()
    world.run()
    assert b.counters.value("calls.refused.1301") == 1
    b.agents[AGENT] = spec
    later = a.call()
    world.run()
    assert (len(b.running), b.callee.gauges()["calls.serving"]) == (1, 2)
    b.finish()
    world.run()
    assert [invoke.message_id for invoke in b.running.values()] == [later]


def test_a_caller_that_reads_slowly_costs_no_other_caller_its_results() -> None:
    world = World()
    b, slow, quick = world.node("b"), world.node("slow"), world.node("quick")
    b.offer(concurrency=512)
    for _ in range(76):
        slow.call(timeout=3_600)
    ours = [quick.call(timeout=60) for _ in range(12)]
    world.run()
    assert len(b.running) == 88
    world.gated.add("b")  # the kernel takes nothing for now, on either link
    result = InvokeResult(payload=bytes(1_048_000))
    for node in (slow.node, quick.node):
        for invoke in [invoke for invoke in b.running.values() if invoke.caller == node]:
            b.finish(invoke.invocation, result)
    assert b.callee.gauges()["calls.replies_waiting_bytes"] <= WAITING_BYTES_MAX
    world.run()
    world.gated.clear()
    for wire in list(world.wires):
        for end in wire.ends:
            if end.side is b and any(other.side is quick for other in wire.ends):
                world.writable(b, end.link)
    world.sleep(5)
    assert [quick.end_of(call).code for call in ours] == [0] * 12
    world.sleep(60)
    assert b.callee.gauges()["calls.replies_waiting_bytes"] == b.callee.gauges()["calls.replies_waiting"] == 0
