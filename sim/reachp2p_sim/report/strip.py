"""The state strip: a row for each node, filled by what the others hold it for, over time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.recording.series import StateSeries
from reachp2p_sim.report import words
from reachp2p_sim.report.plots import time_ticks
from reachp2p_sim.report.spans import Span, lanes

ROWS_MAX = 128
WIDTH = 1_000
"""Units across; a column of the picture is one."""
LAYERS = ("dead", "suspect", "left", "alive")
"""From the top of a row to its bottom."""
LANES_MAX = 5


@dataclass(slots=True, frozen=True)
class _Step:
    at: float
    shares: tuple[float, float, float, float]
    """dead, suspect, left, alive."""


def strip(findings: Findings, found: list[Span]) -> dict[str, Any]:
    """What the template draws: rows with paths, bands, lanes of labelled spans, ticks. Positions in 0..1000."""
    end = max(findings.world.now, 1e-9)
    scale = WIDTH / end
    shown = _shown(findings)
    rows = [_row(findings, index, scale, found) for index in shown]
    return {
        "rows": rows,
        "hidden": len(findings.world.nodes) - len(shown),
        "ticks": time_ticks(end),
        "bands": [_bar(s, scale) for s in found if s.hosts is None],
        "lanes": [[_bar(s, scale) for s in lane] for lane in _lanes(found, end)],
    }


def _lanes(found: list[Span], end: float) -> list[list[Span]]:
    """Labelled bars: those of the whole network, and of single nodes if there is room for all (rows show them too)."""
    gap = end * 0.004
    everything = lanes(found, LANES_MAX, gap)
    if sum(map(len, everything)) == len(found):
        return everything
    return lanes([span for span in found if span.hosts is None], LANES_MAX, gap)


def _shown(findings: Findings) -> list[int]:
    """All nodes, or those with the most trouble when there are too many, in order of their number."""
    everyone = [host.index for host in findings.world.nodes]
    if len(everyone) <= ROWS_MAX:
        return everyone

    def calm(index: int) -> tuple[bool, int, int]:
        trouble = sum(e.suspects + len(e.dead) for e in findings.episodes if e.subject == index)
        return not findings.down(index), -trouble, index

    return sorted(sorted(everyone, key=calm)[:ROWS_MAX])


def _bar(span: Span, scale: float) -> dict[str, Any]:
    x = span.began_at * scale
    width = (span.ended_at - span.began_at) * scale
    title = (
        f"{span.label}: {words.moment(span.began_at)} to {words.moment(span.ended_at)} s "
        f"({words.seconds(span.ended_at - span.began_at)})"
    )
    return {
        "x": round(x, 2),
        "width": round(width, 2),
        "kind": span.kind,
        "label": span.label,
        "title": title,
    }


def _row(findings: Findings, index: int, scale: float, found: list[Span]) -> dict[str, Any]:
    steps = _steps(findings, index)
    marks = [_bar(s, scale) for s in found if s.hosts is not None and index in s.hosts]
    return {
        "name": findings.name(index),
        "marks": marks,
        "paths": _paths(steps, scale),
        "title": _title(findings, index),
    }


def _title(findings: Findings, index: int) -> str:
    suspects = sum(e.suspects for e in findings.episodes if e.subject == index)
    dead = sum(len(e.dead) for e in findings.episodes if e.subject == index)
    lives = sum(span.host == index for span in findings.recorder.lives.spans)
    return (
        f"{findings.name(index)}: {words.plural(lives, 'life', 'lives')}, suspected by "
        f"{words.plural(suspects, 'view')}, DEAD in {words.plural(dead, 'view')}"
    )


def _steps(findings: Findings, index: int) -> list[_Step]:
    """The shares of observers over time; within one column of the picture the worst moment counts."""
    series = findings.recorder.beliefs.series.get(index, StateSeries())
    times, counts = _others(findings, index)
    width = findings.world.now / WIDTH
    points: list[tuple[float, tuple[int, ...]]] = []
    for point in series.points:
        if point.worst != point.last:
            points.append((point.at, point.worst))
            points.append((point.at + max(series.spacing, width), point.last))
        else:
            points.append((point.at, point.last))
    points.sort(key=lambda pair: pair[0])
    states = [at for at, _ in points]
    steps: list[_Step] = []
    for at in sorted({*states, *times}):
        position = bisect_right(states, at) - 1
        alive, suspect, dead, left = points[position][1] if position >= 0 else (0, 0, 0, 0)
        others = counts[bisect_right(times, at) - 1] if times and times[0] <= at else 0
        whole = max(others, alive + suspect + dead + left, 1)
        shares = (dead / whole, suspect / whole, left / whole, alive / whole)
        if not steps or steps[-1].shares != shares:
            steps.append(_Step(at, shares))
    return steps


def _others(findings: Findings, index: int) -> tuple[list[float], list[int]]:
    """How many processes ran elsewhere, as steps."""
    changes: list[tuple[float, int]] = []
    for process in findings.recorder.processes.spans:
        if process.host != index:
            changes.append((process.began_at, 1))
            if process.ended_at is not None:
                changes.append((process.ended_at, -1))
    changes.sort()
    times: list[float] = []
    counts: list[int] = []
    total = 0
    for at, step in changes:
        total += step
        if times and times[-1] == at:
            counts[-1] = total
        else:
            times.append(at)
            counts.append(total)
    return times, counts


def _paths(steps: list[_Step], scale: float) -> dict[str, str]:
    """One closed path for each layer, in a row 100 high."""
    paths: dict[str, str] = {}
    for layer, name in enumerate(LAYERS):
        parts: list[str] = []
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            top = sum(step.shares[:layer])
            bottom = top + step.shares[layer]
            if bottom - top <= 0:
                continue
            left = step.at * scale
            right = following.at * scale if following is not None else float(WIDTH)
            width = max(right - left, 0.6 if name in ("dead", "suspect") else 0.0)
            parts.append(f"M{left:.1f} {top * 100:.0f}h{width:.1f}V{bottom * 100:.0f}h{-width:.1f}z")
        if parts:
            paths[name] = "".join(parts)
    return paths
