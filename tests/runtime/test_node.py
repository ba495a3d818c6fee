"""A node embedded in a program: it opens and closes in any way, and is the same after each (B21, B51, B65, B67)."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from reachp2p import Agent, CallFailed, Node, NodeError
from reachp2p.core.events import CallEnded, DrainFinished, MemberChanged, MemberState, Started
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode, LocalProtocolError
from reachp2p.runtime.state_folder import open_folder

pytestmark = pytest.mark.trio

QUICK = Protocol(start_answer_timeout=0.2, gossip_interval=0.02)
"""Goodbyes spread for two gossip intervals; here they need not."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so, at most five seconds."""
    with trio.fail_after(5):
        while not condition():  # noqa: ASYNC110 (a look from outside, at what tells nobody)
            await trio.sleep(0.01)


def lose_disk(folder: Path) -> None:
    """Everything but the key is gone."""
    for file in folder.glob("state.db*"):
        file.unlink()


def echo_agent(name: str = "nlp/echo") -> Agent:
    agent = Agent(name, version="1.0.0")

    @agent.capability("echo.text")
    async def echo(text: str) -> str:
        return text

    @agent.capability("echo.wait")
    async def wait(seconds: float) -> str:
        await trio.sleep(seconds)
        return "waited"

    @agent.capability("echo.fail")
    async def fail() -> str:
        raise ValueError("on purpose")

    @agent.capability("echo.plain")
    def plain(number: int) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return f"{number} in a thread"

    return agent


async def test_two_nodes_find_each_other_and_call() -> None:
    async with (
        Node(echo_agent(), name="left") as left,
        Node(name="right", seeds=[str(left.address)]) as right,
    ):
        await right.wait_for("echo.text", timeout=5)
        assert await right.call("echo.text", {"text": "hi"}) == "hi"
        assert await left.call("echo.text", {"text": "to myself"}) == "to myself"
        assert await right.call("echo.plain", {"number": 7}) == "7 in a thread"
        assert {view.name: view.state for view in right.members()} == {
            "left": MemberState.ALIVE,
            "right": MemberState.ALIVE,
        }
        assert [(view.agent, view.node) for view in right.agents()] == [("nlp/echo", left.id)]
        assert right.explain("echo.text").picked == left.id
        assert right.diagnostics()["size.runtime_links"] >= 1
        assert left.life is not None
        assert left.life.epoch == 1


async def test_how_calls_fail_is_said_with_code_place_and_reason() -> None:
    async with (
        Node(echo_agent(), name="left") as left,
        Node(name="right", seeds=[str(left.address)]) as right,
    ):
        await right.wait_for("echo.text", timeout=5)
        with pytest.raises(CallFailed, match="ValueError: on purpose") as caught:
            await right.call("echo.fail")
        assert (caught.value.code, caught.value.node) == (ErrorCode.HANDLER_FAILED, left.id[:4].hex())
        with pytest.raises(CallFailed, match="text") as caught:
            await right.call("echo.text", {"text": 5})
        assert caught.value.code is ErrorCode.SCHEMA_MISMATCH
        with pytest.raises(CallFailed) as caught:
            await right.call("echo.wait", {"seconds": 5}, timeout=0.2)
        assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED
        with pytest.raises(CallFailed) as caught:
            await right.call("nobody.offers")
        assert caught.value.code is ErrorCode.UNKNOWN_TARGET
        with pytest.raises(CallFailed, match="parameters cannot be sent") as caught:
            await right.call("echo.text", {"text": object()})
        assert caught.value.code is ErrorCode.SCHEMA_MISMATCH
        with pytest.raises(CallFailed) as caught:
            await right.call()
        assert caught.value.code is ErrorCode.TARGET_NOT_SPECIFIED


async def test_large_answers_that_are_ready_at_once_delay_and_fail_nobody() -> None:
    agent = echo_agent()

    @agent.capability("echo.large", repeatable=False)
    async def large(count: int) -> str:
        return "x" * count

    async with Node(agent, name="left") as left, Node(name="right", seeds=[str(left.address)]) as right:
        await right.wait_for("echo.large", timeout=5)
        sizes: list[int] = []

        async def ask() -> None:
            sizes.append(len(await right.call("echo.large", {"count": 1_000_000})))

        async with trio.open_nursery() as nursery:
            for _ in range(40):  # 40 MB, five times what a link's queue holds
                nursery.start_soon(ask)
            assert await right.call("echo.wait", {"seconds": 0.3}) == "waited"
        assert sizes == [1_000_000] * 40
        assert left.diagnostics()["calls.reply_waited"] > 0


async def test_cancelling_the_caller_cancels_the_handler() -> None:
    began, ended = trio.Event(), trio.Event()
    agent = Agent("nlp/slow")

    @agent.capability("slow.one")
    async def slow() -> None:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with Node(agent) as left, Node(seeds=[str(left.address)]) as right:
        await right.wait_for("slow.one", timeout=5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(right.call, "slow.one")
            await began.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            await ended.wait()


async def test_agents_come_and_go_while_the_node_runs() -> None:
    async with Node(name="left") as left, Node(seeds=[str(left.address)]) as right:
        agent = echo_agent()
        assert await left.register(agent) == 1
        await right.wait_for("echo.text", timeout=5)
        assert left.offered == ["nlp/echo"]
        await left.withdraw("nlp/echo")
        with pytest.raises(LocalProtocolError):
            await left.withdraw("nlp/echo")
        await until(lambda: not right.engine.routable("echo.text"))
        with pytest.raises(CallFailed) as caught:
            await right.wait_for("echo.text", timeout=0.3)
        assert caught.value.code is ErrorCode.UNKNOWN_TARGET


async def test_waiting_for_a_capability_is_not_content_with_suspects_and_says_what_it_has_seen() -> None:
    async with Node(echo_agent(), name="left") as left, Node(seeds=[str(left.address)]) as right:
        await right.wait_for("echo.text", timeout=5)
        life = left.life
        right.engine._parts.routing.set_node(left.id, MemberState.SUSPECT, False, "left", life)
        with pytest.raises(
            CallFailed, match=r"no healthy instance of echo.text: 1 known \(1 SUSPECT\)"
        ) as caught:
            await right.wait_for("echo.text", timeout=0.3)
        assert caught.value.code is ErrorCode.NO_HEALTHY_INSTANCE
        assert await right.call("echo.text", {"text": "all the same"}) == "all the same"
        right.engine._parts.routing.set_node(left.id, MemberState.ALIVE, False, "left", life)
        await right.wait_for("echo.text", timeout=1)


async def test_all_who_wait_for_a_capability_wake_at_its_first_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachp2p.runtime.node.ROUTABLE_RECHECK", 60.0)
    async with Node(name="lonely") as node, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(node.wait_for, "echo.text", 5.0)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await node.register(Agent("nlp/other"))  # wakes all of them for nothing
        await trio.testing.wait_all_tasks_blocked(0.05)
        await node.register(echo_agent())


async def test_events_are_told_in_order_to_every_listener_and_end_with_the_node() -> None:
    async with Node(name="left") as left:
        node = Node(name="right", seeds=[str(left.address)])
        streams = [node.events(), node.events()]
        async with node:
            await until(lambda: len(node.members()) == 2)
        heard = [[type(event) async for event in stream] for stream in streams]
        assert heard[0] == heard[1]
        assert {Started, MemberChanged} <= set(heard[0])
        assert heard[0][-1] is DrainFinished
        assert [event async for event in node.events()] == []


async def test_a_listener_that_does_not_listen_loses_the_oldest_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reachp2p.runtime.event_streams.BUFFER_MAX", 2)
    node = Node(echo_agent())
    async with node:
        stream = node.events(with_calls=True)
        for number in range(5):
            await node.call("echo.text", {"text": str(number)})
        assert (stream.dropped, node.diagnostics()["events.dropped"]) == (3, 3)
        stream.close()
        kept = [event.payload for event in [one async for one in stream] if isinstance(event, CallEnded)]
        assert kept == [b"\x613", b"\x614"]


# One owner (B65)


async def test_a_node_opened_in_one_task_is_closed_in_another() -> None:
    send, receive = trio.open_memory_channel[Node](1)
    async with trio.open_nursery() as nursery:

        async def opener() -> None:
            await send.send(await Node.start_in(nursery, echo_agent()))

        async def closer() -> None:
            node = await receive.receive()
            assert await node.call("echo.text", {"text": "x"}) == "x"
            await node.aclose()
            assert not node.is_running

        nursery.start_soon(opener)
        nursery.start_soon(closer)


async def test_two_nodes_close_first_in_first_out() -> None:
    async with trio.open_nursery() as nursery:
        first = await Node.start_in(nursery, echo_agent())
        second = await Node.start_in(nursery, seeds=[str(first.address)])
        await second.wait_for("echo.text", timeout=5)
        await first.aclose()
        assert second.is_running
        await second.aclose()
        await second.aclose()
        await first.aclose()


async def test_a_node_that_nobody_closes_ends_with_its_nursery() -> None:
    async with trio.open_nursery() as nursery:
        node = await Node.start_in(nursery, echo_agent())
        nursery.cancel_scope.cancel()
    assert not node.is_running
    with pytest.raises(LocalProtocolError, match="this node has closed"):
        await node.call("echo.text", {"text": "x"})


async def test_closing_inside_the_block_and_from_a_handler_is_the_same_request() -> None:
    agent = echo_agent()
    async with Node(agent) as node:

        @agent.capability("node.close")
        async def close() -> str:
            node.stop(1.0)
            return "closing"

        await node.register(agent)
        assert await node.call("node.close") == "closing"
        await node.wait_closed()
    await node.aclose()


async def test_a_node_is_used_once_and_says_so() -> None:
    node = Node()
    with pytest.raises(LocalProtocolError, match="async with Node"):
        _ = node.id
    async with node:
        pass
    with pytest.raises(LocalProtocolError, match="used once"):
        async with node:
            pass
    unused = Node()
    await unused.aclose()


async def test_closing_a_node_while_it_starts_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr("reachp2p.runtime.storage.Storage.open", never)
    node = Node()

    async def close_soon() -> None:
        await trio.sleep(0.05)
        await node.aclose()

    async def enter() -> None:
        async with node:
            raise AssertionError

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(close_soon)
            with pytest.raises(LocalProtocolError, match="closed before it had started"):
                await enter()


async def test_what_the_block_raises_comes_out_as_itself() -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with Node():
            raise error
    assert caught.value is error
    assert caught.value.__cause__ is None
    with pytest.raises(KeyboardInterrupt):
        async with Node():
            raise KeyboardInterrupt


async def test_calls_that_wait_when_the_node_closes_end_with_an_error() -> None:
    failures: list[CallFailed] = []
    async with trio.open_nursery() as nursery:
        node = await Node.start_in(nursery, echo_agent())

        async def wait() -> None:
            try:
                await node.call("echo.wait", {"seconds": 60})
            except CallFailed as error:
                failures.append(error)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked(0.05)
        with trio.fail_after(3):
            await node.aclose(0.3)
    assert [error.code for error in failures] == [ErrorCode.OUTCOME_UNKNOWN]


# All ways of ending share one clean-up (B67)


async def ends_by_close(node: Node) -> None:
    async with node:
        pass


async def ends_by_cancellation(node: Node) -> None:
    with trio.CancelScope() as scope:
        async with node:
            scope.cancel()


async def ends_by_exception(node: Node) -> None:
    with pytest.raises(ZeroDivisionError):
        async with node:
            _ = 1 / 0


async def ends_while_it_starts(node: Node) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with node:
            raise AssertionError


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    "way", [ends_by_close, ends_by_cancellation, ends_by_exception, ends_while_it_starts]
)
async def test_fifty_starts_and_stops_leave_nothing_behind(
    way: Callable[[Node], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four ways, two hundred in all; a node with a peer, a link and a file each time."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with Node(echo_agent(), name="peer") as peer:
        await way(Node(seeds=[str(peer.address)]))  # what is made once per process is there now
        await peer.call("echo.plain", {"number": 1})
        before = (descriptors(), trio.lowlevel.current_statistics().tasks_living, len(os.listdir(tmp_path)))
        threads = threading.active_count()
        for _ in range(50):
            with trio.fail_after(5):
                await way(Node(echo_agent(), seeds=[str(peer.address)], protocol=QUICK))
        await until(lambda: peer.diagnostics()["size.runtime_links"] == 0)
        after = (descriptors(), trio.lowlevel.current_statistics().tasks_living, len(os.listdir(tmp_path)))
        assert after == before
        assert threading.active_count() <= threads + 1


# What is wrong at the start


async def start(**options: object) -> None:
    async with Node(**options):  # type: ignore[arg-type]
        pass


async def test_a_port_in_use_is_1702() -> None:
    async with Node() as node:
        with pytest.raises(NodeError, match=f"port {node.address.port}") as caught:
            await start(port=node.address.port)
    assert caught.value.code is ErrorCode.ADDRESS_IN_USE


async def test_a_second_process_on_one_state_folder_is_1703(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    with pytest.raises(NodeError, match="in use by process") as caught:
        await start(state=tmp_path)
    assert caught.value.code is ErrorCode.STATE_LOCKED
    folder.close()


@pytest.mark.parametrize("file", ["node.key", "state.db"])
async def test_a_broken_state_file_is_1706(tmp_path: Path, file: str) -> None:
    await start(state=tmp_path)
    (tmp_path / file).write_bytes(b"rubbish")
    with pytest.raises(NodeError, match="damaged") as caught:
        await start(state=tmp_path)
    assert caught.value.code is ErrorCode.STATE_DAMAGED


# Lives (B21, B51)


async def test_a_restarted_node_has_the_same_id_and_a_higher_epoch(tmp_path: Path) -> None:
    lives = []
    for _ in range(3):
        async with Node(state=tmp_path) as node:
            lives.append((node.id, node.life.epoch if node.life else 0))
    assert lives == [(lives[0][0], epoch) for epoch in (1, 2, 3)]


async def test_a_restarted_node_routes_from_its_snapshot_within_a_second_and_without_a_seed(
    tmp_path: Path,
) -> None:
    async with Node(echo_agent()) as left:
        async with Node(state=tmp_path, seeds=[str(left.address)]) as node:
            await node.wait_for("echo.text", timeout=5)
        begun = trio.current_time()
        async with Node(state=tmp_path) as node:
            await node.wait_for("echo.text", timeout=1)
            assert await node.call("echo.text", {"text": "again"}) == "again"
            assert trio.current_time() - begun < 1.0


async def test_a_node_with_a_lost_disk_learns_its_epoch_from_others(tmp_path: Path) -> None:
    async with Node(name="peer") as peer:
        for _ in range(3):
            async with Node(state=tmp_path, seeds=[str(peer.address)]) as node:
                pass
        lose_disk(tmp_path)
        async with Node(state=tmp_path, seeds=[str(peer.address)]) as node:
            assert node.life is not None
            assert node.life.epoch == 4


async def test_a_clone_does_not_start_beside_the_original_unless_told_to_take_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    original, copy = tmp_path / "original", tmp_path / "copy"
    async with Node(name="peer") as peer, trio.open_nursery() as nursery:
        options = {"seeds": [str(peer.address)], "protocol": QUICK}
        await start(state=original, **options)
        shutil.copytree(original, copy)
        fenced: list[BaseException] = []

        async def run_original(task_status: trio.TaskStatus[Node]) -> None:
            try:
                async with Node(echo_agent(), state=original, **options) as node:  # type: ignore[arg-type]
                    task_status.started(node)
                    await trio.sleep_forever()
            except NodeError as error:
                fenced.append(error)

        node = await nursery.start(run_original)
        await peer.wait_for("echo.text", timeout=5)
        with pytest.raises(NodeError, match="--take-over") as caught:
            await start(state=copy, **options)
        assert caught.value.code is ErrorCode.FENCED
        assert node.is_running
        async with Node(state=copy, take_over=True, **options) as clone:  # type: ignore[arg-type]
            assert clone.id == node.id
            with trio.fail_after(5):
                await node.wait_closed()
        await until(lambda: bool(fenced))
        assert "another node runs under this node's key" in str(fenced[0])
        with pytest.raises(NodeError, match="fenced") as caught:
            await start(state=original, **options)
        assert caught.value.code is ErrorCode.FENCED
