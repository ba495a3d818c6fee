"""Load reports: how busy a node says that it is, told to those it answers, one hop and never passed on.

A report rides as an optional extension on Acks and replies. Each has a number; what is not above the last one of the
same life is old and ignored, so datagrams may overtake each other. It is about a node as a whole, with all its
agents.

A node whose queue is over its threshold (100) is not asked, one whose processors are (80 %) is skipped while another
candidate exists (`LoadStage`): a long queue means that a call would wait, a busy processor may be a node that does its
work. Both until it reports less than nine tenths of that, or until `OVER_MAX` seconds have passed in which nobody has
heard from it. Everything else that is done with reports is the policies' matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import COUNTER_MAX, Life, NodeId
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.stages import Selector, Stage, Verdict
from reachp2p.core.timers import Timers
from reachp2p.errors import ErrorCode

CPU_OVER = 80
"""Percent of the processors that a node may use."""
QUEUE_OVER = 100
"""Requests that wait for a handler."""
BACK_BELOW = 0.9
"""Part of a threshold below which a node is asked again: one that stands at it should not come and go with each
reply."""
OVER_MAX = 5.0
"""Seconds that a report keeps its node from being asked. Probes bring another sooner in small groups only."""
LOADS_MAX = 16_384
"""Nodes with reports, as many as a view may have members; then the one heard longest ago is forgotten."""
COUNT_MAX = 2**31
SECONDS_MAX = 86_400.0
SERVED_MAX = 128
"""Durations that the 95th percentile is taken of."""
P95_AGE = 0.5
"""Seconds for which it is not worked out again."""
TOLD_EVERY = 0.001
"""Seconds between two reports with replies to one node, at least."""
TOLD_MAX = 1_024
"""Nodes of which is remembered when they were told last; beyond it all are forgotten, and told once more."""
_LONG_AGO = float("-inf")
TOLD_FOR = 60.0
"""Seconds after its last request for which a node still tells its load: before, and later, it has none."""


class LoadReport(msgspec.Struct, frozen=True, gc=False):
    """What a node says. `p95`: seconds that its handlers take; `cpu`: percent, None if it does not know."""

    sequence: int
    in_flight: int = 0
    queued: int = 0
    p95: float = 0.0
    cpu: int | None = None

    @property
    def requests(self) -> int:
        """Those that run or wait there."""
        return self.in_flight + self.queued

    def is_full(self, part: float = 1.0) -> bool:
        """Whether its queue is at the threshold, or at this part of it."""
        return self.queued >= part * QUEUE_OVER

    def is_busy(self, part: float = 1.0) -> bool:
        """The same for its processors."""
        return self.cpu is not None and self.cpu >= part * CPU_OVER

    def write(self) -> list[int | None]:
        """As it travels: seconds are microseconds there."""
        return [self.sequence, self.in_flight, self.queued, round(self.p95 * 1e6), self.cpu]


def read_report(value: object) -> LoadReport | None:
    """The report in an extension, or None: another node may send anything there."""
    if type(value) is not list or len(value) != 5:
        return None
    sequence, in_flight, queued, p95, cpu = value
    for number, most in (
        (sequence, COUNTER_MAX),
        (in_flight, COUNT_MAX),
        (queued, COUNT_MAX),
        (p95, SECONDS_MAX * 1e6),
    ):
        if type(number) is not int or not 0 <= number <= most:
            return None
    if cpu is not None and (type(cpu) is not int or not 0 <= cpu <= 100):
        return None
    return LoadReport(sequence, in_flight, queued, p95 / 1e6, cpu)


class NodeLoad(msgspec.Struct, eq=False):
    """The last report of a node in one life."""

    life: Life
    report: LoadReport
    heard_at: float
    sent: int = 0
    """Attempts of ours at any of its agents that have begun since."""
    is_full: bool = False
    is_busy: bool = False


class LoadDue(msgspec.Struct, frozen=True, gc=False):
    """A report that keeps its node from being asked is old."""

    node: NodeId


class Loads:
    """The reports of others. Bound: `LOADS_MAX`, counter `load.forgotten`."""

    def __init__(self, timers: Timers, counters: Counters) -> None:
        self._timers = timers
        self._counters = counters
        self.entries: dict[NodeId, NodeLoad] = {}
        """By node, whoever was heard last at the end. Read only."""
        self.changed: Callable[[NodeId], object] = lambda node: None
        """Told when a node goes over a threshold or comes back (`RoutingTable.reconsider_node`)."""

    def on_report(self, node: NodeId, life: Life, value: object, now: float) -> None:
        """A member has told its load, in its present life, on a message that proves who sent it."""
        report = read_report(value)
        if report is None:
            self._counters.add("load.unreadable")
            return
        entry = self.entries.pop(node, None)
        was_full = entry is not None and entry.is_full
        was_busy = entry is not None and entry.is_busy
        if entry is None or entry.life != life:
            if entry is None and len(self.entries) >= LOADS_MAX:
                self._forget(next(iter(self.entries)))
            entry = NodeLoad(life, report, now)
        elif report.sequence <= entry.report.sequence:
            self.entries[node] = entry
            self._counters.add("load.outdated")
            return
        else:
            entry.report, entry.heard_at, entry.sent = report, now, 0
        self.entries[node] = entry
        entry.is_full = report.is_full(BACK_BELOW if was_full else 1.0)
        entry.is_busy = report.is_busy(BACK_BELOW if was_busy else 1.0)
        if entry.is_full or entry.is_busy:
            self._timers.set(LoadDue(node), now + OVER_MAX)
        elif was_full or was_busy:
            self._timers.cancel(LoadDue(node))
        if (entry.is_full, entry.is_busy) != (was_full, was_busy):
            if entry.is_full and not was_full:
                self._counters.add("load.full")
            if entry.is_busy and not was_busy:
                self._counters.add("load.busy")
            self.changed(node)

    def on_timer(self, key: LoadDue) -> None:
        """Nothing was heard for a while: ask it again."""
        entry = self.entries.get(key.node)
        if entry is not None and (entry.is_full or entry.is_busy):
            entry.is_full = entry.is_busy = False
            self.changed(key.node)

    def on_sent(self, node: NodeId) -> None:
        """An attempt at one of its agents has begun."""
        entry = self.entries.get(node)
        if entry is not None:
            entry.sent += 1

    def get(self, instance: Instance) -> NodeLoad | None:
        """The load of the node of an instance, if it was told in the life that registered it."""
        entry = self.entries.get(instance.key[0])
        return entry if entry is not None and entry.life == instance.info.life else None

    def forget(self, node: NodeId) -> None:
        """The node is no member any more."""
        if node in self.entries:
            self._forget(node)

    def _forget(self, node: NodeId) -> None:
        former = self.entries.pop(node)
        self._counters.add("load.forgotten")
        if former.is_full or former.is_busy:
            self._timers.cancel(LoadDue(node))
            self.changed(node)

    def __len__(self) -> int:
        return len(self.entries)


class LoadStage(Stage):
    """Does its node have room?"""

    name = "load"
    code = ErrorCode.ALL_OVERLOADED

    def __init__(self, loads: Loads) -> None:
        self._loads = loads

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """WITHHOLD what has a long queue, AVOID what has busy processors."""
        load = self._loads.get(instance)
        if load is None:
            return Verdict.PASS
        if load.is_full:
            return Verdict.WITHHOLD
        return Verdict.AVOID if load.is_busy else Verdict.PASS

    def why(self, selector: Selector, instance: Instance) -> str:
        """Its numbers."""
        load = self._loads.get(instance)
        if load is None:
            return "overloaded"
        cpu = "" if load.report.cpu is None else f", {load.report.cpu} % CPU"
        return f"overloaded: {load.report.queued} waiting{cpu}"


class OwnLoad:
    """What this node says about itself. The callee tells it what it serves and what runs, the driver how busy
    the processors are."""

    def __init__(self, *, is_told: bool) -> None:
        """`is_told`: whether anybody is told."""
        self._is_told = is_told
        self._sequence = 0
        self._served: deque[float] = deque(maxlen=SERVED_MAX)
        self._p95 = 0.0
        self._p95_at = float("-inf")
        self._asked_at = float("-inf")
        self._told: dict[NodeId, float] = {}
        """When each of those that ask was told last."""
        self.cpu: int | None = None
        """Percent of the processors that this node may use, measured by its driver."""
        self.numbers: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Handlers that run, and requests that wait; given by the callee."""
        self.running: Callable[[float], list[float]] = lambda now: []
        """How long each handler that runs has run, in seconds; given by the callee."""

    def on_request(self, now: float) -> None:
        """Somebody asks for something."""
        self._asked_at = now

    def on_served(self, seconds: float) -> None:
        """A handler took so long."""
        if not self._served:
            self._p95_at = _LONG_AGO
        self._served.append(seconds)

    def on_cut_short(self, seconds: float) -> None:
        """A handler was ended by its deadline or its caller: it would have taken longer than that.

        It counts if it ran longer than most do; how long it would have taken otherwise, nobody knows.
        """
        if seconds > self._p95:
            self.on_served(seconds)

    def report_to(self, node: NodeId, now: float) -> LoadReport | None:
        """The next report for whoever has asked for a call, or None if there is nothing to tell, or it has been told a
        moment ago: at thousands of replies a second a report on each would say nothing new."""
        if not self._is_told or now - self._told.get(node, _LONG_AGO) < TOLD_EVERY:
            return None
        if len(self._told) >= TOLD_MAX and node not in self._told:
            self._told.clear()
        self._told[node] = now
        return self.report(now)

    def report(self, now: float) -> LoadReport | None:
        """The next report, or None if there is nothing to tell."""
        if not self._is_told or now - self._asked_at > TOLD_FOR:
            return None
        self._sequence += 1
        in_flight, queued = self.numbers()
        return LoadReport(self._sequence, in_flight, queued, self._percentile(now), self.cpu)

    def _percentile(self, now: float) -> float:
        """The 95th percentile of what handlers take: of those that have ended, and of those that run longer already.

        Without the latter, a node whose handlers hang would seem to be quick.
        """
        if now - self._p95_at >= P95_AGE:
            self._p95_at = now
            ended = _p95(sorted(self._served))
            longer = [seconds for seconds in self.running(now) if seconds > ended]
            self._p95 = min(_p95(sorted([*self._served, *longer])) if longer else ended, SECONDS_MAX)
        return self._p95


def _p95(ordered: list[float]) -> float:
    return ordered[ceil(0.95 * len(ordered)) - 1] if ordered else 0.0
