"""The line under the members that tells of hanging and failing handlers, and of a loop that is late."""

from __future__ import annotations

import pytest
import trio
from reachp2p_node.cli import output, tables

from reachp2p import Agent, CallFailed, Node

ALIVE = {"state": "ALIVE"}


def test_a_node_without_troubles_is_told_of_in_one_line() -> None:
    quiet = {"lag.noticed": 0, "size.runtime_invocations_overdue": 0, "calls.served": 9}
    assert tables.members_summary([ALIVE], quiet).plain == "1 member: 1 ALIVE"


@pytest.mark.parametrize(("name", "words"), tables.TROUBLES)
def test_each_trouble_is_told_with_its_number(name: str, words: str) -> None:
    _, line = tables.members_summary([ALIVE], {name: 7}).plain.splitlines()
    assert line == f"at the node asked: {words}: 7"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (1.0, "ALIVE, refused, late 3 times, handlers overdue: 1"),
        (None, "ALIVE, refused"),
        (121.0, "ALIVE, refused"),
    ],
)
def test_the_state_of_a_member_says_what_ails_it_unless_that_is_old(
    told: float | None, expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    member = {
        "node": "ab" * 32, "name": "n", "self": False, "state": "ALIVE", "epoch": 1, "incarnation": 0, "since": 1.0,
        "rtt_ms": None, "addresses": [], "zone": "", "refused": True, "agents": [],
        "late": 3, "overdue": 1, "told": told,
    }  # fmt: skip
    output.print_table(tables.members_table([member], 200).table)
    assert f" {expected} " in capsys.readouterr().out


def test_the_state_of_an_agent_says_what_ails_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    agent = {
        "agent": "a/b", "version": "1.0.0", "capabilities": [], "node_name": "n", "state": "ALIVE", "tags": {},
        "weight": 1.0, "failed": 12, "stopped": 3, "told": 0.4,
    }  # fmt: skip
    output.print_table(tables.agents_table([agent], 200).table)
    assert " ALIVE, 12 failed, 3 timed out " in capsys.readouterr().out


@pytest.mark.trio
async def test_a_node_that_hangs_and_fails_says_so_while_it_is_alive() -> None:
    agent = Agent("test/troubled")
    done = trio.Event()

    @agent.capability("text.hangs")
    async def hangs() -> None:
        with trio.CancelScope(shield=True):
            await done.wait()

    @agent.capability("text.fails")
    async def fails() -> None:
        raise ValueError("no")

    async with Node(agent) as node:
        try:
            with pytest.raises(CallFailed):
                await node.call("text.fails")
            with pytest.raises(CallFailed):
                await node.call("text.hangs", timeout=0.05)
            with trio.fail_after(30):
                while not node.diagnostics()["size.runtime_invocations_overdue"]:  # noqa: ASYNC110 (a counter)
                    await trio.sleep(0.02)
            [member] = node.members()
            assert member.state.name == "ALIVE"
            [offered] = node.agents()
            assert (offered.failed, offered.stopped) == (1, 1)
            text = tables.members_summary([ALIVE], node.diagnostics()).plain
            assert "handlers that go on now although they were cancelled: 1" in text
            assert "handlers failed: 1" in text
        finally:
            done.set()
