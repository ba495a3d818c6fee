"""The page of a campaign: every run as one small square, failure rates, spreads, worst seeds, rare branches.

Made of `summary.json` and `runs.jsonl` of a campaign's folder. Reports of single seeds, if some were made, lie in
`runs/` below it and are linked.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from html import escape
from math import ceil
from pathlib import Path
from typing import Any

from markupsafe import Markup

from reachp2p_sim.report import words
from reachp2p_sim.report.page import static, template
from reachp2p_sim.results.files import write_whole
from reachp2p_sim.running.configuration import short_name

PAGE = "campaign.html"
SQUARES_MAX = 400
"""Squares in a row of the grid; with more runs than this neighbours share one, which shows the worst of them."""
BINS = 48
SEEDS_SHOWN = 3
Row = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Worst:
    """A seed worth a look: why, the line that repeats it, and the report of it if one was made."""

    scenario: str
    cell: str
    seed: int
    why: str
    replay: str
    report: str | None


def write(folder: Path, reports: dict[str, str] | None = None) -> Path:
    """Write the page of a campaign; returns its path. `reports`: replay lines and the report of each, as a link.

    Raises `OSError`, or `ValueError` if the folder holds no finished campaign.
    """
    summary, rows = read(folder)
    path = folder / PAGE
    write_whole(path, render(summary, rows, reports or {}))
    return path


def read(folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """Summary and runs of a campaign. Raises `OSError` or `ValueError`."""
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    if "cells" not in summary:
        raise ValueError("summary.json is that of a single run")
    with (folder / "runs.jsonl").open(encoding="utf-8") as file:
        return summary, [json.loads(line) for line in file if line.endswith("\n")]


def by_cell(rows: list[Row]) -> dict[int, list[Row]]:
    """The runs of each row of the grid, in order of their number."""
    cells: dict[int, list[Row]] = {}
    for row in sorted({row["number"]: row for row in rows}.values(), key=lambda row: int(row["number"])):
        cells.setdefault(row["cell"], []).append(row)
    return cells


def render(summary: dict[str, Any], rows: list[Row], reports: dict[str, str]) -> str:
    """The page as text. `rows` are lines of runs.jsonl, in any order."""
    runs = by_cell(rows)
    cells = [_cell(cell, runs.get(number, [])) for number, cell in enumerate(summary["cells"])]
    return template("campaign.html.j2").render(
        style=static("report.css"),
        script=static("report.js"),
        summary=summary,
        cells=cells,
        tiles=_tiles(summary),
        spreads=_spreads(summary, runs),
        worst=worst(summary, runs, reports),
        failures=[{**f, "report": reports.get(f["replay"])} for f in summary["failures"]],
        coverage=_coverage(summary),
    )


def worst(summary: dict[str, Any], runs: dict[int, list[Row]], reports: dict[str, str]) -> list[Worst]:
    """For each cell the first failure, or else the slowest seed of each timing, the furthest from its median first."""
    found: list[tuple[float, Worst]] = []
    for number, cell in enumerate(summary["cells"]):
        rows = {row["seed"]: row for row in runs.get(number, [])}
        for seed in cell["failed_seeds"][:SEEDS_SHOWN]:
            if seed in rows:
                found.append((float("inf"), _worst(cell, rows[seed], "fails", reports)))
        for name, spread in cell["timings"].items():
            seed = spread["slowest_seeds"][0] if spread["slowest_seeds"] else None
            if seed not in rows or spread["max"] <= spread["median"]:
                continue
            ratio = spread["max"] / max(spread["median"], 0.05)
            why = f"{name.replace('_', ' ')} {words.seconds(spread['max'])}, median {words.seconds(spread['median'])}"
            found.append((ratio, _worst(cell, rows[seed], why, reports)))
    found.sort(key=lambda pair: -pair[0])
    seen: dict[str, Worst] = {}
    for _, one in found:
        seen.setdefault(one.replay, one)
    return list(seen.values())[:20]


def _worst(cell: dict[str, Any], row: Row, why: str, reports: dict[str, str]) -> Worst:
    return Worst(cell["scenario"], cell["name"], row["seed"], why, row["replay"], reports.get(row["replay"]))


def _tiles(summary: dict[str, Any]) -> list[dict[str, str]]:
    effort = summary["effort"]
    worst_rate = max((c["failure_rate"]["high"] for c in summary["cells"] if c["failure_rate"]), default=0.0)
    return [
        {
            "label": "runs",
            "value": words.count(summary["runs"]),
            "note": f"of {words.count(summary['planned'])} planned",
        },
        {
            "label": "failed",
            "value": words.count(summary["failed"]),
            "note": f"rate below {words.share(worst_rate)} in every row (95 %)"
            if not summary["failed"]
            else f"{words.share(summary['failed'] / max(summary['runs'], 1))} of all runs",
        },
        {"label": "lost", "value": words.count(summary["lost"]), "note": "ended without a result"},
        {
            "label": "simulated",
            "value": _long(summary["simulated_seconds"]),
            "note": f"{_long(effort['cpu_seconds'])} of CPU",
        },
        {"label": "messages", "value": _short(summary["messages"]), "note": "datagrams and frames delivered"},
    ]


def _long(seconds: float) -> str:
    if seconds < 7200:
        return words.seconds(seconds)
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def _short(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {unit}"
    return words.count(number)


# The grid


def _cell(cell: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    return {
        **cell,
        "label": cell["name"],
        "rate": cell["failure_rate"],
        "squares": _squares(rows),
        "count": len(rows),
        "by": ", ".join(f"{name} {count}" for name, count in cell["failed_by"].items()),
    }


def _squares(rows: list[Row]) -> list[dict[str, str]]:
    """One for each run, shaded by how long its slowest timing took among all of the cell."""
    together = max(1, ceil(len(rows) / SQUARES_MAX))
    ranks = _ranks(rows)
    squares: list[dict[str, str]] = []
    for first in range(0, len(rows), together):
        group = rows[first : first + together]
        failed = next((row for row in group if row["verdict"] != "pass"), None)
        slowest = max(group, key=lambda row: ranks[row["seed"]])
        shown = failed or slowest
        seeds = (
            f"seed {group[0]['seed']}"
            if len(group) == 1
            else f"seeds {group[0]['seed']} to {group[-1]['seed']}"
        )
        if failed is not None:
            what = (
                f"{failed['verdict']}, {failed['violation']['checker'] if failed['violation'] else 'error'}"
            )
            style = "failed"
        else:
            what = "pass, " + ", ".join(
                f"{n.replace('_', ' ')} {words.seconds(v)}" for n, v in shown["timings"].items()
            )
            rank = ranks[slowest["seed"]]
            style = "top" if rank >= 0.99 else "high" if rank >= 0.9 else "mid" if rank >= 0.5 else "low"
        squares.append({"style": style, "title": f"{seeds}: {what}"})
    return squares


def _ranks(rows: list[Row]) -> dict[int, float]:
    """By seed: the highest share of runs that one of its timings is slower than."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row["timings"].items():
            values.setdefault(name, []).append(value)
    for name in values:
        values[name].sort()
    return {
        row["seed"]: max(
            (bisect_left(values[name], value) / len(values[name]) for name, value in row["timings"].items()),
            default=0.0,
        )
        for row in rows
    }


# Spreads


def _spreads(summary: dict[str, Any], runs: dict[int, list[Row]]) -> list[dict[str, Any]]:
    """For each scenario and timing a histogram of each cell, all on one axis."""
    groups: dict[tuple[str, str], list[tuple[dict[str, Any], list[float]]]] = {}
    for number, cell in enumerate(summary["cells"]):
        for name in cell["timings"]:
            values = [row["timings"][name] for row in runs.get(number, []) if name in row["timings"]]
            if values:
                groups.setdefault((cell["scenario"], name), []).append((cell, values))
    spreads: list[dict[str, Any]] = []
    for (scenario, name), members in groups.items():
        top = max(max(values) for _, values in members) or 1.0
        spreads.append(
            {
                "scenario": scenario,
                "timing": name.replace("_", " "),
                "top": top,
                "cells": [
                    {
                        "label": _point(cell),
                        "svg": _histogram(values, top),
                        "median": cell["timings"][name]["median"],
                        "p99": cell["timings"][name]["p99"],
                        "max": cell["timings"][name]["max"],
                        "median_x": round(100 * cell["timings"][name]["median"] / top, 2),
                        "p99_x": round(100 * cell["timings"][name]["p99"] / top, 2),
                        "slowest": cell["timings"][name]["slowest_seeds"],
                    }
                    for cell, values in members
                ],
            }
        )
    return spreads


def _point(cell: dict[str, Any]) -> str:
    return str(cell["name"]).removeprefix(short_name(cell["scenario"])).strip() or "all seeds"


def _histogram(values: list[float], top: float) -> Markup:
    """Counts over equal parts of the axis, as the path of a picture 480 by 40."""
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(BINS * value / top))] += 1
    most = max(counts)
    parts = []
    for number, count in enumerate(counts):
        if count:
            height = max(3.0, 38.0 * count / most)
            parts.append(f"M{number * 10} 40v{-height:.1f}h9v{height:.1f}z")
    return Markup(f'<path d="{escape("".join(parts))}"/>')


# Coverage


def _coverage(summary: dict[str, Any]) -> dict[str, Any]:
    """Scenario by branch."""
    branches: dict[str, None] = {}
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in summary["coverage"]:
        branches[entry["branch"]] = None
        table.setdefault(entry["scenario"], {})[entry["branch"]] = entry
    return {"branches": list(branches), "table": table}
