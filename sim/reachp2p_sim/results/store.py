"""The store of runs: `STORE/SCENARIO/TIME-SEED/` with everything a run left behind, and `latest` beside it.

    summary.json    verdict, numbers, options, environment: one JSON object
    history.jsonl.gz    what happened, a JSON object a line, in order of time
    run.log         the same for a terminal: a line an event, a column for each node
    report.html     the report: one file, nothing loaded from elsewhere
    *.parquet       samples, budgets and changes of views as tables, if pyarrow is installed

A run is written into a folder of another name and renamed when it is complete, so that a full disk leaves no half one.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reachp2p_sim.recording import lines, tables
from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.recording.recorder import Recorder
from reachp2p_sim.report.page import render
from reachp2p_sim.results import environment
from reachp2p_sim.running.configuration import is_file, located
from reachp2p_sim.running.run import RunConfig, RunResult

LATEST = "latest"
CAMPAIGNS = "campaigns"
SUMMARY, HISTORY, LOG, REPORT = "summary.json", "history.jsonl.gz", "run.log", "report.html"
FOLDERS_PER_SECOND_MAX = 1_000
RUN_FOLDER = re.compile(r"\d{8}T\d{6}-\d+(-\d+)?")
"""How the folder of a run is named until somebody gives it another name."""


class StoreError(Exception):
    """A run could not be stored. The message names the folder and the reason; nothing half-written is left."""


class Store:
    """A folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Raise `StoreError` now if nothing can be written here, rather than after a long run."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise StoreError(f"{self.folder}: a file is in the way; name a folder with --store") from None
        except OSError as error:
            raise StoreError(f"{self.folder}: cannot be made: {error.strerror}") from error
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise StoreError(f"{self.folder}: may not be written; name another folder with --store")

    def write(self, config: RunConfig, result: RunResult, recorder: Recorder, wall_seconds: float) -> Path:
        """Store a finished run; returns its folder. Raises `StoreError`."""
        name = _folder_name(result.scenario)
        scenario = self.folder / name
        stamp = datetime.now(UTC)
        partial = scenario / f".{stamp:%Y%m%dT%H%M%S}-{result.seed}-{os.getpid()}.partial"
        try:
            partial.mkdir(parents=True)
            self._fill(partial, config, result, recorder, wall_seconds, stamp)
            final = _free(scenario, f"{stamp:%Y%m%dT%H%M%S}-{result.seed}")
            partial.rename(final)
            point(scenario / LATEST, Path(final.name))
            point(self.folder / LATEST, Path(name, final.name))
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise StoreError(f"{scenario}: the run could not be stored: {error.strerror or error}") from error
        return final

    def prune(self, scenario: Path, keep: int) -> list[Path]:
        """Remove the oldest runs of a scenario's folder: `keep` that passed and as many that did not stay (0: all).

        A folder that has another name than a run is given stays, and so does one whose summary cannot be read. Raises
        `StoreError` if one cannot be removed.
        """
        if keep == 0:
            return []
        folders = [
            path for path in scenario.iterdir() if RUN_FOLDER.fullmatch(path.name) and not path.is_symlink()
        ]
        seen = {True: 0, False: 0}
        removed: list[Path] = []
        for folder in sorted(folders, key=_age, reverse=True):
            try:
                passed = read_summary(folder)["verdict"] == "pass"
            except StoreError:
                continue
            seen[passed] += 1
            if seen[passed] > keep:
                try:
                    shutil.rmtree(folder)
                except OSError as error:
                    raise StoreError(f"{folder} could not be removed: {error.strerror or error}") from error
                removed.append(folder)
        return removed[::-1]

    def scenarios(self) -> list[Path]:
        """The folders of scenarios in it, by name. Raises `StoreError` if there is no store."""
        try:
            there = sorted(self.folder.iterdir())
        except OSError as error:
            raise StoreError(f"{self.folder}: {error.strerror or error}") from error
        return [path for path in there if path.is_dir() and not path.is_symlink() and path.name != CAMPAIGNS]

    def _fill(
        self,
        folder: Path,
        config: RunConfig,
        result: RunResult,
        recorder: Recorder,
        wall_seconds: float,
        stamp: datetime,
    ) -> None:
        findings = Findings(recorder)
        written = [SUMMARY, HISTORY, LOG, REPORT]
        if tables.is_available():
            written += tables.write(findings, folder)
        summary = summarize(config, result, findings, wall_seconds, stamp, written)
        _write_packed(folder / HISTORY, lines.history(findings))
        _write(folder / LOG, lines.log(findings))
        _write(folder / REPORT, [render(findings, summary)])
        _write(folder / SUMMARY, [json.dumps(summary, indent=2, ensure_ascii=False)])


def summarize(
    config: RunConfig,
    result: RunResult,
    findings: Findings,
    wall_seconds: float,
    made_at: datetime | None,
    written: list[str],
) -> dict[str, Any]:
    """What summary.json holds: the result, the numbers of the recording, the environment, and the configuration."""
    return {
        **result.to_json(),
        "recording": findings.summary(),
        "environment": environment.describe(result.code),
        "made_at": None if made_at is None else f"{made_at:%Y-%m-%dT%H:%M:%SZ}",
        "wall_seconds": round(wall_seconds, 3),
        "config": {
            "scenario": located(config.scenario),
            "seed": config.seed,
            "nodes": config.nodes,
            "mutant": config.mutant,
            "set": dict(config.set),
        },
        "files": written,
    }


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of a stored run, or of one whose `summary.json` is named. Raises `StoreError`."""
    path = folder if folder.name == SUMMARY else folder / SUMMARY
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{folder}: no stored run: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{path}: damaged: {error}") from error
    if not isinstance(summary, dict) or "trace_digest" not in summary:
        raise StoreError(f"{path}: not the summary of a run")
    return summary


def _folder_name(scenario: str) -> str:
    """A scenario's name; of one in a file, wherever that is, the file's name without its ending."""
    return Path(scenario).stem if is_file(scenario) else scenario


def _write(path: Path, parts: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for part in parts:
            file.write(part)
            file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def _write_packed(path: Path, parts: Iterable[str]) -> None:
    """With gzip: a history is a fifteenth of its size then. Equal runs have equal files."""
    with path.open("wb") as file:
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            for part in parts:
                packed.write(f"{part}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def _age(folder: Path) -> tuple[str, int]:
    """Later is larger; of two runs in one second the one that was completed last."""
    return folder.name.partition("-")[0], folder.stat().st_mtime_ns


def _free(scenario: Path, name: str) -> Path:
    for number in range(1, FOLDERS_PER_SECOND_MAX):
        folder = scenario / (name if number == 1 else f"{name}-{number}")
        if not folder.exists():
            return folder
    raise OSError(f"{FOLDERS_PER_SECOND_MAX} runs of one seed in one second")


def point(link: Path, target: Path) -> None:
    """Let `latest` lead to a run, or a campaign, at once for whoever looks. Raises `OSError`."""
    new = link.with_name(f".{link.name}-{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(target, target_is_directory=True)
    new.replace(link)
