"""The machine of the circuit breakers: fed with the ends of attempts, asked by a stage (`breaker` has the rules)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId
from reachp2p.core.routing.breaker import TRIAL_MAX, BreakerInput, BreakerState, open_seconds
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.stages import Selector, Stage, Verdict
from reachp2p.core.routing.traffic import Traffic, TrafficTable
from reachp2p.core.timers import Timers
from reachp2p.errors import ErrorCode


class BreakerDue(msgspec.Struct, frozen=True, gc=False):
    """A breaker was open long enough, or its trials have held up others long enough."""

    node: NodeId
    agent: str


class Breakers:
    """Moves the breakers of one node. Size: one timer for each that is shut; the rest is the traffic table's."""

    def __init__(self, traffic: TrafficTable, timers: Timers, counters: Counters) -> None:
        self._traffic = traffic
        self._timers = timers
        self._counters = counters
        self.changed: Callable[[NodeId, str], object] = lambda node, agent: None
        """Told whenever a breaker may have become shut, or shut no more (`RoutingTable.reconsider`)."""

    def on_started(self, traffic: Traffic, now: float) -> None:
        """An attempt has begun and is counted in `traffic`."""
        breaker = traffic.breaker
        if breaker.state is BreakerState.HALF_OPEN:
            breaker.trials += 1
            if breaker.trials == breaker.allowed:
                self._timers.set(BreakerDue(*traffic.key), now + TRIAL_MAX)
                self.changed(*traffic.key)

    def on_ended(self, traffic: Traffic, failed: bool, started_at: float, now: float) -> None:
        """An attempt that began then has ended and is counted no more in `traffic`."""
        breaker = traffic.breaker
        breaker.on_trial_ended(started_at)
        happened = breaker.note(failed, now)
        if happened is not None:
            self._move(traffic, happened, now)
        elif breaker.state is BreakerState.HALF_OPEN:
            self.changed(*traffic.key)

    def on_abandoned(self, traffic: Traffic, started_at: float) -> None:
        """An attempt has ended in a way that says nothing about the instance, and is counted no more."""
        breaker = traffic.breaker
        breaker.on_trial_ended(started_at)
        if breaker.state is BreakerState.HALF_OPEN:
            self.changed(*traffic.key)

    def on_timer(self, key: BreakerDue, now: float) -> None:
        """A breaker was open long enough, or its trials have held up others long enough."""
        traffic = self._traffic.entries.get((key.node, key.agent))
        if traffic is None:
            return
        breaker = traffic.breaker
        if breaker.state is BreakerState.OPEN:
            self._move(traffic, BreakerInput.COOLED, now)
        elif breaker.state is BreakerState.HALF_OPEN and breaker.is_shut:
            breaker.forget_trials(now)
            self.changed(*traffic.key)

    def _move(self, traffic: Traffic, happened: BreakerInput, now: float) -> None:
        breaker = traffic.breaker
        breaker.move(happened, now)
        if self._traffic.entries.get(traffic.key) is not traffic:
            return  # an attempt of a former life has ended
        if breaker.state is BreakerState.OPEN:
            self._counters.add("routing.breaker_opened")
            self._timers.set(BreakerDue(*traffic.key), now + open_seconds(breaker.openings))
        elif breaker.state is BreakerState.CLOSED:
            self._counters.add("routing.breaker_closed")
        self.changed(*traffic.key)


class BreakerStage(Stage):
    """Is its breaker closed, or does it allow one more trial?"""

    name = "breaker"
    code = ErrorCode.NO_HEALTHY_INSTANCE

    def __init__(self, traffic: TrafficTable) -> None:
        self._traffic = traffic

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        """EJECT what is shut."""
        traffic = self._traffic.get(instance)
        is_shut = traffic is not None and traffic.breaker.is_shut
        return Verdict.EJECT if is_shut else Verdict.PASS

    def why(self, selector: Selector, instance: Instance) -> str:
        """Its state."""
        traffic = self._traffic.get(instance)
        if traffic is not None and traffic.breaker.state is BreakerState.HALF_OPEN:
            return f"breaker half open, {traffic.breaker.allowed} at once"
        return "breaker open"
