"""Hops for other systems: each of them, in order, in batches; whatever an exporter does, no call waits or fails."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from reachp2p import Agent, Node
from reachp2p.core.calls.hops import Hop, Side
from reachp2p.core.ids import NodeId
from reachp2p.core.settings import Protocol
from reachp2p.errors import ConfigurationInvalid
from reachp2p.exporters import JsonLines
from reachp2p.runtime import exporting

PLAIN = Protocol(start_answer_timeout=0.2)


def echo() -> Agent:
    agent = Agent("test/echo")

    @agent.capability("echo.text")
    async def say(text: str) -> str:
        return text

    return agent


class Kept:
    """Keeps what it gets, and says when it was closed."""

    def __init__(self) -> None:
        self.hops: list[Hop] = []
        self.is_closed = False

    def export(self, hops: Sequence[Hop]) -> None:
        assert not self.is_closed
        self.hops += hops

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.trio
async def test_all_hops_are_exported_before_the_node_has_ended(tmp_path: Path) -> None:
    kept, lines = Kept(), JsonLines(tmp_path / "hops.jsonl")
    async with Node(echo(), protocol=PLAIN, exporters=[kept, lines]) as node:
        for number in range(5):
            await node.call("echo.text", {"text": str(number)})
        own = node.id
    assert kept.is_closed
    assert [hop.side for hop in kept.hops] == [Side.SERVED, Side.ASKED] * 5
    told = [json.loads(line) for line in (tmp_path / "hops.jsonl").read_text().splitlines()]
    assert [one["message_id"] for one in told] == [hop.message_id.hex() for hop in kept.hops]
    assert {one["node"] for one in told} == {own.hex()}
    assert not any("payload_in" in one for one in told)


@pytest.mark.trio
async def test_payloads_are_exported_as_they_may_be_recorded() -> None:
    kept = Kept()

    def redact(agent: str, capability: str, payload: bytes) -> bytes:
        return payload.replace(b"secret", b"******")

    async with Node(echo(), protocol=PLAIN, exporters=[kept], record_payloads=64, redact=redact) as node:
        assert await node.call("echo.text", {"text": "a secret"}) == "a secret"
    for hop in kept.hops:
        for payload in (hop.payload_in, hop.payload_out):
            assert payload is not None
            assert b"a ******" in payload


@pytest.mark.trio
async def test_an_exporter_that_raises_or_hangs_costs_no_call(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "QUEUE_MAX", 4)
    monkeypatch.setattr(exporting, "CLOSE_TIMEOUT", 0.2)
    over = threading.Event()

    class Raises(Kept):
        def export(self, hops: Sequence[Hop]) -> None:
            raise RuntimeError("the log store is away")

    class Hangs(Kept):
        def export(self, hops: Sequence[Hop]) -> None:
            over.wait(10)

    kept, raises, hangs = Kept(), Raises(), Hangs()
    try:
        async with Node(echo(), protocol=PLAIN, exporters=[raises, hangs, kept]) as node:
            for _ in range(12):
                with trio.fail_after(1):
                    await node.call("echo.text", {"text": "x"})
                if not node.diagnostics().get("exporter.failed"):
                    await trio.sleep(0.05)
            counts = node.diagnostics()
            assert counts["exporter.failed"] >= 2
            assert counts["exporter.dropped"] > 0
            assert counts["size.exporter_queues"] <= 12
    finally:
        over.set()
    assert kept.is_closed
    assert raises.is_closed
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("the log store is away" in text for text in warnings) == 1
    assert any("did not end within" in text for text in warnings)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"record_payloads": -1}, "record_payloads"),
        ({"record_payloads": True}, "record_payloads"),
        ({"record_payloads": 10**6}, "65536"),
        ({"redact": "secret"}, "redact"),
        ({"exporters": "hops.jsonl"}, "exporters"),
        ({"exporters": [print]}, "export and close"),
    ],
)
def test_wrong_settings_are_refused_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=words):
        Node(**options)


# Files


def hop(number: int) -> Hop:
    return Hop(
        node=NodeId(b"n" * 32), side=Side.ASKED, other=None, session=b"s" * 16, trace=b"s" * 16, span=b"12345678",
        parent=None, message_id=number.to_bytes(16), attempt=1, depth=0, agent="a/b", capability="c", started=0.5,
        duration=0.25, queued=0.0, bytes_in=1, bytes_out=2, code=0, detail="", retries=0, items=0, handed=True,
        answered=True, payload_in=b"{}", payload_out=b"\xff",
    )  # fmt: skip


def read(path: Path) -> list[int]:
    return [int(json.loads(line)["message_id"], 16) for line in path.read_text().splitlines()]


def test_a_full_file_is_kept_once_and_another_begun(tmp_path: Path) -> None:
    path = tmp_path / "hops.jsonl"
    JsonLines(path).export([hop(0)])
    line = path.stat().st_size
    told = json.loads(path.read_text())
    assert (told["payload_in"], told["payload_out"], told["duration"]) == ("{}", "hex:ff", 0.25)
    lines = JsonLines(path, 3 * line)
    lines.export([hop(number) for number in range(1, 8)])
    lines.close()
    assert (read(tmp_path / "hops.jsonl.1"), read(path)) == ([3, 4, 5], [6, 7])
    assert (lines.rotations, lines.written, lines.dropped) == (2, 7, 0)
    assert path.stat().st_size <= 3 * line


def test_a_full_file_may_be_the_end(tmp_path: Path) -> None:
    path = tmp_path / "hops.jsonl"
    JsonLines(path).export([hop(0)])
    line = path.stat().st_size
    lines = JsonLines(path, 2 * line, rotate=False)
    lines.export([hop(number) for number in range(1, 5)])
    lines.export([hop(5)])
    lines.close()
    assert read(path) == [0, 1]
    assert (lines.written, lines.dropped) == (1, 4)


def test_a_hop_larger_than_a_file_is_dropped_and_counted(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "hops.jsonl", 10)
    lines.export([hop(0), hop(1)])
    lines.close()
    assert lines.dropped == 2
    assert lines.rotations == 0


def test_a_disk_that_takes_nothing_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hops.jsonl"
    lines = JsonLines(path)
    lines.export([hop(0)])
    real = os.write

    def half(file: int, data: memoryview) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return int(real(file, data[: len(data) // 2]))

    monkeypatch.setattr("os.write", half)
    with pytest.raises(OSError, match="No space"):
        lines.export([hop(1)])
    monkeypatch.setattr("os.write", real)
    lines.export([hop(2)])
    lines.close()
    assert read(path) == [0, 2]
    assert lines.dropped == 1


@pytest.mark.parametrize("wrong", [{"path": ""}, {"path": 3}, {"max_bytes": 0}, {"max_bytes": "1"}])
def test_what_is_no_file_or_bound_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationInvalid):
        JsonLines(**{"path": "x", **wrong})
