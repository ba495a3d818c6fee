"""A paper's report for people: a table in the terminal, a section of docs/papers.md."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

from reachp2p_sim.papers.base import Row
from reachp2p_sim.papers.execute import Report

if TYPE_CHECKING:
    from rich.table import Table

STYLES = {"holds": "green", "open": "yellow", "fails": "bold red", "reported": "dim"}
WORDS = {
    "text": "paper",
    "figure": "read off a figure",
    "computed": "from a formula of the paper",
    "own": "own goal",
}


def number(value: float) -> str:
    """Four significant digits, or a plain integer."""
    if value == inf:
        return "∞"
    if value == -inf:
        return "-∞"
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value)}"
    return f"{value:.4g}"


def interval(row: Row) -> str:
    """The ends of the 95 % interval, or nothing if the number is exact."""
    low, high = row.measured.low, row.measured.high
    return "" if low == high else f"[{number(low)}, {number(high)}]"


def limits(row: Row) -> str:
    """What is accepted, in a few characters."""
    if row.accepted is None:
        return ""
    low, high = row.accepted
    if low == high:
        return f"= {number(low)}"
    if not isfinite(low):
        return f"≤ {number(high)}"
    if not isfinite(high):
        return f"≥ {number(low)}"
    return f"{number(low)} … {number(high)}"


def published(row: Row) -> str:
    """The published number; `~` if it was read off a figure."""
    if row.published is None:
        return "–"
    return f"{'~' if row.source == 'figure' else ''}{number(row.published)}"


def table(report: Report) -> Table:
    """All rows side by side, for a terminal."""
    from rich.table import Table

    shown = Table(title=f"{report.paper.title}: {report.paper.citation}", title_justify="left")
    for name in ("id", "what", "published", "accepted", "measured", "95 %", "samples", "verdict"):
        shown.add_column(name, justify="left" if name in ("id", "what", "verdict") else "right")
    for outcome in report.outcomes:
        for row in outcome.findings.rows:
            what = f"{row.what} ({row.unit})" if row.unit else row.what
            shown.add_row(
                row.id,
                what,
                published(row),
                limits(row),
                number(row.measured.value),
                interval(row),
                str(row.measured.samples),
                f"[{STYLES[row.verdict]}]{row.verdict}[/]",
            )
        shown.add_section()
    return shown


def markdown(report: Report, pictures: str) -> str:
    """The section's body: each experiment with its set-up, table, figures and remarks.

    `pictures` is the folder of the figures as the page links to it.
    """
    out = [f"{report.paper.citation}", ""]
    for outcome in report.outcomes:
        experiment, findings = outcome.experiment, outcome.findings
        out += [f"**{experiment.name}.** {experiment.set_up}", ""]
        out += [
            "| id | what | published | accepted | measured | 95 % interval | samples | verdict |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in findings.rows:
            what = f"{row.what} ({row.unit})" if row.unit else row.what
            cells = [row.id, what, published(row), limits(row), number(row.measured.value), interval(row)]
            cells += [str(row.measured.samples), row.verdict]
            out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        out.append("")
        for row in findings.rows:
            if row.note:
                out += [f"{row.id}, {row.what}: {row.note}", ""]
        for remark in findings.remarks:
            out += [remark, ""]
        for figure in findings.figures:
            out += [f"![{figure.caption}]({pictures}/{report.paper.name}-{figure.name}.svg)", ""]
    return "\n".join(out)
