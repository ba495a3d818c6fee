"""A session as a waterfall: one line a hop, indented by what caused what, a bar for its time, what it came to.

The columns fit the width they are given. All text in them may come from other nodes; it goes through `plain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from reachp2p.runtime.text import plain
from reachp2p_node.cli.tables import duration

INDENT = 2
INDENT_MAX = 16
"""Deeper hops are shown as deep as this: their order still tells."""
ARROWS = {"asked": "→", "served": "·"}
"""A call that a node made; what a node did for one."""
TOOK, CODE, BYTES = 8, 4, 13
NAME_MAX = 16
BAR_MIN = 12


def waterfall(answer: Mapping[str, Any], width: int) -> list[Text]:
    """The lines of all hops, and a line of headings above them."""
    hops: Sequence[Mapping[str, Any]] = answer["hops"]
    if not hops:
        return []
    labels = [_label(hop) for hop in hops]
    names = [_name(hop["node"], answer["names"]) for hop in hops]
    name_width = min(max(map(len, names), default=4), NAME_MAX if width >= 100 else 10)
    fixed = name_width + TOOK + CODE + BYTES + 5
    label_width = min(max(map(len, labels)), max(20, (width - fixed) * 3 // 5))
    bar_width = max(BAR_MIN, width - fixed - label_width)
    begun, ended = _span(hops, answer["offsets"])
    lines = [
        _line("hop", "node", "took", "code", "out → in", Text("time"), label_width, name_width, style="dim")
    ]
    for hop, label, name in zip(hops, labels, names, strict=True):
        bar = _bar(hop, answer["offsets"], begun, ended, bar_width)
        code = "ok" if not hop["code"] else str(hop["code"])
        took = "" if hop["other"] is None else milliseconds(hop["duration"])
        sizes = _sizes(hop)
        style = "red" if hop["code"] else ""
        lines.append(_line(label, name, took, code, sizes, bar, label_width, name_width, style=style))
    return lines


def heading(answer: Mapping[str, Any]) -> Text:
    """What a session is, in a line."""
    hops = answer["hops"]
    text = Text(f"session {answer['session']}: ")
    begun, ended = _span(hops, answer["offsets"])
    nodes = len({hop["node"] for hop in hops})
    text.append(f"{_count(len(hops), 'hop')} on {_count(nodes, 'node')}, {milliseconds(ended - begun)}")
    failed = sum(1 for hop in hops if hop["code"])
    if failed:
        text.append(f", {failed} failed", "red")
    return text


def failures(answer: Mapping[str, Any], width: int) -> list[Text]:
    """Why hops failed, each reason once."""
    said: dict[str, None] = {}
    for hop in answer["hops"]:
        if hop["code"]:
            what = hop["capability"] or hop["agent"] or "a call"
            said[f"{hop['code']} {plain(what)}: {plain(hop['detail']) or 'no reason was told'}"] = None
    return [Text(_cut(line, width), "red") for line in said]


def missing(answer: Mapping[str, Any]) -> list[Text]:
    """Whose hops are not here, and why."""
    lines = []
    for one in answer["missing"]:
        words = WHY.get(one["why"], plain(one["why"]))
        lines.append(Text(f"missing: node {_name(one['node'], answer['names'])} {words}", "yellow"))
    if answer["left_out"]:
        lines.append(Text(f"missing: {answer['left_out']} hops, too many to be told", "yellow"))
    return lines


WHY = {
    "dead": "is DEAD",
    "left": "has left",
    "unknown": "is not known here any more",
    "unreachable": "cannot be reached",
    "silent": "did not answer in time",
    "refused": "is asked too often; try again in a moment",
    "not_asked": "was not asked: the time was over",
}
BECAUSE = {
    "gone": "that node has not answered",
    "restarted": "that node records only since a later moment",
    "evicted": "that node has dropped hops of that time",
    "lost": "that node has answered and has no record of it",
}


def findings(answer: Mapping[str, Any]) -> list[Text]:
    """What is wrong with the hops of a session, in words."""
    return [Text(_finding(one, answer["names"]), "yellow") for one in answer["findings"]]


def _finding(one: Mapping[str, Any], names: Mapping[str, str]) -> str:
    node = _name(one["node"], names)
    because = BECAUSE.get(one["because"] or "", "")
    what = plain(one["capability"] or one["agent"] or "a call")
    attempt = f", attempt {one['attempt']}" if one["attempt"] > 1 else ""
    match one["kind"]:
        case "asked_lost":
            return f"lost: node {node} called {what}{attempt}, and its hop is missing: {because}"
        case "served_lost":
            return f"lost: node {node} served {what}{attempt}, and its hop is missing: {because}"
        case "parent_lost":
            return f"lost: what node {node} served when it made a call (span {one['span']}): {because}"
        case "trace_broken":
            agent = plain(one["agent"])
            return (
                f"broken: node {node} called {what} in a trace of its own while {agent} served this one; if that was "
                f"on its behalf, its context was lost (session {one['message_id']})"
            )
        case "clocks":
            ahead = "ahead of" if one["offset"] > 0 else "behind"
            return (
                f"clocks: that of node {node} is {duration(abs(one['offset']))} {ahead} that of "
                f"{_name(one['other'], names)} (give or take {milliseconds(one['uncertain'])})"
            )
        case kind:  # of a newer node
            return f"{plain(kind)}: node {node}"


def milliseconds(seconds: float) -> str:
    """`0.4 ms`, `12 ms`, `1.25 s`, `3 min`."""
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 60 else duration(seconds)


def size(count: int) -> str:
    """`300`, `1.2k`, `64k`, `1.0M`."""
    for limit, divisor, unit in ((1_000, 1, ""), (1_000_000, 1_000, "k"), (1_000_000_000, 1_000_000, "M")):
        if count < limit:
            value = count / divisor
            return f"{value:.1f}{unit}" if unit and value < 10 else f"{value:.0f}{unit}"
    return f"{count / 1e9:.1f}G"


def _sizes(hop: Mapping[str, Any]) -> str:
    asked = hop["side"] == "asked"
    sent, received = (hop["bytes_out"], hop["bytes_in"]) if asked else (hop["bytes_in"], hop["bytes_out"])
    items = f" ({size(hop['items'])})" if hop["items"] else ""
    return f"{size(sent)}→{size(received)}{items}"


def _label(hop: Mapping[str, Any]) -> str:
    indent = " " * min(INDENT * hop["level"], INDENT_MAX)
    attempt = f"#{hop['attempt']} " if hop["attempt"] > 1 else ""
    what = hop["agent"] if hop["side"] == "served" else hop["capability"] or hop["agent"]
    return f"{indent}{ARROWS.get(hop['side'], '?')} {attempt}{plain(what, 120) or '(nobody)'}"


def _line(
    label: str,
    name: str,
    took: str,
    code: str,
    sizes: str,
    bar: Text,
    label_width: int,
    name_width: int,
    *,
    style: str,
) -> Text:
    text = Text(no_wrap=True)
    text.append(_cut(label, label_width).ljust(label_width), style)
    text.append(f" {_cut(name, name_width):<{name_width}} {took:>{TOOK}} ")
    text.append(f"{code:>{CODE}}", style)
    text.append(f" {_cut(sizes, BYTES):>{BYTES}} ")
    return text.append_text(bar)


def _bar(hop: Mapping[str, Any], offsets: Mapping[str, Any], begun: float, ended: float, width: int) -> Text:
    """When the hop was, from the begin of the session to its end; what it waited for is thin."""
    whole = max(ended - begun, 1e-9)
    start = _started(hop, offsets) - begun
    first = min(width - 1, max(0, int(start / whole * width)))
    last = min(width, max(first + 1, round((start + hop["duration"]) / whole * width)))
    waited = min(last - first - 1, round(hop["queued"] / whole * width)) if hop["queued"] else 0
    style = "red" if hop["code"] else ("cyan" if hop["side"] == "asked" else "green")
    mark = "━" if hop["side"] == "asked" else "█"
    text = Text(" " * first)
    text.append("┄" * max(0, waited), "dim")
    return text.append(mark * (last - first - max(0, waited)), style)


def _started(hop: Mapping[str, Any], offsets: Mapping[str, Any]) -> float:
    offset = offsets.get(hop["node"])
    return float(hop["started"]) - (float(offset["seconds"]) if offset else 0.0)


def _span(hops: Sequence[Mapping[str, Any]], offsets: Mapping[str, Any]) -> tuple[float, float]:
    starts = [_started(hop, offsets) for hop in hops]
    return min(starts), max(start + hop["duration"] for start, hop in zip(starts, hops, strict=True))


def _name(node: str, names: Mapping[str, str]) -> str:
    return plain(names.get(node) or node[:8])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
