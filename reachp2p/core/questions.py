"""What a node answers about itself: views, explanations, counters. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import MemberState
from reachp2p.core.ids import SUBSCRIPTIONS, NodeId
from reachp2p.core.membership.life import Phase
from reachp2p.core.membership.member import Member
from reachp2p.core.parts import Parts
from reachp2p.core.registry.record import view_of
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.explain import explain, what_if
from reachp2p.core.routing.failure import RouteFailed, no_candidate
from reachp2p.core.routing.load_report import agent_hash
from reachp2p.core.routing.rule_text import decisions
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.troubles import Troubles
from reachp2p.core.routing.unnamed import how_named, named
from reachp2p.core.views import AgentView, Explanation, MemberView

NO_TROUBLES = Troubles()


def ailing(view: AgentView, troubles: Troubles, told_at: float | None) -> AgentView:
    """The view of an agent with what ails it; `told_at` is None if its node has told nothing."""
    if told_at is None:
        return view
    its = troubles.of(agent_hash(view.agent))
    return msgspec.structs.replace(view, failed=its.failed, stopped=its.stopped, told_at=told_at)


class Questions:
    """Answers from one engine's parts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def own_state(self) -> tuple[MemberState, bool]:
        """What routing is told about this node: (state, refused)."""
        phase = self._parts.life.phase
        if phase in (Phase.LEFT, Phase.REFUSED, Phase.FENCED):
            return MemberState.LEFT, False
        return MemberState.ALIVE, phase in (Phase.PAUSED, Phase.FENCING)

    def members(self, now: float) -> list[MemberView]:
        """All members in NodeId order, this node included once its life is open."""
        views = [self._view(member) for member in self._parts.table]
        own = self._own_view(now)
        if own is not None:
            views.append(own)
            views.sort(key=lambda view: view.node)
        return views

    def _view(self, member: Member) -> MemberView:
        fact = member.head.fact
        troubles, told_at = self._told(member)
        return MemberView(
            node=member.node,
            name=fact.name,
            is_self=False,
            state=member.state,
            life=member.life,
            incarnation=member.incarnation,
            version=fact.version,
            complete=self._parts.store.complete(member.node),
            addresses=member.addresses,
            zone=fact.zone,
            state_since=member.since,
            rtt=member.rtt,
            linked=self._parts.links.link_to(member.node) is not None,
            refused=member.refused,
            late=troubles.late,
            overdue=troubles.overdue,
            told_at=told_at,
        )

    def _told(self, member: Member) -> tuple[Troubles, float | None]:
        """What ails a member, as it has told in its present life, and when it did."""
        load = self._parts.loads.entries.get(member.node)
        if load is None or load.life != member.life:
            return NO_TROUBLES, None
        return load.report.troubles or NO_TROUBLES, load.heard_at

    def _own_view(self, now: float) -> MemberView | None:
        own = self._parts.own
        if own.life is None:
            return None
        troubles = self._parts.own_load.troubles(now) or NO_TROUBLES
        return MemberView(
            node=own.node,
            name=own.name,
            is_self=True,
            state=self.own_state()[0],
            life=own.life,
            incarnation=own.incarnation,
            version=own.version,
            complete=own.version,
            addresses=own.addresses,
            zone=self._parts.settings.zone,
            state_since=own.since,
            rtt=None,
            linked=False,
            refused=False,
            late=troubles.late,
            overdue=troubles.overdue,
            told_at=now,
        )

    def agents(self, now: float) -> list[AgentView]:
        """All instances, by agent id and NodeId."""
        parts = self._parts
        views: list[AgentView] = []
        for member in parts.table:
            name = member.head.fact.name
            troubles, told_at = self._told(member)
            views += [
                ailing(view_of(r.fact, name, member.state), troubles, told_at)
                for r in parts.store.records(member.node)
                if not r.fact.withdrawn and r.fact.agent != SUBSCRIPTIONS
            ]
        if parts.own.life is not None:
            state = self.own_state()[0]
            own = parts.store.records(parts.own.node)
            troubles = parts.own_load.troubles(now) or NO_TROUBLES
            views += [
                ailing(view_of(r.fact, parts.own.name, state), troubles, now)
                for r in own
                if not r.fact.withdrawn and r.fact.agent != SUBSCRIPTIONS
            ]
        return sorted(views, key=lambda view: (view.agent, view.node))

    def explain(self, query: RouteQuery, now: float) -> Explanation:
        """Why a call with this query would go where it would go."""
        asked, query = query, named(query, self._parts.routing.peek_group)
        settled, ruling = self._parts.rules.in_force.settle(query, None, None)
        explanation = explain(self._parts.router, settled, now=now)
        if query is not asked:
            words = how_named(self._parts.routing.peek_group(Selector.of(asked)), query)
            explanation = msgspec.structs.replace(explanation, named=words)
        decided = decisions(query, settled, ruling)
        return msgspec.structs.replace(explanation, rules=decided) if decided else explanation

    def what_if(self, query: RouteQuery, keys: Iterable[str], now: float) -> dict[InstanceKey | None, int]:
        """How many of these keys would go to each instance; None stands for nobody."""
        keyed = msgspec.structs.replace(named(query, self._parts.routing.peek_group), key="")
        settled, _ = self._parts.rules.in_force.settle(keyed, None, None)
        return what_if(self._parts.router, settled, keys, now)

    def routable(self, capability: str) -> list[NodeId]:
        """Nodes whose instances a call of `capability` would be offered, in NodeId order."""
        return sorted({instance.node for instance in self._parts.routing.routable(capability)})

    def owners(
        self, capability: str, keys: Sequence[str]
    ) -> tuple[dict[InstanceKey, int], list[InstanceKey | None]]:
        """The placed instances of a capability with their weights, and the owner of each key; caches no pool."""
        pool = self._parts.routing.peek(Selector(capability, None))
        if pool is None:
            return {}, [None] * len(keys)
        ring = pool.ring()
        return dict(ring.weights), [ring.owner(key) for key in keys]

    def is_callable(self, capability: str, *, has_synced: bool) -> bool:
        """Whether a call of `capability` would go to an instance that nobody doubts, as far as this node can know."""
        instances = self._parts.routing.undoubted(capability)
        if has_synced or not instances:
            return bool(instances)
        own, links = self._parts.own.node, self._parts.links
        return all(i.node == own or links.link_to(i.node) is not None for i in instances)

    def why_not_callable(self, capability: str, *, has_synced: bool) -> RouteFailed:
        """Words for `is_callable` being false."""
        failure = no_candidate(self._parts.routing, Selector(capability, None), doubted=True)
        if has_synced:
            return failure
        return RouteFailed(
            failure.code, f"{failure.reason}; this node has not yet compared its view with anybody"
        )

    def diagnostics(self) -> dict[str, int]:
        """All counters, and the sizes of all tables."""
        parts = self._parts
        sizes = {
            "size.members": len(parts.table),
            "size.records": len(parts.store),
            "size.broadcast_queue": len(parts.queue),
            "size.suspicions": len(parts.detector),
            "size.exchanges": len(parts.sync),
            "size.timers": len(parts.timers),
            "size.address_book": len(parts.contacts),
            "size.pending_calls": parts.caller.pending,
            "size.tasks": len(parts.caller.tasks),
            "size.task_result_bytes": parts.caller.tasks.result_bytes,
            "size.calls.cancels_waiting": len(parts.caller.waiting_cancels),
            "size.facts_cached": len(parts.checker),
            "health": parts.health.value,
        }
        gauges = {
            **parts.links.gauges(),
            **parts.callee.gauges(),
            **parts.hops.gauges(),
            **parts.rule_spreading.gauges(),
            **parts.streams.gauges(),
            "hops.askers": len(parts.hop_answers),
            "hops.gatherings": len(parts.gatherings),
            **parts.fetches.gauges(),
            "probe.rounds": len(parts.prober),
            "probe.relays": len(parts.relays),
            "routing.touch_marks": len(parts.touch),
            "routing.traffic": len(parts.measures.traffic),
            "routing.loads": len(parts.loads),
            "coordinates.places": len(parts.places),
            **parts.routing.sizes(),
            **parts.claims.sizes(),
            **parts.publisher.gauges(),
            **parts.subscriber.gauges(),
        }
        return {
            **parts.counters.snapshot(),
            **parts.hops.counts(),
            **{f"size.{name}": n for name, n in gauges.items()},
            **sizes,
        }
