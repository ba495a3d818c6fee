"""Streams that memory runs out for at the very moment when they end: each ends once, and leaves nothing behind."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reachp2p.core.calls.stream import StreamDue
from reachp2p.core.commands import Flow, StreamKind
from reachp2p.core.settings import Protocol
from reachp2p.core.wire.messages import Request, StreamCredit, StreamItem
from reachp2p.errors import ErrorCode
from tests.unit.calls.streaming import PARAMETERS, RESULTS, begin, ended, finish, give, nothing_left, take
from tests.unit.calls.world import AGENT, CAPABILITY, Node, World

RESULT = bytes(65_536)


def pair(*, caller_max: int, callee_max: int, stream: StreamKind = PARAMETERS) -> tuple[World, Node, Node]:
    """A caller and a callee of streams that may hold so many bytes."""
    world = World()
    a = world.node("a", protocol=replace(Protocol(), stream_bytes_max=caller_max))
    b = world.node("b", protocol=replace(Protocol(), stream_bytes_max=callee_max))
    b.offer(stream=stream)
    return world, a, b


def test_a_result_that_the_caller_has_no_memory_for_ends_its_call_once() -> None:
    world, a, b = pair(caller_max=len(RESULT) // 2, callee_max=2 * len(RESULT))
    call, number = begin(a, b)
    finish(b, number, payload=RESULT)
    world.run()
    assert ended(a, call).code == ErrorCode.CANCELLED
    assert a.counters.value("streams.evicted") == 1
    assert nothing_left(a, b)


def test_a_result_that_the_callee_has_no_memory_for_leaves_no_timer() -> None:
    world, a, b = pair(caller_max=2 * len(RESULT), callee_max=len(RESULT) // 2)
    call, number = begin(a, b)
    finish(b, number, payload=RESULT)
    assert b.timers.due_at(StreamDue(number)) is None
    world.run()
    assert ended(a, call).code == ErrorCode.CANCELLED
    assert nothing_left(a, b)


@pytest.mark.parametrize("repeats", [False, True])
def test_credit_that_grants_nothing_new_makes_no_reader_of_whoever_repeats_it(repeats: bool) -> None:
    """b serves a stream that a reads and one that c does not: who loses its stream when memory runs out?"""
    world = World()
    settings = replace(Protocol(), stream_bytes_max=18_000, stream_window=8_192)
    a, b, c = (world.node(name, protocol=settings) for name in "abc")
    b.offer(stream=RESULTS)
    stuck, theirs = begin(c, b)
    read, ours = begin(a, b)
    for _ in range(7):
        assert give(b, theirs, bytes(1_000)) is Flow.DONE
    world.sleep(5)
    for _ in range(10):
        assert give(b, ours, bytes(1_000)) is Flow.DONE
        world.run()
        assert take(a, read) == bytes(1_000)
        world.sleep(0.1)
    for _ in range(4):
        assert give(b, ours, bytes(1_000)) is Flow.DONE
    world.sleep(1)
    if repeats:
        c.send(b, StreamCredit(message_id=stuck, credit=8_192))
        world.sleep(0.1)
    _, more = begin(a, b)
    while not a.ended and not c.ended:
        give(b, more, bytes(2_000))
        world.run()
    assert [end.call for end in c.ended] == [stuck]
    assert not a.ended


def test_what_an_item_has_besides_its_payload_is_not_kept() -> None:
    """A hundred empty items were a hundred megabytes, and counted 12 kB."""
    world, a, b = pair(caller_max=4_000_000, callee_max=4_000_000, stream=RESULTS)
    call, _ = begin(a, b)
    for offset in range(100):
        b.send(a, StreamItem(message_id=call, offset=offset, payload=b"", extensions={200: bytes(1_000_000)}))
        world.run()
    stream = a.streams._table.get(call)
    assert stream is not None
    assert stream.inflow is not None
    assert stream.inflow.received == 100
    assert not any(item.extensions for item, _ in stream.inflow._ready)


def test_what_a_request_that_waits_has_besides_its_payload_is_not_kept() -> None:
    world = World()
    a, b = world.node("a"), world.node("b")
    b.offer(concurrency=1, queue=10)
    a.call()
    world.run()
    request = Request(
        message_id=bytes(16), life=b.life, agent=AGENT, capability=CAPABILITY, remaining_ms=10_000, payload=b"",
        extensions={200: bytes(1_000_000)},
    )  # fmt: skip
    assert a.send(b, request)
    world.run()
    waiting = b.callee.invocations.served.of_request(a.node, bytes(16))
    assert waiting is not None
    assert waiting.request.extensions == {}
