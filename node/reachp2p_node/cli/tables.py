"""The tables that a person reads: members, agents, and why a call goes where it goes.

All text in them may come from other nodes; it goes through `plain` and is never markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from reachp2p.runtime.text import plain

STYLES = {"ALIVE": "green", "SUSPECT": "yellow", "DEAD": "red", "LEFT": "dim"}
CELL_MAX = 120


def members_table(members: Sequence[Mapping[str, Any]]) -> Table:
    """One row for each member; `*` is the node that was asked."""
    table = _table("", "name", "node", "state", ">epoch", ">inc", ">for", ">rtt", "address", "zone")
    if not any(member["zone"] for member in members):
        table.columns.pop()
    for member in sorted(members, key=lambda one: (not one["self"], one["name"], one["node"])):
        cells = [
            "*" if member["self"] else "",
            cell(member["name"]),
            member["node"][:8],
            state(member["state"], "refused" if member["refused"] else ""),
            str(member["epoch"]),
            str(member["incarnation"]),
            duration(member["since"]),
            "" if member["rtt_ms"] is None else f"{member['rtt_ms']:.1f} ms",
            cell(", ".join(member["addresses"])),
            cell(member["zone"]),
        ]
        table.add_row(*cells[: len(table.columns)])
    return table


def members_summary(members: Sequence[Mapping[str, Any]], diagnostics: Mapping[str, int]) -> Text:
    """How many of each state, and what was dropped."""
    counts: dict[str, int] = {}
    for member in members:
        counts[member["state"]] = counts.get(member["state"], 0) + 1
    text = Text(f"{len(members)} members: ")
    for place, (name, style) in enumerate((name, style) for name, style in STYLES.items() if name in counts):
        text.append(", " if place else "").append(f"{counts[name]} {name}", style=style)
    dropped = {name: count for name, count in diagnostics.items() if name.startswith("dropped.") and count}
    if dropped:
        most = sorted(dropped.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
        reasons = ", ".join(f"{name.removeprefix('dropped.')} {count}" for name, count in most)
        text.append(
            f"\ninputs dropped: {sum(dropped.values())} ({reasons}); all counters with --json", "yellow"
        )
    return text


def agents_table(agents: Sequence[Mapping[str, Any]]) -> Table:
    """One row for each instance."""
    table = _table("agent", "version", "node", "state", "capabilities", "tags", ">weight")
    for agent in agents:
        table.add_row(
            cell(agent["agent"]),
            cell(agent["version"]),
            cell(agent["node_name"]),
            state(agent["state"]),
            cell(", ".join(one["name"] for one in agent["capabilities"])),
            cell(" ".join(f"{key}={value}" for key, value in sorted(agent["tags"].items()))),
            f"{agent['weight']:g}",
        )
    return table


def explanation_table(explanation: Mapping[str, Any]) -> Table:
    """One row for each instance: what took it out, or what share of the calls it has; `→` is the pick."""
    by_key = explanation["policy"] == "consistent_hash"
    table = _table(
        "", "agent", "node", "state", "version", ">weight", ">place" if by_key else ">share", "stage", "why"
    )
    for candidate in explanation["candidates"]:
        is_pick = (
            candidate["node"] == explanation["picked"] and candidate["agent"] == explanation["picked_agent"]
        )
        removed = candidate["removed_by"]
        share, position = candidate["share"], candidate["position"]
        table.add_row(
            "→" if is_pick else "",
            cell(candidate["agent"]),
            cell(candidate["node_name"]),
            state(candidate["state"]),
            cell(candidate["version"]),
            f"{candidate['weight']:g}",
            ("" if position is None else str(position))
            if by_key
            else ("" if share is None else f"{share:.0%}"),
            Text("picked", "bold green")
            if is_pick
            else Text(f"out: {plain(removed)}" if removed else "candidate"),
            cell(candidate["why"]),
            style="dim" if removed else "",
        )
    return table


def explanation_summary(explanation: Mapping[str, Any]) -> Text:
    """The pick, or the error that a call would get."""
    reason = plain(explanation["reason"])
    if explanation["code"]:
        return Text(f"a call would fail: {reason} [{explanation['code']}]", style="red")
    return Text(f"pick: {reason}")


def state(name: str, addition: str = "") -> Text:
    """A member's state in its colour."""
    return Text(f"{name} {addition}".rstrip(), style=STYLES.get(name, ""))


def cell(text: object) -> Text:
    """Foreign text as a cell: one line, no controls, no markup."""
    return Text(plain(text, CELL_MAX))


def duration(seconds: float) -> str:
    """`3.2 s`, `4 min`, `2 h`, `3 d`."""
    for limit, divisor, unit in ((60, 1, "s"), (3_600, 60, "min"), (86_400, 3_600, "h")):
        if seconds < limit:
            value = seconds / divisor
            return f"{value:.1f} {unit}" if unit == "s" and value < 10 else f"{value:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def _table(*columns: str) -> Table:
    """Columns by name; `>` before a name aligns to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    return table
