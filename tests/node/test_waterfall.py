"""A session on a terminal: one line a hop, as wide as there is room, harmless whatever others have named things."""

from __future__ import annotations

import io
from typing import Any

import pytest
from reachp2p_node.cli import waterfall
from reachp2p_node.cli.traces import seconds_of
from rich.console import Console

NODES = [f"{number}" * 64 for number in (1, 2, 3)]
NAMES = {NODES[0]: "desk", NODES[1]: "planner-with-a-rather-long-name", NODES[2]: "evil\x1b[31m"}
SESSION = "ab" * 16


def hop(level: int, side: str, node: int, **changes: Any) -> dict[str, Any]:
    return {
        "level": level, "side": side, "node": NODES[node], "other": NODES[0], "capability": "text.summarize.and.more",
        "agent": "nlp/summarizer", "attempt": 1, "started": 100.0 + level, "duration": 5.0 - level, "queued": 0.0,
        "bytes_in": 70_000, "bytes_out": 300, "code": 0, "detail": "", "items": 0, **changes,
    }  # fmt: skip


def answer(**changes: Any) -> dict[str, Any]:
    hops = [
        hop(0, "asked", 0),
        hop(1, "served", 1, queued=1.0),
        hop(2, "asked", 1, attempt=2, code=1403, detail="ValueError: bad\nluck \x1b[2J", duration=0.0004),
        hop(3, "served", 2, code=1403, detail="ValueError: bad\nluck \x1b[2J", started=50.0),
    ]
    offsets = {NODES[2]: {"seconds": -53.0, "uncertain": 0.01}}
    plain = {
        "session": SESSION,
        "hops": hops,
        "offsets": offsets,
        "findings": [],
        "missing": [],
        "left_out": 0,
    }
    return {**plain, "names": NAMES, **changes}


def shown(parts: list[Any], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False, color_system=None)
    for part in parts:
        console.print(part)
    out = console.file.getvalue()  # type: ignore[attr-defined]
    return [str(line) for line in out.splitlines()]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_each_hop_is_one_line_that_fits(width: int) -> None:
    lines = shown(waterfall.waterfall(answer(), width), width)
    assert len(lines) == 1 + 4
    assert all(len(line) <= width for line in lines)
    assert not any("\x1b" in line for line in lines)
    assert [line.index(mark) for line, mark in zip(lines[1:], "→·→·", strict=True)] == [0, 2, 4, 6]
    assert [next(word for word in line.split() if word in ("ok", "1403")) for line in lines[1:]] == [
        "ok",
        "ok",
        "1403",
        "1403",
    ]
    assert "→ #2 text" in lines[3]
    assert all("300→70k" in line or "70k→300" in line for line in lines[1:])
    bars = [line.rstrip() for line in lines[1:]]
    assert bars[1].count("┄") > 0
    assert max(map(len, bars)) > width - 10, "the whole width is used"


def test_bars_are_moved_by_the_offset_of_their_clock() -> None:
    lines = shown(waterfall.waterfall(answer(), 160), 160)
    starts = [min(line.index(mark) for mark in "━█┄" if mark in line) for line in lines[1:]]
    assert starts == sorted(starts)
    assert starts[3] > starts[0]


def test_a_session_is_summed_up_and_its_failures_are_told_once() -> None:
    assert waterfall.heading(answer()).plain == f"session {SESSION}: 4 hops on 3 nodes, 5.00 s, 2 failed"
    (line,) = shown(waterfall.failures(answer(), 80), 80)
    assert line.startswith("1403 text.summarize.and.more: ValueError: bad�luck �[2J")
    assert waterfall.waterfall(answer(hops=[]), 80) == []


@pytest.mark.parametrize("why", [*waterfall.WHY, "something new"])
def test_whose_hops_are_missing_is_said_in_words(why: str) -> None:
    lines = [
        text.plain for text in waterfall.missing(answer(missing=[{"node": NODES[0], "why": why}], left_out=7))
    ]
    assert lines == [
        f"missing: node desk {waterfall.WHY.get(why, why)}",
        "missing: 7 hops, too many to be told",
    ]


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (
            {"kind": "served_lost", "because": "gone"},
            "lost: node desk served a.b, attempt 2, and its hop is",
        ),
        ({"kind": "asked_lost", "because": "evicted"}, "that node has dropped hops of that time"),
        (
            {"kind": "parent_lost", "because": "lost"},
            "(span 0102): that node has answered and has no record of it",
        ),
        (
            {"kind": "trace_broken"},
            "broken: node desk called a.b in a trace of its own while x/y served this one",
        ),
        (
            {"kind": "clocks", "offset": -120.0},
            "clocks: that of node desk is 2 min behind that of planner-with",
        ),
        ({"kind": "of tomorrow"}, "of tomorrow: node desk"),
    ],
)
def test_findings_are_said_in_words(finding: dict[str, Any], words: str) -> None:
    whole = {
        "node": NODES[0], "because": None, "message_id": "00" * 16, "attempt": 2, "span": "0102", "agent": "x/y",
        "capability": "a.b", "other": NODES[1], "offset": 0.0, "uncertain": 0.001, **finding,
    }  # fmt: skip
    (line,) = [text.plain for text in waterfall.findings(answer(findings=[whole]))]
    assert words in line


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("30s", 30.0), ("5m", 300.0), ("24h", 86_400.0), ("1d", 86_400.0), (".5h", 1_800.0)],
)
def test_ages_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1w", "0", "-5m", "nan", "25h", "inf", "1 day"])
def test_what_is_no_age_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"write a number and|more than nothing and at most 24h"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0"), (999, "999"), (1_000, "1.0k"), (64_000, "64k"), (2_500_000, "2.5M"), (3e9, "3.0G")],
)
def test_sizes_are_short(count: int, words: str) -> None:
    assert waterfall.size(count) == words
