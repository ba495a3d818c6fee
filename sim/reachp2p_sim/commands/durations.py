"""Durations as people write them on a command line: `90s`, `10m`, `2h`."""

from __future__ import annotations

import re

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float | None:
    """The seconds of a duration above 0, or None if the text is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if match is None:
        return None
    return float(match[1]) * _UNITS[match[2]] or None
