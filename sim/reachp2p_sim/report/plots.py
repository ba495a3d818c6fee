"""Line plots as SVG paths in a box of 1000 by 1000 that the page stretches; labels are HTML and keep their size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from reachp2p_sim.report import words
from reachp2p_sim.report.spans import Span

BOX = 1_000
POINTS_MAX = 600
Points = Sequence[tuple[float, float]]


@dataclass(slots=True, frozen=True)
class Line:
    """One curve. `style` is a class of the style sheet; `steps`: holds its value until the next point."""

    label: str
    points: Points
    style: str
    steps: bool = False
    legend: bool = True


@dataclass(slots=True, frozen=True)
class Mark:
    """A vertical line at x with words on it."""

    x: float
    label: str
    style: str = "mark"


def plot(
    lines: Sequence[Line],
    *,
    x_max: float,
    y_max: float = 1.0,
    x_label: str,
    y_text: Callable[[float], str] = words.share,
    marks: Sequence[Mark] = (),
    bands: Sequence[Span] = (),
) -> dict[str, Any]:
    """What the template draws. Axes begin at zero."""
    x_max, y_max = max(x_max, 1e-9), max(y_max, 1e-9)
    return {
        "lines": [{"path": _path(line, x_max, y_max), "style": line.style} for line in lines if line.points],
        "legend": [
            {"label": line.label, "style": line.style} for line in lines if line.legend and line.points
        ],
        "x_ticks": time_ticks(x_max),
        "y_ticks": [
            {"y": round(100 - 100 * value / y_max, 2), "label": y_text(value)} for value in _ticks(y_max, 4)
        ],
        "x_label": x_label,
        "marks": [
            {"x": round(100 * m.x / x_max, 2), "label": m.label, "style": m.style}
            for m in marks
            if m.x <= x_max
        ],
        "bands": [
            {
                "x": round(100 * b.began_at / x_max, 2),
                "width": round(100 * (b.ended_at - b.began_at) / x_max, 2),
                "kind": b.kind,
            }
            for b in bands
            if b.hosts is None
        ],
    }


def time_ticks(end: float, count: int = 8) -> list[dict[str, Any]]:
    """Positions in per cent and labels in seconds."""
    return [
        {"x": round(100 * value / end, 3), "label": _tick_text(value), "minor": index % 2 == 1}
        for index, value in enumerate(_ticks(end, count))
    ]


def _tick_text(value: float) -> str:
    return f"{value:g} s" if value < 1000 or value % 60 else f"{value / 60:g} min"


def _ticks(end: float, count: int) -> list[float]:
    """Round numbers from 0 to `end`, about `count` of them."""
    raw = end / count
    power = 10.0 ** floor(log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw * 0.999)
    return [round(i * step, 10) for i in range(floor(end / step * 1.0001) + 1)]


def _path(line: Line, x_max: float, y_max: float) -> str:
    points = _thinned(line.points)
    parts: list[str] = []
    for number, (x, y) in enumerate(points):
        px, py = BOX * min(x / x_max, 1.0), BOX * (1 - min(y / y_max, 1.0))
        if not number:
            parts.append(f"M{px:.1f} {py:.1f}")
        elif line.steps:
            parts.append(f"H{px:.1f}V{py:.1f}")
        else:
            parts.append(f"L{px:.1f} {py:.1f}")
    return "".join(parts)


def _thinned(points: Points) -> Points:
    """Every k-th point and all where the value turns, so that no dip is lost."""
    if len(points) <= POINTS_MAX:
        return points
    every = ceil(len(points) / POINTS_MAX)
    last = len(points) - 1
    return [
        p
        for i, p in enumerate(points)
        if i % every == 0
        or i == last
        or (points[i - 1][1] != p[1] and (p[1] - points[i - 1][1]) * (points[i + 1][1] - p[1]) <= 0)
    ]
