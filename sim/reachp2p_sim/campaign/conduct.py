"""A whole campaign: take up what is finished, run the rest, keep each run, and write down what was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol, TextIO

import msgspec

from reachp2p_sim.campaign.cluster import Cluster, ClusterFailed
from reachp2p_sim.campaign.folder import SUMMARY, TABLE, Folder, Unfinished, read_about
from reachp2p_sim.campaign.plan import Task
from reachp2p_sim.campaign.pool import Lost, Outcome, Pool, Target, WorkersFailed, run, run_here, run_twice
from reachp2p_sim.campaign.progress import Progress
from reachp2p_sim.campaign.summary import Row, row_of, summarize
from reachp2p_sim.campaign.table import parquet
from reachp2p_sim.results.files import said_of, write_whole

RUN_SECONDS_MAX = 3_600.0
"""How long one run may take, by the clock on the wall, before it is given up as lost."""


@dataclass(slots=True, frozen=True)
class Means:
    """What a campaign is run with. None of it changes a result."""

    workers: int = 1
    """Processes at once; 1 is this process."""
    dask: str | None = None
    """A scheduler's address: its workers run the campaign, and `workers` means nothing."""
    run_seconds_max: float = RUN_SECONDS_MAX


class Backend(Protocol):
    """Who runs it."""

    def outcomes(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
        """Run all tasks; what is yielded comes in the order in which they end."""


class _Here:
    def __init__(self, target: Target) -> None:
        self._target = target

    def outcomes(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
        return run_here(tasks, self._target)


def conduct(folder: Folder, means: Means, stream: TextIO) -> dict[str, Any]:
    """Run what is missing and write the results; returns the summary.

    Raises `Unfinished` if the disk is full, workers cannot be started, the cluster has gone, or the campaign is
    interrupted: what is finished is kept, and the results are those of the part..
    """
    rows = list({row["number"]: row for row in folder.finished()}.values())
    kept = {row["number"] for row in rows}
    tasks = (task for task in folder.plan.tasks() if task.number not in kept)
    lost: list[tuple[Task, Lost]] = []
    began_at = monotonic()
    why: Unfinished | None = None
    try:
        if len(rows) < folder.plan.runs:
            _run(folder, means, tasks, rows, lost, stream)
    except Unfinished as error:
        why = error
    except (WorkersFailed, ClusterFailed) as error:
        why = Unfinished(f"{error}; {_how_to_go_on(folder)}")
    except KeyboardInterrupt:
        why = Unfinished(f"interrupted; {_how_to_go_on(folder)}")
    summary = summarize(read_about(folder.path), rows, lost)
    summary["effort"] |= {
        "wall_seconds": round(monotonic() - began_at, 3),
        "runs": len(rows) - len(kept),
        "workers": means.dask or means.workers,
    }
    summary["folder"] = str(folder.path)
    try:
        write_whole(folder.path / SUMMARY, msgspec.json.format(msgspec.json.encode(summary), indent=2))
        write_whole(folder.path / TABLE, parquet(folder.plan, rows))
    except OSError as error:
        if why is None:  # else it has been said why, and it may be this very disk
            raise Unfinished(f"{said_of(error)}; {_how_to_go_on(folder)}") from error
    if why is not None:
        raise why
    return summary


def _run(
    folder: Folder,
    means: Means,
    tasks: Iterator[Task],
    rows: list[Row],
    lost: list[tuple[Task, Lost]],
    stream: TextIO,
) -> None:
    with (
        _backend(means, run_twice if folder.plan.determinism else run) as backend,
        Progress(folder.plan.runs, len(rows), stream) as progress,
    ):
        for task, result in backend.outcomes(tasks):
            if isinstance(result, Lost):
                lost.append((task, result))
                progress.finished(is_failure=True)
                continue
            row = row_of(task, result)
            folder.append(row)
            rows.append(row)
            progress.finished(is_failure=result.verdict != "pass")


def _backend(means: Means, target: Target) -> AbstractContextManager[Backend]:
    if means.dask is not None:
        return Cluster(means.dask, means.run_seconds_max, target)
    if means.workers == 1:
        return nullcontext(_Here(target))
    return Pool(means.workers, means.run_seconds_max, target)


def _how_to_go_on(folder: Folder) -> str:
    return f"finished runs are kept; go on with: reachp2p-sim campaign --resume --out {folder.path}"
