"""The router: from what a call asks for to the one instance it goes to.

    match -> tags -> version -> access -> liveness -> breaker -> release split, zone -> policy -> one instance

The stages before the policy are judged when the table changes (`stages`), so a decision is a look-up and a choice: a
few microseconds, whatever the size of the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec.structs import replace

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.ids import NodeId, Rng
from reachp2p.core.routing.breaker import NO_FAILURES, had_fair_chance
from reachp2p.core.routing.breakers import Breakers
from reachp2p.core.routing.failure import RouteFailed, no_candidate
from reachp2p.core.routing.instance import Instance
from reachp2p.core.routing.measures import Measures
from reachp2p.core.routing.pick import Pick
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.policy import Choice, Policy, PolicyFactory
from reachp2p.core.routing.pool import Pool
from reachp2p.core.routing.release import CANDIDATE, RELEASE_TAG, STABLE, sides
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.table import RoutingTable
from reachp2p.core.routing.traffic import Traffic
from reachp2p.core.routing.unnamed import named, why_unnamed
from reachp2p.core.routing.versions import parse_range, split_target
from reachp2p.errors import ConfigurationInvalid, ErrorCode, InvalidIdentifier

_FAILURES_MAX = 64
"""Failed selectors remembered until the table changes: asking in vain once more costs microseconds, not more."""


MADE_AT_ONCE = ("random", "round_robin", "consistent_hash")
"""Policies that draw their first numbers with the router, in this order; the others do so when first asked for."""
FALLBACKS_MAX = 8
"""Of a query: each costs a look-up when the first choice has nobody."""
MAY_FALL_BACK = frozenset(
    {
        ErrorCode.UNKNOWN_TARGET,
        ErrorCode.NO_HEALTHY_INSTANCE,
        ErrorCode.ACCESS_DENIED,
        ErrorCode.ALL_OVERLOADED,
        ErrorCode.NO_SUCH_VERSION,
    }
)


class Decision(msgspec.Struct):
    """What came out for a query, and what an explanation tells of it: `failure`, or all of the others."""

    query: RouteQuery
    selector: Selector | None = None
    """The one that was used, narrowed to a side and a zone."""
    policy: Policy | None = None
    choice: Choice | None = None
    instance: Instance | None = None
    failure: RouteFailed | None = None
    percent: int | None = None
    """Of a release split: the candidates' share."""
    side: str | None = None
    """The call's own."""
    is_drawn: bool = False
    is_crossing: bool = False
    """Nobody on its own side could be asked."""


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
        self._rng = rng
        self._drawn: float | None = None
        self._factories = policies
        self._policies: dict[str, Policy] = {}
        for name in MADE_AT_ONCE:
            if name in policies:
                self._make(name)
        self._failures: dict[Selector, RouteFailed] = {}
        self._failures_version = table.version

    @property
    def policies(self) -> Collection[str]:
        """The names of the policies that there are. To ask for one that is not built in may raise 1704."""
        return self._factories

    def named(self, query: RouteQuery) -> RouteQuery:
        """The query with the capability that its tags mean, if it names nobody itself and they mean one."""
        return named(query, self.table.group)

    def pick(self, query: RouteQuery, exclude: Collection[NodeId] = (), now: float = 0.0) -> Instance:
        """`route` for those who make no attempt of it: the instance alone."""
        return self.route(query, exclude, now).instance

    def route(self, query: RouteQuery, exclude: Collection[NodeId] = (), now: float = 0.0) -> Pick:
        """Whom this call goes to. `exclude`: nodes that were asked already (a retry).

        Raises `RouteFailed`: 1302 nothing named, or not clearly, 1301 unknown name, 1303 nobody healthy is left, 1304
        this node may call none, 1305 all have too much to do, or the policy lets none take it, 1306 nobody of that
        version, 1704 an unknown policy or one that lacks its key, 1707 no range of versions. Nothing has changed then
        but a counter.
        """
        decision = self.decide(query, exclude, now, self.table.pool)
        failure = decision.failure
        if failure is not None:
            self._counters.add(f"routing.failed.{failure.code.name.lower()}")
            raise failure
        policy, choice, instance = decision.policy, decision.choice, decision.instance
        assert policy is not None, "nothing has failed"
        assert choice is not None, "nothing has failed"
        assert instance is not None, "nothing has failed"
        policy.on_picked(choice, instance)
        if decision.is_drawn:
            self._drawn = None
        if choice.candidates.last_resort:
            self._counters.add("routing.picked.last_resort")
        if decision.is_crossing:
            self._counters.add("routing.release_crossed")
        if choice.query is not query:
            self._counters.add("routing.fell_back")
        return Pick(instance, choice.query, choice, policy)

    # Attempts

    def start(self, pick: Pick, now: float) -> None:
        """The attempt begins: it is in flight until `end`."""
        assert pick.traffic is None, "an attempt begins once"
        instance = pick.instance
        pick.traffic = traffic = self.measures.traffic.of(instance)
        pick.started_at = now
        traffic.in_flight += 1
        self.measures.loads.on_sent(instance.key)
        if pick.policy is not None and pick.choice is not None:
            pick.policy.on_started(pick.choice, instance)
        if self._breakers is not None:
            self._breakers.on_started(traffic, now)

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
        failed = code != 0
        if failed and self._says_nothing(pick, traffic, code, now, callers_fault=callers_fault):
            if self._breakers is not None:
                self._breakers.on_abandoned(traffic, pick.started_at)
            return
        if not pick.is_stream:
            traffic.measure(now - pick.started_at, now, failed=failed)
        if self._breakers is not None:
            self._breakers.on_ended(traffic, failed, pick.started_at, now)

    def _says_nothing(
        self, pick: Pick, traffic: Traffic, code: int, now: float, *, callers_fault: bool
    ) -> bool:
        """Whether a failure says nothing about the instance."""
        if callers_fault or code in NO_FAILURES:
            return True
        if code != ErrorCode.DEADLINE_EXCEEDED or had_fair_chance(now - pick.started_at, traffic.latency):
            return False
        self._counters.add("routing.no_fair_chance")
        return True

    # How it decides

    def decide(
        self,
        query: RouteQuery,
        exclude: Collection[NodeId],
        now: float,
        find: Callable[[Selector], Pool | None],
    ) -> Decision:
        """What `route` would pick, without picking it; an explanation asks the same. `find` gives the pools."""
        decision = self._decide(query, exclude, now, find)
        return decision if decision.failure is None else self._fall_back(decision, exclude, now, find)

    def _fall_back(
        self,
        decision: Decision,
        exclude: Collection[NodeId],
        now: float,
        find: Callable[[Selector], Pool | None],
    ) -> Decision:
        """The first fallback that can be asked; without one, the failure that was."""
        query, failure = decision.query, decision.failure
        assert failure is not None, "something else is tried only then"
        if not query.fallback or failure.code not in MAY_FALL_BACK:
            return decision
        for target in query.fallback[:FALLBACKS_MAX]:
            try:
                instead = _fallen_back(query, target)
            except InvalidIdentifier as error:
                decision.failure = RouteFailed(
                    ErrorCode.INVALID_IDENTIFIER, f"fallback {target!r}: {error.message}"
                )
                return decision
            other = self._decide(instead, exclude, now, find)
            if other.failure is None:
                return other
        reason = (
            f"{failure.reason}; nor can any fallback be asked ({', '.join(query.fallback[:FALLBACKS_MAX])})"
        )
        decision.failure = RouteFailed(failure.code, reason)
        return decision

    def _decide(
        self,
        query: RouteQuery,
        exclude: Collection[NodeId],
        now: float,
        find: Callable[[Selector], Pool | None],
    ) -> Decision:
        decision = Decision(query)
        try:
            policy, selector = self.read(query)
            decision.policy = policy
            pool = find(selector)
            if pool is not None and (
                pool.has_candidates or query.prefer is not None or query.release is not None
            ):
                pool, selector = self._narrow(decision, query, selector, pool, exclude, find)
            decision.selector = selector
            candidates = self.table.candidates(pool, exclude) if pool is not None else None
            if pool is None or candidates is None or not candidates.keys:
                raise no_candidate(self.table, selector, exclude) if exclude else self._failure(selector)
            decision.choice = choice = Choice(query, pool, candidates, now, self.measures, exclude)
            instance = policy.choose(choice)
            if instance is None:
                raise self._nobody(query, choice, selector)
            decision.instance = instance
        except RouteFailed as failure:
            decision.failure = failure
        except ConfigurationInvalid as error:  # of a policy that a package brings
            decision.failure = RouteFailed(ErrorCode.CONFIGURATION_INVALID, error.message)
        return decision

    def _narrow(
        self,
        decision: Decision,
        query: RouteQuery,
        selector: Selector,
        pool: Pool,
        exclude: Collection[NodeId],
        find: Callable[[Selector], Pool | None],
    ) -> tuple[Pool | None, Selector]:
        """The pool of the side and of the zone that are meant, if somebody in it can be asked whom nobody doubts; else
        the next best. Busy processors are no reason to leave a side, only a zone: else a split would end when it
        matters. Where everybody is doubted, a call stays on its side, too, if anybody there can be asked."""
        allowed: tuple[str | None, ...] = (None,)
        is_asked_for = query.release is not None or (query.split is not None and pool.has_candidates)
        if (pool.split is not None or is_asked_for) and RELEASE_TAG not in query.tags:
            percent = query.split if query.split is not None else (pool.split or 0)
            decision.is_drawn = query.key is None and query.release is None and 0 < percent < 100
            allowed = sides(query, percent, self._draw() if decision.is_drawn else 0.0)
            decision.percent, decision.side = percent, allowed[0]
        zones: tuple[str | None, ...] = (None,)
        if query.prefer == "zone" and self.measures.zone:
            zones = (self.measures.zone, None)
        for side in allowed:
            for zone in zones:
                if side is None and zone is None:
                    break
                narrow = Selector(
                    selector.capability, selector.agent, selector.tags, selector.version, side, zone
                )
                found = find(narrow)
                if found is None:
                    continue
                has_busy = zone is None and found.busy.without(exclude).keys
                if has_busy or found.preferred.without(exclude).keys:
                    decision.is_crossing = side is not allowed[0]
                    return found, narrow
        is_bound = allowed == (STABLE,)
        for side in allowed:
            if side is None:
                break
            narrow = Selector(selector.capability, selector.agent, selector.tags, selector.version, side)
            found = find(narrow)
            if is_bound or (found is not None and found.candidates(exclude).keys):
                decision.is_crossing = side is not allowed[0]
                return found, narrow
        return pool, selector

    def _draw(self) -> float:
        """The number that decides the side of the next call without a key; it stays until such a call is picked."""
        if self._drawn is None:
            self._drawn = self._rng.random()
        return self._drawn

    def _nobody(self, query: RouteQuery, choice: Choice, selector: Selector) -> RouteFailed:
        if query.strict and query.policy_name == "consistent_hash":
            return RouteFailed(
                ErrorCode.NO_HEALTHY_INSTANCE,
                f"the owner of key {query.key!r} among {selector} cannot be asked, and the call wants nobody else",
            )
        name = query.policy_name
        return RouteFailed(
            ErrorCode.ALL_OVERLOADED,
            f"policy {name!r} lets none of the {len(choice.candidates)} instances of {selector} take a call now",
        )

    def read(self, query: RouteQuery) -> tuple[Policy, Selector]:
        """The policy and the selector of a query, or `RouteFailed` (1302, 1704, 1707)."""
        name = query.policy_name
        policy = self._policies.get(name) or self._make(name)
        missing = policy.missing(query)
        if missing is not None:
            raise RouteFailed(ErrorCode.CONFIGURATION_INVALID, f"policy {name!r} needs {missing}")
        if query.version is not None:
            try:
                parse_range(query.version)
            except InvalidIdentifier as error:
                raise RouteFailed(ErrorCode.INVALID_IDENTIFIER, error.message) from None
        if query.capability is None and query.agent is None:
            raise why_unnamed(self.table, query)
        if query.release is not None and query.release not in (CANDIDATE, STABLE):
            raise RouteFailed(
                ErrorCode.CONFIGURATION_INVALID, f"release {query.release!r}: write {CANDIDATE} or {STABLE}"
            )
        if query.prefer is not None and query.prefer != "zone":
            raise RouteFailed(
                ErrorCode.CONFIGURATION_INVALID, f"prefer {query.prefer!r}: there is only 'zone'"
            )
        return policy, Selector.of(query)

    def _make(self, name: str) -> Policy:
        """A policy is made when it is first asked for: one that nobody uses draws no number."""
        try:
            factory = self._factories.get(name)
            if factory is None:
                known = ", ".join(sorted(self._factories))
                raise RouteFailed(
                    ErrorCode.CONFIGURATION_INVALID, f"unknown policy {name!r}; there are {known}"
                )
            policy = self._policies[name] = factory(self._rng)
        except ConfigurationInvalid as error:  # of a package that brings policies
            raise RouteFailed(ErrorCode.CONFIGURATION_INVALID, error.message) from error
        return policy

    def _failure(self, selector: Selector) -> RouteFailed:
        """`no_candidate`, from memory while the table is the same; beyond the bound the memory starts anew."""
        if self._failures_version != self.table.version or len(self._failures) >= _FAILURES_MAX:
            self._failures.clear()
            self._failures_version = self.table.version
        failure = self._failures.get(selector)
        if failure is None:
            failure = self._failures[selector] = no_candidate(self.table, selector)
        return RouteFailed(failure.code, failure.reason)


def _fallen_back(query: RouteQuery, target: str) -> RouteQuery:
    """The query that a fallback stands for: another agent with the same capability, or another capability. Raises
    `InvalidIdentifier` for a range that is none."""
    name, version = split_target(target)
    if "/" in name:
        return replace(query, agent=name, version=version, fallback=())
    return replace(query, capability=name, agent=None, version=version, fallback=())
