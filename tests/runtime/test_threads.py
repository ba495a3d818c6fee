"""Threads for plain handlers: waiting for one is bounded, and one whose call has ended is counted until it returns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from reachp2p.context import NoThreadFree
from reachp2p.core.counters import Counters
from reachp2p.runtime.threads import Threads

pytestmark = pytest.mark.trio


class Stuck:
    """Functions that return when they are told to."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.release = threading.Event()

    def __call__(self) -> str:
        self.begun.release()
        assert self.release.wait(10)
        return "done"

    async def wait_begun(self, count: int) -> None:
        with trio.fail_after(5):
            for _ in range(count):
                while not self.begun.acquire(blocking=False):  # noqa: ASYNC110 (a thread tells it)
                    await trio.sleep(0.001)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    function = Stuck()
    yield function
    function.release.set()


async def until_free(threads: Threads) -> None:
    with trio.fail_after(5):
        while threads.gauges()["size.threads"]:  # noqa: ASYNC110 (threads end when they end)
            await trio.sleep(0.001)


async def test_a_result_and_an_error_come_back_and_the_place_is_free_again() -> None:
    threads = Threads(Counters(), count=1)
    assert await threads.run("text.do", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run("text.do", lambda: 1 // 0)
    assert threads.gauges() == {"size.threads": 0, "size.threads_abandoned": 0, "size.threads_awaited": 0}


async def test_a_call_waits_for_half_of_its_time_and_is_refused_then(
    stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    counters = Counters()
    threads = Threads(counters, count=2)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(threads.run, "text.do", stuck)
        await stuck.wait_begun(2)
        with caplog.at_level(logging.WARNING, "reachp2p.handlers"):
            for _ in range(3):
                began = trio.current_time()
                with trio.fail_after(0.2), pytest.raises(NoThreadFree, match="all 2 threads"):
                    await threads.run("text.do", stuck)
                assert 0.09 <= trio.current_time() - began < 0.19
        stuck.release.set()
    (record,) = caplog.records  # once, with what to do
    assert "async def" in record.getMessage()
    assert counters.value("threads.refused") == 3
    assert counters.value("threads.abandoned") == 0


async def test_a_call_that_waits_gets_the_thread_that_becomes_free(stuck: Stuck) -> None:
    threads = Threads(Counters(), count=1)
    results: list[str] = []

    async def run() -> None:
        results.append(await threads.run("text.do", stuck))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await stuck.wait_begun(1)
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        assert threads.gauges()["size.threads_awaited"] == 1
        stuck.release.set()
    assert results == ["done", "done"]


async def test_threads_whose_calls_have_ended_are_counted_until_they_return_and_then_serve_again(
    stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    counters = Counters()
    threads = Threads(counters, count=2)
    with caplog.at_level(logging.INFO, "reachp2p.handlers"):
        for _ in range(2):
            with trio.move_on_after(0.02):
                await threads.run("text.do", stuck)
    assert threads.gauges() == {"size.threads": 2, "size.threads_abandoned": 2, "size.threads_awaited": 0}
    assert counters.value("threads.abandoned") == 2
    assert ["text.do goes on in its thread" in record.getMessage() for record in caplog.records] == [True]
    began = trio.current_time()
    with pytest.raises(NoThreadFree, match="2 by handlers whose calls have ended"):
        await threads.run("text.do", stuck)
    assert trio.current_time() - began < 0.5, "nobody knows of a thread that would come back"
    stuck.release.set()
    await until_free(threads)
    assert threads.gauges()["size.threads_abandoned"] == 0
    assert await threads.run("text.do", lambda: 8) == 8


async def test_being_cancelled_while_waiting_abandons_nothing(stuck: Stuck) -> None:
    counters = Counters()
    threads = Threads(counters, count=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, "text.do", stuck)
        await stuck.wait_begun(1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await threads.run("text.do", stuck)
        assert scope.cancelled_caught
        assert threads.gauges() == {"size.threads": 1, "size.threads_abandoned": 0, "size.threads_awaited": 0}
        stuck.release.set()
    assert counters.value("threads.refused") == counters.value("threads.abandoned") == 0


async def test_a_call_whose_deadline_has_passed_already_finds_no_thread_as_any_other() -> None:
    """The event loop was held: the deadline has passed before anybody could be told."""
    threads, stuck = Threads(Counters(), 1), Stuck()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, "has the only thread", stuck)
        await trio.to_thread.run_sync(stuck.begun.acquire)
        with trio.move_on_after(0.05) as scope:
            time.sleep(0.1)  # noqa: ASYNC251 (as a handler that holds the loop)
            with pytest.raises((NoThreadFree, trio.Cancelled)) as caught:
                await threads.run("finds none", lambda: None)
            if isinstance(caught.value, trio.Cancelled):
                raise caught.value
        stuck.release.set()
    assert scope.cancel_called
