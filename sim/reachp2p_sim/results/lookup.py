"""A run to look at: out of the store, or run again from the line that repeats it.

Both give the same: the summary and the history, so a command can take either. Running again needs the code that the run
was made with; the summary says which that was.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os.path import isdir, isfile  # of a line that is too long for a path they say no, where pathlib raises
from pathlib import Path
from typing import Any

from reachp2p_sim.recording import Recorder, lines
from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.results.run_again import past_run
from reachp2p_sim.results.store import HISTORY, SUMMARY, read_summary, summarize
from reachp2p_sim.results.stored_form import check_entry, check_summary
from reachp2p_sim.running.configuration import RunConfig, UsageError
from reachp2p_sim.running.run import run_scenario

Entry = dict[str, Any]


@dataclass(slots=True)
class StoredRun:
    """One run: what `summary.json` and `history.jsonl.gz` hold."""

    name: str
    """How it was named: a folder, or the line that repeats it."""
    summary: dict[str, Any]
    history: list[Entry]
    folder: Path | None

    @property
    def config(self) -> RunConfig:
        """What it was made with."""
        return RunConfig(**self.summary["config"])


def find(reference: str, on_run: Callable[[str], None] | None = None) -> StoredRun:
    """The run in this folder (or the folder of this file), or the run of this line, made now.

    `on_run` is told before one is made, which may take a while. Raises `UsageError` or `store.StoreError`.
    """
    path = Path(reference)
    if isfile(path) and isfile(path.parent / SUMMARY):  # one of the files of a stored run
        path = path.parent
    if reference and isdir(path):
        return _read(path)
    if " " not in reference.strip() and "/" in reference:
        raise UsageError(
            f"{reference}: there is no such folder; name a run in the store, or a line that repeats one"
        )
    config = past_run(reference).config
    if on_run is not None:
        on_run(config.command())
    recorder = Recorder()
    result = run_scenario(config, attach=recorder.attach)
    recorder.finish(result)
    findings = Findings(recorder)
    summary = summarize(config, result, findings, 0.0, None, [])
    return StoredRun(config.command(), summary, [json.loads(line) for line in lines.history(findings)], None)


def _read(folder: Path) -> StoredRun:
    if not (folder / SUMMARY).exists() and (folder / "latest" / SUMMARY).exists():
        folder = folder / "latest"
    summary = read_summary(folder)
    try:
        check_summary(summary)
    except ValueError as error:
        raise UsageError(f"{folder / SUMMARY}: damaged: {error}") from error
    return StoredRun(str(folder), summary, list(_history(folder / HISTORY)), folder)


def _history(path: Path) -> Iterator[Entry]:
    whole = 0
    try:
        with gzip.open(path) as packed:
            for line in packed:
                check_entry(line)
                yield json.loads(line)
                whole += 1
    except FileNotFoundError as error:
        raise UsageError(f"{path}: the history is missing: {error.strerror}") from error
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
    ) as error:  # gzip says in each of these ways that it is none
        raise UsageError(f"{path}, line {whole + 1}: damaged: {error}") from error
