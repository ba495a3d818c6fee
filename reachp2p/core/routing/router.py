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
from reachp2p.core.routing.failure import RouteFailed, no_candidate
from reachp2p.core.routing.instance import Instance
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
    ) -> None:
        self.table = table
        self._counters = counters
        self._policies: dict[str, Policy] = {name: make(rng) for name, make in policies.items()}
        self._failures: dict[Selector, RouteFailed] = {}
        self._failures_version = table.version

    def pick(self, query: RouteQuery, exclude: Collection[NodeId] = ()) -> Instance:
        """The instance this call goes to. `exclude`: nodes that were asked already (a retry).

        Raises `RouteFailed`: 1302 nothing named, 1301 unknown name, 1303 nobody healthy is left, 1305 the policy lets
        none take it, 1306 nobody of that version, 1704 an unknown policy or one that lacks its key, 1707 no range of
        versions. Nothing has changed then but a counter.
        """
        try:
            policy, selector = self.read(query)
            pool = self.table.pool(selector)
            choice, instance = self.choose(policy, query, selector, pool, exclude)
        except RouteFailed as failure:
            self._counters.add(f"routing.failed.{failure.code.name.lower()}")
            raise
        policy.on_picked(choice, instance)
        if choice.candidates.last_resort:
            self._counters.add("routing.picked.last_resort")
        return instance

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
    ) -> tuple[Choice, Instance]:
        """What `pick` would pick, without picking it, or `RouteFailed` (1301, 1303, 1305)."""
        candidates = self.table.candidates(pool, exclude) if pool is not None else None
        if pool is None or not candidates:
            raise no_candidate(self.table, selector, exclude) if exclude else self._failure(selector)
        choice = Choice(query, pool, candidates)
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
