"""Numbers and names as a person reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reachp2p.errors import ErrorCode

NAMES_SHOWN = 6
_NUMBERED = re.compile(r"(.*?)(\d+)")


def ending(code: int) -> str:
    """How a call ended: `a result`, `1409 outcome unknown`."""
    if code == 0:
        return "a result"
    try:
        return f"{code} {ErrorCode(code).name.lower().replace('_', ' ')}"
    except ValueError:
        return str(code)


def seconds(value: float | None) -> str:
    """A duration: `0.41 s`, `12.3 s`, `154 s`, `18 min`."""
    if value is None:
        return "–"
    if value < 0.0005:
        return "0 s"
    if value < 0.0995:
        return f"{value * 1000:.3g} ms"
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 99.95:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min"


def moment(value: float) -> str:
    """A point in run time, for a column: `12.345`."""
    return f"{value:.3f}" if value < 1000 else f"{value:.1f}"


def count(value: float) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{value:,.0f}".replace(",", "\u202f")


def size(value: float) -> str:
    """Bytes: `412 B`, `1.4 kB`, `2.3 MB`."""
    if 0 < value < 0.5:
        return "<1 B"
    for unit, scale in (("B", 1.0), ("kB", 1e3), ("MB", 1e6)):
        if value < scale * 999.5 or unit == "MB":
            return f"{value / scale:.0f} {unit}" if unit == "B" else f"{value / scale:.3g} {unit}"
    raise AssertionError


def share(value: float | None) -> str:
    """A share as per cent, never rounded to 0 or 100 unless it is."""
    if value is None:
        return "–"
    if value in (0.0, 1.0):
        return f"{value:.0%}"
    if value < 0.0005:
        return "<0.1%"
    for digits in (0, 1, 2):
        text = f"{value:.{digits}%}"
        if float(text[:-1]) not in (0.0, 100.0):
            return text
    return ">99.99%"


def plural(number: int, word: str, several: str | None = None) -> str:
    """`1 node`, `3 nodes`."""
    return f"{count(number)} {word if number == 1 else several or word + 's'}"


def names(all_names: Iterable[str], shown: int = NAMES_SHOWN) -> str:
    """Names in a sentence, runs of numbered ones put together: `n00 to n15, n17 and n19`."""
    parts = ranges(list(all_names))
    if len(parts) > shown:
        parts = [*parts[: shown - 1], f"{len(parts) - shown + 1} more"]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "nobody"


def ranges(all_names: Sequence[str]) -> list[str]:
    """Names with runs of three and more consecutive numbers written as `n00–n15`."""
    runs: list[list[str]] = []
    for name in all_names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else run
    return parts


def _follows(before: str, after: str) -> bool:
    left, right = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(after)
    return (
        left is not None and right is not None and left[1] == right[1] and int(right[2]) == int(left[2]) + 1
    )
