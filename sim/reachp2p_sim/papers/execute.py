"""Runs the cases of a paper in a pool of processes and lets its experiments judge the results.

Results are taken in the order of the cases and a case depends on nothing but itself, so the findings are the same with
one worker and with many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from reachp2p_sim.papers.base import Experiment, Findings, Paper, Scale

QUEUED_PER_WORKER = 2
"""Cases handed to the pool ahead of time, so that an interrupt does not wait for the whole list."""

Progress = Callable[[int, int], None]
"""Called with the number of finished cases and of all."""


class CaseFailed(Exception):
    """A case raised. Nothing of this paper is judged; `__cause__` says what went wrong."""

    def __init__(self, experiment: str, case: object) -> None:
        super().__init__(f"experiment {experiment} could not run {case}")


@dataclass(slots=True, frozen=True)
class Outcome:
    """One experiment with what it found."""

    experiment: Experiment[Any, Any]
    findings: Findings


@dataclass(slots=True, frozen=True)
class Report:
    """What a paper's experiments found, and what it took."""

    paper: Paper
    scale: Scale
    outcomes: list[Outcome]
    seconds: float
    """Of wall time."""

    @property
    def broken(self) -> list[str]:
        """The ids of rows that must hold and do not, each once."""
        rows = [row for outcome in self.outcomes for row in outcome.findings.rows]
        return list(dict.fromkeys(row.id for row in rows if row.is_broken(self.scale.quick)))

    def to_json(self) -> dict[str, Any]:
        """Plain data: the rows of all experiments, and what else was found."""
        return {
            "paper": self.paper.name,
            "title": self.paper.title,
            "citation": self.paper.citation,
            "quick": self.scale.quick,
            "seed": self.scale.seed,
            "seconds": round(self.seconds, 3),
            "verdict": "fail" if self.broken else "pass",
            "broken": self.broken,
            "rows": [
                {"experiment": outcome.experiment.name, **row.to_json()}
                for outcome in self.outcomes
                for row in outcome.findings.rows
            ],
            "remarks": [remark for outcome in self.outcomes for remark in outcome.findings.remarks],
        }


def execute(paper: Paper, scale: Scale, workers: int = 1, progress: Progress | None = None) -> Report:
    """Run all cases, then judge. Raises `CaseFailed` for the first case, in order, that raised."""
    began_at = time.monotonic()
    lists = [(experiment, experiment.cases(scale)) for experiment in paper.experiments]
    work = [(experiment, case) for experiment, cases in lists for case in cases]
    results = iter(_run(work, workers, progress))
    outcomes = []
    for experiment, cases in lists:
        done = [(case, next(results)) for case in cases]
        findings = experiment.judge(scale, done)
        strangers = {row.id for row in findings.rows} - set(experiment.ids)
        assert not strangers, f"experiment {experiment.name} does not announce {sorted(strangers)}"
        outcomes.append(Outcome(experiment, findings))
    return Report(paper, scale, outcomes, time.monotonic() - began_at)


Work = Sequence[tuple[Experiment[Any, Any], Any]]


def _run(work: Work, workers: int, progress: Progress | None) -> Iterator[Any]:
    if workers == 1:
        for number, (experiment, case) in enumerate(work, 1):
            try:
                result = experiment.measure(case)
            except Exception as error:
                raise CaseFailed(experiment.name, case) from error
            if progress is not None:
                progress(number, len(work))
            yield result
        return
    yield from _run_in_pool(work, workers, progress)


def _run_in_pool(work: Work, workers: int, progress: Progress | None) -> list[Any]:
    results: list[Any] = [None] * len(work)
    with ProcessPoolExecutor(min(workers, len(work)), mp_context=get_context("spawn")) as pool:
        running: dict[Future[Any], int] = {}
        waiting = iter(range(len(work)))
        finished = 0
        while True:
            while len(running) < workers * QUEUED_PER_WORKER:
                number = next(waiting, None)
                if number is None:
                    break
                experiment, case = work[number]
                running[pool.submit(experiment.measure, case)] = number
            if not running:
                return results
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=lambda future: running[future]):
                number = running.pop(future)
                error = future.exception()
                if error is not None:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise CaseFailed(work[number][0].name, work[number][1]) from error
                results[number] = future.result()
                finished += 1
                if progress is not None:
                    progress(finished, len(work))
