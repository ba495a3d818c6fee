"""Rules of a running node: from its file, read again when it changes, and from the cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from reachp2p import Agent, ConfigurationInvalid, Node, StillRunning
from reachp2p.core.events import Event, RulesChanged, RulesRefused
from reachp2p.errors import LocalProtocolError
from reachp2p.runtime import rules_file

pytestmark = pytest.mark.trio

ONCE = "[[rule]]\nretry = false\n"


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_file, "LOOK_INTERVAL", 0.02)


async def until(condition: Callable[[], Any]) -> None:
    with trio.fail_after(5):
        while not condition():  # noqa: ASYNC110 (a look from outside, at what tells nobody)
            await trio.sleep(0.01)


def own(node: Node) -> str | None:
    layer = node.rules().own
    return None if layer is None else layer.toml


async def test_a_file_is_in_force_from_the_start_and_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(ONCE)
    async with Node(rules=path) as node:
        assert own(node) == ONCE
        path.write_text('[[rule]]\nprefer = "zone"\n')
        await until(lambda: own(node) == '[[rule]]\nprefer = "zone"\n')
        assert node.diagnostics()["rules.file_read"] >= 2
        assert node.diagnostics()["rules.changed"] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[rule]]\npolcy = "random"\n', "rule 1: polcy: unknown key; did you mean 'policy'?"),
        ("[[rule]\n", "not valid TOML"),
        (None, "cannot be read: No such file"),
    ],
)
async def test_a_file_that_cannot_be_used_stops_the_start(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "rules.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationInvalid) as caught:
        async with Node(rules=path):
            pytest.fail("it has started")
    assert caught.value.message.startswith(f"{path}: ")
    assert words in caught.value.message


async def test_a_bad_new_file_keeps_the_old_rules_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(ONCE)
    seen: list[Event] = []
    async with Node(rules=path) as node, trio.open_nursery() as nursery:
        stream = node.events()

        async def collect() -> None:
            async for event in stream:
                seen.append(event)

        nursery.start_soon(collect)
        with caplog.at_level(logging.INFO, "reachp2p.node"):
            path.write_text("[[rule]]\nretry = 3\n")
            await until(lambda: [e for e in seen if isinstance(e, RulesRefused)])
            await trio.sleep(0.1)
            assert own(node) == ONCE
            assert node.diagnostics()["rules.file_refused"] == 1
            (refused,) = [e for e in seen if isinstance(e, RulesRefused)]
            assert refused.reason == f"{path}: rule 1: retry: write true or false, not 3"
            assert f"{refused.reason} [1704]" in caplog.text
            path.write_text("rule = []")
            await until(lambda: [e for e in seen if isinstance(e, RulesChanged)])
        assert own(node) == ""
        path.unlink()
        await until(lambda: node.diagnostics()["rules.file_refused"] == 2)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("rest", ["", "\n", "# cut o"])
async def test_a_file_that_was_cut_off_keeps_the_rules_from_before(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(rest)  # at the start it takes nothing away
    async with Node(rules=path) as node:
        assert own(node) == ""
        path.write_text(ONCE)
        await until(lambda: own(node) == ONCE)
        path.write_text(rest)
        await until(lambda: node.diagnostics().get("rules.file_refused"))
        with pytest.raises(ConfigurationInvalid, match=r"cut off; .* write rule = \[\] \[1704\]"):
            await node.reload_rules()
        assert own(node) == ONCE
        path.write_text("rule = []")
        await until(lambda: own(node) == "")
        path.write_text(rest)
        assert await node.reload_rules() is False


async def test_a_pipe_in_place_of_the_file_is_refused_and_holds_no_node(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    os.mkfifo(path)
    with (
        trio.fail_after(5),
        pytest.raises(ConfigurationInvalid, match="a named pipe, which cannot be read again"),
    ):
        await Node(rules=path).__aenter__()
    path.unlink()
    path.write_text(ONCE)
    with trio.fail_after(5):
        async with Node(rules=path) as node:
            path.unlink()
            os.mkfifo(path)
            await until(lambda: node.diagnostics().get("rules.file_refused", 0) >= 1)
            with pytest.raises(ConfigurationInvalid, match="a named pipe"):
                await node.reload_rules()
            assert own(node) == ONCE
            path.unlink()
            path.write_text("rule = []")
            await until(lambda: own(node) == "")


async def test_a_file_is_read_on_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_file, "LOOK_INTERVAL", 1_000.0)
    path = tmp_path / "rules.toml"
    path.write_text(ONCE)
    async with Node(rules=path) as node:
        assert not await node.reload_rules()
        path.write_text("rule = []")
        assert await node.reload_rules()
        path.write_text("[[rule]]\n")
        with pytest.raises(ConfigurationInvalid, match="rule 1: sets nothing"):
            await node.reload_rules()
        assert own(node) == ""
    async with Node() as node:
        with pytest.raises(LocalProtocolError, match="no file of rules"):
            await node.reload_rules()


async def test_applied_rules_reach_the_others(tmp_path: Path) -> None:
    async with Node(name="left") as left, Node(name="right", seeds=[str(left.address)]) as right:
        await until(lambda: len(left.members()) == 2)
        rules = {"rule": [{"name": "once", "retry": False}]}
        assert await left.apply_rules(rules, "for a while") == 1
        await until(lambda: right.rules().history)
        (record,) = right.rules().history
        assert (record.version, record.author, record.comment, record.in_force) == (
            1,
            left.id,
            "for a while",
            True,
        )
        with pytest.raises(ConfigurationInvalid, match="rule 1: sets nothing"):
            await right.apply_rules({"rule": [{}]})
        with pytest.raises(ConfigurationInvalid, match=r"to take all rules away, write rule = \[\]"):
            await right.apply_rules({})
        assert await right.apply_rules({"rule": []}) == 2
        await until(lambda: len(left.rules().history) == 2)
        assert left.rules().history[0].toml == ""


async def test_an_agent_without_a_required_tag_is_refused_and_one_from_before_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nmatch = { agent = "nlp/*" }\nrequire_tags = ["env"]\n')
    words = f'agent nlp/a lacks what rule 1 of {path} requires: tags={{"env": "…"}}'
    with pytest.raises(ConfigurationInvalid) as caught:
        async with Node(Agent("nlp/a"), rules=path):
            pytest.fail("it has started")
    assert caught.value.message == words
    async with Node(Agent("nlp/b", tags={"env": "test"}), rules=path) as node:
        with pytest.raises(ConfigurationInvalid):
            await node.register(Agent("nlp/a"))
        assert node.rules().unmet == ()
        await node.apply_rules({"rule": [{"require_tags": ["team"]}]})
        assert node.rules().unmet == ()  # the file's rule comes first for this agent
        with caplog.at_level(logging.WARNING, "reachp2p.node"):
            path.write_text("rule = []")
            await until(lambda: "agent nlp/b lacks what" in caplog.text)
        assert "agent nlp/b lacks what rule 1 of the cluster's version 1" in node.rules().unmet[0]
        assert [view.agent for view in node.agents()] == ["nlp/b"]


async def test_calls_go_by_the_rules_and_an_explanation_says_so(tmp_path: Path) -> None:
    agent = Agent("nlp/echo")

    @agent.capability("echo.wait")
    async def wait(seconds: float) -> str:
        await trio.sleep(seconds)
        return "waited"

    async with Node(agent) as node:
        await node.wait_for("echo.wait")
        assert node.explain("echo.wait").rules == ()
        await node.apply_rules(
            {
                "rule": [
                    {
                        "name": "brief",
                        "match": {"capability": "echo.*"},
                        "policy": "round_robin",
                        "timeouts": {"total": 0.1},
                    }
                ]
            }
        )
        explained = node.explain("echo.wait")
        origin = f"rule 1 (brief) of the cluster's version 1 by {node.id[:4].hex()}"
        assert explained.policy == "round_robin"
        assert explained.rules == (f'policy = "round_robin" ({origin})', f"timeouts.total = 0.1 ({origin})")
        assert node.explain("echo.wait", policy="random").policy == "random"
        with pytest.raises(StillRunning):
            await node.call("echo.wait", {"seconds": 0.3})
        assert await node.call("echo.wait", {"seconds": 0.3}, timeout=5) == "waited"
