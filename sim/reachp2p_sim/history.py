"""What was done to the world, so that checkers can tell a fault of ours from a fault of the protocol.

Intervals of each host (down, paused), of each cut, and of the weather. Asked rarely (when a member is declared DEAD),
so plain lists are enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class Interval:
    """From `began_at` until `ended_at` (infinity while it lasts), in run time."""

    began_at: float
    ended_at: float = inf

    def touches(self, since: float) -> bool:
        """Whether any of it lies after `since`."""
        return self.ended_at > since


@dataclass(slots=True)
class CutInterval(Interval):
    """Nothing got from `sources` to `targets` (bit masks of host indices)."""

    sources: int = 0
    targets: int = 0


@dataclass(slots=True)
class WeatherInterval(Interval):
    """The worst loss, and the slowest mean delay, on any path."""

    loss: float = 0.0
    delay: float = 0.0


@dataclass(slots=True)
class History:
    """All intervals of a run."""

    absences: dict[int, list[Interval]] = field(default_factory=dict)
    cuts: list[CutInterval] = field(default_factory=list)
    weather: list[WeatherInterval] = field(default_factory=list)
    last_change_at: float = 0.0
    """When the world was last disturbed, or last stopped being so."""

    def absent(self, host: int, now: float) -> None:
        """The host has no running process, or it gets no time."""
        intervals = self.absences.setdefault(host, [])
        if not intervals or intervals[-1].ended_at != inf:
            intervals.append(Interval(now))

    def present(self, host: int, now: float) -> None:
        """It runs again."""
        intervals = self.absences.get(host, [])
        if intervals and intervals[-1].ended_at == inf:
            intervals[-1].ended_at = now

    def cut(self, sources: int, targets: int, now: float) -> None:
        """A cut or a hold begins."""
        self.cuts.append(CutInterval(now, inf, sources, targets))

    def mended(self, now: float) -> None:
        """All cuts end."""
        for cut in self.cuts:
            cut.ended_at = min(cut.ended_at, now)

    def weather_changed(self, loss: float, delay: float, now: float) -> None:
        """From now on paths are at most this bad."""
        if self.weather:
            self.weather[-1].ended_at = now
        self.weather.append(WeatherInterval(now, inf, loss, delay))

    def was_absent(self, host: int, since: float) -> bool:
        """Whether the host was away at any time after `since`."""
        return any(interval.touches(since) for interval in self.absences.get(host, ()))

    def were_cut(self, left: int, right: int, since: float) -> bool:
        """Whether one could not reach the other at any time after `since`."""
        return any(
            cut.touches(since)
            and (
                (cut.sources >> left & 1 and cut.targets >> right & 1)
                or (cut.sources >> right & 1 and cut.targets >> left & 1)
            )
            for cut in self.cuts
        )

    def worst_loss(self, since: float) -> float:
        """The worst loss on any path after `since`."""
        return max((w.loss for w in self.weather if w.touches(since)), default=0.0)

    def worst_delay(self, since: float) -> float:
        """The slowest mean one-way delay on any path after `since`."""
        return max((w.delay for w in self.weather if w.touches(since)), default=0.0)
