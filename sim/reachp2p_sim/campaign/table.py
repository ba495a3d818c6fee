"""The runs of a campaign as one parquet file: a row a run, by cell and seed, a column a number.

What is nested in a result is flattened with a dot (`datagrams.sent`, `timings.healed_after`); the varied options are
`grid.KEY`. polars, pandas and DuckDB read it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from reachp2p_sim.campaign.plan import Plan

LEFT_OUT = {"number", "of", "checkers", "options", "violation"}


def parquet(plan: Plan, rows: Sequence[dict[str, Any]]) -> bytes:
    """The file's bytes. The rows may come in any order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    points = [cell.point for cell in plan.cells]
    flat = [_flat(row, points[row["cell"]]) for row in sorted(rows, key=lambda row: row["number"])]
    names = list(dict.fromkeys(name for row in flat for name in row))
    columns = {name: pa.array([row.get(name) for row in flat]) for name in names}
    file = BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd")
    return file.getvalue()


def _flat(row: dict[str, Any], point: dict[str, str]) -> dict[str, Any]:
    flat: dict[str, Any] = {f"grid.{key}": _number(value) for key, value in point.items()}
    for key, value in row.items():
        if key in LEFT_OUT:
            continue
        if isinstance(value, dict):
            flat.update(_under(key, value))
        else:
            flat[key] = value
    violation = row["violation"] or {}
    flat.update({f"violation.{key}": violation.get(key) for key in ("checker", "message", "at", "node")})
    return flat


def _under(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(_under(f"{prefix}.{key}", value))
        else:
            flat[f"{prefix}.{key}"] = value
    return flat


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
