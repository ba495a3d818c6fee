"""What a path does to a datagram, and to a segment of a stream, in weather that is more than plain.

All draws come from the path's own counter, each purpose with a salt of its own, so that switching one thing on shifts
nothing else. What a path remembers (the spell it is in, its queue, what passed lately) is a function of the run seed,
the path and the time alone, except where traffic itself is the point (a queue, a replay).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, log
from statistics import NormalDist

from reachp2p.core.ids import Address
from reachp2p_sim.network.conditions import DELAY_MAX, Bursts, Conditions
from reachp2p_sim.world.randomness import fraction, mix, step

LOSS_SALT = 0x5DEECE66D1CE4E5B
"""Keeps the draw for loss apart from the draw for delay, so that switching loss on shifts no delay."""
_BURST_SALT = 0x2545F4914F6CDD1D
_SPELL_SALT = 0x369DEA0F31A53F85
_DUPLICATE_SALT = 0x1B873593CC9E2D51
_SECOND_SALT = 0x6C62272E07BB0142
_REORDER_SALT = 0x7FB5D329728EA185
_CORRUPT_SALT = 0x52DCE729DA3ED6A7
_DAMAGE_SALT = 0x38495AB5E1A7F0C3
_REPLAY_SALT = 0x14057B7EF767814F
_WHICH_SALT = 0x4CF5AD432745937F

SPELLS_MAX = 256
"""Edges of spells that a path remembers before it forgets those that have passed."""
RECENT_MAX = 64
"""Datagrams that a path with replays remembers; the oldest make room."""
RETRANSMISSIONS_MAX = 8
FLIPS_MAX = 8
"""Bits that are flipped in a damaged datagram, at most."""
_NORMAL = NormalDist()

Arrival = tuple[float, bytes, Address, int, bool]
"""Delay, bytes, source address, number of the datagram, and whether it is damaged."""


@dataclass(slots=True)
class Tally:
    """What the weather has done so far, in datagrams."""

    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    replayed: int = 0
    overflowed: int = 0
    """Found no room in the queue of a path with a rate limit."""
    too_large: int = 0
    """Over a path's size limit."""


class Spells:
    """When a path is good and when it is bad: a function of the time alone, drawn as far as anybody has looked."""

    __slots__ = ("_bursts", "_counter", "_edges", "_first_is_bad")

    def __init__(self, bursts: Bursts, number: int, began_at: float) -> None:
        self._bursts = bursts
        self._counter = step(number ^ _SPELL_SALT)
        self._first_is_bad = fraction(mix(self._counter)) < bursts.bad / (bursts.good + bursts.bad)
        self._edges = [began_at]

    def is_bad(self, at: float, now: float) -> bool:
        """Whether the path is in a bad spell at `at`, which is not before `now`; nobody asks about before `now`
        again."""
        edges = self._edges
        while edges[-1] <= at:
            is_bad = self._first_is_bad ^ (len(edges) % 2 == 0)
            mean = self._bursts.bad if is_bad else self._bursts.good
            self._counter = step(self._counter)
            edges.append(edges[-1] - mean * log(1.0 - fraction(mix(self._counter))))
        if len(edges) > SPELLS_MAX:
            passed = bisect_right(edges, now) - 1
            if passed > 0:
                del edges[:passed]
                self._first_is_bad ^= passed % 2 == 1
        return self._first_is_bad ^ (bisect_right(edges, at) % 2 == 0)


@dataclass(slots=True)
class Path:
    """What one directed path remembers under one weather."""

    spells: Spells | None = None
    busy_until: float = 0.0
    """When the last byte that was taken in will have left, on a path with a rate limit."""
    recent: deque[tuple[float, bytes, Address, int]] = field(default_factory=deque)


class Weather:
    """Conditions at work, from `began_at` on; `chance_of` gives the 64 bits of a path's own chance."""

    def __init__(self, conditions: Conditions, chance_of: Callable[[int], int], began_at: float) -> None:
        self.conditions = conditions
        self.is_plain = conditions.is_plain
        self._chance_of = chance_of
        self._began_at = began_at
        self._paths: dict[int, Path] = {}

    def carry(
        self, path: int, data: bytes, address: Address, number: int, counter: int, now: float, tally: Tally
    ) -> list[Arrival] | str:
        """What arrives of a datagram that is sent now, and after how many seconds; or why nothing does."""
        conditions = self.conditions
        state = self._path(path)
        if conditions.size_max and len(data) > conditions.size_max:
            tally.too_large += 1
            return "too large"
        wait = 0.0
        if conditions.rate:
            backlog = max(0.0, state.busy_until - now) * conditions.rate
            if backlog + len(data) > conditions.queue_bytes:
                tally.overflowed += 1
                return "no room in the queue"
            wait = self._queue(state, len(data), now)
        if self._is_lost(state, counter, now, now):
            tally.lost += 1
            return "lost"
        delay = wait + draw_delay(conditions, counter)
        if conditions.reorder and _chance(counter, _REORDER_SALT) < conditions.reorder:
            tally.reordered += 1
            delay += conditions.reorder_delay
        is_damaged = _chance(counter, _CORRUPT_SALT) < conditions.corrupt and bool(data)
        arriving = data
        if is_damaged:
            tally.corrupted += 1
            arriving = damage(data, mix(counter ^ _DAMAGE_SALT))
        arrivals: list[Arrival] = [(delay, arriving, address, number, is_damaged)]
        if conditions.duplicate and _chance(counter, _DUPLICATE_SALT) < conditions.duplicate:
            tally.duplicated += 1
            second = wait + draw_delay(conditions, counter ^ _SECOND_SALT)
            arrivals.append((second, arriving, address, number, is_damaged))
        if conditions.replay:
            self._replay(state, data, address, number, counter, now, tally, arrivals)
        return arrivals

    def segment(self, path: int, size: int, retransmit: float, counter: int, now: float) -> tuple[float, int]:
        """How long a segment of a stream takes, and the counter after its draws.

        Lost and damaged ones are sent again after `retransmit` seconds, doubling, at most eight times.
        """
        conditions = self.conditions
        state = self._path(path)
        extra = 0.0
        counter = step(counter)
        for _ in range(RETRANSMISSIONS_MAX):
            is_damaged = conditions.corrupt and _chance(counter, _CORRUPT_SALT) < conditions.corrupt
            if not is_damaged and not self._is_lost(state, counter, now + extra, now):
                break
            extra += retransmit
            retransmit *= 2
            counter = step(counter)
        if conditions.reorder and _chance(counter, _REORDER_SALT) < conditions.reorder:
            extra += conditions.reorder_delay
        if conditions.rate:
            extra += self._queue(state, size, now)
        return extra + draw_delay(conditions, counter), counter

    def is_bad(self, path: int, now: float) -> bool:
        """Whether a path is in a bad spell now; False without bursts."""
        spells = self._path(path).spells
        return spells is not None and spells.is_bad(now, now)

    def _path(self, path: int) -> Path:
        state = self._paths.get(path)
        if state is None:
            state = self._paths[path] = Path()
            if self.conditions.bursts is not None:
                state.spells = Spells(self.conditions.bursts, self._chance_of(path), self._began_at)
        return state

    def _is_lost(self, state: Path, counter: int, at: float, now: float) -> bool:
        conditions = self.conditions
        if conditions.loss and _chance(counter, LOSS_SALT) < conditions.loss:
            return True
        if state.spells is None or conditions.bursts is None:
            return False
        is_bad = state.spells.is_bad(at, now)
        share = conditions.bursts.loss_bad if is_bad else conditions.bursts.loss_good
        return bool(share) and _chance(counter, _BURST_SALT) < share

    def _queue(self, state: Path, size: int, now: float) -> float:
        """Take bytes in, and return the seconds until the last of them has left."""
        state.busy_until = max(state.busy_until, now) + size / self.conditions.rate
        return state.busy_until - now

    def _replay(
        self,
        state: Path,
        data: bytes,
        address: Address,
        number: int,
        counter: int,
        now: float,
        tally: Tally,
        arrivals: list[Arrival],
    ) -> None:
        recent = state.recent
        while recent and recent[0][0] < now - self.conditions.replay_age:
            recent.popleft()
        if recent and _chance(counter, _REPLAY_SALT) < self.conditions.replay:
            tally.replayed += 1
            _, old, source, old_number = recent[mix(counter ^ _WHICH_SALT) % len(recent)]
            delay = draw_delay(self.conditions, counter ^ _WHICH_SALT)
            arrivals.append((delay, old, source, old_number, False))
        if len(recent) >= RECENT_MAX:
            recent.popleft()
        recent.append((now, data, address, number))


def draw_delay(conditions: Conditions, counter: int) -> float:
    """A one-way delay in seconds from 64 bits of chance, by inversion of the distribution."""
    spread = conditions.spread
    if not spread:
        return conditions.delay
    share = fraction(mix(counter))
    if conditions.shape == "exponential":
        drawn = -spread * log(1.0 - share)
    elif conditions.shape == "lognormal":
        # mean = exp(mu + sigma²/2) = spread
        sigma = conditions.sigma
        drawn = spread * exp(sigma * _NORMAL.inv_cdf(max(share, 1e-16)) - sigma * sigma / 2)
    else:
        # Lomax: P(X > x) = (1 + x/scale)^-alpha, mean = scale/(alpha-1) = spread
        drawn = spread * (conditions.alpha - 1.0) * ((1.0 - share) ** (-1.0 / conditions.alpha) - 1.0)
    return conditions.delay + min(drawn, DELAY_MAX)


def damage(data: bytes, bits: int) -> bytes:
    """Flip one to `FLIPS_MAX` different bits, chosen by 64 bits of chance; the result always differs."""
    damaged = bytearray(data)
    places: dict[int, None] = {}
    for _ in range(1 + bits % FLIPS_MAX):
        bits = step(bits)
        places[mix(bits) % (len(data) * 8)] = None
    for place in places:
        damaged[place >> 3] ^= 1 << (place & 7)
    return bytes(damaged)


def _chance(counter: int, salt: int) -> float:
    return fraction(mix(counter ^ salt))
