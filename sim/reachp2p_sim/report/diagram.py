"""The messages around the moments that matter, packed for the space-time diagram that the page draws.

Columns of whole numbers, deflated and in base64: times in microseconds after the window's beginning, names by number.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from typing import Any

from reachp2p_sim.recording import kinds
from reachp2p_sim.recording.findings import Findings
from reachp2p_sim.recording.travel import Window

FATES = ("arrived", "lost", "cut off", "to nobody", "under way")
OTHER_FATE = len(FATES) - 1
ABOUT_MAX = 6
"""Subjects named for one datagram; a delta of anti-entropy may have more."""


class _Numbers:
    """Numbers for values, in the order in which they are met."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        """The number of a value."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


def data(findings: Findings) -> dict[str, Any]:
    """What the script of the page reads. `families` and `fates` are told by number in `sets` and messages."""
    sets, about = _Numbers(), _Numbers()
    families = [*kinds.FAMILIES, "other"]
    windows = [_window(window, sets, about) for window in findings.recorder.travel.windows if window.messages]
    return {
        "nodes": [host.name for host in findings.world.nodes],
        "families": families,
        "kinds": {name: list(members) for name, members in kinds.FAMILIES.items()},
        "fates": list(FATES),
        "sets": [
            {"kinds": list(names), "family": families.index(kinds.family(names))} for names in sets.values
        ],
        "about": about.values,
        "windows": windows,
        "acts": [
            [round(p.at, 6), p.step.text().replace("..", "–")]
            for p in findings.world.performed
            if p.step.acts
        ],
        "down": {
            host.index: [[a, min(b, findings.world.now)] for a, b in findings.down(host.index)]
            for host in findings.world.nodes
            if findings.down(host.index)
        },
    }


def packed(findings: Findings) -> str:
    """The same as base64 of zlib of JSON."""
    text = json.dumps(data(findings), separators=(",", ":"), ensure_ascii=False)
    return b64encode(zlib.compress(text.encode(), 9)).decode()


def _window(window: Window, sets: _Numbers, about: _Numbers) -> dict[str, Any]:
    began_at = window.began_at
    columns: dict[str, list[int]] = {name: [] for name in ("s", "t", "a", "d", "k", "f", "z", "x", "m")}
    for message in window.messages:
        columns["s"].append(message.source)
        columns["t"].append(message.target)
        columns["a"].append(round((message.sent_at - began_at) * 1e6))
        arrived = message.received_at
        columns["d"].append(-1 if arrived is None else round((arrived - message.sent_at) * 1e6))
        columns["k"].append(sets.of(message.kinds))
        columns["f"].append(FATES.index(message.fate) if message.fate in FATES else OTHER_FATE)
        columns["z"].append(message.size)
        columns["x"].append(about.of("; ".join(message.about[:ABOUT_MAX])))
        columns["m"].append(int(message.is_frame))
    return {
        "began": round(began_at, 6),
        "ends": round(window.ends_at, 6),
        "labels": window.labels,
        "full": window.is_full,
        **columns,
    }
