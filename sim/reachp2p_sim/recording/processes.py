"""When which process ran, how it ended, and when it had no processor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from reachp2p_sim.machines.host import Host

PROCESSES_MAX = 20_000
"""Processes that are kept, and pauses; the later ones are counted only."""


@dataclass(slots=True)
class ProcessSpan:
    """One process of a host. `how` it ended: `crash`, `exit`, or None while it runs."""

    host: int
    began_at: float
    ended_at: float | None = None
    how: str | None = None
    others: int = 0
    """Processes that ran elsewhere when it ended."""


class Processes:
    """All processes of a run. `overflow` counts what did not fit."""

    def __init__(self, now: Callable[[], float], overflow: Counter[str]) -> None:
        self._now = now
        self._overflow = overflow
        self.spans: list[ProcessSpan] = []
        """In order of their beginning."""
        self.pauses: list[list[float]] = []
        """Host number, beginning, end (infinity while it lasts)."""
        self._running: dict[int, ProcessSpan] = {}

    @property
    def running(self) -> int:
        """How many run now, as far as they are kept."""
        return len(self._running)

    def changed(self, host: Host, what: str) -> None:
        """A process has `started`, `ended`, been `paused` or `resumed`."""
        if what == "started":
            if len(self.spans) < PROCESSES_MAX:
                self._running[host.index] = span = ProcessSpan(host.index, self._now())
                self.spans.append(span)
            else:
                self._overflow["processes"] += 1
        elif what == "paused":
            if len(self.pauses) < PROCESSES_MAX:
                self.pauses.append([host.index, self._now(), inf])
            else:
                self._overflow["pauses"] += 1
        elif what == "resumed":
            self._end_pause(host.index)
        elif what == "ended":
            self._end_pause(host.index)
            self._end(host)

    def _end(self, host: Host) -> None:
        span = self._running.pop(host.index, None)
        if span is not None:
            span.ended_at = self._now()
            span.how = "crash" if host.ended_by is None else "exit"
            span.others = len(self._running)

    def _end_pause(self, index: int) -> None:
        for pause in reversed(self.pauses):
            if pause[0] == index:
                pause[2] = min(pause[2], self._now())
                return
