"""Handlers and callers that misbehave, over real links: each has its code and leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from reachp2p import Agent, BadRequest, CallFailed, Node, Rate
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode

pytestmark = pytest.mark.trio

LEFT_BEHIND = (
    "size.pending_calls",
    "size.calls.serving",
    "size.calls.running",
    "size.calls.queued_bytes",
    "size.calls.bulkheads",
    "size.calls.replies_waiting",
    "size.runtime_calls",
    "size.runtime_invocations",
    "size.runtime_invocations_overdue",
)
PROTOCOL = Protocol(start_answer_timeout=0.2, gossip_interval=0.02)
PAYLOAD_MAX = PROTOCOL.payload_max


class Bad:
    """An agent that does it all wrong."""

    def __init__(self) -> None:
        self.started = 0
        self.let_go = trio.Event()
        self.agent = agent = Agent("bad/agent")

        @agent.capability("bad.raises")
        async def raises() -> None:
            raise ValueError("no luck")

        @agent.capability("bad.blames")
        async def blames() -> None:
            raise BadRequest("no such order: 4711")

        @agent.capability("bad.unfit")
        async def unfit() -> Any:
            return object()

        @agent.capability("bad.exits")
        async def exits() -> None:
            raise SystemExit(3)

        @agent.capability("bad.cancels")
        async def cancels() -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                await trio.sleep_forever()

        @agent.capability("bad.hangs")
        async def hangs() -> None:
            self.started += 1
            await trio.sleep_forever()

        @agent.capability("bad.swallows")
        async def swallows() -> str:
            self.started += 1
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                with trio.CancelScope(shield=True):
                    await self.let_go.wait()
            return "too late"

        @agent.capability("bad.bytes", rate=Rate(1_000, burst=1_000))
        async def some_bytes(payload: bytes) -> bytes:
            return payload + b"x" * (PAYLOAD_MAX + 1 if payload == b"more" else 0)


@asynccontextmanager
async def pair(bad: Bad) -> AsyncIterator[tuple[Node, Node]]:
    async with (
        Node(bad.agent, name="bad", protocol=PROTOCOL) as callee,
        Node(name="caller", seeds=[str(callee.address)], protocol=PROTOCOL) as caller,
    ):
        await caller.wait_for("bad.raises", timeout=5)
        yield callee, caller


async def nothing_is_left(*nodes: Node) -> None:
    with trio.fail_after(5):
        for node in nodes:
            while any(node.diagnostics()[name] for name in LEFT_BEHIND):  # noqa: ASYNC110 (a look from outside)
                await trio.sleep(0.01)


ENDINGS: list[tuple[str, Any, float, ErrorCode, str]] = [
    ("bad.raises", None, 5, ErrorCode.HANDLER_FAILED, "ValueError: no luck"),
    ("bad.blames", None, 5, ErrorCode.HANDLER_FAILED, "no such order: 4711"),
    ("bad.unfit", None, 5, ErrorCode.HANDLER_FAILED, "object"),
    ("bad.exits", None, 5, ErrorCode.HANDLER_FAILED, "SystemExit: 3"),
    ("bad.hangs", None, 0.2, ErrorCode.DEADLINE_EXCEEDED, ""),
    ("bad.bytes", b"more", 5, ErrorCode.PAYLOAD_TOO_LARGE, f"at most {PAYLOAD_MAX}"),
    ("bad.bytes", b"x" * (PAYLOAD_MAX + 1), 5, ErrorCode.PAYLOAD_TOO_LARGE, "pass a reference"),
    ("bad.raises", None, 0, ErrorCode.DEADLINE_EXCEEDED, "the deadline has passed"),
    ("bad.raises", None, -1.5, ErrorCode.DEADLINE_EXCEEDED, "the deadline has passed"),
    ("bad.raises", {"unknown": 1}, 5, ErrorCode.SCHEMA_MISMATCH, "unknown"),
    ("bad.raises", {"x": object()}, 5, ErrorCode.SCHEMA_MISMATCH, "cannot be sent"),
]


async def test_each_has_its_code_and_leaves_nothing_behind() -> None:
    async with pair(Bad()) as (callee, caller):
        for capability, params, seconds, code, said in ENDINGS:
            with pytest.raises(CallFailed) as caught, trio.fail_after(10):
                await caller.call(capability, params, timeout=seconds)
            assert caught.value.code is code, capability
            assert said in str(caught.value), capability
            assert caught.value.caller_fault is (capability == "bad.blames")
            await nothing_is_left(callee, caller)


async def test_a_payload_of_just_the_limit_goes_both_ways() -> None:
    async with pair(Bad()) as (callee, caller):
        payload = bytes(PAYLOAD_MAX)
        with trio.fail_after(10):
            assert await caller.call("bad.bytes", payload, timeout=10) == payload
            assert await caller.call("bad.cancels", timeout=5) is None
        await nothing_is_left(callee, caller)


async def test_a_handler_that_swallows_its_cancellation_is_counted_until_it_ends() -> None:
    bad = Bad()
    async with pair(bad) as (callee, caller):
        with pytest.raises(CallFailed) as caught, trio.fail_after(10):
            await caller.call("bad.swallows", timeout=0.2)
        assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED
        with trio.fail_after(5):
            while not callee.diagnostics()["size.runtime_invocations_overdue"]:  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert callee.diagnostics()["size.calls.running"] == 0
        bad.let_go.set()
        await nothing_is_left(callee, caller)


@pytest.mark.parametrize("capability", ["bad.hangs", "bad.swallows"])
async def test_a_caller_that_is_gone_takes_its_handlers_with_it(capability: str) -> None:
    bad = Bad()
    bad.let_go.set()
    async with pair(bad) as (callee, caller):

        async def call() -> None:
            with pytest.raises(CallFailed):
                await caller.call(capability, timeout=60)

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                while not bad.started:  # noqa: ASYNC110
                    await trio.sleep(0.01)
                await caller.aclose(timeout=0.1)
        await nothing_is_left(callee)
