"""The recording as parquet tables, for pandas, polars or duckdb. Needs pyarrow, which the extra `sim` brings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reachp2p_sim.recording.findings import Findings


def is_available() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def write(findings: Findings, folder: Path) -> list[str]:
    """Write samples.parquet, budgets.parquet and views.parquet; returns their names. Raises `OSError`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names: list[str] = []
    for name, columns in _tables(findings).items():
        pq.write_table(pa.table(columns), folder / name)
        names.append(name)
    return names


def _tables(findings: Findings) -> dict[str, dict[str, list[Any]]]:
    recorder = findings.recorder
    samples: dict[str, list[Any]] = {"at": [row[0] for row in recorder.agreement.samples.rows]}
    for column, name in enumerate(recorder.agreement.samples.names, start=1):
        samples[name] = [float(row[column]) for row in recorder.agreement.samples.rows]
    budgets = sorted(recorder.travel.by_node_kind.items())
    changes = recorder.beliefs.changes
    return {
        "samples.parquet": samples,
        "budgets.parquet": {
            "node": [findings.name(index) for (index, _), _ in budgets],
            "kind": [kind for (_, kind), _ in budgets],
            "count": [budget.count for _, budget in budgets],
            "bytes": [budget.size for _, budget in budgets],
        },
        "views.parquet": {
            "at": [c.at for c in changes],
            "observer": [findings.name(c.observer) for c in changes],
            "subject": [findings.name(c.subject) for c in changes],
            "epoch": [c.life.epoch for c in changes],
            "incarnation": [c.incarnation for c in changes],
            "old": [c.old for c in changes],
            "new": [c.new for c in changes],
            "reason": [c.reason for c in changes],
        },
    }
