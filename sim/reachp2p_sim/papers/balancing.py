"""Our own policy against others, by what its callers really know: reports on replies and on answers to probes.

Each caller has a router of the core that ships, with a table of all servers. A report is what a server's `OwnLoad`
makes and what the caller's `Loads` reads, as on the wire. It comes with each reply to a caller, and with the Ack to
each probe: every caller probes every server once in a `lag`, one after the other. Requests and replies take a twentieth
of a service time each. The others see no replies: *old reports* is the less of two by the answers to probes alone, *own
only* the less of two by the caller's own calls in flight. All of them meet the same arrivals and service times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import ceil
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.routing.instance import CapabilityInfo, InstanceInfo
from reachp2p.core.routing.load import Loads, LoadStage
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.own_load import OwnLoad
from reachp2p.core.routing.pick import Pick
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.stages import STAGES
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.timers import Timers
from reachp2p_sim.measuring import confidence
from reachp2p_sim.papers.base import Findings, Row, Scale, at_most
from reachp2p_sim.papers.stale_board import Times
from reachp2p_sim.world.randomness import Randomness

SERVERS = 100
SERVICE_TIME = 0.1
"""Seconds: what remembers for ten seconds, as the policy does, remembers for a hundred services."""
ON_THE_WAY = 0.05
"""Of a service time, each way."""
LIFE = Life(1, bytes(16))
CAPABILITY, AGENT = "work.do", "work/doer"
QUERY = RouteQuery(capability=CAPABILITY, policy="least_loaded")

Rival: TypeAlias = Literal["reachp2p", "old reports", "own only", "random"]
RIVALS: tuple[Rival, ...] = ("reachp2p", "old reports", "own only", "random")

LAGS = (0.5, 2.0, 5.0, 8.0, 20.0, 50.0)
LOADS = (0.5, 0.7, 0.9)
SENDERS = (1, 8, 64)
TRUSTED_LAG = 8.0
"""Service times up to which old reports are worth having, and ours must keep up with the best of the others."""


class BalanceCase(msgspec.Struct, frozen=True):
    """One rival, in one setting."""

    seed: int
    number: int
    rival: Rival
    lag: float
    """Service times between two probes of one server by one caller."""
    load: float
    senders: int
    jobs: int
    slow: float = 0.0
    """The share of servers that take twice as long; the load is that of all together."""


# Callers


class _Caller:
    """One caller of any kind: chooses, and is told what reaches it."""

    def choose(self, now: float) -> tuple[int, Pick | None]:
        """A server, and what the router remembers about the choice."""
        raise NotImplementedError

    def answered(self, server: int, pick: Pick | None, report: object, now: float) -> None:
        """A reply has come."""

    def told(self, server: int, busy: int, report: object, now: float) -> None:
        """A probe was answered."""


class _Ours(_Caller):
    def __init__(self, nodes: list[NodeId], rng: Random) -> None:
        counters, timers = Counters(), Timers()
        self._nodes = nodes
        self._numbers = {node: number for number, node in enumerate(nodes)}
        self._loads = Loads(timers, counters)
        table = RoutingTable(counters, stages=(*STAGES, LoadStage(self._loads)))
        self._loads.changed = table.reconsider_node
        info = InstanceInfo(life=LIFE, capabilities={CAPABILITY: CapabilityInfo(True, None)})
        for node in nodes:
            table.set_node(node, MemberState.ALIVE, life=LIFE)
            table.put_instance(node, AGENT, info)
        self._router = Router(table, rng, counters, measures=Measures(loads=self._loads))

    def choose(self, now: float) -> tuple[int, Pick | None]:
        pick = self._router.route(QUERY, (), now)
        self._router.start(pick, now)
        return self._numbers[pick.instance.node], pick

    def answered(self, server: int, pick: Pick | None, report: object, now: float) -> None:
        assert pick is not None, "it was chosen by the router"
        self._router.end(pick, 0, now)
        self._loads.on_report(self._nodes[server], LIFE, report, now)

    def told(self, server: int, busy: int, report: object, now: float) -> None:
        self._loads.on_report(self._nodes[server], LIFE, report, now)


class _TwoChoices(_Caller):
    """The less of two by numbers of its own."""

    def __init__(self, nodes: list[NodeId], rng: Random) -> None:
        self._rng = rng
        self._count = len(nodes)
        self.numbers = [0] * len(nodes)

    def choose(self, now: float) -> tuple[int, Pick | None]:
        one, other = self._rng.sample(range(self._count), 2)
        return (other if self.numbers[other] < self.numbers[one] else one), None


class _OldReports(_TwoChoices):
    def told(self, server: int, busy: int, report: object, now: float) -> None:
        self.numbers[server] = busy


class _OwnOnly(_TwoChoices):
    def choose(self, now: float) -> tuple[int, Pick | None]:
        server, _ = super().choose(now)
        self.numbers[server] += 1
        return server, None

    def answered(self, server: int, pick: Pick | None, report: object, now: float) -> None:
        self.numbers[server] -= 1


class _ByChance(_TwoChoices):
    """Its numbers are all the same."""


KINDS: dict[Rival, Callable[[list[NodeId], Random], _Caller]] = {
    "reachp2p": _Ours,
    "old reports": _OldReports,
    "own only": _OwnOnly,
    "random": _ByChance,
}


# Servers


class _Server:
    """One job after the other."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[float, int, Pick | None, float]] = deque()
        """When each was sent, by whom, with which pick, and how long it will take; the first one runs."""
        self.own = OwnLoad(is_told=True)
        self.own.numbers = lambda: (min(len(self.jobs), 1), max(len(self.jobs) - 1, 0))

    def report(self, now: float) -> object:
        """As it travels."""
        report = self.own.report(now)
        return None if report is None else report.write()


ARRIVES, ENDS, ANSWERED, PROBED = range(4)


class _Run:
    def __init__(self, case: BalanceCase) -> None:
        randomness = Randomness(case.seed)
        nodes = [NodeId(number.to_bytes(32, "big")) for number in range(1, SERVERS + 1)]
        self._case = case
        self._arrivals = randomness.stream("arrivals", case.number)
        self._services = randomness.stream("services", case.number)
        self._senders = randomness.stream("senders", case.number)
        self._callers = [
            KINDS[case.rival](nodes, randomness.stream("choices", case.number, sender))
            for sender in range(case.senders)
        ]
        self._servers = [_Server() for _ in nodes]
        slow = round(case.slow * SERVERS)
        self._pace = [2.0 if number < slow else 1.0 for number in range(SERVERS)]
        capacity = sum(1.0 / pace for pace in self._pace)
        self._rate = case.load * capacity / SERVICE_TIME
        self._events: list[tuple[float, int, int, Any]] = []
        self._planned = 0
        self.times: list[float] = []
        phases = randomness.stream("probes", case.number)
        if case.rival in ("reachp2p", "old reports"):
            for sender in range(case.senders):
                for server in range(SERVERS):
                    moment = phases.random() * case.lag * SERVICE_TIME
                    self._plan(moment, PROBED, (sender, server))

    def _plan(self, when: float, what: int, about: Any) -> None:
        self._planned += 1
        heappush(self._events, (when, self._planned, what, about))

    def run(self) -> Times:
        """Until the last job has arrived; those under way then do not count."""
        case, way = self._case, ON_THE_WAY * SERVICE_TIME
        left = case.jobs
        next_call = self._arrivals.expovariate(self._rate)
        while left:
            if not self._events or next_call <= self._events[0][0]:
                now = next_call
                sender = int(self._senders.random() * case.senders)
                server, pick = self._callers[sender].choose(now)
                takes = self._services.expovariate(1.0 / SERVICE_TIME)
                self._plan(now + way, ARRIVES, (server, sender, pick, takes))
                next_call = now + self._arrivals.expovariate(self._rate)
                left -= 1
                continue
            now, _, what, about = heappop(self._events)
            if what == PROBED:
                sender, number = about
                server = self._servers[number]
                self._callers[sender].told(number, len(server.jobs), server.report(now), now)
                self._plan(now + case.lag * SERVICE_TIME, PROBED, about)
            elif what == ARRIVES:
                number, sender, pick, takes = about
                self._arrive(number, sender, pick, takes * self._pace[number], now)
            elif what == ENDS:
                self._end(about, now)
            else:
                number, sender, pick, report = about
                self._callers[sender].answered(number, pick, report, now)
        self.times.sort()
        count = len(self.times)
        mean = sum(self.times) / count / SERVICE_TIME
        return Times(mean, self.times[ceil(0.99 * count) - 1] / SERVICE_TIME)

    def _arrive(self, number: int, sender: int, pick: Pick | None, takes: float, now: float) -> None:
        server = self._servers[number]
        server.own.on_request(now)
        server.jobs.append((now, sender, pick, takes))
        if len(server.jobs) == 1:
            self._plan(now + takes, ENDS, number)

    def _end(self, number: int, now: float) -> None:
        server = self._servers[number]
        arrived_at, sender, pick, takes = server.jobs.popleft()
        server.own.on_served(takes)
        self.times.append(now - arrived_at)
        report = server.report(now) if self._case.rival == "reachp2p" else None
        self._plan(now + ON_THE_WAY * SERVICE_TIME, ANSWERED, (number, sender, pick, report))
        if server.jobs:
            self._plan(now + server.jobs[0][3], ENDS, number)


def measure_balance(case: BalanceCase) -> Times:
    """One run, from idle servers."""
    return _Run(case).run()


# What is run and judged


Setting: TypeAlias = tuple[float, float, int, float]
"""Lag, load, senders, share of slow servers."""


def settings(scale: Scale) -> list[Setting]:
    """The whole sweep, and some of it for a quick look."""
    if scale.quick:
        return [(5.0, 0.9, 8, 0.0), (2.0, 0.5, 8, 0.0), (20.0, 0.9, 1, 0.0), (5.0, 0.9, 8, 0.3)]
    sweep = [(lag, load, senders, 0.0) for senders in SENDERS for load in LOADS for lag in LAGS]
    return [*sweep, *((lag, 0.9, 8, 0.3) for lag in LAGS)]


def balance_cases(scale: Scale) -> list[BalanceCase]:
    """Every rival in every setting."""
    return [
        BalanceCase(scale.seed, number, rival, lag, load, senders, scale.pick(25_000, 50_000), slow)
        for lag, load, senders, slow in settings(scale)
        for rival in RIVALS
        for number in range(scale.pick(1, 2))
    ]


def judge_balance(scale: Scale, done: Sequence[tuple[BalanceCase, Times]]) -> Findings:
    """B8.3."""
    findings = Findings()
    found: dict[tuple[Setting, Rival], list[Times]] = {}
    for case, times in done:
        setting = (case.lag, case.load, case.senders, case.slow)
        found.setdefault((setting, case.rival), []).append(times)
    for setting in settings(scale):
        findings.rows += _rows(setting, {rival: found[setting, rival] for rival in RIVALS})
    return findings


def _rows(setting: Setting, found: dict[Rival, list[Times]]) -> list[Row]:
    lag, load, senders, slow = setting
    name = f"lag {lag:g}, ρ = {load}, {senders} sender{'s' if senders > 1 else ''}"
    name += f", {slow:.0%} of the servers half as fast" if slow else ""
    ours = found["reachp2p"]
    rows = []
    if not slow and (lag, load, senders) == (5.0, 0.9, 8):
        for what, values, limit in (
            ("mean time", [times.mean for times in ours], 3.6),
            ("p99 time", [times.p99 for times in ours], 12.0),
        ):
            rows.append(
                Row("B8.3", f"{name}: {what}", confidence.mean(values), limit, "own", at_most(limit), "beat")
            )
    if lag <= TRUSTED_LAG:
        for what in ("mean", "p99"):
            ratios = [
                getattr(mine, what) / min(getattr(old, what), getattr(own, what))
                for mine, old, own in zip(ours, found["old reports"], found["own only"], strict=True)
            ]
            rows.append(
                Row(
                    "B8.3",
                    f"{name}: {what} over the better of old reports and own only",
                    confidence.mean(ratios),
                    1.1,
                    "own",
                    None if slow else at_most(1.1),
                    "report" if slow else "beat",
                )
            )
    for what in ("mean", "p99"):
        ratios = [
            getattr(mine, what) / getattr(other, what)
            for mine, other in zip(ours, found["random"], strict=True)
        ]
        rows.append(
            Row(
                "B8.3",
                f"{name}: {what} over chance",
                confidence.mean(ratios),
                1.02,
                "own",
                at_most(1.02),
                "beat",
            )
        )
    return rows
