"""Many calls and streams of a node to itself, begun together: what ends or is ready at once is missed by nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio

from reachp2p import Agent, CallFailed, Node

pytestmark = pytest.mark.trio

MANY = 40


@pytest.fixture
def agent() -> Agent:
    agent = Agent("busy/one")

    @agent.capability("busy.work", concurrency=1, queue=0)
    async def work() -> str:
        await trio.sleep(0.2)
        return "done"

    @agent.capability("busy.count", concurrency=1, queue=0)
    async def count() -> AsyncIterator[int]:
        await trio.sleep(0.2)
        yield 1

    @agent.capability("busy.trickle", concurrency=MANY)
    async def trickle() -> AsyncIterator[int]:
        for number in range(20):
            yield number
            for _ in range(number % 4):
                await trio.lowlevel.checkpoint()
        await trio.sleep_forever()

    return agent


async def together(ask: Callable[[], Awaitable[None]]) -> list[int]:
    """The codes of many that begin at once, within a few seconds."""
    codes: list[int] = []

    async def one() -> None:
        try:
            await ask()
            codes.append(0)
        except CallFailed as failed:
            codes.append(int(failed.code))

    with trio.move_on_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(MANY):
                nursery.start_soon(one)
    return sorted(codes)


async def test_calls_that_are_refused_at_once_end(agent: Agent) -> None:
    async with Node(agent, name="busy") as node:
        await node.wait_for("busy.work", timeout=5)

        async def ask() -> None:
            await node.call("busy.work")

        assert await together(ask) == [0] + [1406] * (MANY - 1)


async def test_streams_that_are_refused_at_once_end(agent: Agent) -> None:
    async with Node(agent, name="busy") as node:
        await node.wait_for("busy.count", timeout=5)

        async def ask() -> None:
            async with node.stream("busy.count") as items:
                async for _ in items:
                    pass

        assert await together(ask) == [0] + [1406] * (MANY - 1)


async def test_items_are_read_while_their_streams_go_on(agent: Agent) -> None:
    async with Node(agent, name="busy") as node:
        await node.wait_for("busy.trickle", timeout=5)

        async def ask() -> None:
            async with node.stream("busy.trickle", timeout=60) as items:
                for number in range(20):
                    assert await items.__anext__() == number

        assert await together(ask) == [0] * MANY
