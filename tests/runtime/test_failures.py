"""A handler that raises is seen by its author: once with its traceback, then as a count."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from reachp2p import Agent, CallFailed, Context, Node
from reachp2p.runtime.failures import KINDS_MAX, REPEAT_INTERVAL, FailureLog
from reachp2p.runtime.terminal_log import TerminalHandler, log_to_terminal

agent = Agent("nlp/one")


@agent.capability("one.raise")
async def raises(text: str) -> None:
    raise ValueError(f"not {text}")


@agent.capability("one.raise_in_a_thread")
def raises_in_a_thread() -> None:
    _deeper()


def _deeper() -> None:
    raise KeyError("deep")


@agent.capability("one.ask")
async def ask(context: Context) -> None:
    await context.call("no.such")


@agent.capability("one.unsendable")
async def unsendable() -> Any:
    return object()


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@agent.capability("one.mute")
async def mute() -> None:
    raise Mute


@pytest.fixture
def log() -> Iterator[StringIO]:
    """What `run` would show on stderr."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TerminalHandler(logging.WARNING).formatter)
    logging.getLogger("reachp2p").addHandler(handler)
    yield stream
    logging.getLogger("reachp2p").removeHandler(handler)


@pytest.mark.trio
async def test_the_traceback_is_that_of_the_handler_and_nothing_of_ours(log: StringIO) -> None:
    async with Node(agent, name="one") as node:
        for capability in ("one.raise_in_a_thread", "one.raise", "one.ask"):
            with pytest.raises(CallFailed):
                await node.call(capability, {"text": "\x1b[2Jred"} if capability == "one.raise" else {})
    text = log.getvalue()
    assert "ERROR reachp2p.handlers: one.raise_in_a_thread of nlp/one failed for a call of node" in text
    frames = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
    assert [frame.partition(" in ")[2] for frame in frames] == [
        "raises_in_a_thread",
        "_deeper",
        "raises",
        "ask",
    ]
    assert all(str(Path(__file__)) in frame for frame in frames)
    assert "KeyError: 'deep'" in text
    assert "\x1b" not in text, "what a caller sends cannot act on a terminal"


@pytest.mark.trio
async def test_a_result_that_cannot_be_sent_and_an_error_without_words_are_told_too(log: StringIO) -> None:
    async with Node(agent, name="one") as node:
        for capability, words in (("one.unsendable", "of type object"), ("one.mute", "Mute (its text")):
            with pytest.raises(CallFailed) as caught:
                await node.call(capability)
            assert words in str(caught.value)
            assert words in log.getvalue()
        assert node.is_running


@pytest.mark.trio
async def test_an_exception_that_carries_megabytes_does_not_fill_the_log(log: StringIO) -> None:
    async with Node(agent, name="one") as node:
        for text in ("x" * 900_000, "line\n" * 100_000):
            with pytest.raises(CallFailed) as caught:
                await node.call("one.raise", {"text": text})
            assert len(str(caught.value)) < 2_000
    text = log.getvalue()
    assert len(text) < 100_000
    assert "(900,016 characters)" in text
    assert "in raises" in text


@pytest.mark.trio
async def test_further_failures_of_a_kind_are_counted(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(times: int) -> None:
        for _ in range(times):
            try:
                _deeper()
            except KeyError as error:
                failures.note("one.raise of nlp/one", "ab", "KeyError: 'deep'", error)

    async with trio.open_nursery() as nursery:
        failures = FailureLog(nursery)
        fails(1_000)
        await trio.sleep(REPEAT_INTERVAL + 1)
        fails(1)
        await trio.sleep(REPEAT_INTERVAL)
        said = [record.getMessage() for record in caplog.records]
        assert said == [
            "one.raise of nlp/one failed for a call of node ab: KeyError: 'deep'",
            "one.raise of nlp/one failed 999 more times within 10 s, as before: KeyError: 'deep'",
            "one.raise of nlp/one failed once more within 10 s, as before: KeyError: 'deep'",
        ]
        await trio.sleep(REPEAT_INTERVAL)
        fails(1)
        assert caplog.records[-1].exc_info, "after a silence it is news again"
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_kinds_are_bounded(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with trio.open_nursery() as nursery:
        failures = FailureLog(nursery)
        for number in range(2 * KINDS_MAX):
            failures.note(f"one.{number} of nlp/one", "ab", "failed", None)
        await trio.sleep(REPEAT_INTERVAL + 1)
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == KINDS_MAX + 2
        assert said[-1] == f"other handlers failed {KINDS_MAX - 1} more times within 10 s, as before: failed"
        nursery.cancel_scope.cancel()


def test_the_terminal_log_is_silent_when_the_program_has_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = logging.getLogger("reachp2p")
    monkeypatch.setattr(ours, "handlers", [])
    log_to_terminal()
    log_to_terminal()
    assert len(ours.handlers) == 1
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    ours.getChild("node").warning("one %s", "two")
    assert "WARNING reachp2p.node: one two\n" in capsys.readouterr().err
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()])
    ours.getChild("node").warning("one %s", "two")
    assert capsys.readouterr() == ("", "")
