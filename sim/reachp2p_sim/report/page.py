"""The report of one run: one HTML file that loads nothing, made of templates in this package.

Everything but the space-time diagram is there without JavaScript. Jinja escapes all text; the style sheet and the
scripts are the only things put in as they are, and they come from this package.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from reachp2p_sim.checkers import CHECKERS
from reachp2p_sim.recording import kinds
from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.report import curves, diagram, words
from reachp2p_sim.report.narrative import tell
from reachp2p_sim.report.spans import spans
from reachp2p_sim.report.strip import strip
from reachp2p_sim.running.configuration import find_scenario, short_name

PACKAGE = "reachp2p_sim.report"
SCRIPTS = ("report.js", "spacetime.js", "diagram.js")
DETERMINISM = "one run seed, one trace digest, in any process, under any PYTHONHASHSEED"


def render(findings: Findings, summary: dict[str, Any]) -> str:
    """The whole page. `summary` is what goes into summary.json: both show the same numbers."""
    found = spans(findings)
    bands = [span for span in found if span.hosts is None]
    protocol = findings.world.protocol
    return template("page.html.j2").render(
        title=f"{short_name(summary['scenario'])}, seed {summary['seed']}",
        style=static("report.css"),
        scripts=[static(name) for name in SCRIPTS],
        run=summary,
        about=_about(summary),
        numbers=summary["recording"],
        checkers=_checkers(summary),
        tiles=_tiles(summary),
        story=tell(findings),
        strip=strip(findings, found),
        agreement=curves.agreement(findings, bands),
        detection=curves.detection(findings),
        spreading=curves.spreading(findings),
        traffic=curves.traffic(findings, bands),
        routing=curves.routing(findings, bands),
        kinds=_kinds(summary),
        nodes=_nodes(summary),
        calls=_calls(findings),
        conflicts=_conflicts(findings),
        lives=_lives(findings),
        diagram=diagram.packed(findings),
        windows=[w for w in findings.recorder.travel.windows if w.messages],
        protocol={name: getattr(protocol, name) for name in protocol.__struct_fields__},
        fault_kinds=_fault_kinds(findings),
    )


@cache
def environment() -> Environment:
    """The templates, with everything escaped that they are given."""
    made = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("seconds", "moment", "count", "size", "share", "plural", "names"):
        made.filters[name] = getattr(words, name)
    made.filters["scenario"] = short_name
    return made


def template(name: str) -> Template:
    """One template of this package."""
    return environment().get_template(name)


@cache
def static(name: str) -> Markup:
    """A style sheet or script of this package, to be put in as it is."""
    text = (files(PACKAGE) / "static" / name).read_text(encoding="utf-8")
    assert "</script" not in text, "a script must not end itself"
    assert "</style" not in text, "a style sheet must not end itself"
    return Markup(text)


def _about(summary: dict[str, Any]) -> str:
    name = summary["config"]["scenario"]
    return find_scenario(name).summary


def _checkers(summary: dict[str, Any]) -> list[dict[str, str]]:
    """Each promise with its verdict, broken ones first."""
    known = {checker.name: checker for checker in CHECKERS}
    rows = []
    for name, verdict in summary["checkers"].items():
        checker = known.get(name)
        if checker is None:
            rows.append({"name": name, "verdict": verdict, "id": "I-DET", "promise": DETERMINISM})
            continue
        first = (sys.modules[checker.__module__].__doc__ or "").split("\n\n")[0].replace("\n", " ")
        promise = first.split(": ", 1)[-1].rstrip(".")
        rows.append({"name": name, "verdict": verdict, "id": checker.invariant, "promise": promise})
    return sorted(rows, key=lambda row: row["verdict"] == "pass")


def _tiles(summary: dict[str, Any]) -> list[dict[str, str]]:
    """The numbers that one wants first."""
    numbers = summary["recording"]
    tiles = [
        _tile(
            "machines",
            words.count(len(numbers["by_node"])),
            f"{words.seconds(summary['simulated_seconds'])} simulated",
        )
    ]
    settled = numbers["settled"][1:] or numbers["settled"]  # the first is that of the start
    if settled:
        last = max(settled, key=lambda s: s["after_step"])
        tiles.append(
            _tile(
                "views equal after",
                words.seconds(last["after_step"]),
                f"budget {words.seconds(last['budget'])}",
            )
        )
    if numbers["detections"]:
        tiles.append(
            _tile(
                "first doubt after",
                words.seconds(numbers["first_suspicion_median"]),
                f"verdict after {words.seconds(numbers['verdict_median'])}, medians",
            )
        )
    tiles.append(
        _tile(
            "false verdicts",
            words.count(numbers["false_verdicts"]),
            f"{words.plural(numbers['false_suspicions'], 'false suspicion')} of {words.count(numbers['suspicions'])}",
        )
    )
    if numbers["conflicts"]:
        agreed = [c["time_to_agree"] for c in numbers["conflicts"] if c["time_to_agree"] is not None]
        tiles.append(
            _tile(
                "epoch conflicts",
                words.count(len(numbers["conflicts"])),
                f"settled within {words.seconds(max(agreed))}" if agreed else "not settled",
            )
        )
    tiles.append(
        _tile(
            "per node and second",
            f"{numbers['datagrams_per_node_second']:.2f}",
            f"datagrams; {words.size(numbers['bytes_per_node_second'])} with links",
        )
    )
    return tiles


def _tile(label: str, value: str, note: str) -> dict[str, str]:
    return {"label": label, "value": value, "note": note}


def _kinds(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The budget by kind, largest first, with bars."""
    numbers = summary["recording"]
    nodes = max(len(numbers["by_node"]), 1)
    seconds = max(summary["simulated_seconds"], 1e-9)
    whole = sum(row["bytes"] for row in numbers["by_kind"].values()) or 1
    largest = max((row["bytes"] for row in numbers["by_kind"].values()), default=1) or 1
    return [
        {
            "kind": kind,
            "family": kinds.family((kind,)),
            "count": row["count"],
            "bytes": row["bytes"],
            "share": row["bytes"] / whole,
            "bar": round(100 * row["bytes"] / largest, 2),
            "rate": row["bytes"] / nodes / seconds,
        }
        for kind, row in numbers["by_kind"].items()
    ]


def _nodes(summary: dict[str, Any]) -> dict[str, Any]:
    """Each node's budget, and the extremes."""
    rows = summary["recording"]["by_node"]
    columns = ("datagrams", "frames", "bytes", "received", "signature_checks")
    spread = {}
    for column in columns:
        values = sorted((row[column], name) for name, row in rows.items())
        if values:
            spread[column] = {"least": values[0], "median": values[len(values) // 2], "most": values[-1]}
    return {"rows": rows, "columns": columns, "spread": spread}


def _calls(findings: Findings) -> dict[str, Any]:
    recorder = findings.recorder
    total = sum(recorder.calls_by_code.values())
    answered = sum(recorder.calls_by_node.values())
    most = max(recorder.calls_by_node.values(), default=0)
    return {
        "total": total,
        "codes": [(words.ending(code), number) for code, number in sorted(recorder.calls_by_code.items())],
        "attempts": sorted(recorder.attempts.items()),
        "answered": answered,
        "instances": [
            {"name": findings.name(index), "count": count, "bar": round(100 * count / most, 1)}
            for index, count in recorder.calls_by_node.most_common(40)
        ],
    }


def _conflicts(findings: Findings) -> list[dict[str, Any]]:
    return [
        {
            "name": findings.recorder.node_name(conflict.node),
            "conflict": conflict,
            "lives": [
                {"span": span, "host": findings.name(span.host), "won": span is conflict.winner}
                for span in conflict.lives
            ],
            "events": [(at, findings.name(host), text) for at, host, text in conflict.events],
        }
        for conflict in findings.recorder.lives.conflicts
    ]


def _lives(findings: Findings) -> list[dict[str, Any]]:
    """Lives of nodes that had more than one, in order of time."""
    spans_ = findings.recorder.lives.spans
    several = {span.node for span in spans_ if sum(other.node == span.node for other in spans_) > 1}
    return [
        {"span": span, "host": findings.name(span.host), "life_id": span.life.life_id[:4].hex()}
        for span in spans_
        if span.node in several
    ][:200]


def _fault_kinds(findings: Findings) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for performed in findings.world.performed:
        if performed.step.acts:
            word = performed.step.word()
            counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items())
