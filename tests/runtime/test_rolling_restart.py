"""Every instance is restarted in turn under load, and no call fails although the handler may not run twice."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from reachp2p import Agent, CallFailed, Node
from reachp2p.core.settings import Protocol

pytestmark = pytest.mark.trio

CALLERS = 8
"""Tasks that call without a pause."""


def worker() -> Agent:
    agent = Agent("shop/worker")

    @agent.capability("shop.work", concurrency=4, queue=64)
    async def work(number: int) -> int:
        await trio.sleep(0.01)
        return number

    return agent


async def test_a_rolling_restart_of_every_instance_fails_no_call() -> None:
    protocol = Protocol(start_answer_timeout=0.2)
    attempts: Counter[int] = Counter()
    failures: list[CallFailed] = []
    over = trio.Event()

    async def call_on_and_on(node: Node) -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                _, _, ended = await node.call_detailed("shop.work", {"number": number}, timeout=5)
            except CallFailed as failed:
                failures.append(failed)
            else:
                attempts[ended.attempts] += 1

    with trio.fail_after(60):
        async with Node(name="caller", protocol=protocol) as caller, trio.open_nursery() as nursery:

            async def start(name: str) -> Node:
                return await Node.start_in(
                    nursery, worker(), name=name, seeds=[str(caller.address)], protocol=protocol
                )

            nodes = [await start(f"worker-{number}") for number in range(3)]
            await caller.wait_for("shop.work", timeout=10)
            for _ in range(CALLERS):
                nursery.start_soon(call_on_and_on, caller)
            for number in range(3):
                await trio.sleep(0.5)
                assert await nodes[number].leave(timeout=5)
                nodes[number] = await start(f"worker-{number}")
            await trio.sleep(0.5)
            over.set()
            await trio.sleep(0.2)
            for node in nodes:
                node.stop(2)
    assert failures == []
    again = sum(count for tried, count in attempts.items() if tried > 1)
    total = sum(attempts.values())
    assert total > 300
    assert again <= total / 100, f"{again} of {total} calls were tried twice"
