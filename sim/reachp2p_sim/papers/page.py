"""Writes a paper's findings into docs/papers.md, between the markers of its section; the rest is written by hand.

    <!-- paper:ring -->  …  <!-- /paper:ring -->

Figures go into `pictures/papers/` beside the page.
"""

from __future__ import annotations

from pathlib import Path

from reachp2p_sim.papers.execute import Report
from reachp2p_sim.papers.show import markdown
from reachp2p_sim.results.files import write_whole

PICTURES = "pictures/papers"


class PageError(ValueError):
    """The page has no place for this paper. The message says what is missing."""


def markers(name: str) -> tuple[str, str]:
    """The lines between which a paper's findings stand."""
    return f"<!-- paper:{name} -->", f"<!-- /paper:{name} -->"


def write(path: Path, report: Report, command: str, date: str, version: str) -> None:
    """Replace what stands between the markers, and write the figures. Raises `PageError` before anything is
    written."""
    name = report.paper.name
    begin, end = markers(name)
    text = path.read_text(encoding="utf-8")
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise PageError(f"{path} has no place for {name}: it needs the lines {begin} and {end}")
    origin = f"`{command}`, {date}, version {version}, {report.seconds:.0f} s."
    body = f"{begin}\n{origin}\n\n{markdown(report, PICTURES)}{end}"
    folder = path.parent / PICTURES
    figures = [figure for outcome in report.outcomes for figure in outcome.findings.figures]
    if figures:
        folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        write_whole(folder / f"{name}-{figure.name}.svg", figure.svg)
    write_whole(path, f"{before}{body}{after}")
