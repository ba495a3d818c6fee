"""Streams that memory runs out for at the very moment when they end: each ends once, and leaves nothing behind."""

from __future__ import annotations

from msgspec.structs import replace

from reachp2p.core.calls.stream import StreamDue
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode
from tests.unit.calls.streaming import PARAMETERS, begin, ended, finish, nothing_left
from tests.unit.calls.world import Node, World

RESULT = bytes(65_536)


def pair(*, caller_max: int, callee_max: int) -> tuple[World, Node, Node]:
    """A caller and a callee of streams that may hold so many bytes."""
    world = World()
    a = world.node("a", protocol=replace(Protocol(), stream_bytes_max=caller_max))
    b = world.node("b", protocol=replace(Protocol(), stream_bytes_max=callee_max))
    b.offer(stream=PARAMETERS)
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
