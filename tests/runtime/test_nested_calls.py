"""Handlers that call others, over real links: deadline, path and hops go along, and loops end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from reachp2p import Agent, CallFailed, Context, Node
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode, LocalProtocolError

pytestmark = pytest.mark.trio


def relay(name: str, capability: str, to: str, *, timeout: float | None = None) -> Agent:
    """An agent whose one capability calls another with the same parameters, and says how that ended."""
    agent = Agent(name)

    @agent.capability(capability, timeout=timeout)
    async def pass_on(context: Context, wait: float = 0.0) -> list[Any]:
        try:
            said: list[Any] = await context.call(to, {"wait": wait})
        except CallFailed as failed:
            return [[capability, int(failed.code), round(context.remaining, 1)]]
        return [[capability, 0, round(context.remaining, 1)], *said]

    return agent


@asynccontextmanager
async def two_nodes(
    left: list[Agent], right: list[Agent], **protocol: Any
) -> AsyncIterator[tuple[Node, Node]]:
    settings = Protocol(start_answer_timeout=0.2, gossip_interval=0.02, **protocol)
    async with (
        Node(*left, name="left", protocol=settings) as one,
        Node(*right, name="right", seeds=[str(one.address)], protocol=settings) as other,
    ):
        for node, agents in ((one, right), (other, left)):
            for agent in agents:
                for capability in agent.capabilities:
                    await node.wait_for(capability, timeout=5)
        yield one, other


async def test_a_loop_is_refused_when_it_comes_back_to_an_agent_on_its_path() -> None:
    """a calls b, b calls a: refused by the node of a before its handler runs a second time."""
    async with two_nodes([relay("loop/a", "loop.a", "loop.b")], [relay("loop/b", "loop.b", "loop.a")]) as (
        left,
        right,
    ):
        with trio.fail_after(5):
            said = await right.call("loop.a", timeout=4)
        assert [(capability, code) for capability, code, _ in said] == [
            ("loop.a", 0),
            ("loop.b", ErrorCode.LOOP),
        ]
        assert left.diagnostics()["calls.refused.1408"] == 1
        # An agent that calls itself is a loop of one.
        await right.register(relay("loop/self", "loop.self", "loop.self"))
        said = await right.call("loop.self", timeout=4)
        assert [code for _, code, _ in said] == [ErrorCode.LOOP]


async def test_a_chain_ends_when_its_hops_are_used_up() -> None:
    left = [relay(f"chain/a{n}", f"chain.a{n}", f"chain.b{n}") for n in range(3)]
    right = [relay(f"chain/b{n}", f"chain.b{n}", f"chain.a{n + 1}") for n in range(3)]
    async with two_nodes(left, right, hops_max=3) as (_, node):
        with trio.fail_after(5):
            said = await node.call("chain.a0", timeout=4)
    assert [(capability, code) for capability, code, _ in said] == [
        ("chain.a0", 0),
        ("chain.b0", 0),
        ("chain.a1", ErrorCode.HOPS_USED_UP),
    ]


async def test_a_nested_call_has_no_more_time_than_the_call_that_it_is_made_for() -> None:
    """Whatever the capability declares; and what it declares still counts when it is less."""
    slow = Agent("time/slow")

    @slow.capability("time.slow", timeout=60)
    async def wait_long(context: Context, wait: float) -> list[Any]:
        left = round(context.remaining, 1)
        await trio.sleep(wait)
        return [["time.slow", 0, left]]

    hasty = Agent("time/hasty")

    @hasty.capability("time.hasty", timeout=0.2)
    async def wait_little(context: Context, wait: float) -> list[Any]:
        await trio.sleep(wait)
        return []

    first = [relay("time/one", "time.one", "time.slow"), relay("time/two", "time.two", "time.hasty")]
    async with two_nodes(first, [slow, hasty]) as (left, right):
        said = await right.call("time.one", {"wait": 0.0}, timeout=2)
        assert said[-1][0] == "time.slow"
        assert 1.0 < said[-1][2] <= 2.0
        with pytest.raises(CallFailed) as caught, trio.fail_after(2):
            await right.call("time.one", {"wait": 5.0}, timeout=0.5)
        assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED
        said = await right.call("time.two", {"wait": 5.0}, timeout=5)
        assert [code for _, code, _ in said] == [ErrorCode.DEADLINE_EXCEEDED]
        assert said[0][2] > 4.0
        with trio.fail_after(2):  # nothing goes on when its caller has had its time
            while any(n.diagnostics()["size.runtime_invocations"] for n in (left, right)):  # noqa: ASYNC110
                await trio.sleep(0.01)


async def test_a_handler_whose_time_is_over_cannot_call() -> None:
    late = Agent("time/late")
    codes: list[int] = []

    @late.capability("time.late")
    async def call_late(context: Context) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(context.remaining + 0.02)
            try:
                await context.call("time.late")
            except CallFailed as failed:
                codes.append(failed.code)

    async with Node(late) as node:
        with pytest.raises(CallFailed):
            await node.call("time.late", timeout=0.1)
        with trio.fail_after(2):
            while not codes:  # noqa: ASYNC110 (its caller has gone)
                await trio.sleep(0.01)
    assert codes == [ErrorCode.DEADLINE_EXCEEDED]


async def test_a_plain_handler_passes_everything_on_from_its_thread() -> None:
    plain = Agent("loop/plain")

    @plain.capability("loop.plain")
    def call_back(context: Context) -> list[Any]:
        said: list[Any] = context.call_blocking("loop.there")
        return said

    async with two_nodes([plain], [relay("loop/there", "loop.there", "loop.plain")]) as (_, right):
        said = await right.call("loop.plain", timeout=4)
    assert [(capability, code) for capability, code, _ in said] == [("loop.there", ErrorCode.LOOP)]


async def test_waiting_for_a_thread_in_the_event_loop_says_what_to_write() -> None:
    held = Agent("loop/held")

    @held.capability("loop.held")
    async def hold(context: Context) -> None:
        with pytest.raises(LocalProtocolError, match=r"write `await context.publish\(...\)` \[1704\]"):
            context.publish_blocking("a.b")
        context.call_blocking("loop.held")

    async with two_nodes([held], []) as (_, right):
        with pytest.raises(
            CallFailed, match=r"1704: call_blocking waits in a worker .* `await context.call\(...\)`"
        ):
            await right.call("loop.held", timeout=4)


async def test_calls_by_way_of_the_node_carry_on_the_call_that_is_served_whoever_makes_them() -> None:
    """From the handler's task, from a task that it starts, from a plain handler's thread."""
    nodes: list[Node] = []
    last = Agent("last/agent")
    seen: list[tuple[str, float]] = []

    @last.capability("last.look")
    async def look(context: Context, way: str) -> None:
        seen.append((way, context.remaining))

    first = Agent("first/agent")

    @first.capability("first.direct")
    async def direct() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(nodes[0].call, "last.look", {"way": "task"})
        await nodes[0].call("last.look", {"way": "direct"})

    @first.capability("first.thread")
    def thread() -> None:
        trio.from_thread.run(nodes[0].call, "last.look", {"way": "thread"})

    @first.capability("first.loop")
    async def loop() -> None:
        await nodes[0].call("first.direct")

    async with two_nodes([first], [last]) as (left, right):
        nodes.append(left)
        with trio.fail_after(10):
            await right.call("first.direct", timeout=3)
            await right.call("first.thread", timeout=3)
            assert [way for way, _ in seen] == ["task", "direct", "thread"]
            assert all(0 < remaining <= 3 for _, remaining in seen)
            with pytest.raises(CallFailed) as caught:
                await right.call("first.loop", timeout=3)
        assert str(int(ErrorCode.LOOP)) in str(caught.value)


async def test_what_outlives_its_handler_begins_chains_of_its_own() -> None:
    agent = Agent("spawning/agent")
    over, result = trio.Event(), trio.Event()
    nodes: list[Node] = []

    async with trio.open_nursery() as background:

        async def later() -> None:
            await over.wait()
            await nodes[0].call("spawn.other", timeout=3)
            result.set()

        @agent.capability("spawn.start")
        async def start() -> None:
            background.start_soon(later)

        @agent.capability("spawn.other")
        async def other() -> None:
            pass

        async with Node(agent) as node:
            nodes.append(node)
            await node.call("spawn.start", timeout=0.5)
            over.set()
            with trio.fail_after(5):
                await result.wait()


async def test_a_trace_goes_through_all_nodes_with_a_parent_id_of_each_call() -> None:
    seen: list[str | None] = []
    last = Agent("last/agent")

    @last.capability("last.look")
    async def look(context: Context) -> None:
        seen.append(context.traceparent)

    first = Agent("first/agent")

    @first.capability("first.pass")
    async def pass_on(context: Context) -> None:
        seen.append(context.traceparent)
        await context.call("last.look")

    trace = "0af7651916cd43dd8448eb211c80319c"
    async with two_nodes([first], [last]) as (_, right):
        with trio.fail_after(5):
            await right.call("first.pass", traceparent=f"00-{trace}-b7ad6b7169203331-01")
            await right.call("first.pass")
            await right.call("first.pass", traceparent="nonsense")
        assert right.diagnostics()["calls.traceparent_malformed"] == 1
    traces = [text.split("-")[1] for text in seen if text is not None]
    assert len(traces) == len(set(seen)) == 6
    assert traces[:2] == [trace, trace]
    assert len({trace, traces[2], traces[4]}) == 3
    assert traces[2] == traces[3]
    assert traces[4] == traces[5]
