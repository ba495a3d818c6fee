"""Many seeds of one scenario, in a pool of processes. Each run depends on its seed alone, so their order is free."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from statistics import median
from typing import Any, TextIO

from reachp2p_sim.run import RunConfig, RunResult, run_scenario

FAILURES_KEPT = 20


@dataclass(slots=True)
class CampaignSummary:
    """How the seeds ended. `failures` are the first ones by seed."""

    scenario: str
    mutant: str | None
    runs: int = 0
    passed: int = 0
    failed: int = 0
    simulated_seconds: float = 0.0
    cpu_seconds: float = 0.0
    messages: int = 0
    timings: dict[str, dict[str, float]] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """All fields, as plain data."""
        return asdict(self)


def run_campaign(
    config: RunConfig, seeds: int, workers: int, progress: TextIO | None = None
) -> CampaignSummary:
    """Run `seeds` seeds from the one in `config` on. Results are taken in the order of the seeds."""
    summary = CampaignSummary(config.scenario, config.mutant)
    timings: dict[str, list[float]] = {}
    for result in _results(config, seeds, workers):
        summary.runs += 1
        summary.simulated_seconds += result.simulated_seconds
        summary.cpu_seconds += result.cpu_seconds
        summary.messages += result.messages
        if result.verdict == "pass":
            summary.passed += 1
        else:
            summary.failed += 1
            if len(summary.failures) < FAILURES_KEPT:
                summary.failures.append({"seed": result.seed, "what": _what(result), "replay": result.replay})
        for name, seconds in result.timings.items():
            timings.setdefault(name, []).append(seconds)
        if progress is not None and progress.isatty():
            progress.write(f"\r{summary.runs}/{seeds} seeds, {summary.failed} failed")
            progress.flush()
    if progress is not None and progress.isatty():
        progress.write("\n")
    for name, values in timings.items():
        values.sort()
        summary.timings[name] = {
            "median": median(values),
            "p99": values[min(len(values) - 1, int(len(values) * 0.99))],
            "max": values[-1],
        }
    return summary


def _results(config: RunConfig, seeds: int, workers: int) -> Iterator[RunResult]:
    configs = [replace(config, seed=config.seed + number) for number in range(seeds)]
    if workers == 1:
        yield from map(run_scenario, configs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_scenario, configs)


def _what(result: RunResult) -> str:
    if result.violation is not None:
        return f"{result.violation['checker']}: {result.violation['message']}"
    return (result.error or "").strip().splitlines()[-1]
