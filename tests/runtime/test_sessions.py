"""Sessions over real links: nested calls and threads stay in their trace, and any node can gather it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from reachp2p import Agent, CallFailed, Context, Node
from reachp2p.core.calls.checking import Kind
from reachp2p.core.calls.hops import Side
from reachp2p.core.settings import Protocol
from reachp2p.errors import ErrorCode, InvalidIdentifier, LocalProtocolError
from reachp2p.runtime.control_client import request

pytestmark = pytest.mark.trio

PLAIN = Protocol(start_answer_timeout=0.2, gossip_interval=0.02)


def team() -> tuple[Agent, Agent]:
    """A planner that calls a worker from a task and, in a thread, another capability that fails."""
    planner, worker = Agent("team/planner"), Agent("team/worker")

    @planner.capability("plan.work")
    async def plan(context: Context) -> int:
        done: int = await context.call("work.well", {"size": 3})
        with pytest.raises(CallFailed):
            await context.call("plan.thread")
        return done

    @planner.capability("plan.alone")
    def alone(context: Context) -> int:
        done: int = context.call_blocking("work.well", {"size": 1})
        return done

    @worker.capability("work.well")
    async def well(size: int) -> int:
        return size

    @worker.capability("plan.thread")
    def fails() -> None:
        raise ValueError("no luck")

    return planner, worker


@asynccontextmanager
async def three_nodes(folder: Path) -> AsyncIterator[tuple[Node, Node, Node]]:
    planner, worker = team()
    async with (
        Node(name="asker", protocol=PLAIN, state=folder, control=True) as asker,
        Node(planner, name="planner", seeds=[str(asker.address)], protocol=PLAIN) as one,
        Node(worker, name="worker", seeds=[str(asker.address)], protocol=PLAIN) as other,
    ):
        for node in (asker, one, other):
            for capability in ("plan.work", "work.well"):
                await node.wait_for(capability, timeout=5)
        yield asker, one, other


async def test_a_chain_is_gathered_by_whoever_began_it_and_by_others(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as (asker, planner, worker):
        with trio.fail_after(10):
            _, _, ended = await asker.call_detailed("plan.work")
            for node in (asker, worker, planner):
                trace = await node.trace(ended.call)
                assert [(hop.side, hop.capability, hop.code) for hop in trace.hops] == [
                    (Side.ASKED, "plan.work", 0),
                    (Side.SERVED, "plan.work", 0),
                    (Side.ASKED, "work.well", 0),
                    (Side.SERVED, "work.well", 0),
                    (Side.ASKED, "plan.thread", ErrorCode.HANDLER_FAILED),
                    (Side.SERVED, "plan.thread", ErrorCode.HANDLER_FAILED),
                ]
                assert trace.levels == [0, 1, 2, 3, 2, 3]
                assert (trace.findings, trace.missing, trace.left_out) == ([], [], 0)
                assert [hop.node for hop in trace.hops[::3]] == [asker.id, worker.id]
            found = await asker.sessions(failed=True, since=60.0)
            assert [view.session for view in found.sessions] == [ended.call]
            assert (found.sessions[0].capability, found.sessions[0].code) == (
                "plan.thread",
                ErrorCode.HANDLER_FAILED,
            )
            assert "no luck" in found.sessions[0].detail
            assert (await asker.trace(ended.call.hex()[:8])).hops == (await asker.trace(ended.call)).hops


async def test_the_context_goes_through_a_worker_thread(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as (asker, _, worker):
        with trio.fail_after(10):
            _, _, ended = await asker.call_detailed("plan.alone")
            trace = await worker.trace(ended.call)
            assert trace.levels == [0, 1, 2, 3]
            assert trace.findings == []
            nested = trace.hops[-1].message_id  # a call's id stands for its trace where it was made or served
            assert nested != trace.session
            assert (await worker.trace(nested.hex())).session == trace.session
            assert (await asker.trace(nested)).hops == []


async def test_a_node_that_is_gone_is_named(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as (asker, planner, _):
        with trio.fail_after(10):
            _, _, ended = await asker.call_detailed("plan.work")
            await planner.leave()
            trace = await asker.trace(ended.call, timeout=4.0)
            assert [missing.node for missing in trace.missing] == [planner.id]
            assert {finding.kind for finding in trace.findings} == {Kind.ASKED_LOST, Kind.SERVED_LOST}
            assert {finding.node for finding in trace.findings} == {planner.id}


async def test_calls_that_find_nobody_are_sessions_too(tmp_path: Path) -> None:
    async with Node(name="lonely", protocol=PLAIN) as node:
        for _ in range(2):
            with pytest.raises(CallFailed) as failed:
                await node.call("no.such")
            assert failed.value.call is not None
            assert (await node.trace(failed.value.call)).hops[0].code == ErrorCode.UNKNOWN_TARGET
        found = await node.sessions(failed=True)
        assert [(view.capability, view.code) for view in found.sessions] == [
            ("no.such", ErrorCode.UNKNOWN_TARGET)
        ] * 2
        trace = await node.trace(found.sessions[0].session)
        assert [(hop.other, hop.handed) for hop in trace.hops] == [(None, False)]


async def test_wrong_questions_are_told_what_is_wrong(tmp_path: Path) -> None:
    async with Node(name="lonely", protocol=PLAIN) as node:
        for wrong in ("", "123", "xyz" * 6, b"short", 7, "a" * 33):
            with pytest.raises(InvalidIdentifier, match="write its 32 hexadecimal digits"):
                await node.trace(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidIdentifier, match="none of this node's begin so"):
            await node.trace("abcdef0123")
        with pytest.raises(ValueError, match="limit"):
            await node.sessions(limit=0)
        assert (await node.trace("00" * 16)).hops == []


async def test_a_question_that_cannot_be_sent_is_refused_here_and_ends_no_node(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as (asker, planner, worker):
        with trio.fail_after(10):
            for wrong in ({"capability": "\ud800"}, {"capability": "x" * 5_000}, {"agent": "\ud800/one"}):
                with pytest.raises(InvalidIdentifier):
                    await asker.sessions(**wrong)  # type: ignore[arg-type]
            await asker.call("plan.work")
            for since in (1e300, float("inf")):
                found = await asker.sessions(since=since)
                assert [view.capability for view in found.sessions] == ["plan.work"]
                assert found.missing == []
        assert all(node.is_running for node in (asker, planner, worker))


async def test_the_command_line_gets_plain_objects(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as (_, _, worker):
        with trio.fail_after(10):
            answer = await request(tmp_path, "call", {"capability": "plan.work"})
            trace = await request(tmp_path, "trace", {"session": answer["session"], "timeout": 5})
            assert trace["session"] == answer["session"]
            assert [hop["level"] for hop in trace["hops"]] == [0, 1, 2, 3, 2, 3]
            assert trace["names"][worker.id.hex()] == "worker"
            assert (trace["missing"], trace["findings"], trace["left_out"]) == ([], [], 0)
            told = await request(tmp_path, "sessions", {"failed": True, "since": 60})
            assert [one["session"] for one in told["sessions"]] == [answer["session"]]
            for wrong in ({}, {"session": 5}, {"session": "12"}, {"session": "0" * 32, "timeout": 0}):
                with pytest.raises(CallFailed):
                    await request(tmp_path, "trace", wrong)
            for wrong in ({"since": -1}, {"since": "1h"}, {"limit": 0}, {"capability": 3}):
                with pytest.raises(CallFailed):
                    await request(tmp_path, "sessions", wrong)


async def test_calls_made_in_a_session_belong_to_it_and_those_of_handlers_too(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as (asker, planner, _):
        with trio.fail_after(10):
            with asker.session() as session:
                await asker.call("plan.work")
                await asker.call("work.well", {"size": 1})
            await asker.call("work.well", {"size": 2})
            trace = await asker.trace(session)
            asked = [hop for hop in trace.hops if hop.side is Side.ASKED and hop.depth == 0]
            assert [hop.capability for hop in asked] == ["plan.work", "work.well"]
            assert {hop.session.hex() for hop in trace.hops} == {session}
            assert len(trace.hops) == 8
            with planner.session(session) as again:  # it goes on elsewhere
                await planner.call("work.well", {"size": 3})
            assert again == session
            assert len((await asker.trace(session)).hops) == 10


@pytest.mark.parametrize("wrong", ["abc", b"short", 7, "z" * 32])
async def test_a_session_has_an_id_of_sixteen_bytes(wrong: object, tmp_path: Path) -> None:
    async with Node(name="alone", protocol=PLAIN) as node:
        with pytest.raises(LocalProtocolError, match="32 hexadecimal digits"), node.session(wrong):  # type: ignore[arg-type]
            pytest.fail("it is refused")


async def test_a_stream_is_a_hop_with_its_items_on_each_side() -> None:
    agent = Agent("team/counter")

    @agent.capability("count.to")
    async def count(number: int) -> AsyncIterator[int]:
        for one in range(number):
            yield one

    async with (
        Node(agent, name="counter", protocol=PLAIN) as one,
        Node(name="asker", seeds=[str(one.address)], protocol=PLAIN) as asker,
    ):
        await asker.wait_for("count.to", timeout=5)
        with trio.fail_after(10):
            async with asker.stream("count.to", {"number": 7}) as items:
                assert [item async for item in items] == list(range(7))
            (session,) = (await asker.sessions()).sessions
            trace = await asker.trace(session.session)
            assert [(hop.side, hop.items, hop.code) for hop in trace.hops] == [
                (Side.ASKED, 7, 0),
                (Side.SERVED, 7, 0),
            ]
            assert trace.findings == []
