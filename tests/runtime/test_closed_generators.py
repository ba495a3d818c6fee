"""A plain generator handler is closed in a worker thread, whatever ends its stream."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import trio

from reachp2p import Agent
from reachp2p.errors import CallFailed
from tests.runtime.test_streams import is_left_with_nothing, two_nodes

pytestmark = pytest.mark.trio


class Closed:
    """What the handlers of a test have noticed."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.told = threading.Event()
        self.is_stepping = threading.Event()
        self.goes_on = threading.Event()

    def note(self) -> None:
        self.threads.append(threading.current_thread())
        self.told.set()

    async def wait(self) -> None:
        with trio.fail_after(10):
            assert await trio.to_thread.run_sync(self.told.wait, 10)
        assert [thread is threading.main_thread() for thread in self.threads] == [False]


def sample(closed: Closed) -> Agent:
    agent = Agent("stream/plain")

    @agent.capability("plain.endless")
    def endless() -> Iterator[int]:
        try:
            n = 0
            while True:
                yield n
                n += 1
        finally:
            closed.note()

    @agent.capability("plain.slow")
    def slow() -> Iterator[int]:
        try:
            yield 1
            closed.is_stepping.set()
            closed.goes_on.wait(10)
            yield 2
        finally:
            closed.note()

    @agent.capability("plain.wrong")
    def wrong() -> Iterator[int]:
        try:
            yield 1
            yield "two"  # type: ignore[misc]  # what is wrong
        finally:
            closed.note()

    return agent


async def test_a_stream_that_is_left_while_its_handler_waits_for_credit() -> None:
    closed = Closed()
    async with two_nodes(sample(closed), stream_window=4_096) as (caller, callee):
        async with caller.stream("plain.endless") as items:
            assert await items.__anext__() == 0
        await closed.wait()
        await is_left_with_nothing(callee)


async def test_a_stream_that_is_left_while_a_step_runs_in_its_thread() -> None:
    closed = Closed()
    async with two_nodes(sample(closed)) as (caller, callee):
        async with caller.stream("plain.slow") as items:
            assert await items.__anext__() == 1
            assert await trio.to_thread.run_sync(closed.is_stepping.wait, 10)
        await is_left_with_nothing(callee)
        assert closed.threads == []
        closed.goes_on.set()
        await closed.wait()


async def test_a_stream_that_fails() -> None:
    closed = Closed()
    async with two_nodes(sample(closed)) as (caller, _):
        with pytest.raises(CallFailed, match="expected integer"):
            async with caller.stream("plain.wrong") as items:
                assert [item async for item in items] == []
        await closed.wait()
