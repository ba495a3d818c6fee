"""Writes what became of all mutants into docs/mutants.md, between its markers; the rest is written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reachp2p_sim.campaign.hunt import Found
from reachp2p_sim.mutants import MUTANTS
from reachp2p_sim.results.files import write_whole

BEGIN, END = "<!-- mutants -->", "<!-- /mutants -->"


class PageError(ValueError):
    """The page has no place for the table. The message says what is missing."""


def put(path: Path, rows: Sequence[Found]) -> None:
    """Replace what stands between the markers. Raises `PageError` before anything is written."""
    text = path.read_text(encoding="utf-8")
    before, found_begin, rest = text.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found_begin or not found_end:
        raise PageError(f"{path} has no place for the table: it needs the lines {BEGIN} and {END}")
    codes = ", ".join(sorted({row.code for row in rows}))
    body = "\n".join([f"By the code {codes}.", "", *_table(rows), "", *_stories(rows)])
    write_whole(path, f"{before}{BEGIN}\n{body}\n{END}{after}")


def _table(rows: Sequence[Found]) -> Iterator[str]:
    yield "| mutant | scenario | nodes | seed | checker | after: nodes | faults | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        if row.seed is None or row.small is None:
            yield f"| {row.mutant} | {row.scenario} | {row.nodes} | none of {row.terms.seeds} | | | | |"
            continue
        small = row.small
        yield (
            f"| {row.mutant} | {row.scenario} | {row.nodes} | {row.seed} | {row.checker} | "
            f"{small.nodes} | {small.faults} | {small.seconds:g} |"
        )


def _stories(rows: Sequence[Found]) -> Iterator[str]:
    for row in rows:
        if row.small is None:
            continue
        yield f"**{row.mutant}**: {MUTANTS[row.mutant].summary}. *{row.small.checker}: {row.small.message}*"
        yield ""
        yield from (f"    {line}" for line in row.small.story)
        yield ""
