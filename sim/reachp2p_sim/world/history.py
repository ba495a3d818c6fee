"""What was done to the world, so that checkers can tell a fault of ours from a fault of the protocol.

Intervals of each host (down, paused), of each cut, and of the weather. Asked rarely (when a member is declared DEAD),
so plain lists are enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class Interval:
    """From `began_at` until `ended_at` (infinity while it lasts), in run time."""

    began_at: float
    ended_at: float = inf
    why: str = ""

    def touches(self, since: float) -> bool:
        """Whether any of it lies after `since`."""
        return self.ended_at > since


@dataclass(slots=True)
class CutInterval(Interval):
    """Nothing got from `sources` to `targets` (bit masks of host indices). `why` is the name of the cut or hold."""

    sources: int = 0
    targets: int = 0
    is_held: bool = False
    """Whether it waited, instead of vanishing."""


@dataclass(slots=True)
class WeatherInterval(Interval):
    """The worst loss, and the slowest mean delay, on the paths from `sources` to `targets` (bit masks; -1: on all)."""

    loss: float = 0.0
    delay: float = 0.0
    sources: int = -1
    targets: int = -1

    def covers(self, left: int, right: int) -> bool:
        """Whether it is about a path between two hosts, one way or the other."""
        return bool(
            (self.sources >> left & 1 and self.targets >> right & 1)
            or (self.sources >> right & 1 and self.targets >> left & 1)
        )


@dataclass(slots=True)
class History:
    """All intervals of a run."""

    absences: dict[int, list[Interval]] = field(default_factory=dict)
    cuts: list[CutInterval] = field(default_factory=list)
    weather: list[WeatherInterval] = field(default_factory=list)
    last_change_at: float = 0.0
    """When the world was last disturbed, or last stopped being so."""

    def absent(self, host: int, now: float, why: str = "process") -> None:
        """The host has no running process, or it gets no time, or (`why`) is not sound in another way."""
        intervals = self.absences.setdefault(host, [])
        if not any(interval.why == why and interval.ended_at == inf for interval in intervals):
            intervals.append(Interval(now, why=why))

    def present(self, host: int, now: float, why: str = "process") -> None:
        """That is over."""
        for interval in self.absences.get(host, ()):
            if interval.why == why and interval.ended_at == inf:
                interval.ended_at = now

    def cut(self, sources: int, targets: int, now: float, name: str = "", *, is_held: bool = False) -> None:
        """A cut or a hold begins."""
        self.cuts.append(CutInterval(now, inf, name, sources, targets, is_held))

    def mended(self, now: float, name: str | None = None, *, is_held: bool = False) -> None:
        """The cuts (or holds) of this name end, or all."""
        for cut in self.cuts:
            if cut.is_held is is_held and (name is None or cut.why == name):
                cut.ended_at = min(cut.ended_at, now)

    def weather_changed(self, now: float, *present: WeatherInterval) -> None:
        """From now on paths are at most this bad."""
        for before in self.weather:
            before.ended_at = min(before.ended_at, now)
        self.weather += present

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

    def worst_loss(self, since: float, left: int | None = None, right: int | None = None) -> float:
        """The worst loss after `since` on any path, or only on those between two hosts."""
        return max((w.loss for w in self._weather(since, left, right)), default=0.0)

    def worst_delay(self, since: float, left: int | None = None, right: int | None = None) -> float:
        """The slowest mean one-way delay after `since` on any path, or only on those between two hosts."""
        return max((w.delay for w in self._weather(since, left, right)), default=0.0)

    def _weather(self, since: float, left: int | None, right: int | None) -> Iterator[WeatherInterval]:
        for weather in reversed(self.weather):
            if weather.touches(since) and (left is None or right is None or weather.covers(left, right)):
                yield weather
