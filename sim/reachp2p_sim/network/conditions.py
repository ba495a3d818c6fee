"""The weather of a directed path, as data: how late, how lossy, how mangled what is sent on it arrives.

Plain conditions (a constant delay, an exponential one, independent loss) are what most paths have, and cost nothing but
their two draws. Everything else is in `weather.py`, which keeps what a path has to remember. Links (ordered streams)
meet the same weather in their own way, as a kernel's TCP would; each field says how.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Literal

import msgspec

DELAY_MAX = 10.0
"""No drawn delay is longer, in seconds: a tail is cut here."""
MEAN_MIN = 0.001
"""Seconds that a good or a bad spell must last in the mean: bounds the draws a quiet path has to catch up with."""

Shape = Literal["exponential", "lognormal", "pareto"]


class Bursts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Loss that comes in bursts: Gilbert's and Elliott's two-state channel, in continuous time.

    The path is good for an exponential time of mean `good` seconds, then bad for one of mean `bad`. It begins in either
    state as often as it is in it. The long-run loss is (good·loss_good + bad·loss_bad) / (good + bad).
    """

    good: float = 60.0
    bad: float = 2.0
    loss_good: float = 0.0
    """Share lost while the path is good, 0 to 1."""
    loss_bad: float = 0.9
    """Share lost while it is bad."""

    def __post_init__(self) -> None:
        for name in ("good", "bad"):
            if not MEAN_MIN <= getattr(self, name) < float("inf"):
                raise ValueError(
                    f"bursts.{name}={getattr(self, name)}: a mean of at least {MEAN_MIN} s is wanted"
                )
        for name in ("loss_good", "loss_bad"):
            _share(f"bursts.{name}", getattr(self, name))

    @property
    def long_run_loss(self) -> float:
        """Share lost over a long time."""
        return (self.good * self.loss_good + self.bad * self.loss_bad) / (self.good + self.bad)


class Conditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weather on a directed path. Raises `ValueError` if a value is out of range, naming it.

    The delay of a datagram, one way, is `delay` plus a draw whose mean is `spread`. What `shape` names decides how
    that draw is distributed: exponential, log-normal with standard deviation `sigma` of its logarithm, or a heavy
    tail, Pareto of the second kind (Lomax) with tail index `alpha`. Drawn delays are cut at 10 s.
    """

    delay: float = 0.0005
    """The constant part of the delay, in seconds."""
    spread: float = 0.0045
    """Mean of the drawn part, in seconds; 0 makes the delay constant."""
    loss: float = 0.0
    """Share of datagrams lost, 0 to 1, each for itself. A stream sends a lost segment again, after a time-out that
    doubles; where everything is lost it makes no progress."""
    shape: Shape = "exponential"
    sigma: float = 1.0
    alpha: float = 2.0
    """Tail index of `pareto`, above 1 (below that it has no mean)."""
    bursts: Bursts | None = None
    """Loss in bursts, besides `loss`. Streams are hit by the same bursts at the same times."""
    duplicate: float = 0.0
    """Share of datagrams that arrive twice, the second with a delay of its own. Streams drop second copies."""
    reorder: float = 0.0
    """Share of datagrams that take `reorder_delay` seconds longer, so that later ones overtake them. A stream keeps its
    order: all that follows waits."""
    reorder_delay: float = 0.05
    corrupt: float = 0.0
    """Share of datagrams of which one to eight bits are flipped. The receiver gets them and must reject them. A
    stream's checksum rejects a damaged segment, which is lost to it."""
    replay: float = 0.0
    """Share of datagrams beside which an earlier one of this path, at most `replay_age` seconds old, arrives again.
    Streams have numbered segments and drop it."""
    replay_age: float = 10.0
    rate: float = 0.0
    """Bytes a second, 0 for no limit. What exceeds it waits in a queue of `queue_bytes`; what does not fit is lost.
    Frames of streams share the rate and the queue but wait for ever: their sender is slowed down."""
    queue_bytes: int = 65_536
    size_max: int = 0
    """Datagrams of more bytes vanish, 0 for no limit. Streams cut their segments to fit."""

    def __post_init__(self) -> None:
        for name in ("delay", "spread", "reorder_delay", "replay_age", "rate", "queue_bytes", "size_max"):
            value = getattr(self, name)
            if not value >= 0 or not isfinite(value):
                raise ValueError(
                    f"conditions out of range: {name}={value}, a finite number of at least 0 is wanted"
                )
        for name in ("loss", "duplicate", "reorder", "corrupt", "replay"):
            _share(name, getattr(self, name))
        if not self.sigma > 0 or not isfinite(self.sigma):
            raise ValueError(f"conditions out of range: sigma={self.sigma}, more than 0 is wanted")
        if not self.alpha > 1 or not isfinite(self.alpha):
            raise ValueError(f"conditions out of range: alpha={self.alpha}, more than 1 is wanted")

    @property
    def is_plain(self) -> bool:
        """Nothing but a constant delay, an exponential one, and independent loss."""
        return (
            self.shape == "exponential"
            and self.bursts is None
            and not (self.duplicate or self.reorder or self.corrupt or self.replay)
            and not (self.rate or self.size_max)
        )

    @property
    def worst_loss(self) -> float:
        """The share that may be lost at the worst time; 1 where a queue or a size limit decides."""
        if self.rate or self.size_max:
            return 1.0
        worst = 0.0 if self.bursts is None else max(self.bursts.loss_good, self.bursts.loss_bad)
        return 1.0 - (1.0 - self.loss) * (1.0 - worst) * (1.0 - self.corrupt)

    @property
    def mean_delay(self) -> float:
        """Of a datagram that is not lost and waits for no other, one way, in seconds."""
        return self.delay + self.spread + self.reorder * self.reorder_delay


def worst(conditions: Iterable[Conditions]) -> tuple[float, float]:
    """The worst loss and the slowest mean delay among conditions, of which there is at least one."""
    all_of_them = list(conditions)
    return max(c.worst_loss for c in all_of_them), max(c.mean_delay for c in all_of_them)


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"conditions out of range: {name}={value}, a share of 0 to 1 is wanted")
