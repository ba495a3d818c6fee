"""The two clocks of a machine: a steady one, which its engine lives by, and the wall's.

Both are functions of run time. The steady clock is `now * rate + offset`: it never goes back, may run fast or slow,
and may stand still (rate 0), as that of a suspended virtual machine does. The wall clock has a rate and an offset of
its own, may be set, and may be strobed: it then shows a wrong time every other moment.
"""

from __future__ import annotations

from math import inf, isfinite, nextafter, ulp

RATE_MAX = 10.0


class Clock:
    """Reads of one machine's clocks. All times in seconds; `now` is run time."""

    __slots__ = (
        "_strobe_began_at",
        "_strobe_by",
        "_strobe_every",
        "offset",
        "rate",
        "wall_offset",
        "wall_rate",
    )

    def __init__(self, offset: float, wall_start: float) -> None:
        self.rate = 1.0
        self.offset = offset
        """What the steady clock shows at run time 0, as long as its rate is 1."""
        self.wall_rate = 1.0
        self.wall_offset = wall_start
        self._strobe_by = 0.0
        self._strobe_every = inf
        self._strobe_began_at = 0.0

    # Reading

    def steady(self, now: float) -> float:
        """The steady clock."""
        return now * self.rate + self.offset

    def wall(self, now: float) -> float:
        """The wall clock, Unix seconds."""
        wall = now * self.wall_rate + self.wall_offset
        if self._strobe_by and int((now - self._strobe_began_at) / self._strobe_every) % 2:
            wall += self._strobe_by
        return wall

    def when(self, deadline: float, now: float) -> float | None:
        """The earliest run time, not before `now`, at which the steady clock shows `deadline` or more; None while it
        stands still before that.

        Rounding must not wake an engine a hair too early, for ever: the result is never early.
        """
        rate, offset = self.rate, self.offset
        if now * rate + offset >= deadline:
            return now
        if not rate:
            return None
        when = (deadline - offset) / rate
        if when < now:
            when = now
        if when * rate + offset >= deadline:
            return when
        step = ulp(when)
        while when * self.rate + self.offset < deadline:
            when += step
            step *= 2
        return when

    # Faults

    def set_rate(self, rate: float, now: float) -> None:
        """Let the steady clock run at this rate from now on: 1.01 is a percent fast, 0 stands still."""
        shown = self.steady(now)
        self.rate = _checked(rate)
        offset = shown - now * rate
        while now * rate + offset < shown:
            offset = nextafter(offset, inf)
        self.offset = offset

    def set_wall_rate(self, rate: float, now: float) -> None:
        """Let the wall clock run at this rate from now on."""
        shown = now * self.wall_rate + self.wall_offset
        self.wall_rate = _checked(rate)
        self.wall_offset = shown - now * rate

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock ahead, or back. The steady clock does not notice."""
        self.wall_offset += seconds

    def strobe(self, by: float, every: float, now: float) -> None:
        """Let the wall clock be right for `every` seconds and wrong by `by` for as long, in turn; `by` 0 ends that."""
        if not every > 0 or not isfinite(by):
            raise ValueError(
                f"strobe by {by} s every {every} s: a finite step and a period above 0 are wanted"
            )
        self._strobe_by, self._strobe_every, self._strobe_began_at = by, every, now


def _checked(rate: float) -> float:
    if not 0 <= rate <= RATE_MAX:
        raise ValueError(f"clock rate {rate}: 0 (stands still) to {RATE_MAX:g} is wanted, 1 is right")
    return rate
