"""Streams over real links: what handlers and callers write, slow and stubborn consumers, broken links, dead nodes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from reachp2p import Agent, CallFailed, Context, Node
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode, LocalProtocolError
from reachp2p.runtime.call_stream import CallStream
from reachp2p.runtime.control_client import stream

pytestmark = pytest.mark.trio


@asynccontextmanager
async def two_nodes(agent: Agent, **protocol: Any) -> AsyncIterator[tuple[Node, Node]]:
    """A caller, and a node that offers `agent`."""
    settings = Protocol(start_answer_timeout=0.2, gossip_interval=0.02, **protocol)
    async with (
        Node(agent, name="callee", protocol=settings) as callee,
        Node(name="caller", seeds=[str(callee.address)], protocol=settings) as caller,
    ):
        for capability in agent.capabilities:
            await caller.wait_for(capability, timeout=5)
        yield caller, callee


@dataclass
class Point:
    x: int
    y: float = 0.0


def sample() -> Agent:
    """One capability of each kind."""
    agent = Agent("test/streams")

    @agent.capability("stream.count")
    async def count(upto: int, fail_at: int = -1) -> AsyncIterator[int]:
        for number in range(upto):
            if number == fail_at:
                raise ValueError("no further")
            yield number

    @agent.capability("stream.sum")
    async def add(points: AsyncIterator[Point], scale: int = 1) -> float:
        return sum([scale * (point.x + point.y) async for point in points])

    @agent.capability("stream.echo")
    async def echo(items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for item in items:
            yield {"echo": item}

    @agent.capability("stream.raw")
    async def raw(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            yield chunk[::-1]

    @agent.capability("stream.plain")
    def plain(words: Iterator[str], suffix: str = "") -> Iterator[str]:
        for word in words:
            yield word.upper() + suffix

    @agent.capability("stream.untyped")
    async def untyped():  # type: ignore[no-untyped-def]
        yield 1
        yield {"two": [2]}

    @agent.capability("stream.wrong")
    async def wrong() -> AsyncIterator[int]:
        yield 1
        yield "two"  # type: ignore[misc]

    @agent.capability("stream.made")
    async def made(upto: int) -> AsyncIterator[int]:
        return count(upto)

    @agent.capability("stream.not")
    async def no_stream(text: str = "") -> str:
        return text

    return agent


async def read(items: CallStream) -> None:
    async for _ in items:
        await trio.sleep(0.001)


async def all_of(node: Node, capability: str, params: Any = None, **options: Any) -> list[Any]:
    async with node.stream(capability, params, **options) as items:
        return [item async for item in items]


async def test_what_handlers_and_callers_write() -> None:
    async with two_nodes(sample()) as (caller, callee):
        with trio.fail_after(10):
            assert await all_of(caller, "stream.count", {"upto": 300}) == list(range(300))
            assert await all_of(callee, "stream.count", {"upto": 3}) == [0, 1, 2]  # to itself
            assert await all_of(caller, "stream.untyped") == [1, {"two": [2]}]
            assert await all_of(caller, "stream.made", {"upto": 2}) == [0, 1]
            assert await all_of(caller, "stream.count", {"upto": 0}) == []
            async with caller.stream("stream.sum", {"scale": 2}) as points:
                for point in (Point(1), {"x": 2, "y": 0.5}):
                    assert await points.send(point)
                assert await points.result() == 7.0
                assert await points.result() == 7.0
            async with caller.stream("stream.echo") as both:
                for n in range(3):
                    await both.send(n)
                    assert await both.__anext__() == {"echo": n}
                await both.end()
                assert [item async for item in both] == []
                assert both.items == 3
                assert await both.result() is None
            async with caller.stream("stream.raw") as chunks:
                await chunks.send(b"abc" * 100_000)
                await chunks.end()
                assert [chunk async for chunk in chunks] == [b"cba" * 100_000]
            async with caller.stream("stream.plain", {"suffix": "!"}) as words:
                for word in ("a", "b"):
                    await words.send(word)
                await words.end()
                assert [word async for word in words] == ["A!", "B!"]
        for node in (caller, callee):
            await is_left_with_nothing(node)


LEFTOVERS = (
    "size.streams", "size.streams.bytes", "size.streams.farewells", "size.pending_calls", "size.calls.serving",
    "size.runtime_calls", "size.runtime_invocations",
)  # fmt: skip


async def is_left_with_nothing(node: Node) -> None:
    """Every table of streams empties within moments."""
    for _ in range(300):
        counts = node.diagnostics()
        left = {name: counts[name] for name in LEFTOVERS if counts[name]}
        if not left:
            return
        await trio.sleep(0.01)
    raise AssertionError(left)


async def test_what_goes_wrong_is_said_with_its_code_after_the_items_before() -> None:
    async with two_nodes(sample(), stream_window=4_096) as (caller, callee):
        with trio.fail_after(10):
            async with caller.stream("stream.count", {"upto": 9, "fail_at": 5}) as items:
                assert [await items.__anext__() for _ in range(5)] == [0, 1, 2, 3, 4]
                with pytest.raises(CallFailed, match="ValueError: no further") as failed:
                    await items.__anext__()
            assert (failed.value.code, failed.value.items) == (ErrorCode.HANDLER_FAILED, 5)

            with pytest.raises(CallFailed, match="expected integer, got") as failed:
                await all_of(caller, "stream.wrong")
            assert (failed.value.code, failed.value.items) == (ErrorCode.HANDLER_FAILED, 1)

            async with caller.stream("stream.sum") as points:
                await points.send(Point(1))
                await points.send({"x": "two"})
                with pytest.raises(
                    CallFailed, match=r"item 1 of the parameters: \$\.x: expected integer"
                ) as failed:
                    await points.result()
                assert failed.value.code is ErrorCode.SCHEMA_MISMATCH
                with pytest.raises(CallFailed):
                    await points.send(Point(3))

            for capability, params in (("stream.count", {"upto": "x"}), ("stream.not", {})):
                with pytest.raises(CallFailed) as failed:
                    await all_of(caller, capability, params)
                assert failed.value.code is ErrorCode.SCHEMA_MISMATCH
            with pytest.raises(CallFailed, match=r"use stream\(\), not call\(\)"):
                await caller.call("stream.count", {"upto": 1})
            with pytest.raises(CallFailed):
                await all_of(caller, "stream.nobody")
            stream = caller.stream("stream.count", {"upto": 1})
            with pytest.raises(LocalProtocolError, match="begins with its block"):
                await stream.__anext__()
            async with stream:
                with pytest.raises(LocalProtocolError):
                    await stream.send(1)
            with pytest.raises(LocalProtocolError, match="entered once"):
                await stream.__aenter__()
            with pytest.raises(CallFailed, match="was left"):
                await stream.__anext__()
            async with caller.stream("stream.echo") as both:
                with pytest.raises(CallFailed, match="cannot be sent"):
                    await both.send(object())
        for node in (caller, callee):
            await is_left_with_nothing(node)


async def test_what_cannot_be_declared() -> None:
    agent = Agent("test/declared")

    def declare(function: Any) -> None:
        agent.capability(f"a.b{len(agent.capabilities)}")(function)

    async def two(a: AsyncIterator[int], b: AsyncIterator[int]) -> None: ...
    async def plain_in_async(a: Iterator[int]) -> None: ...
    def async_in_plain(a: AsyncIterator[int]) -> None: ...
    def returns_async() -> AsyncIterator[int]: ...  # type: ignore[empty-body]
    async def no_schema() -> AsyncIterator[Context]: ...  # type: ignore[empty-body]

    async def not_said() -> int:  # type: ignore[misc]
        yield 1

    for function, said in (
        (two, "one is possible"),
        (plain_in_async, r"AsyncIterator\[\.\.\.\]"),
        (async_in_plain, r"written Iterator\[\.\.\.\]"),
        (returns_async, r"written Iterator\[\.\.\.\]"),
        (no_schema, "no JSON Schema"),
        (not_said, r"annotate it with AsyncIterator\[\.\.\.\]"),
    ):
        with pytest.raises(LocalProtocolError, match=said):
            declare(function)


def faucet() -> tuple[Agent, dict[str, Any]]:
    """An agent that yields large items for as long as anybody takes them, and says how it went."""
    agent = Agent("test/faucet")
    seen: dict[str, Any] = {"yielded": 0, "ends": []}

    @agent.capability("faucet.run")
    async def run(size: int, count: int = 1_000_000) -> AsyncIterator[bytes]:
        try:
            for _ in range(count):
                yield b"w" * size
                seen["yielded"] += 1
        except BaseException as error:
            seen["ends"].append(type(error).__name__)
            raise
        finally:
            seen["ends"].append("finally")

    @agent.capability("faucet.echo")
    async def echo(text: str) -> str:
        return text

    return agent, seen


async def test_an_item_above_the_payload_limit_is_its_sender_s_fault() -> None:
    agent, _ = faucet()
    async with two_nodes(agent) as (caller, callee):
        with trio.fail_after(5), pytest.raises(CallFailed, match="1048577 bytes, at most 1048576") as failed:
            await all_of(caller, "faucet.run", {"size": 1_048_577})
        assert failed.value.code is ErrorCode.PAYLOAD_TOO_LARGE
        await is_left_with_nothing(callee)
    async with two_nodes(sample()) as (caller, _), caller.stream("stream.raw") as chunks:
        with pytest.raises(CallFailed, match="at most 1048576"):
            await chunks.send(bytes(1_048_577))
        assert await chunks.send(bytes(1_048_576))


async def test_a_handler_waits_for_a_slow_consumer() -> None:
    agent, seen = faucet()
    async with two_nodes(agent, stream_window=65_536) as (caller, callee):
        async with caller.stream("faucet.run", {"size": 10_000}) as items:
            with trio.fail_after(10):
                for taken in range(1, 21):
                    await items.__anext__()
                    await trio.sleep(0.01)
                    assert seen["yielded"] <= taken + 65_536 // 10_000 + 1
        for node in (caller, callee):
            await is_left_with_nothing(node)
        assert seen["ends"][-1] == "finally"


async def test_a_consumer_that_never_reads_costs_one_window_and_delays_no_call() -> None:
    agent, seen = faucet()
    async with two_nodes(agent) as (caller, callee), caller.stream("faucet.run", {"size": 8_000}):
        await trio.sleep(0.3)
        yielded = seen["yielded"]
        took = []
        for number in range(100):
            begun = time.perf_counter()
            assert await caller.call("faucet.echo", {"text": str(number)}, timeout=5) == str(number)
            took.append(time.perf_counter() - begun)
        assert sorted(took)[90] < 0.1
        assert seen["yielded"] == yielded <= 1_048_576 // 8_128
        for node in (caller, callee):
            assert 900_000 < node.diagnostics()["size.streams.bytes"] <= 1_048_576
            assert node.diagnostics()["size.links.queued_bytes"] < 100_000


async def test_ten_megabytes_flow_through_flat_queues() -> None:
    agent, _ = faucet()
    async with two_nodes(agent) as (caller, callee):
        most = 0
        size = 65_536
        with trio.fail_after(20):
            async with caller.stream("faucet.run", {"size": size, "count": 160}) as items:
                total = 0
                async for item in items:
                    total += len(item)
                    counts = callee.diagnostics()
                    queued = counts["size.links.queued_bytes"] + counts["size.runtime_link_bytes"]
                    most = max(most, queued + counts["size.streams.bytes"])
        assert total == 160 * size
        assert most < 3_000_000
        for node in (caller, callee):
            await is_left_with_nothing(node)


async def test_leaving_cancels_the_handler_wherever_it_is() -> None:
    agent, seen = faucet()
    async with two_nodes(agent) as (caller, callee):
        async with caller.stream("faucet.run", {"size": 10}) as items:
            async for _ in items:
                break
        await is_left_with_nothing(callee)
        with trio.CancelScope() as scope:  # around the reader
            async with caller.stream("faucet.run", {"size": 300_000}) as items:
                await items.__anext__()
                scope.deadline = trio.current_time() + 0.1
                await trio.sleep_forever()
        await is_left_with_nothing(callee)
        for _ in range(500):  # a handler's slot may be free a moment before its last lines have run
            if len(seen["ends"]) == 4:
                break
            await trio.sleep(0.01)
        assert seen["ends"] == ["GeneratorExit", "finally"] * 2
        async with aclosing(caller.stream("faucet.run", {"size": 10})) as stream:
            await stream.__aenter__()
        for node in (caller, callee):
            await is_left_with_nothing(node)


def break_links(node: Node) -> int:
    """End the connections of a node as a broken network would; how many."""
    outlets = node._lifetime.outlets
    assert outlets is not None
    links = list(outlets.links._links.values())
    for link in links:
        link._socket.shutdown(2)
    return len(links)


async def test_a_broken_link_is_resumed_and_nothing_is_lost_or_doubled() -> None:
    agent = sample()
    async with two_nodes(agent, stream_window=8_192) as (caller, callee):
        with trio.fail_after(20):
            async with caller.stream("stream.echo") as both:

                async def send_all() -> None:
                    for number in range(400):
                        await both.send(number)
                        if number in (50, 150, 300):
                            assert break_links(caller if number == 150 else callee) > 0
                    await both.end()

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(send_all)
                    assert [item["echo"] async for item in both] == list(range(400))
        counts = caller.diagnostics()
        assert counts["streams.resumed"] >= 2
        for node in (caller, callee):
            await is_left_with_nothing(node)


async def test_a_node_that_dies_ends_its_streams_with_what_has_arrived() -> None:
    agent, _ = faucet()
    protocol = Protocol(start_answer_timeout=0.2, gossip_interval=0.02, stream_resume_window=1.0)
    async with Node(name="caller", protocol=protocol) as caller:
        async with trio.open_nursery() as nursery:
            await Node.start_in(nursery, agent, name="dies", seeds=[str(caller.address)], protocol=protocol)
            await caller.wait_for("faucet.run", timeout=5)
            async with caller.stream("faucet.run", {"size": 100, "count": 5}) as first:
                assert len([item async for item in first]) == 5
            async with caller.stream("faucet.run", {"size": 100_000}) as items:
                await items.__anext__()
                nursery.cancel_scope.cancel()
                with trio.fail_after(10), trio.CancelScope(shield=True), pytest.raises(CallFailed) as failed:
                    await read(items)
                assert failed.value.code in (ErrorCode.OUTCOME_UNKNOWN, ErrorCode.NODE_LOST)
                assert failed.value.items == items.items >= 1
        await is_left_with_nothing(caller)


async def test_a_handler_streams_on_behalf_of_its_call() -> None:
    agent = sample()

    @agent.capability("stream.through")
    async def through(context: Context, upto: int) -> AsyncIterator[int]:
        async with context.stream("stream.count", {"upto": upto}) as items:
            async for item in items:
                yield item * 10

    async with two_nodes(agent) as (caller, callee):
        with trio.fail_after(10):
            with pytest.raises(CallFailed) as failed:  # one agent twice on the path is a loop
                await all_of(caller, "stream.through", {"upto": 3})
            assert failed.value.code is ErrorCode.HANDLER_FAILED
            other = Agent("test/other")
            other.capability("stream.other")(through)
            await callee.register(other)
            await caller.wait_for("stream.other", timeout=5)
            assert await all_of(caller, "stream.other", {"upto": 3}) == [0, 10, 20]


async def test_the_command_line_gets_items_as_they_come(tmp_path: Path) -> None:
    protocol = Protocol(start_answer_timeout=0.2)
    async with Node(sample(), state=tmp_path, control=True, protocol=protocol) as node:
        with trio.fail_after(5):
            three = {"capability": "stream.count", "params": {"upto": 3}}
            async with aclosing(stream(tmp_path, "stream", three)) as lines:
                assert [line async for line in lines] == [{"item": 0}, {"item": 1}, {"item": 2}]
            async with aclosing(stream(tmp_path, "stream", {"capability": "stream.echo"})) as lines:
                assert [line async for line in lines] == []
            async with aclosing(stream(tmp_path, "stream", {"capability": "stream.not"})) as lines:
                with pytest.raises(CallFailed, match="use call"):
                    await anext(lines)
            async with aclosing(stream(tmp_path, "stream", {"capability": "stream.wrong"})) as lines:
                assert await anext(lines) == {"item": 1}
                with pytest.raises(CallFailed, match="expected integer"):
                    await anext(lines)
            endless = {"capability": "stream.count", "params": {"upto": 10_000_000}}
            async with aclosing(stream(tmp_path, "stream", endless)) as lines:
                assert await anext(lines) == {"item": 0}
        await is_left_with_nothing(node)


async def test_closing_the_node_ends_its_streams() -> None:
    agent, _ = faucet()
    async with two_nodes(agent) as (caller, _), caller.stream("faucet.run", {"size": 10}) as items:
        await items.__anext__()

        async def close() -> None:
            await trio.sleep(0.1)
            await caller.aclose(timeout=0.2)

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(close)
                with pytest.raises(CallFailed):
                    await read(items)


async def test_only_the_time_in_which_somebody_waits_for_an_item_makes_a_stream_idle() -> None:
    agent = Agent("slow/one")

    @agent.capability("slow.items")
    async def items() -> AsyncIterator[int]:
        await trio.sleep(1.5)
        yield 1
        await trio.sleep_forever()

    async with Node(agent, name="one") as node:
        await node.wait_for("slow.items", timeout=5)
        async with node.stream("slow.items", idle_timeout=1) as stream:
            with trio.move_on_after(0.1):
                await stream.__anext__()
            await trio.sleep(2)  # busy with something else
            assert await stream.__anext__() == 1
            with pytest.raises(CallFailed) as caught:
                await stream.__anext__()
            assert caught.value.code == ErrorCode.DEADLINE_EXCEEDED
