"""A running node answers its command line, within bounds, and nothing that is asked can hurt it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from reachp2p import Agent, CallFailed, Node, NodeError
from reachp2p.errors import ErrorCode, ReachError
from reachp2p.runtime.control import CLIENTS_MAX, RESERVED
from reachp2p.runtime.control_client import request, stream
from reachp2p.runtime.control_wire import LINE_MAX, Lines
from reachp2p.runtime.state_folder import control_socket

pytestmark = pytest.mark.trio


@asynccontextmanager
async def answering(folder: Path) -> AsyncIterator[Node]:
    """A node with a command line and one agent."""
    agent = Agent("nlp/echo", version="1.0.0", tags={"env": "test"})

    @agent.capability("echo.text")
    async def echo(text: str) -> str:
        return text

    async with Node(agent, name="one", state=folder, control=True) as node:
        await until_it_listens(folder)
        yield node


async def until_it_listens(folder: Path) -> None:
    with trio.fail_after(2):
        while not control_socket(folder).exists():  # noqa: ASYNC110 (a look from outside)
            await trio.sleep(0.01)


async def raw(folder: Path) -> trio.SocketStream:
    return await trio.open_unix_socket(os.fspath(control_socket(folder)))


async def answers(connected: trio.SocketStream, *lines: bytes) -> list[Any]:
    """What comes back for some lines, until the other side closes or has answered each."""
    await connected.send_all(b"".join(lines))
    data = b""
    with trio.fail_after(5):
        while data.count(b"\n") < len(lines) and (more := await connected.receive_some(1 << 20)):
            data += more
    return [json.loads(line) for line in data.splitlines()]


async def test_what_a_node_says_about_itself_and_others(tmp_path: Path) -> None:
    async with answering(tmp_path) as node:
        info = await request(tmp_path, "info")
        assert (info["name"], info["node"], info["pid"]) == ("one", node.id.hex(), os.getpid())
        assert (info["epoch"], info["agents"], info["addresses"]) == (1, ["nlp/echo"], [str(node.address)])
        members = await request(tmp_path, "members")
        assert [(one["name"], one["state"], one["self"]) for one in members["members"]] == [
            ("one", "ALIVE", True)
        ]
        assert members["diagnostics"]["storage.written"] >= 1
        (agent,) = (await request(tmp_path, "agents"))["agents"]
        assert (agent["agent"], agent["tags"]) == ("nlp/echo", {"env": "test"})
        assert agent["capabilities"][0]["name"] == "echo.text"
        assert "size.members" in await request(tmp_path, "diagnostics")


async def test_a_task_is_submitted_by_one_connection_and_asked_for_by_others(tmp_path: Path) -> None:
    """B32: whoever submitted it has gone; whoever knows its id gets its state, and its result however late."""
    gate = trio.Event()
    agent = Agent("slow/one")

    @agent.capability("slow.work")
    async def work(number: int) -> int:
        await gate.wait()
        return number * 2

    async with answering(tmp_path) as node:
        await node.register(agent)
        asked = {"capability": "slow.work", "params": {"number": 21}}
        tasks = [(await request(tmp_path, "submit", asked))["task"] for _ in range(2)]
        waiting = await request(tmp_path, "task", {"task": tasks[0], "wait": 0.05})
        assert (waiting["state"], waiting["code"], "value" in waiting) == ("running", None, False)
        assert 3_590 < waiting["left"] <= 3_600
        cancelled = await request(tmp_path, "task", {"task": tasks[1], "cancel": True})
        assert (cancelled["state"], cancelled["code"]) == ("cancelled", ErrorCode.CANCELLED)
        with trio.move_on_after(0.05):  # a connection that ends takes only its own wait with it
            await request(tmp_path, "task", {"task": tasks[0], "wait": 60})
        gate.set()
        done = await request(tmp_path, "task", {"task": tasks[0], "wait": 5})
        assert (done["state"], done["value"], done["left"]) == ("done", 42, None)
        assert done == await request(tmp_path, "task", {"task": tasks[0]})
        listed = (await request(tmp_path, "tasks"))["tasks"]
        assert {one["task"]: one["state"] for one in listed} == {tasks[0]: "done", tasks[1]: "cancelled"}
        for args, code in (
            ({"task": "00" * 16}, ErrorCode.UNKNOWN_TASK),
            ({}, ErrorCode.CONFIGURATION_INVALID),
            ({"task": tasks[0], "wait": -1}, ErrorCode.CONFIGURATION_INVALID),
            ({"task": tasks[0], "cancel": 1}, ErrorCode.CONFIGURATION_INVALID),
        ):
            with pytest.raises((CallFailed, NodeError)) as caught:
                await request(tmp_path, "task", args)
            assert caught.value.code is code


async def test_calls_and_explanations(tmp_path: Path) -> None:
    async with answering(tmp_path) as node:
        answer = await request(tmp_path, "call", {"capability": "echo.text", "params": {"text": "hi"}})
        assert (answer["value"], answer["node"], answer["attempts"]) == ("hi", node.id.hex(), 1)
        explained = await request(tmp_path, "explain", {"capability": "echo.text", "tags": {"env": "test"}})
        assert (explained["picked"], explained["code"]) == (node.id.hex(), 0)
        routable = await request(tmp_path, "routable", {"capability": "echo.text"})
        assert [one["node"] for one in routable["routable"]] == [node.id.hex()]
        with pytest.raises(CallFailed) as caught:
            await request(tmp_path, "call", {"capability": "echo.text", "params": {}})
        assert caught.value.code is ErrorCode.SCHEMA_MISMATCH
        with pytest.raises(CallFailed) as caught:
            await request(tmp_path, "call", {"capability": "nobody.offers"})
        assert caught.value.code is ErrorCode.UNKNOWN_TARGET


async def test_when_an_instance_came_and_went_is_told_in_unix_seconds(tmp_path: Path) -> None:
    async with answering(tmp_path) as node:
        came = (await request(tmp_path, "routable", {"capability": "echo.text"}))["routable"][0]["since"]
        await node.withdraw("nlp/echo")
        await trio.sleep(0.1)
        told = await request(tmp_path, "routable", {"capability": "echo.text"})
        assert told["routable"] == []
        assert came < told["lost"][0]["at"] < told["at"] - 0.03


async def test_events_stream_until_the_node_ends(tmp_path: Path) -> None:
    heard: list[str] = []
    async with trio.open_nursery() as nursery, answering(tmp_path) as node:
        listening = trio.Event()

        async def listen() -> None:
            async with aclosing(stream(tmp_path, "events", {"calls": True})) as events:
                listening.set()
                async for event in events:
                    heard.append(event["event"])

        nursery.start_soon(listen)
        await listening.wait()
        await trio.sleep(0.05)
        await node.call("echo.text", {"text": "x"})
        await trio.sleep(0.05)
    assert "CallEnded" in heard


async def test_leave_ends_the_node(tmp_path: Path) -> None:
    async with answering(tmp_path) as node:
        assert await request(tmp_path, "leave", {"timeout": 2}) == {"leaving": True, "pid": os.getpid()}
        with trio.fail_after(3):
            await node.wait_closed()
    assert not control_socket(tmp_path).exists()


async def test_without_a_node_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no node runs in"):
        await request(tmp_path, "info")


async def test_a_node_that_does_not_answer_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(tmp_path / "control.sock"))
        listener.listen()
        with pytest.raises(NodeError, match=r"did not answer within 0\.2 s"):
            await request(tmp_path, "info", timeout=0.2)


async def test_the_socket_is_private(tmp_path: Path) -> None:
    async with answering(tmp_path):
        assert os.stat(control_socket(tmp_path)).st_mode & 0o777 == 0o600
        assert os.stat(tmp_path).st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"[1, 2]\n", "a request is an object"),
        (b'{"id": 1}\n', "a request is an object"),
        (b'{"id": 1, "op": "format"}\n', "unknown operation 'format'; known are info, members"),
        (b'{"id": 1, "op": "info", "args": []}\n', "args must be an object"),
        (b'{"id": 1, "op": "routable", "args": {}}\n', "name a capability"),
        (b'{"id": 1, "op": "call", "args": {"capability": 5}}\n', "capability must be text"),
        (b'{"id": 1, "op": "call", "args": {"capability": "echo.text", "timeout": "soon"}}\n', "timeout"),
        (b'{"id": 1, "op": "call", "args": {"capability": "echo.text", "timeout": -1}}\n', "timeout"),
        (b'{"id": 1, "op": "call", "args": {"capability": "echo.text", "tags": [1]}}\n', "tags must be"),
        (
            b'{"id": 1, "op": "call", "args": {"capability": "echo.text", "policy": 7}}\n',
            "policy must be text",
        ),
        (b'{"id": 1, "op": "call", "args": {"capability": "echo.text", "params": [1]}}\n', "object"),
        (
            b'{"id": 1, "op": "explain", "args": {"capability": "echo.text", "agent": {}}}\n',
            "agent must be text",
        ),
        (b'{"id": 1, "op": "leave", "args": {"timeout": "now"}}\n', "timeout"),
    ],
)
async def test_a_wrong_request_is_answered_with_the_reason_and_the_next_one_works(
    tmp_path: Path, line: bytes, words: str
) -> None:
    async with answering(tmp_path), await raw(tmp_path) as connected:
        refused, answered = await answers(connected, line, b'{"id": 2, "op": "info"}\n')
        assert refused["ok"] is False
        assert words in refused["error"]["message"]
        assert (answered["id"], answered["ok"]) == (2, True)


TOO_LONG = b"x" * (LINE_MAX + 70_000)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"not json\n", "not a line of JSON"),
        (b"\xff\xfe\n", "not a line of JSON"),
        (TOO_LONG, "a line of more than 2,097,152 bytes"),
        (b"[" * 100_000 + b"\n", "not a line of JSON"),
    ],
)
async def test_what_is_no_line_of_json_ends_the_connection_with_the_reason(
    tmp_path: Path, data: bytes, words: str
) -> None:
    async with answering(tmp_path) as node, await raw(tmp_path) as connected:
        (refused,) = await answers(connected, data)
        assert words in refused["error"]["message"]
        assert node.diagnostics()["control.refused.bad_line"] == 1
        assert (await request(tmp_path, "info"))["name"] == "one", "the node goes on"


async def test_who_sends_a_bad_line_and_closes_at_once_does_not_end_the_node(tmp_path: Path) -> None:
    """The refusal finds nobody; each of them is counted."""
    async with answering(tmp_path) as node:
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(os.fspath(control_socket(tmp_path)))
                client.sendall(b"oops\n")
            await trio.testing.wait_all_tasks_blocked()
        await until_counted(node, "control.lost", 20)
        assert node.diagnostics()["control.refused.bad_line"] == 20
        assert (await request(tmp_path, "info"))["name"] == "one"


async def test_who_sends_a_line_too_long_and_does_not_wait_does_not_end_the_node(tmp_path: Path) -> None:
    def send() -> None:
        with socket.socket(socket.AF_UNIX) as client, suppress(BrokenPipeError, ConnectionResetError):
            client.connect(os.fspath(control_socket(tmp_path)))
            client.sendall(TOO_LONG)

    async with answering(tmp_path) as node:
        for _ in range(20):
            await trio.to_thread.run_sync(send)
        await until_counted(node, "control.refused.bad_line", 20)
        assert (await request(tmp_path, "info"))["name"] == "one"


async def test_who_never_reads_is_given_up_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reachp2p.runtime.control.SEND_TIMEOUT", 0.1)
    async with answering(tmp_path) as node, await raw(tmp_path) as client:
        with pytest.raises(trio.BrokenResourceError):
            await client.send_all(b'{"id": 1, "op": "diagnostics"}\n' * 20_000)
        await until_counted(node, "control.lost", 1)
        assert (await request(tmp_path, "info"))["name"] == "one"


async def test_a_defect_in_a_connection_does_not_end_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: Lines) -> None:
        raise RuntimeError("a defect")

    async with answering(tmp_path) as node:
        with monkeypatch.context() as patched:
            patched.setattr(Lines, "read", broken)
            async with await raw(tmp_path) as connected:
                assert await connected.receive_some(1) == b""
        assert (await request(tmp_path, "info"))["name"] == "one"
        assert node.diagnostics()["control.failed"] == 1
        assert "a defect" in caplog.text


async def test_a_request_that_is_too_large_is_1404_before_it_is_sent(tmp_path: Path) -> None:
    params = {"text": "x" * LINE_MAX}
    async with answering(tmp_path) as node:
        with pytest.raises(CallFailed, match=r"has 2,097,2\d\d bytes, more than .*1,048,576") as caught:
            await request(tmp_path, "call", {"capability": "echo.text", "params": params})
        assert caught.value.code is ErrorCode.PAYLOAD_TOO_LARGE
        assert "control.refused.bad_line" not in node.diagnostics()


async def test_arguments_that_are_no_text_are_refused_before_they_are_sent(tmp_path: Path) -> None:
    """Bytes of a command line that are no UTF-8 come as lone surrogates."""
    async with answering(tmp_path):
        with pytest.raises(ReachError, match=r"'echo.\\udcff': write text in UTF-8 \[1704\]"):
            await request(tmp_path, "call", {"capability": "echo.\udcff"})
        events = stream(tmp_path, "subscribe", {"pattern": "orders.\udcff"})
        with pytest.raises(ReachError, match=r"write text in UTF-8 \[1704\]"):
            await anext(events)
        await events.aclose()


async def test_a_refusal_in_mid_request_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a command line whose limit is another one than the node's."""
    monkeypatch.setattr("reachp2p.runtime.control_client.LINE_MAX", 8 * LINE_MAX)
    params = {"text": "x" * 4 * LINE_MAX}
    async with answering(tmp_path):
        with pytest.raises(CallFailed, match="a line of more than") as caught:
            await request(tmp_path, "call", {"capability": "echo.text", "params": params})
        assert caught.value.code is ErrorCode.PAYLOAD_TOO_LARGE


async def until_counted(node: Node, counter: str, count: int) -> None:
    with trio.fail_after(5):
        while node.diagnostics().get(counter, 0) < count:  # noqa: ASYNC110 (a look from outside)
            await trio.sleep(0.01)


async def test_connections_are_bounded_and_those_that_end_in_mid_line_are_forgotten(tmp_path: Path) -> None:
    async with answering(tmp_path) as node:
        clients = [await raw(tmp_path) for _ in range(CLIENTS_MAX + RESERVED)]
        for client in clients:
            await client.send_all(b'{"id": 1, "op"')
        await trio.sleep(0.05)
        async with await raw(tmp_path) as late:
            refused = json.loads(await late.receive_some(1_000))
            assert "connected already" in refused["error"]["message"]
        for client in clients:
            await client.aclose()
        await trio.sleep(0.05)
        assert (await request(tmp_path, "info"))["name"] == "one"
        assert node.diagnostics()["control.refused.too_many"] == 1


async def test_what_an_operator_needs_is_answered_when_all_other_places_are_taken(tmp_path: Path) -> None:
    async with answering(tmp_path):
        clients = [await raw(tmp_path) for _ in range(CLIENTS_MAX)]
        await trio.sleep(0.05)
        assert (await request(tmp_path, "info"))["name"] == "one"
        with pytest.raises(CallFailed) as refused:
            await request(tmp_path, "members")
        assert refused.value.code is ErrorCode.REFUSED_FULL
        assert refused.value.retryable
        await request(tmp_path, "leave", {"timeout": 1})
        for client in clients:
            await client.aclose()


async def test_the_call_of_a_command_line_that_is_gone_is_cancelled(tmp_path: Path) -> None:
    agent = Agent("test/slow")
    ended = trio.Event()

    @agent.capability("never.ends")
    async def never() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with Node(agent, name="one", state=tmp_path, control=True) as node:
        await until_it_listens(tmp_path)
        for _ in range(CLIENTS_MAX + RESERVED + 1):
            connected = await raw(tmp_path)
            await connected.send_all(b'{"id": 1, "op": "call", "args": {"capability": "never.ends"}}\n')
            await trio.sleep(0.01)
            await connected.aclose()
        with trio.fail_after(5):
            await ended.wait()
            while node.diagnostics()["size.pending_calls"]:  # noqa: ASYNC110 (a look from outside)
                await trio.sleep(0.01)
            assert (await request(tmp_path, "info"))["name"] == "one"


async def test_who_has_only_ended_its_own_lines_still_gets_its_answer(tmp_path: Path) -> None:
    async with answering(tmp_path), await raw(tmp_path) as connected:
        await connected.send_all(
            b'{"id": 1, "op": "call", "args": {"capability": "echo.text", "params": {"text": "hi"}}}\n'
        )
        await connected.send_eof()
        with trio.fail_after(5):
            answer = json.loads(await connected.receive_some(10_000))
        assert answer["result"]["value"] == "hi"


async def test_a_defect_in_one_answer_does_not_end_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Node) -> None:
        raise RuntimeError("a defect")

    async with answering(tmp_path) as node:
        with monkeypatch.context() as patched:
            patched.setattr(Node, "members", broken)
            with pytest.raises(CallFailed, match="RuntimeError"):
                await request(tmp_path, "members")
        assert (await request(tmp_path, "info"))["name"] == "one"
        assert node.diagnostics()["control.failed"] == 1
        assert "a defect" in caplog.text


async def test_a_node_that_has_started_can_be_asked_at_once(tmp_path: Path) -> None:
    async with Node(name="one", state=tmp_path / "state", control=True):
        assert control_socket(tmp_path / "state").is_socket()


async def test_what_is_in_the_place_of_the_socket_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "state" / "control.sock").mkdir(parents=True)
    with pytest.raises(
        NodeError, match=r"control.sock is a folder, .* move it away and start again \[1706\]"
    ):
        async with Node(name="one", state=tmp_path / "state", control=True):
            raise AssertionError("it must not start")


async def test_event_listeners_that_have_gone_leave_their_places(tmp_path: Path) -> None:
    """Whether or not anything happens that they would have been told."""
    async with answering(tmp_path) as node:
        for _ in range(CLIENTS_MAX + RESERVED):
            connected = await raw(tmp_path)
            await connected.send_all(b'{"id":1,"op":"events","args":{}}\n')
            await trio.sleep(0.02)
            await connected.aclose()
        with trio.fail_after(10):
            while True:
                with suppress(ReachError):
                    assert (await request(tmp_path, "members"))["members"]
                    break
                await trio.sleep(0.1)
        assert not node.diagnostics().get("control.failed")
