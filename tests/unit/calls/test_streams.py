"""Streams between two nodes: order, credit, one end whoever brings it about, and nothing left behind (B36, B39)."""

from __future__ import annotations

import pytest

from reachp2p.core.commands import CallSpec, Flow, Lasting, RouteQuery, StreamKind
from reachp2p.core.links.outgoing import Outgoing
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import (
    Message,
    Reply,
    Request,
    StreamCredit,
    StreamEnd,
    StreamItem,
    StreamResume,
)
from reachp2p.errors import CallFailed, ErrorCode, InvalidIdentifier, LocalProtocolError
from tests.unit.calls.streaming import (
    BOTH,
    PARAMETERS,
    RESULTS,
    begin,
    end_items,
    ended,
    finish,
    give,
    nothing_left,
    pair,
    rest,
    take,
    take_all,
)
from tests.unit.calls.world import AGENT, CAPABILITY, Node, World
from tests.unit.links.pair import life

WINDOW = 8_192

# The plain way


def test_results_flow_and_end_with_their_call() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    assert b.invoked[0].stream is RESULTS
    assert take(a, call) is Flow.WAIT
    assert give(b, number, b"one") is Flow.DONE
    assert give(b, number, b"two") is Flow.DONE
    world.run()
    assert a.ready == [call]
    assert [take(a, call), take(a, call), take(a, call)] == [b"one", b"two", Flow.WAIT]
    assert give(b, number, b"three") is Flow.DONE
    finish(b, number)
    world.run()
    end = ended(a, call)
    assert (end.code, end.items, rest(end)) == (0, 3, [b"three"])
    assert take(a, call) is Flow.ENDED
    assert give(b, number, b"four") is Flow.ENDED
    assert nothing_left(a, b)


def test_a_stream_without_items_ends_at_once() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    assert take(a, call) is Flow.WAIT
    finish(b, number)
    world.run()
    assert (ended(a, call).code, ended(a, call).items) == (0, 0)
    assert a.ready == [call]
    assert nothing_left(a, b)


def test_parameters_flow_once_the_handler_runs_and_the_result_is_one() -> None:
    world, a, b = pair(PARAMETERS)
    call = a.call(b"", stream=True)
    assert give(a, call, b"early") is Flow.WAIT
    world.run()
    assert a.ready == [call]
    number = b.invoked[0].invocation
    assert [give(a, call, item) for item in (b"one", b"two")] == [Flow.DONE, Flow.DONE]
    end_items(a, call)
    world.run()
    assert [take(b, number), take(b, number), take(b, number)] == [b"one", b"two", Flow.ENDED]
    finish(b, number, payload=b"sum")
    world.run()
    end = ended(a, call)
    assert (end.code, end.payload, end.items, end.rest) == (0, b"sum", 0, ())
    assert nothing_left(a, b)


def test_no_parameters_at_all_are_an_end_too() -> None:
    world, a, b = pair(PARAMETERS)
    call = a.call(b"", stream=True)
    end_items(a, call)
    world.run()
    number = b.invoked[0].invocation
    assert take(b, number) is Flow.ENDED
    finish(b, number)
    world.run()
    assert ended(a, call).code == 0
    assert nothing_left(a, b)


def test_both_directions_at_once() -> None:
    world, a, b = pair(BOTH)
    call, number = begin(a, b)
    for item in (b"1", b"2", b"3"):
        assert give(a, call, item) is Flow.DONE
        world.run()
        assert give(b, number, b"echo " + bytes(take(b, number))) is Flow.DONE  # type: ignore[arg-type]
        world.run()
        assert take(a, call) == b"echo " + item
    end_items(a, call)
    world.run()
    assert take(b, number) is Flow.ENDED
    finish(b, number)
    world.run()
    assert (ended(a, call).code, ended(a, call).items) == (0, 3)
    assert nothing_left(a, b)


@pytest.mark.parametrize("kind", [RESULTS, PARAMETERS, BOTH])
def test_a_node_streams_to_itself(kind: StreamKind) -> None:
    world = World()
    a = world.node("a")
    a.offer(stream=kind)
    call = a.call(b"", stream=True)
    number = a.invoked[0].invocation
    if kind & PARAMETERS:
        assert give(a, call, b"in") is Flow.DONE
        end_items(a, call)
        assert [take(a, number), take(a, number)] == [b"in", Flow.ENDED]
    if kind & RESULTS:
        assert give(a, number, b"out") is Flow.DONE
        assert take(a, call) == b"out"
    finish(a, number, payload=b"done")
    assert (ended(a, call).code, ended(a, call).payload) == (0, b"done")
    assert nothing_left(a)


def test_large_items_are_overtaken_on_the_link_and_not_in_the_stream() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    items = [b"L" * 200_000, b"small", b"M" * 100_000, b"x", b"y"]
    for item in items:
        assert give(b, number, item) is Flow.DONE
    finish(b, number)
    world.run()
    assert rest(ended(a, call)) == items
    assert nothing_left(a, b)


def test_an_end_that_overtakes_its_items_waits_for_them() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    link = b.links.link_to(a.node)
    assert link is not None
    world.gated.add("b")
    b.links.on_writable(link, 270_000, world.now)
    assert give(b, number, b"L" * 300_000) is Flow.DONE
    finish(b, number)
    world.run()
    assert [type(message) for message in a.received] == [Reply]
    world.gated.discard("b")
    assert a.ended == []
    world.writable(b, link)
    world.run()
    assert rest(ended(a, call)) == [b"L" * 300_000]
    assert nothing_left(a, b)


def test_an_item_up_to_the_payload_limit_gets_through_a_window_that_is_smaller() -> None:
    world, a, b = pair(payload_max=40_000, stream_window=WINDOW)
    call, number = begin(a, b)
    for _ in range(3):
        assert give(b, number, b"x" * 40_000) is Flow.DONE
        assert give(b, number, b"y" * 40_000) is Flow.WAIT
        world.run()
        assert take(a, call) == b"x" * 40_000
        world.run()
    with pytest.raises(CallFailed) as failed:
        give(b, number, b"x" * 40_001)
    assert failed.value.code is ErrorCode.PAYLOAD_TOO_LARGE
    with pytest.raises(InvalidIdentifier):
        b.streams.send(number, b"", "no\ntype", world.now)
    finish(b, number)
    world.run()
    assert ended(a, call).items == 3
    assert nothing_left(a, b)


# Credit


def fill(node: Node, key: bytes | int, size: int = 100) -> int:
    """Give items until there is no credit; how many."""
    count = 0
    while give(node, key, count.to_bytes(4, "big").ljust(size, b".")) is Flow.DONE:
        node.world.run()
        count += 1
    return count


def test_a_consumer_that_never_reads_costs_one_window_and_nothing_else() -> None:
    world, a, b = pair(stream_window=WINDOW)
    b.offer(agent="test/other", capability="test.other")
    call, number = begin(a, b)
    assert fill(b, number) == WINDOW // 228
    for node in (a, b):
        assert WINDOW - 228 < node.streams.gauges()["streams.bytes"] <= WINDOW
    other = a.call(b"", query=RouteQuery(capability="test.other"))
    world.run()
    b.finish(b.invoked[-1].invocation)
    world.run()
    assert a.end_of(other).code == 0
    world.sleep(200.0)
    assert b.links.link_to(a.node) is not None  # and its link is kept alive
    assert number in b.running
    a.cancel(call)
    world.run()
    assert [cancel.reason for cancel in b.cancelled] == ["cancelled by the caller"]
    assert nothing_left(a, b)


def test_a_producer_goes_on_when_items_are_taken_and_credit_is_renewed_in_steps() -> None:
    world, a, b = pair(stream_window=WINDOW)
    call, number = begin(a, b)
    sent = fill(b, number)
    b.ready.clear()
    taken = 0
    while not b.ready:
        take(a, call)
        taken += 1
        world.run()
    assert taken == -(-WINDOW // 8 // 228)  # an eighth of the window
    assert fill(b, number) >= taken - 1
    assert sent > taken
    a.cancel(call)
    world.run()
    assert nothing_left(a, b)


def test_empty_items_are_bounded_too() -> None:
    world, a, b = pair(stream_window=WINDOW)
    call, number = begin(a, b)
    count = 0
    while give(b, number, b"") is Flow.DONE:
        count += 1
    assert count == WINDOW // 128
    a.cancel(call)
    world.run()
    assert nothing_left(a, b)


def test_streams_leave_room_on_the_link_and_take_turns() -> None:
    world, a, b = pair(payload_max=100_000)
    first, one = begin(a, b)
    second, two = begin(a, b)
    link = b.links.link_to(a.node)
    assert link is not None
    world.gated.add("b")
    b.links.on_writable(link, 0, world.now)
    for _ in range(30):
        assert give(b, one, b"1" * 10_000) is Flow.DONE
        assert give(b, two, b"2" * 10_000) is Flow.DONE
    assert b.links.backlog(link) < 65_536 + 10_000 + 2_048
    world.gated.discard("b")
    world.writable(b, link)
    world.run()
    arrived = [item.payload[:1] for item in a.received if isinstance(item, StreamItem)]
    assert len(arrived) == 60
    assert all(arrived[:n].count(b"1") - arrived[:n].count(b"2") in (-1, 0, 1, 2) for n in range(8, 60))
    for call in (first, second):
        a.cancel(call)
    world.run()
    assert nothing_left(a, b)


def test_beyond_the_memory_of_all_streams_the_one_that_moves_least_ends() -> None:
    world, a, b = pair(stream_window=WINDOW, stream_bytes_max=3 * WINDOW)
    stuck, number = begin(a, b)
    fill(b, number)
    busy = []
    for _ in range(3):
        world.sleep(1.0)
        call, other = begin(a, b)
        busy.append((call, other))
        fill(b, other)
    world.run()
    end = ended(a, stuck)
    assert end.code == ErrorCode.CANCELLED
    assert a.counters.value("streams.evicted") + b.counters.value("streams.evicted") >= 1
    assert list(b.running) == [other for _, other in busy]
    for call, _ in busy:
        a.cancel(call)
    world.run()
    assert nothing_left(a, b)


def test_what_its_link_has_no_room_for_after_all_is_sent_when_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, a, b = pair()
    call, number = begin(a, b)

    def put(outgoing: Outgoing, message: Message) -> bool:
        outgoing._promised = 0
        return False

    with monkeypatch.context() as patched:  # the encoding is larger than was promised for it
        patched.setattr(Outgoing, "put", put)
        for item in (b"1", b"2"):
            assert give(b, number, item) is Flow.DONE
        finish(b, number)
    assert a.ended == []
    b.perform()
    world.run()
    assert rest(ended(a, call)) == [b"1", b"2"]
    assert nothing_left(a, b)


# How a stream ends


@pytest.mark.parametrize("kind", [RESULTS, PARAMETERS, BOTH])
@pytest.mark.parametrize(
    "moment", ["linking", "begun", "flowing", "full", "interrupted", "resuming", "replied"]
)
@pytest.mark.parametrize("who", ["caller", "deadline", "handler", "node"])
def test_either_side_ends_it_once_in_every_state(kind: StreamKind, moment: str, who: str) -> None:
    """Whoever ends it, whenever: one end at the caller, and nothing is left at either side."""
    world, a, b = pair(kind, stream_window=WINDOW)
    call = a.call(b"", stream=True, timeout=5.0)
    number = 0
    if moment != "linking":
        world.run()
        number = b.invoked[0].invocation
    if moment not in ("linking", "begun"):
        for node, key, is_used in ((a, call, kind & PARAMETERS), (b, number, kind & RESULTS)):
            if is_used:
                assert give(node, key, b"item") is Flow.DONE
                if moment == "full":
                    fill(node, key)
        world.run()
    if moment in ("interrupted", "resuming"):
        world.silent.add(b.address)
        world.lose(a, b)
        if moment == "resuming":
            world.silent.clear()
            while not any(isinstance(message, StreamResume) for message in b.received):
                world.step(*world.steps()[0])
    if moment == "replied":
        finish(b, number)
    match who:
        case "caller":
            assert a.cancel(call)
        case "handler":
            if number in b.running:
                finish(b, number, code=1403, detail="ValueError: no")
        case "node":
            if moment != "linking":
                world.kill(b)
                a.gone(b)
    world.silent.clear()
    world.sleep(120.0)
    end = ended(a, call)
    expected = {
        "caller": {1402},
        "deadline": {1401} | ({0} if moment == "replied" else set()),
        "handler": {1403}
        | ({1401} if moment == "linking" else set())
        | ({0} if moment == "replied" else set()),
        "node": {1409} | ({1401} if moment == "linking" else set()) | ({0} if moment == "replied" else set()),
    }
    assert end.code in expected[who]
    assert b.running == {} or who == "node"
    assert nothing_left(a, *([] if who == "node" else [b]))


def test_items_before_an_error_come_before_it() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    for item in (b"1", b"2"):
        give(b, number, item)
    finish(b, number, code=1403, detail="ValueError: no")
    world.run()
    end = ended(a, call)
    assert (end.code, rest(end), end.items) == (1403, [b"1", b"2"], 2)
    assert end.detail == "ValueError: no (after 2 items)"
    assert nothing_left(a, b)


def test_a_handler_that_never_began_leaves_nothing_behind_and_another_is_asked() -> None:
    world, a, b = pair()
    c = world.node("c")
    c.offer(stream=RESULTS)
    call, number = begin(a, b)
    finish(b, number, code=1406, detail="no thread", executed=False)
    world.run()
    finish(c, c.invoked[0].invocation, code=1405, detail="$.x: missing", executed=False)
    world.run()
    assert (ended(a, call).code, ended(a, call).attempts) == (1405, 2)
    assert nothing_left(a, b, c)


def test_a_consumer_that_leaves_gets_no_more() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    give(b, number, b"1")
    world.run()
    assert a.cancel(call)
    assert rest(ended(a, call)) == []
    assert give(b, number, b"2") is Flow.DONE
    world.run()
    assert a.counters.value("streams.message_unmatched") == 1
    assert give(b, number, b"3") is Flow.ENDED
    assert nothing_left(a, b)


def test_a_handler_that_ends_before_its_parameters_do_tells_the_caller() -> None:
    world, a, b = pair(PARAMETERS, stream_window=WINDOW)
    call, number = begin(a, b)
    fill(a, call)
    finish(b, number, payload=b"enough")
    world.run()
    assert ended(a, call).payload == b"enough"
    assert a.ready[-1] == call
    assert give(a, call, b"more") is Flow.ENDED
    assert nothing_left(a, b)


def test_what_came_before_the_deadline_is_handed_over() -> None:
    world, a, b = pair()
    call, number = begin(a, b, timeout=3.0)
    give(b, number, b"1")
    world.sleep(3.5)
    end = ended(a, call)
    assert (end.code, rest(end)) == (1401, [b"1"])
    assert nothing_left(a, b)


def test_the_deadline_of_a_stream_is_its_own_default() -> None:
    world, a, b = pair(call_timeout=1.0, stream_timeout=100.0, stream_idle_timeout=1_000.0)
    begin(a, b)
    assert b.invoked[0].deadline == world.now + 100.0


def test_a_reader_that_waits_in_vain_ends_it_and_one_that_does_not_read_does_not() -> None:
    world, a, b = pair(stream_idle_timeout=10.0)
    waiting, number = begin(a, b)
    other, _ = begin(a, b)
    for _ in range(3):
        give(b, number, b"item")
        world.run()
        take_all(a, waiting)
        world.sleep(9.0)
    assert a.caller.pending == 2
    world.sleep(1.5)
    end = ended(a, waiting)
    assert (end.code, end.items) == (1401, 3)
    assert "nothing has come for 10 s" in end.detail
    assert number not in b.running
    world.sleep(60.0)
    assert a.caller.pending == 1
    a.cancel(other)
    world.run()
    assert nothing_left(a, b)


def test_a_caller_says_how_long_it_waits_for_one_item() -> None:
    world, a, b = pair()
    call, _ = begin(a, b, idle_timeout=2.0)
    take(a, call)
    world.sleep(2.5)
    assert ended(a, call).code == 1401
    with pytest.raises(CallFailed):
        a.call(b"", stream=True, idle_timeout=0.0)
    assert nothing_left(a, b)


def test_a_handler_that_waits_for_parameters_in_vain_is_cancelled() -> None:
    world, a, b = pair(PARAMETERS, stream_idle_timeout=10.0)
    call, number = begin(a, b)
    give(a, call, b"1")
    world.run()
    assert [take(b, number), take(b, number)] == [b"1", Flow.WAIT]
    world.sleep(10.5)
    assert (ended(a, call).code, b.running) == (1401, {})
    assert nothing_left(a, b)


def test_a_draining_node_finishes_its_streams_until_they_are_confirmed() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    b.callee.drain(world.now)
    give(b, number, b"1")
    finish(b, number)
    assert b.callee.unfinished == 1
    world.run()
    assert (ended(a, call).code, b.callee.unfinished) == (0, 0)
    assert nothing_left(a, b)


@pytest.mark.parametrize("has_finished", [False, True])
def test_a_paused_node_returns_no_more_of_a_stream(has_finished: bool) -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    give(b, number, b"sent")
    link = b.links.link_to(a.node)
    assert link is not None
    world.gated.add("b")
    b.links.on_writable(link, 0, world.now)
    for _ in range(20):
        give(b, number, b"x" * 8_000)
    if has_finished:
        finish(b, number)
    b.callee.pause(world.now)
    b.perform()
    world.gated.discard("b")
    world.writable(b, link)
    world.run()
    end = ended(a, call)
    assert end.code == ErrorCode.OUTCOME_UNKNOWN
    assert 1 <= end.items < 21
    assert nothing_left(a, b)


# What does not fit


def test_calling_what_streams_and_streaming_what_does_not_are_clear_errors() -> None:
    world, a, b = pair()
    b.offer(agent="test/plain", capability="test.plain")
    with pytest.raises(CallFailed, match=r"use stream\(\), not call\(\)") as failed:
        a.caller.call(CallSpec(query=RouteQuery(capability=CAPABILITY), payload=b""), world.now)
    assert failed.value.code is ErrorCode.SCHEMA_MISMATCH
    with pytest.raises(CallFailed, match=r"use call\(\), not stream\(\)"):
        a.caller.call(
            CallSpec(query=RouteQuery(capability="test.plain"), payload=b"", stream=True), world.now
        )
    task = CallSpec(query=RouteQuery(capability=CAPABILITY), payload=b"", stream=True, lasting=Lasting.TASK)
    with pytest.raises(CallFailed, match="it is no task"):
        a.caller.call(task, world.now)
    assert nothing_left(a, b)


def raw(a: Node, b: Node, **fields: object) -> None:
    """A request made by hand."""
    values: dict[str, object] = {
        "message_id": bytes(16), "life": b.life, "agent": AGENT, "capability": CAPABILITY, "remaining_ms": 10_000,
        "payload": b"", "stream": 1, "credit": WINDOW,
    }  # fmt: skip
    assert a.send(b, Request(**{**values, **fields}))  # type: ignore[arg-type]
    a.world.run()


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (0, "use stream(), not call()"),
        (2, "streams results here, not parameters"),
        (3, "parameters and results"),
    ],
)
def test_a_callee_refuses_what_streams_otherwise_than_it_does(stream: int, said: str) -> None:
    world, a, b = pair()
    a.dial(b)
    world.run()
    raw(a, b, stream=stream)
    reply = a.received[-1]
    assert (reply.code, reply.executed) == (ErrorCode.SCHEMA_MISMATCH, False)  # type: ignore[attr-defined]
    assert said in reply.detail  # type: ignore[attr-defined]
    assert nothing_left(b)


def test_streams_are_bounded_at_both_sides() -> None:
    world, a, b = pair(streams_max=2)
    calls = [begin(a, b)[0] for _ in range(2)]
    with pytest.raises(CallFailed) as failed:
        a.call(b"", stream=True)
    assert failed.value.code is ErrorCode.REFUSED_FULL
    raw(a, b, message_id=b"m" * 16)
    assert a.received[-1].code == ErrorCode.REFUSED_FULL  # type: ignore[attr-defined]
    for call in calls:
        a.cancel(call)
    world.run()
    assert nothing_left(a, b)


def test_what_a_stream_does_not_have_is_misuse() -> None:
    world, a, b = pair()
    call, number = begin(a, b)
    with pytest.raises(LocalProtocolError):
        give(a, call, b"a parameter")
    with pytest.raises(LocalProtocolError):
        take(b, number)
    a.cancel(call)
    world.run()
    world, a, b = pair(PARAMETERS)
    call, _ = begin(a, b)
    end_items(a, call)
    with pytest.raises(LocalProtocolError, match="ended already"):
        give(a, call, b"another")


@pytest.mark.parametrize(
    "message",
    [
        StreamItem(message_id=bytes(16), offset=0, payload=b"without credit"),
        StreamEnd(message_id=bytes(16), items=1),
    ],
)
def test_parameters_that_nobody_granted_end_the_stream(message: StreamItem | StreamEnd) -> None:
    world, a, b = pair()
    a.dial(b)
    world.run()
    raw(a, b)
    a.send(b, message)
    world.run()
    assert (a.received[-1].code, b.running) == (ErrorCode.PAYLOAD_TOO_LARGE, {})  # type: ignore[attr-defined]
    assert b.counters.value("streams.broken") == 1
    assert nothing_left(b)


@pytest.mark.parametrize(
    "items",
    [
        [StreamItem(message_id=bytes(16), offset=offset, payload=b"x" * 3_000) for offset in range(4)],
        [
            StreamItem(message_id=bytes(16), offset=2**40 + offset, payload=b"x" * 3_000)
            for offset in range(4)
        ],
        [StreamItem(message_id=bytes(16), offset=0, payload=b"x" * 50_001)],
        [StreamItem(message_id=bytes(16), offset=5, payload=b""), StreamEnd(message_id=bytes(16), items=3)],
        [StreamEnd(message_id=bytes(16), items=3), StreamItem(message_id=bytes(16), offset=3, payload=b"")],
        [StreamEnd(message_id=bytes(16), items=3), StreamEnd(message_id=bytes(16), items=4)],
    ],
)
def test_a_producer_that_breaks_the_rules_ends_its_stream(items: list[StreamItem | StreamEnd]) -> None:
    world, a, b = pair(PARAMETERS, stream_window=WINDOW, payload_max=50_000)
    a.dial(b)
    world.run()
    raw(a, b, stream=2, credit=0)
    for item in items:
        a.send(b, item)
    world.run()
    assert (a.received[-1].code, b.running) == (ErrorCode.PAYLOAD_TOO_LARGE, {})  # type: ignore[attr-defined]
    assert nothing_left(b)


def test_credit_without_end_does_not_make_a_producer_keep_more_than_a_window() -> None:
    world, a, b = pair(stream_window=WINDOW)
    a.dial(b)
    world.run()
    raw(a, b)
    (number,) = b.running
    a.send(b, StreamCredit(message_id=bytes(16), credit=2**62))
    world.run()
    link = b.links.link_to(a.node)
    assert link is not None
    world.gated.add("b")
    b.links.on_writable(link, 0, world.now)
    for _ in range(1_000):
        give(b, number, b"x" * 1_000)
    assert b.streams.gauges()["streams.bytes"] <= WINDOW


def test_nobody_else_can_speak_for_a_stream() -> None:
    world, a, b = pair(PARAMETERS)
    c = world.node("c")
    c.dial(b)
    call, number = begin(a, b)
    for message in (
        StreamItem(message_id=call, offset=0, payload=b"forged"),
        StreamEnd(message_id=call, items=0),
        StreamCredit(message_id=call, ended=True),
        StreamResume(message_id=call),
    ):
        c.send(b, message)
    world.run()
    b.streams.on_message(a.node, life(2), StreamEnd(message_id=call, items=0), world.now)
    assert take(b, number) is Flow.WAIT
    assert b.counters.value("streams.message_unmatched") == 4
    assert b.counters.value("streams.resume_unknown") == 1
    assert number in b.running
    a.cancel(call)
    world.run()
    assert nothing_left(a, b)


def test_a_stream_that_waits_in_its_bulkhead_has_no_items_and_can_be_cancelled() -> None:
    world = World()
    a, b = world.node("a"), world.node("b")
    b.offer(stream=PARAMETERS, concurrency=1)
    first, number = begin(a, b)
    second = a.call(b"", stream=True)
    world.run()
    assert give(a, second, b"x") is Flow.WAIT
    finish(b, number)
    world.run()
    assert a.ready == [second]
    assert give(a, second, b"x") is Flow.DONE
    third = a.call(b"", stream=True)
    world.run()
    a.cancel(third)
    a.cancel(second)
    world.run()
    assert ended(a, first).code == 0
    assert nothing_left(a, b)


def test_the_page_names_the_defaults() -> None:
    protocol = Protocol()
    assert (protocol.stream_window, protocol.stream_resume_window, protocol.streams_max) == (
        2**20,
        30.0,
        4_096,
    )
