"""Tasks over real links: a call that outlasts its limit goes on; whoever asks, early or late, gets its end (B32)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from reachp2p import Agent, CallFailed, Node, StillRunning, Task
from reachp2p.core.calls.tasks import TaskState
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode

pytestmark = pytest.mark.trio


class Gate:
    """An agent whose handler waits to be let through."""

    def __init__(self, limit: float | None = 0.1) -> None:
        self.open = trio.Event()
        self.begun = self.cancelled = 0
        self.agent = Agent("slow/agent")

        @self.agent.capability("slow.work", timeout=limit)
        async def work(number: int = 1) -> int:
            self.begun += 1
            try:
                await self.open.wait()
            except trio.Cancelled:
                self.cancelled += 1
                raise
            return number * 2

        @self.agent.capability("slow.failure", timeout=limit)
        async def fail() -> None:
            await self.open.wait()
            raise ValueError("no such thing")


@asynccontextmanager
async def caller_of(gate: Gate, **protocol: Any) -> AsyncIterator[Node]:
    settings = Protocol(start_answer_timeout=0.2, gossip_interval=0.02, **protocol)
    async with (
        Node(gate.agent, name="callee", protocol=settings) as callee,
        Node(name="caller", seeds=[str(callee.address)], protocol=settings) as node,
    ):
        await node.wait_for("slow.work", timeout=5)
        yield node


async def test_a_call_that_outlasts_its_limit_goes_on_and_any_number_get_its_end() -> None:
    gate = Gate()
    results: list[int] = []
    async with caller_of(gate) as node:
        with pytest.raises(StillRunning) as caught, trio.fail_after(5):
            await node.call("slow.work", {"number": 21})
        task = caught.value.task
        assert (caught.value.code, task.id in str(caught.value)) == (ErrorCode.STILL_RUNNING, True)
        assert (task.status.state, task.status.capability) == (TaskState.RUNNING, "slow.work")
        assert [view.id.hex() for view in node.tasks()] == [task.id]

        async def watch(watched: Task) -> None:
            results.append(await watched.result())

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(watch, node.task(task.id))
                with trio.move_on_after(0.02):  # a watcher that goes away takes nothing with it
                    await task.result()
                with pytest.raises(StillRunning):
                    await task.result(timeout=0.02)
                gate.open.set()
            results.append(await node.task(task.id).result())  # a late one
        assert results == [42] * 4
        assert task.status.state is TaskState.DONE
        assert not task.cancel()
        assert node.diagnostics()["size.runtime_calls"] == 0


async def test_a_submitted_task_can_be_cancelled_and_its_failure_is_told_to_whoever_asks() -> None:
    gate = Gate()
    async with caller_of(gate) as node:
        first, second = await node.submit("slow.work"), await node.submit("slow.failure")
        with trio.fail_after(5):
            while first.status.state is not TaskState.RUNNING or not gate.begun:  # noqa: ASYNC110 (looks from outside)
                await trio.sleep(0.01)
        assert first.cancel()
        with pytest.raises(CallFailed) as cancelled, trio.fail_after(5):
            await first.result()
        assert cancelled.value.code is ErrorCode.CANCELLED
        with trio.fail_after(5):
            while gate.cancelled != 1:  # noqa: ASYNC110
                await trio.sleep(0.01)
        gate.open.set()
        with pytest.raises(CallFailed) as failed, trio.fail_after(5):
            await second.result()
        assert failed.value.code is ErrorCode.HANDLER_FAILED
        assert "no such thing" in str(failed.value)
        assert second.id in str(failed.value)
        assert (first.status.state, second.status.state) == (TaskState.CANCELLED, TaskState.FAILED)


async def test_a_task_that_is_unknown_or_forgotten_is_1502() -> None:
    gate = Gate()
    gate.open.set()
    async with caller_of(gate, task_keep=0.05) as node:
        for text in ("no task", "ab" * 16, "ab"):
            with pytest.raises(CallFailed) as caught:
                node.task(text)
            assert caught.value.code is ErrorCode.UNKNOWN_TASK
        task = await node.submit("slow.work")
        with trio.fail_after(5):
            assert await task.result() == 2
            await trio.sleep(0.1)
        with pytest.raises(CallFailed) as caught:
            await task.result()
        assert caught.value.code is ErrorCode.UNKNOWN_TASK
        assert node.tasks() == []


async def test_an_explicit_timeout_leaves_no_task() -> None:
    gate = Gate()
    async with caller_of(gate) as node:
        with pytest.raises(CallFailed) as caught, trio.fail_after(5):
            await node.call("slow.work", timeout=0.3)
        assert (caught.value.code, node.tasks()) == (ErrorCode.DEADLINE_EXCEEDED, [])


async def test_the_end_of_the_node_ends_the_waiting_for_a_task() -> None:
    gate = Gate()
    codes: list[ErrorCode] = []

    async def watch(task: Task) -> None:
        with pytest.raises(CallFailed) as caught:
            await task.result()
        codes.append(caught.value.code)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery, caller_of(gate) as node:
            task = await node.submit("slow.work")
            nursery.start_soon(watch, task)
            while task.status.state is not TaskState.RUNNING:  # noqa: ASYNC110 (a look from outside)
                await trio.sleep(0.01)
            await node.aclose(timeout=0.3)
    assert codes == [ErrorCode.OUTCOME_UNKNOWN], "it was at work"
