"""`reachp2p-sim paper NAME`: repeat the experiments of a paper and set its numbers beside ours."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reachp2p_sim.commands.shared import FAIL, AsJson, usage

if TYPE_CHECKING:
    from reachp2p_sim.papers.execute import Report

PIPE_WIDTH = 180
"""Columns of a table that is not shown on a terminal."""


def paper(
    name: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="swim, lifeguard, tuning, rapid, epidemic, scuttlebutt, ring, or vivaldi.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples, smaller networks.")] = False,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(min=0, help="The run seed: everything uncertain comes from it.")] = 1,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes at once; all cores if not given.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ROW", help="Only experiments with this row, such as R5.1."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write tables and figures into this page (docs/papers.md).")
    ] = None,
) -> None:
    """Repeat a paper's experiments, beside its published figures.

    Each row has the published value, the one measured with its 95 % interval, and a verdict.
    """
    from reachp2p_sim.papers import PAPERS, find_paper
    from reachp2p_sim.papers.base import Scale
    from reachp2p_sim.papers.execute import CaseFailed, execute
    from reachp2p_sim.papers.page import PageError
    from reachp2p_sim.results.files import said_of
    from reachp2p_sim.running.wrong_values import unknown

    if name not in PAPERS:
        usage(unknown("paper", name, PAPERS))
    whole = find_paper(name)
    try:
        chosen = whole.choose(only or ())
    except KeyError as wrong:
        ids = [row_id for experiment in whole.experiments for row_id in experiment.ids]
        usage(f"--only {wrong.args[0]}: {name} has {', '.join(dict.fromkeys(ids))}")
    if write is not None and only:
        usage("--write replaces a paper's whole section: run it without --only")
    if write is not None and not write.is_file():
        usage(f"--write {write}: there is no such page")
    try:
        with _Progress(name) as progress:
            report = execute(chosen, Scale(quick, seed), workers or os.cpu_count() or 1, progress)
    except CaseFailed as failed:
        print(f"reachp2p-sim: {failed}: {failed.__cause__!r}", file=sys.stderr)
        raise typer.Exit(FAIL) from failed
    if as_json:
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(report)
    if write is not None:
        try:
            _write(write, report, name, quick, seed)
        except PageError as error:
            usage(str(error))
        except OSError as error:
            usage(said_of(error))
    if report.broken:
        print(f"does not hold: {', '.join(report.broken)}", file=sys.stderr)
        raise typer.Exit(FAIL)


def _write(page: Path, report: Report, name: str, quick: bool, seed: int) -> None:
    from datetime import UTC, datetime
    from importlib.metadata import version  # the import contracts keep us from asking the package

    from reachp2p_sim.papers.page import write

    words = ["reachp2p-sim", "paper", name, *(["--quick"] if quick else []), "--seed", str(seed)]
    write(page, report, shlex.join(words), datetime.now(UTC).date().isoformat(), version("reachp2p"))


def _print(report: Report) -> None:
    from rich.console import Console

    from reachp2p_sim.papers.show import table

    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    console.print(table(report))
    for outcome in report.outcomes:
        for row in outcome.findings.rows:
            if row.note:
                console.print(f"{row.id}, {row.what}: {row.note}", markup=False, highlight=False)
        for remark in outcome.findings.remarks:
            console.print(remark, markup=False, highlight=False)


class _Progress:
    """A bar on stderr with the time that is left; nothing if stderr is no terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn(name),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(name, total=None)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)
