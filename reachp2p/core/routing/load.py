"""Load reports: how busy a node says that it is, told to those it answers, one hop and never passed on.

A report rides as an optional extension on Acks and replies (`load_report`). Each has a number; what is not above the
last one of the same life is old and ignored, so datagrams may overtake each other.

An agent whose queue is over its threshold (100) is not asked, one whose node's processors are (80 %) is skipped while
another candidate exists (`LoadStage`): a long queue means that a call would wait, a busy processor may be a node that
does its work. Both until it reports less than nine tenths of that, or until `OVER_MAX` seconds have passed in which
nobody has heard from it. Everything else that is done with reports is the policies' matter.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.load_report import LoadReport, agent_hash, read_report
from reachp2p.core.routing.stages import Selector, Stage, Verdict
from reachp2p.core.timers import Timers
from reachp2p.errors import ErrorCode

CPU_OVER = 80
"""Percent of the processors that a node may use."""
QUEUE_OVER = 100
"""Requests that wait for a handler."""
BACK_BELOW = 0.9
"""Part of a threshold below which an agent is asked again: one that stands at it should not come and go with each
reply."""
OVER_MAX = 5.0
"""Seconds that a report keeps anybody from being asked. Probes bring another sooner in small groups only."""
LOADS_MAX = 16_384
"""Nodes with reports, as many as a view may have members; then the one heard longest ago is forgotten."""

_ALL = -1
"""Among the full agents of a node: whatever it offers."""


class NodeLoad(msgspec.Struct, eq=False):
    """The last report of a node in one life."""

    life: Life
    report: LoadReport
    heard_at: float
    sent: dict[str, int] = {}
    """Attempts of ours that have begun since, by agent."""
    full: frozenset[int] = frozenset()
    """Those of its agents that have a full queue, by their hashes."""
    is_busy: bool = False

    def requests_at(self, agent: str) -> int:
        """What one of its agents has to do: what was told, and what we have sent it since."""
        report = self.report
        told = report.of(agent).requests if report.agents else report.in_flight + report.queued
        return told + self.sent.get(agent, 0)

    def is_full(self, agent: str) -> bool:
        """Whether the queue of one of its agents is over the threshold."""
        return bool(self.full) and (_ALL in self.full or agent_hash(agent) in self.full)


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
        was_full = frozenset[int]() if entry is None else entry.full
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
            entry.report, entry.heard_at = report, now
            entry.sent.clear()
        self.entries[node] = entry
        entry.full = _full(report, was_full)
        entry.is_busy = _is_over(report.cpu or 0, CPU_OVER, was_over=was_busy)
        if entry.full or entry.is_busy:
            self._timers.set(LoadDue(node), now + OVER_MAX)
        elif was_full or was_busy:
            self._timers.cancel(LoadDue(node))
        if entry.full != was_full or entry.is_busy != was_busy:
            if entry.full - was_full:
                self._counters.add("load.full", len(entry.full - was_full))
            if entry.is_busy and not was_busy:
                self._counters.add("load.busy")
            self.changed(node)

    def on_timer(self, key: LoadDue) -> None:
        """Nothing was heard for a while: ask it again."""
        entry = self.entries.get(key.node)
        if entry is not None and (entry.full or entry.is_busy):
            entry.full, entry.is_busy = frozenset(), False
            self.changed(key.node)

    def on_sent(self, instance: InstanceKey) -> None:
        """An attempt at an instance has begun."""
        node, agent = instance
        entry = self.entries.get(node)
        if entry is not None:
            entry.sent[agent] = entry.sent.get(agent, 0) + 1

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
        if former.full or former.is_busy:
            self._timers.cancel(LoadDue(node))
            self.changed(node)

    def __len__(self) -> int:
        return len(self.entries)


class LoadStage(Stage):
    """Does it have room?"""

    name = "load"
    code = ErrorCode.ALL_OVERLOADED

    def __init__(self, loads: Loads) -> None:
        self._loads = loads

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """WITHHOLD what has a long queue; BUSY is what has busy processors."""
        load = self._loads.get(instance)
        if load is None:
            return Verdict.PASS
        if load.is_full(instance.key[1]):
            return Verdict.WITHHOLD
        return Verdict.BUSY if load.is_busy else Verdict.PASS

    def why(self, selector: Selector, instance: Instance) -> str:
        """Its numbers."""
        load = self._loads.get(instance)
        if load is None:
            return "overloaded"
        cpu = "" if load.report.cpu is None else f", {load.report.cpu} % CPU"
        return f"overloaded: {load.report.of(instance.key[1]).queued} waiting{cpu}"


def _full(report: LoadReport, before: frozenset[int]) -> frozenset[int]:
    """The agents whose queues are over the threshold, or are not far enough below it again."""
    if not report.agents:
        return frozenset({_ALL} if _is_over(report.queued, QUEUE_OVER, was_over=bool(before)) else ())
    return frozenset(
        part.agent
        for part in report.agents
        if _is_over(part.queued, QUEUE_OVER, was_over=_ALL in before or part.agent in before)
    )


def _is_over(number: int, threshold: int, *, was_over: bool) -> bool:
    return number >= (BACK_BELOW if was_over else 1.0) * threshold
