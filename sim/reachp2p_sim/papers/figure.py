"""Line charts as SVG files: round numbers on the axes, one colour a series, bands for intervals, circles for published
values.

Colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
WIDTH, HEIGHT = 760.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 190.0, 44.0, 52.0
TICKS = 6

Point = tuple[float, float]


@dataclass(slots=True, frozen=True)
class Series:
    """One line. `band` has (x, low, high); `is_published` draws open circles without a line."""

    name: str
    points: Sequence[Point]
    band: Sequence[tuple[float, float, float]] = ()
    is_published: bool = False


@dataclass(slots=True, frozen=True)
class Axis:
    """What an axis shows. `is_log` needs values above 0; `low` and `high` widen what the data span."""

    label: str
    is_log: bool = False
    low: float | None = None
    high: float | None = None


class _Scale:
    """From values to positions, and the round values to write beside them."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        low = min(values) if axis.low is None else axis.low
        high = max(values) if axis.high is None else axis.high
        self.is_log = axis.is_log
        if axis.is_log:
            assert low > 0, f"{axis.label}: a logarithmic axis has no place for {low}"
            self.low, self.high = log10(low), log10(high)
        else:
            self.low, self.high = low, high
        if self.high - self.low < 1e-12:
            self.high = self.low + 1.0
        if not axis.is_log:
            step = _round_step((self.high - self.low) / TICKS)
            self.low, self.high = floor(self.low / step) * step, ceil(self.high / step - 1e-9) * step
            count = round((self.high - self.low) / step)
            self.ticks = [self.low + step * number for number in range(count + 1)]
        else:
            self.ticks = self._log_ticks()
        self.start, self.end = start, end

    def _log_ticks(self) -> list[float]:
        decades = range(floor(self.low), ceil(self.high) + 1)
        steps = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
        ticks = [10.0**decade * step for decade in decades for step in steps]
        return [tick for tick in ticks if self.low - 1e-9 <= log10(tick) <= self.high + 1e-9]

    def __call__(self, value: float) -> float:
        if self.is_log:
            value = log10(max(value, 10**self.low))
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """A chart as the text of an SVG file. At most as many series as there are colours."""
    assert 0 < len(series) <= len(COLOURS), "a chart with more lines than colours cannot be read"
    xs = [px for one in series for px, _ in one.points]
    ys = [py for one in series for _, py in one.points]
    ys += [end for one in series for _, low, high in one.band for end in (low, high)]
    to_x = _Scale(x, xs, LEFT, WIDTH - RIGHT)
    to_y = _Scale(y, ys, HEIGHT - BOTTOM, TOP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
        'font-family="ui-sans-serif, system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="600" fill="#222">{escape(title)}</text>',
    ]
    out += _grid(x, y, to_x, to_y)
    for number, one in enumerate(series):
        out += _line(one, COLOURS[number], to_x, to_y)
    for number, one in enumerate(series):
        out += _key(one, COLOURS[number], TOP + 10 + 20 * number)
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _grid(x: Axis, y: Axis, to_x: _Scale, to_y: _Scale) -> list[str]:
    out: list[str] = []
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in to_x.ticks:
        at = to_x(tick)
        out.append(f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#e6e6e6"/>')
        out.append(
            f'<text x="{at:.1f}" y="{bottom + 17}" text-anchor="middle" fill="#555">{_text(tick)}</text>'
        )
    for tick in to_y.ticks:
        at = to_y(tick)
        out.append(f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#e6e6e6"/>')
        out.append(
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#555">{_text(tick)}</text>'
        )
    out.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" stroke="#777" fill="none"/>')
    middle = (LEFT + right) / 2
    out.append(
        f'<text x="{middle:.1f}" y="{HEIGHT - 12}" text-anchor="middle" fill="#333">{escape(x.label)}</text>'
    )
    out.append(
        f'<text transform="translate(18 {(TOP + bottom) / 2:.1f}) rotate(-90)" text-anchor="middle" '
        f'fill="#333">{escape(y.label)}</text>'
    )
    return out


def _line(series: Series, colour: str, to_x: _Scale, to_y: _Scale) -> list[str]:
    out: list[str] = []
    if series.band:
        there = [f"{to_x(x):.1f} {to_y(high):.1f}" for x, _, high in series.band]
        back = [f"{to_x(x):.1f} {to_y(low):.1f}" for x, low, _ in reversed(series.band)]
        out.append(f'<path d="M{"L".join(there + back)}Z" fill="{colour}" fill-opacity="0.18"/>')
    places = [(to_x(x), to_y(y)) for x, y in series.points]
    if series.is_published:
        out += [
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4.5" fill="none" stroke="{colour}" stroke-width="1.8"/>'
            for px, py in places
        ]
        return out
    path = "L".join(f"{px:.1f} {py:.1f}" for px, py in places)
    out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    if len(places) <= 40:
        out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.6" fill="{colour}"/>' for px, py in places]
    return out


def _key(series: Series, colour: str, at: float) -> list[str]:
    left = WIDTH - RIGHT + 14
    mark = f'<path d="M{left} {at}h20" stroke="{colour}" stroke-width="2.5"/>'
    if series.is_published:
        mark = (
            f'<circle cx="{left + 10}" cy="{at}" r="4.5" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        )
    return [mark, f'<text x="{left + 27}" y="{at + 4}" fill="#333">{escape(series.name)}</text>']


def _round_step(rough: float) -> float:
    power = 10.0 ** floor(log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough - 1e-12)


def _text(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e5 else f"{value:.0e}"
