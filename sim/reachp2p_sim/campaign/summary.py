"""What a campaign found: rates with their intervals, spreads of what was measured, and the seeds worth looking at.

Everything but `effort` depends on plan and code alone: not on the machine, the number of workers, the back end, or on
whether the campaign was interrupted. `digest` is one number over all of it: equal digests, equal runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from reachp2p_sim.campaign.folder import About
from reachp2p_sim.campaign.plan import Cell, Plan, Task
from reachp2p_sim.campaign.pool import Lost
from reachp2p_sim.measuring import confidence
from reachp2p_sim.measuring.confidence import Estimate
from reachp2p_sim.measuring.rare_branches import BRANCHES
from reachp2p_sim.running.run import RunResult, find_scenario

FAILURES_KEPT = 20
SEEDS_NAMED = 3
"""Seeds named for each measure."""

COVERAGE_SHARE_MIN = 0.01
COVERAGE_RUNS_MIN = 100

Row = dict[str, Any]


def row_of(task: Task, result: RunResult) -> Row:
    """A finished run as it is kept: its place, and all that its result says."""
    return {"number": task.number, "cell": task.cell, "of": task.config.scenario, **result.to_json()}


def summarize(about: About, rows: Sequence[Row], lost: Sequence[tuple[Task, Lost]]) -> dict[str, Any]:
    """The summary of these runs, whatever their order, as plain data."""
    plan = about.plan
    rows = sorted(rows, key=lambda row: row["number"])
    lost = sorted(lost, key=lambda pair: pair[0].number)
    by_cell: dict[int, list[Row]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], []).append(row)
    lost_in = Counter(task.cell for task, _ in lost)
    failures = [row for row in rows if row["verdict"] != "pass"]
    return {
        "scenarios": list(plan.scenarios),
        "mutant": plan.mutant,
        "first_seed": plan.first_seed,
        "seeds": plan.seeds,
        "release": about.release,
        "code": about.code,
        "planned": plan.runs,
        "runs": len(rows),
        "passed": len(rows) - len(failures),
        "failed": len(failures),
        "lost": len(lost),
        "digest": _digest(rows),
        "simulated_seconds": round(sum(row["simulated_seconds"] for row in rows), 3),
        "messages": sum(row["messages"] for row in rows),
        "cells": [_cell(cell, by_cell.get(cell.number, []), lost_in[cell.number]) for cell in plan.cells],
        "coverage": coverage(plan, rows),
        "failures": [_failure(row) for row in failures[:FAILURES_KEPT]],
        "lost_runs": [_lost(task, reason) for task, reason in lost[:FAILURES_KEPT]],
        "effort": {
            "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows), 3),
            "cpu_seconds_a_run": {
                cell.name: _mean(row["cpu_seconds"] for row in by_cell[cell.number])
                for cell in plan.cells
                if cell.number in by_cell
            },
            "slowest": [
                _slow(row) for row in sorted(rows, key=lambda row: -row["cpu_seconds"])[:SEEDS_NAMED]
            ],
        },
    }


def coverage(plan: Plan, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """In how many runs of each scenario each rare branch was taken, and whether that is enough.

    A branch that a scenario says it reaches must have been seen in 1 % of its runs; asked from `COVERAGE_RUNS_MIN` runs
    on, and of the core as it ships, for a broken one may well not get there.
    """
    found: list[dict[str, Any]] = []
    for name in plan.scenarios:
        runs = [row for row in rows if row["of"] == name]
        if not runs:
            continue
        wanted = find_scenario(name).reaches if plan.mutant is None and len(runs) >= COVERAGE_RUNS_MIN else ()
        for branch in BRANCHES:
            hits = sum(row["branches"][branch] > 0 for row in runs)
            share = confidence.share(hits, len(runs))
            found.append(
                {
                    "scenario": name,
                    "branch": branch,
                    "runs": hits,
                    "share": _interval(share),
                    "is_enough": branch not in wanted or share.value >= COVERAGE_SHARE_MIN,
                }
            )
    return found


def what_happened(row: Row) -> str:
    """In a line, how a run that did not pass ended."""
    violation = row["violation"]
    if violation is not None:
        return f"{violation['checker']}: {violation['message']}"
    return str(row["error"] or "").strip().splitlines()[-1]


def _cell(cell: Cell, rows: list[Row], lost: int) -> dict[str, Any]:
    failed = [row for row in rows if row["verdict"] != "pass"]
    names = sorted({name for row in rows for name in row["timings"]})
    largest = sorted(rows, key=lambda row: (-row["events"], row["seed"]))[:SEEDS_NAMED]
    return {
        "name": cell.name,
        "scenario": cell.scenario,
        "point": cell.point,
        "runs": len(rows),
        "failed": len(failed),
        "lost": lost,
        "failure_rate": None if not rows else _interval(confidence.share(len(failed), len(rows))),
        "failed_by": dict(sorted(Counter(_by(row) for row in failed).items())),
        "failed_seeds": [row["seed"] for row in failed[:FAILURES_KEPT]],
        "timings": {name: _spread(name, rows) for name in names},
        "largest_seeds": [{"seed": row["seed"], "events": row["events"]} for row in largest],
    }


def _spread(name: str, rows: Iterable[Row]) -> dict[str, Any]:
    measured = [(row["timings"][name], row["seed"]) for row in rows if name in row["timings"]]
    values = [seconds for seconds, _ in measured]
    slowest = sorted(measured, key=lambda pair: (-pair[0], pair[1]))[:SEEDS_NAMED]
    return {
        "samples": len(values),
        "median": confidence.median(values).value,
        "p99": confidence.quantile(values, 0.99).value,
        "max": max(values),
        "slowest_seeds": [seed for _, seed in slowest],
    }


def _mean(values: Iterable[float]) -> float:
    kept = list(values)
    return round(sum(kept) / len(kept), 3)


def _interval(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _by(row: Row) -> str:
    return "error" if row["violation"] is None else str(row["violation"]["checker"])


def _failure(row: Row) -> dict[str, Any]:
    return {
        "scenario": row["scenario"],
        "seed": row["seed"],
        "what": what_happened(row),
        "replay": row["replay"],
        "trace_digest": row["trace_digest"],
    }


def _lost(task: Task, lost: Lost) -> dict[str, Any]:
    return {
        "scenario": task.config.scenario,
        "seed": task.config.seed,
        "what": lost.reason,
        "replay": task.config.line(),
    }


def _slow(row: Row) -> dict[str, Any]:
    return {key: row[key] for key in ("scenario", "seed", "cpu_seconds", "simulated_seconds", "replay")}


def _digest(rows: list[Row]) -> str:
    digest = sha256()
    for row in rows:
        digest.update(f"{row['number']} {row['verdict']} {row['trace_digest']}\n".encode())
    return digest.hexdigest()
