"""The tables that a person reads: members, agents, and why a call goes where it goes.

All text in them may come from other nodes; it goes through `plain` and is never markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from reachp2p.runtime.text import plain
from reachp2p_node.cli.fitted import Column, Fitted

STYLES = {"ALIVE": "green", "SUSPECT": "yellow", "DEAD": "red", "LEFT": "dim"}
STATES = list(STYLES)
"""In the order of a table: who may be called first."""
DEAD_SHOWN = 300.0
"""Seconds for which a member that has died is news."""
USUAL = ("accusation.own_echo",)
"""Inputs that every network drops: an accuser hears its own words again."""
TROUBLES = (
    ("size.runtime_invocations_overdue", "handlers that go on now although they were cancelled"),
    ("size.threads_abandoned", "threads held now by handlers whose calls have ended"),
    ("invocations.deadline", "handlers stopped by their deadline"),
    ("invocations.failed", "handlers failed"),
    ("lag.noticed", "times its event loop was late"),
)
"""What probes do not show: a node answers them while its handlers hang or fail. Counter or size, and words for it."""

MEMBER_AILMENTS = (("late", "late {} times"), ("overdue", "handlers overdue: {}"))
AGENT_AILMENTS = (("failed", "{} failed"), ("stopped", "{} timed out"))
"""What a node tells of itself beside its load. Key of its object, and words for a state."""
TOLD_SHOWN = 120.0
"""Seconds after which what a node has told of the minute before is no news."""


def is_news(member: Mapping[str, Any]) -> bool:
    """Whether a table shows this member unless all are asked for. Each short program leaves one behind that is LEFT for
    more than an hour."""
    gone = member["state"] == "LEFT" or (member["state"] == "DEAD" and member["since"] > DEAD_SHOWN)
    return bool(member["self"]) or not gone


def members_table(members: Sequence[Mapping[str, Any]], width: int) -> Fitted:
    """One row for each member; `*` is the node that was asked."""
    columns = [
        Column(""),
        Column("name"),
        Column("node", importance=5),
        Column("state", flexible=7),
        Column("epoch", importance=4, right=True),
        Column("inc", importance=1, right=True),
        Column("for", importance=6, right=True),
        Column("rtt", importance=3, right=True),
        Column("address"),
        Column("agents", importance=7, flexible=24),
        Column("zone", importance=2),
    ]
    rows = [
        (
            "*" if member["self"] else "",
            member["name"],
            member["node"][:8],
            state(member["state"], _ailments(member, MEMBER_AILMENTS)),
            str(member["epoch"]),
            str(member["incarnation"]),
            duration(member["since"]),
            "" if member["rtt_ms"] is None else f"{member['rtt_ms']:.1f} ms",
            ", ".join(member["addresses"]),
            ", ".join(member["agents"]),
            member["zone"],
        )
        for member in sorted(members, key=_place)
    ]
    return Fitted(columns, rows, width)


def _ailments(shown: Mapping[str, Any], ailments: Sequence[tuple[str, str]]) -> str:
    """What ails a member or an agent although it may well answer probes; empty if nothing is known to."""
    parts = ["refused"] if shown.get("refused") else []
    if shown["told"] is not None and shown["told"] <= TOLD_SHOWN:
        parts += [words.format(shown[name]) for name, words in ailments if shown[name]]
    return ", ".join(parts)


def _place(member: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where a member stands in the table: the one asked, then by state."""
    place = STATES.index(member["state"]) if member["state"] in STATES else len(STATES)
    return not member["self"], place, member["name"], member["node"]


def members_summary(
    members: Sequence[Mapping[str, Any]], diagnostics: Mapping[str, int], hidden: int = 0
) -> Text:
    """How many of each state, how many of them the table does not show, what ails the node asked, what was dropped."""
    counts: dict[str, int] = {}
    for member in members:
        counts[member["state"]] = counts.get(member["state"], 0) + 1
    text = Text("1 member: " if len(members) == 1 else f"{len(members)} members: ")
    for place, (name, style) in enumerate((name, style) for name, style in STYLES.items() if name in counts):
        text.append(", " if place else "").append(f"{counts[name]} {name}", style=style)
    if hidden:
        text.append(f"; {hidden} not shown, --all shows them")
    troubles = [f"{words}: {diagnostics[name]}" for name, words in TROUBLES if diagnostics.get(name)]
    if troubles:
        text.append(f"\nat the node asked: {'; '.join(troubles)}", "yellow")
    dropped = {
        name.removeprefix("dropped."): count
        for name, count in diagnostics.items()
        if name.startswith("dropped.") and count
    }
    dropped = {name: count for name, count in dropped.items() if name not in USUAL}
    if dropped:
        most = sorted(dropped.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
        reasons = ", ".join(f"{name} {count}" for name, count in most)
        text.append(
            f"\ninputs dropped: {sum(dropped.values())} ({reasons}); all counters with --json", "yellow"
        )
    return text


def agents_table(agents: Sequence[Mapping[str, Any]], width: int) -> Fitted:
    """One row for each instance."""
    columns = [
        Column("agent"),
        Column("version", importance=3),
        Column("capabilities", flexible=24),
        Column("node"),
        Column("state", importance=4, flexible=7),
        Column("tags", importance=2, flexible=24),
        Column("weight", importance=1, right=True),
    ]
    rows = [
        (
            agent["agent"],
            agent["version"],
            ", ".join(one["name"] for one in agent["capabilities"]),
            agent["node_name"],
            state(agent["state"], _ailments(agent, AGENT_AILMENTS)),
            " ".join(f"{key}={value}" for key, value in sorted(agent["tags"].items())),
            f"{agent['weight']:g}",
        )
        for agent in agents
    ]
    return Fitted(columns, rows, width)


def explanation_table(explanation: Mapping[str, Any], width: int) -> Fitted:
    """One row for each instance: what took it out, or what share of the calls it has; `→` is the pick."""
    by_key = explanation["policy"] == "consistent_hash"
    columns = [
        Column(""),
        Column("agent", importance=4),
        Column("node"),
        Column("state", importance=3),
        Column("version", importance=2),
        Column("weight", importance=1, right=True),
        Column("place" if by_key else "share", importance=5, right=True),
        Column("stage"),
        Column("why", flexible=20),
    ]
    rows, dim = [], []
    for candidate in explanation["candidates"]:
        is_pick = (
            candidate["node"] == explanation["picked"] and candidate["agent"] == explanation["picked_agent"]
        )
        removed = candidate["removed_by"]
        share, position = candidate["share"], candidate["position"]
        chance = (
            ("" if position is None else str(position)) if by_key else "" if share is None else f"{share:.0%}"
        )
        stage = (
            Text("picked", "bold green")
            if is_pick
            else Text(f"out: {plain(removed)}" if removed else "candidate")
        )
        rows.append(
            (
                "→" if is_pick else "",
                candidate["agent"],
                candidate["node_name"],
                state(candidate["state"]),
                candidate["version"],
                f"{candidate['weight']:g}",
                chance,
                stage,
                candidate["why"],
            )
        )
        dim.append(bool(removed))
    return Fitted(columns, rows, width, dim)


def explanation_summary(explanation: Mapping[str, Any]) -> Text:
    """The pick, or the error that a call would get."""
    reason = plain(explanation["reason"])
    rules = "".join(f"\nby rule: {plain(line)}" for line in explanation["rules"])
    if explanation["named"]:
        rules = f"\n{plain(explanation['named'])}{rules}"
    if explanation["code"]:
        return Text(f"a call would fail: {reason} [{explanation['code']}]", style="red").append(rules)
    return Text(f"pick: {reason}").append(rules)


def rules_table(history: Sequence[Mapping[str, Any]], now: float, width: int) -> Fitted:
    """One row for each rule set that was applied to the cluster; `*` is in force."""
    columns = [
        Column(""),
        Column("version", right=True),
        Column("by"),
        Column("ago", importance=4, right=True),
        Column("rules", importance=3, right=True),
        Column("state", importance=5),
        Column("comment", importance=2, flexible=20),
        Column("digest", importance=1),
    ]
    rows = [
        (
            "*" if one["in_force"] else "",
            str(one["version"]),
            one["author_name"],
            duration(max(0.0, now - one["issued_at"])),
            str(one["rules"]),
            "in force" if one["in_force"] else "not understood" if one["refused"] else "replaced",
            one["comment"],
            one["digest"][:8],
        )
        for one in history
    ]
    return Fitted(columns, rows, width)


def state(name: str, addition: str = "") -> Text:
    """A member's state in its colour."""
    return Text(f"{name}, {addition}" if addition else name, style=STYLES.get(name, ""))


def duration(seconds: float) -> str:
    """`3.2 s`, `4 min`, `2 h`, `3 d`."""
    for limit, divisor, unit in ((60, 1, "s"), (3_600, 60, "min"), (86_400, 3_600, "h")):
        if seconds < limit:
            value = seconds / divisor
            return f"{value:.1f} {unit}" if unit == "s" and value < 10 else f"{value:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
