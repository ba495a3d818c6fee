"""The router: from what a call asks for to the one instance it goes to.

    match -> tags -> version -> liveness -> policy -> one instance

The stages before the policy are judged when the table changes (`stages`), so a decision is a look-up and a choice: a
few microseconds, whatever the size of the pool.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId, Rng
from reachp2p.core.routing.breaker import CALLERS_FAULTS
from reachp2p.core.routing.breakers import Breakers
from reachp2p.core.routing.failure import RouteFailed, no_candidate
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.pick import Pick
from reachp2p.core.routing.policies import BUILT_IN, Choice, Policy, PolicyFactory
from reachp2p.core.routing.pool import Pool
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.versions import parse_range
from reachp2p.errors import ErrorCode, InvalidIdentifier

_FAILURES_MAX = 64
"""Failed selectors remembered until the table changes: asking in vain once more costs microseconds, not more."""


class Router:
    """Picks instances from one table. Deterministic given the table's content, the calls so far and the `Rng`."""

    def __init__(
        self,
        table: RoutingTable,
        rng: Rng,
        counters: Counters,
        policies: Mapping[str, PolicyFactory] = BUILT_IN,
        *,
        measures: Measures | None = None,
        breakers: Breakers | None = None,
    ) -> None:
        """`breakers` are told how attempts end; None: nobody is."""
        self.table = table
        self.measures = Measures() if measures is None else measures
        self._breakers = breakers
        self._counters = counters
        self._policies: dict[str, Policy] = {name: make(rng) for name, make in policies.items()}
        self._failures: dict[Selector, RouteFailed] = {}
        self._failures_version = table.version

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies that there are."""
        return tuple(self._policies)

    def pick(self, query: RouteQuery, exclude: Collection[NodeId] = (), now: float = 0.0) -> Instance:
        """`route` for those who make no attempt of it: the instance alone."""
        return self.route(query, exclude, now).instance

    def route(self, query: RouteQuery, exclude: Collection[NodeId] = (), now: float = 0.0) -> Pick:
        """Whom this call goes to. `exclude`: nodes that were asked already (a retry).

        Raises `RouteFailed`: 1302 nothing named, 1301 unknown name, 1303 nobody healthy is left, 1304 this node may
        call none, 1305 all have too much to do, or the policy lets none take it, 1306 nobody of that version, 1704 an
        unknown policy or one that lacks its key, 1707 no range of versions. Nothing has changed then but a counter.
        """
        try:
            policy, selector = self.read(query)
            pool = self.table.pool(selector)
            choice, instance = self.choose(policy, query, selector, pool, exclude, now)
        except RouteFailed as failure:
            self._counters.add(f"routing.failed.{failure.code.name.lower()}")
            raise
        policy.on_picked(choice, instance)
        if choice.candidates.last_resort:
            self._counters.add("routing.picked.last_resort")
        return Pick(instance, query, choice, policy)

    # Attempts

    def start(self, pick: Pick, now: float) -> None:
        """The attempt begins: it is in flight until `end`."""
        assert pick.traffic is None, "an attempt begins once"
        instance = pick.instance
        pick.traffic = traffic = self.measures.traffic.of(instance)
        pick.started_at = now
        traffic.in_flight += 1
        if pick.policy is not None and pick.choice is not None:
            pick.policy.on_started(pick.choice, instance)
        if self._breakers is not None:
            self._breakers.on_started(traffic)

    def end(self, pick: Pick, code: int, now: float, *, callers_fault: bool = False) -> None:
        """The attempt has ended with `code` (0: well). `callers_fault`: its handler says that the caller is to blame.

        Nothing happens for a pick that was not started, or has ended.
        """
        traffic = pick.traffic
        if traffic is None:
            return
        pick.traffic = None
        traffic.in_flight -= 1
        if pick.policy is not None and pick.choice is not None:
            pick.policy.on_ended(pick.choice, pick.instance)
        if callers_fault or code in CALLERS_FAULTS:
            if self._breakers is not None:
                self._breakers.on_abandoned(traffic)
            return
        failed = code != 0
        traffic.measure(now - pick.started_at, now, failed=failed)
        if self._breakers is not None:
            self._breakers.on_ended(traffic, failed, now)

    # How it decides

    def read(self, query: RouteQuery) -> tuple[Policy, Selector]:
        """The policy and the selector of a query, or `RouteFailed` (1302, 1704, 1707)."""
        policy = self._policies.get(query.policy)
        if policy is None:
            known = ", ".join(sorted(self._policies))
            raise RouteFailed(
                ErrorCode.CONFIGURATION_INVALID, f"unknown policy {query.policy!r}; there are {known}"
            )
        if query.capability is None and query.agent is None:
            raise RouteFailed(ErrorCode.TARGET_NOT_SPECIFIED, "name a capability or an agent")
        missing = policy.missing(query)
        if missing is not None:
            raise RouteFailed(ErrorCode.CONFIGURATION_INVALID, f"policy {query.policy!r} needs {missing}")
        if query.version is not None:
            try:
                parse_range(query.version)
            except InvalidIdentifier as error:
                raise RouteFailed(ErrorCode.INVALID_IDENTIFIER, error.message) from None
        return policy, Selector.of(query)

    def choose(
        self,
        policy: Policy,
        query: RouteQuery,
        selector: Selector,
        pool: Pool | None,
        exclude: Collection[NodeId] = (),
        now: float = 0.0,
    ) -> tuple[Choice, Instance]:
        """What `route` would pick, without picking it, or `RouteFailed` (1301, 1303 to 1306)."""
        candidates = self.table.candidates(pool, exclude) if pool is not None else None
        if pool is None or not candidates:
            raise no_candidate(self.table, selector, exclude) if exclude else self._failure(selector)
        choice = Choice(query, pool, candidates, now, self.measures)
        instance = policy.choose(choice)
        if instance is None:
            raise RouteFailed(
                ErrorCode.ALL_OVERLOADED,
                f"policy {query.policy!r} lets none of the {len(candidates)} instances of {selector} take a call now",
            )
        return choice, instance

    def _failure(self, selector: Selector) -> RouteFailed:
        """`no_candidate`, from memory while the table is the same; beyond the bound the memory starts anew."""
        if self._failures_version != self.table.version or len(self._failures) >= _FAILURES_MAX:
            self._failures.clear()
            self._failures_version = self.table.version
        failure = self._failures.get(selector)
        if failure is None:
            failure = self._failures[selector] = no_candidate(self.table, selector)
        return RouteFailed(failure.code, failure.reason)
