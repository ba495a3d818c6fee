"""Queues behind a board of their lengths that is renewed now and then (Mitzenmacher, "How useful is old information?").

Servers take one job after the other, service times are exponential with mean 1, arrivals are Poisson, and nothing takes
time but service. Each choice sees the board as it was at the last multiple of its period; with `local` the sender adds
what it has sent since, and there is one sender. The means to be met are those of an independent simulation of the
same set-up: 100 servers, 100,000 jobs, three seeds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import ceil
from random import Random
from typing import Literal, TypeAlias

import msgspec

from reachp2p_sim.measuring import confidence
from reachp2p_sim.papers.base import Findings, Row, Scale, around, at_least
from reachp2p_sim.world.randomness import Randomness

SERVERS = 100
JOBS = 100_000
WARM_UP = 10
"""The first of so many parts of the jobs meets servers that are still filling, and does not count."""

Way: TypeAlias = Literal["random", "two", "three", "least", "local two", "local least"]
"""How a server is chosen: by chance, the least of two or three by the board, of all, and the last but two with what the
sender has sent since."""

CHOICES: dict[str, int] = {"two": 2, "three": 3, "local two": 2}

TABLE: dict[tuple[float, float], dict[Way, float]] = {
    (0.9, 0.5): {"two": 2.80, "three": 2.37, "least": 2.77, "local two": 2.71, "local least": 1.57},
    (0.9, 1.0): {"two": 2.95, "three": 2.65, "least": 3.94, "local two": 2.80, "local least": 1.82},
    (0.9, 2.0): {"two": 3.25, "three": 3.12, "least": 6.01, "local two": 2.94, "local least": 2.15},
    (0.9, 5.0): {"two": 3.98, "three": 4.42, "least": 11.8, "local two": 3.28, "local least": 2.61},
    (0.9, 10.0): {"two": 5.08, "three": 6.42, "least": 23.5, "local two": 3.67, "local least": 3.12},
    (0.9, 20.0): {"two": 7.06, "three": 10.2, "least": 68.6, "local two": 4.06, "local least": 3.55},
    (0.5, 5.0): {"two": 1.80, "three": 1.94, "least": 2.10, "local two": 1.47, "local least": 1.24},
    (0.5, 10.0): {"two": 2.07, "three": 2.37, "least": 2.63, "local two": 1.53, "local least": 1.28},
    (0.5, 20.0): {"two": 2.37, "three": 2.90, "least": 3.45, "local two": 1.57, "local least": 1.30},
}
"""Mean time in system, by (load, period of the board)."""
BY_CHANCE = {0.9: 9.6, 0.5: 1.98}
PERIOD_MAX = 10.0
"""Up to here the table must be met."""


class QueueCase(msgspec.Struct, frozen=True):
    """One way to choose at one load. `period` 0: the lengths are those of this very moment."""

    seed: int
    number: int
    load: float
    period: float
    way: Way
    jobs: int = JOBS
    servers: int = SERVERS


class Times(msgspec.Struct, frozen=True):
    """Time in system, in mean service times."""

    mean: float
    p99: float


def measure_queue(case: QueueCase) -> Times:
    """One run; servers are empty at first."""
    randomness = Randomness(case.seed)
    arrivals = randomness.stream("arrivals", case.number)
    services = randomness.stream("services", case.number)
    chance = randomness.stream("choices", case.number, case.way)
    departures: list[deque[float]] = [deque() for _ in range(case.servers)]
    board = _Board(case, departures, chance)
    rate = case.load * case.servers
    now = 0.0
    times: list[float] = []
    for number in range(case.jobs):
        now += arrivals.expovariate(rate)
        jobs = departures[board.choose(now)]
        begins = jobs[-1] if jobs and jobs[-1] > now else now
        ends = begins + services.expovariate(1.0)
        jobs.append(ends)
        if number >= case.jobs // WARM_UP:
            times.append(ends - now)
    times.sort()
    return Times(sum(times) / len(times), times[ceil(0.99 * len(times)) - 1])


class _Board:
    def __init__(self, case: QueueCase, departures: list[deque[float]], chance: Random) -> None:
        self._way, self._period = case.way, case.period
        self._departures = departures
        self._chance = chance
        self._count = case.servers
        self._renewed = 0
        """The number of the period that the board is of."""
        self._shown = [0] * case.servers
        self._least = list(range(case.servers))
        self._heap: list[tuple[int, float, int]] = []
        self._pile()

    def choose(self, now: float) -> int:
        """The server for a job that arrives now."""
        way, chance = self._way, self._chance
        if way == "random":
            return int(chance.random() * self._count)
        if self._period and now >= (self._renewed + 1) * self._period:
            self._renewed = int(now // self._period)
            self._renew(self._renewed * self._period)
        if way == "least":
            return self._least[int(chance.random() * len(self._least))]
        if way == "local least":
            sent, _, server = heappop(self._heap)
            heappush(self._heap, (sent + 1, chance.random(), server))
            return server
        drawn = chance.sample(range(self._count), CHOICES[way])
        if not self._period:
            return min(drawn, key=lambda server: self._length(server, now))
        server = min(drawn, key=self._shown.__getitem__)
        if way == "local two":
            self._shown[server] += 1
        return server

    def _length(self, server: int, now: float) -> int:
        jobs = self._departures[server]
        while jobs and jobs[0] <= now:
            jobs.popleft()
        return len(jobs)

    def _renew(self, at: float) -> None:
        self._shown = [self._length(server, at) for server in range(self._count)]
        fewest = min(self._shown)
        self._least = [server for server, length in enumerate(self._shown) if length == fewest]
        self._pile()

    def _pile(self) -> None:
        if self._way == "local least":
            self._heap = [
                (length, self._chance.random(), server) for server, length in enumerate(self._shown)
            ]
            heapify(self._heap)


def supermarket(load: float, choices: int) -> float:
    """Mean time in system with fresh lengths and endless servers: the sum of load^((d^i - d)/(d - 1)) over i ≥ 1."""
    if choices == 1:
        return 1.0 / (1.0 - load)
    total, number = 0.0, 1
    while True:
        term: float = load ** ((choices**number - choices) / (choices - 1))
        total += term
        if term < 1e-12:
            return total
        number += 1


# Fresh


FRESH: tuple[tuple[float, Way], ...] = tuple(
    (load, way) for load in (0.5, 0.7, 0.9, 0.95) for way in ("two", "three")
)
WORDS: dict[Way, str] = {
    "random": "by chance",
    "two": "less of two",
    "three": "least of three",
    "least": "least of all",
    "local two": "less of two and own since",
    "local least": "least of all and own since",
}


def fresh_cases(scale: Scale) -> list[QueueCase]:
    """Two and three choices by the lengths of the moment."""
    return [
        QueueCase(scale.seed, number, load, 0.0, way)
        for load, way in FRESH
        for number in range(scale.pick(1, 5))
    ]


def judge_fresh(_: Scale, done: Sequence[tuple[QueueCase, Times]]) -> Findings:
    """R8.1: within 4 % of the supermarket model, which has endless servers; at 0.95 a hundred are felt to be few."""
    findings = Findings()
    for load, way in FRESH:
        theory = supermarket(load, CHOICES[way])
        means = [times.mean for case, times in done if (case.load, case.way) == (load, way)]
        findings.rows.append(
            Row(
                "R8.1",
                f"ρ = {load}, {WORDS[way]}, fresh: mean time",
                confidence.mean(means),
                theory,
                "computed",
                around(theory, relative=0.04) if load <= 0.9 else None,
                "reproduce" if load <= 0.9 else "report",
            )
        )
    return findings


# Stale


def stale_cases(scale: Scale) -> list[QueueCase]:
    """Every cell of the table."""
    cells: list[tuple[float, float, Way]] = [(load, 0.0, "random") for load in BY_CHANCE]
    cells += [(load, period, way) for (load, period), ways in TABLE.items() for way in ways]
    return [
        QueueCase(scale.seed, number, load, period, way)
        for load, period, way in cells
        for number in range(scale.pick(1, 5))
    ]


def judge_stale(_: Scale, done: Sequence[tuple[QueueCase, Times]]) -> Findings:
    """R8.2."""
    findings = Findings()
    found: dict[tuple[float, float, Way], list[Times]] = {}
    for case, times in done:
        found.setdefault((case.load, case.period, case.way), []).append(times)
    chance = {load: found[load, 0.0, "random"] for load in BY_CHANCE}
    for load, expected in BY_CHANCE.items():
        findings.rows.append(_cell(load, None, "random", chance[load], expected))
    for (load, period), ways in TABLE.items():
        for way, expected in ways.items():
            findings.rows.append(_cell(load, period, way, found[load, period, way], expected))
    for load, period in TABLE:
        if load == 0.9 and period >= 5.0:
            ratios = [
                old.mean / by_chance.mean
                for old, by_chance in zip(found[load, period, "least"], chance[load], strict=True)
            ]
            findings.rows.append(
                Row(
                    "R8.2",
                    f"ρ = 0.9, T = {period:g}: mean time with the least of all over that by chance",
                    confidence.mean(ratios),
                    TABLE[load, period]["least"] / BY_CHANCE[load],
                    "computed",
                    at_least(1.0),
                )
            )
    findings.remarks.append(
        "Old numbers are worth something as long as nobody trusts them too much: the least of all by a board that is "
        "five service times old is worse than chance, the less of two is not, and who counts what it has sent itself "
        "hardly notices the age."
    )
    return findings


def _cell(load: float, period: float | None, way: Way, found: list[Times], expected: float) -> Row:
    is_judged = period is None or period <= PERIOD_MAX
    name = f"ρ = {load}, {WORDS[way]}" if period is None else f"ρ = {load}, T = {period:g}, {WORDS[way]}"
    return Row(
        "R8.2",
        f"{name}: mean time",
        confidence.mean([times.mean for times in found]),
        expected,
        "computed",
        around(expected, relative=0.1) if is_judged else None,
        "reproduce" if is_judged else "report",
    )
