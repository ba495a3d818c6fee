"""`reachp2p trace` and `reachp2p sessions`: what became of calls, gathered from the nodes that took part."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p.runtime.text import plain
from reachp2p_node.cli import output
from reachp2p_node.cli.questions import ask

PATIENCE = 5.0
"""Seconds beyond a question's own timeout after which its node is not waited for any more."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
AGE_MAX = 86_400.0


def show_trace(
    session: str, timeout: float, node: str | None, state: Path | None, *, check: bool, as_json: bool
) -> int:
    """`reachp2p trace`; with `check` the exit code says whether all is well."""
    args = {"session": session, "timeout": timeout}
    asked, answer = trio.run(partial(ask, node, state, "trace", args, timeout + PATIENCE))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
    else:
        _print_trace(answer, check=check)
    is_well = not (check and (answer["findings"] or answer["missing"]))
    return output.OK if is_well else output.FAILED


def _print_trace(answer: Any, *, check: bool) -> None:
    from reachp2p_node.cli import waterfall

    width = output.table_width()
    parts = [waterfall.heading(answer), *waterfall.waterfall(answer, width)]
    parts += waterfall.failures(answer, width)
    output.print_table(*parts, *waterfall.missing(answer))
    found = waterfall.findings(answer)
    if check:
        if found:
            output.print_table(*found)
        elif not answer["missing"]:
            output.note("all hops are there, and the clocks agree")
    elif found:
        output.note(f"{len(found)} findings; --check says what they are")


def show_sessions(
    wanted: dict[str, Any], timeout: float, node: str | None, state: Path | None, *, as_json: bool
) -> None:
    """`reachp2p sessions`."""
    args = {**wanted, "timeout": timeout}
    asked, answer = trio.run(partial(ask, node, state, "sessions", args, timeout + PATIENCE))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    from reachp2p_node.cli import waterfall
    from reachp2p_node.cli.fitted import Column, Fitted
    from reachp2p_node.cli.tables import duration

    if answer["sessions"]:
        now = time.time()
        columns = [
            Column("session"),
            Column("ago", right=True),
            Column("took", importance=3, right=True),
            Column("capability"),
            Column("hops", importance=2, right=True),
            Column("failed", importance=1, right=True),
            Column("code", right=True),
            Column("why", importance=4, flexible=16),
        ]
        rows = [
            (
                one["session"],
                duration(max(0.0, now - one["started"])),
                waterfall.milliseconds(one["duration"]),
                one["capability"] or one["agent"],
                str(one["hops"]),
                str(one["failed"]) if one["failed"] else "",
                str(one["code"]) if one["code"] else "ok",
                plain(one["detail"]),
            )
            for one in answer["sessions"]
        ]
        table = Fitted(columns, rows, output.table_width())
        output.print_table(table.table, *waterfall.missing(answer))
        output.note_left_out(table.left_out)
        if answer["more"]:
            output.note(f"{answer['more']} more fit; --limit shows more, at most 1000")
        output.note("`reachp2p trace SESSION` shows one of them")
    else:
        output.print_table(*waterfall.missing(answer))
        output.note("no session fits")


def seconds_of(text: str) -> float:
    """`90`, `30s`, `5m`, `24h` or `1d` in seconds. Raises `ValueError` with what is wrong."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        raise ValueError(f"{text!r}: write a number and s, m, h or d, as in 24h") from None
    if not 0 < seconds <= AGE_MAX:  # also refuses nan
        raise ValueError(f"{text!r}: more than nothing and at most 24h, for which hops are kept")
    return seconds
