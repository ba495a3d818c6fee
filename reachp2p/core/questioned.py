"""What an engine answers at any time. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from reachp2p.core.calls.hop_store import HopStore
from reachp2p.core.calls.tasks import TaskView
from reachp2p.core.commands import RouteQuery
from reachp2p.core.frame import Frame
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.membership.life import Phase
from reachp2p.core.ring.placement import InstanceKey
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.groups import Group
from reachp2p.core.routing.rules import RuleSet
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.versions import parse_range
from reachp2p.core.views import AgentView, BulkheadView, Explanation, MemberView, RulesView
from reachp2p.core.wire.messages import DigestEntry


class Questioned(Frame):
    """The questions to an engine."""

    @property
    def node(self) -> NodeId:
        """This node's id."""
        return self._parts.own.node

    @property
    def life(self) -> Life | None:
        """This node's life, or None before it is on disk."""
        return self._parts.life.life

    @property
    def phase(self) -> Phase:
        """Where in its life cycle the node is."""
        return self._parts.life.phase

    def head(self) -> bytes | None:
        """This node's signed head as it tells others, or None while it tells nobody."""
        return self._hearing.head_data(self._parts.own.node, self._now)

    def members(self) -> list[MemberView]:
        """All members in NodeId order, this node included."""
        return self._questions.members(self._now)

    def agents(self) -> list[AgentView]:
        """All instances, by agent id and NodeId."""
        return self._questions.agents(self._now)

    def explain(self, query: RouteQuery) -> Explanation:
        """Why a call with this query would go where it would go; changes nothing."""
        return self._questions.explain(query, self._now)

    def what_if(self, query: RouteQuery, keys: Iterable[str]) -> dict[InstanceKey | None, int]:
        """How many of these keys (100,000 at most) would go to each instance, None standing for nobody; changes
        nothing."""
        return self._questions.what_if(query, keys, self._now)

    def routable(self, capability: str) -> list[NodeId]:
        """Nodes whose instances a call of `capability` would be offered now, in NodeId order."""
        return self._questions.routable(capability)

    def rules(self) -> RulesView:
        """The rules that this node goes by, and those that were applied to the cluster before."""
        view = self._parts.rules.view()
        unmet = [self._parts.rules.lacking(spec) for spec in self._parts.agents.specs.values()]
        return msgspec.structs.replace(view, unmet=tuple(words for words in unmet if words))

    def rule_set(self, version: int | None) -> RuleSet:
        """The cluster's rules of a version, or those in force (None). Raises `ConfigurationInvalid` (1704)."""
        return self._parts.rules.rule_set(version)

    def check_rules(self, document: object, origin: str) -> RuleSet:
        """The rules that these plain values say, if this node could go by them. Raises `RulesInvalid` (1704)."""
        return self._parts.rules.read(document, origin)

    def owners(
        self, capability: str, keys: Sequence[str]
    ) -> tuple[dict[InstanceKey, int], list[InstanceKey | None]]:
        """The instances of a capability that are placed, with their weights in percent, and the owner of each key."""
        return self._questions.owners(capability, keys)

    @property
    def routing_version(self) -> int:
        """Grows with every change of the routing table: while it stands still, so does `routable`."""
        return self._parts.routing.version

    def is_callable(self, capability: str) -> bool:
        """Whether a call of `capability` would go to an instance that nobody doubts, as far as this node can know.

        Before its first exchange of views a newcomer may have been told of instances and not of their deaths; until
        then only this node itself and those it is linked with count.
        """
        return self._questions.is_callable(capability, has_synced=self._push_pull.has_synced)

    def why_not_callable(self, capability: str) -> RouteFailed:
        """Why `is_callable` is false: 1301 or 1303 with how many instances are known, in which states."""
        return self._questions.why_not_callable(capability, has_synced=self._push_pull.has_synced)

    def owner(self, agent: str) -> NodeId | None:
        """Which node owns an exclusive agent, as this one sees it; None if nobody does, or it is not exclusive."""
        return self._parts.claims.owner(agent)

    def is_probing(self, node: NodeId) -> bool:
        """Whether a probe of this member of our own is under way."""
        return self._parts.prober.is_probing(node)

    @property
    def hops(self) -> HopStore:
        """What this node has recorded of its calls."""
        return self._parts.hops

    def schema(self, digest: bytes) -> bytes | None:
        """A JSON Schema by its hash, if it is here."""
        return self._parts.schemas.get(digest)

    @property
    def schemas_learned(self) -> int:
        """Grows whenever `schema` finds more, or others, than before."""
        return self._parts.schemas.learned

    def named(self, query: RouteQuery) -> RouteQuery:
        """The query with the capability that its tags mean, if it names nobody itself and they mean one."""
        return self._parts.router.named(query)

    def group(self, query: RouteQuery) -> Group:
        """What the instances offer that fit a query which names nobody. Raises `InvalidIdentifier` (1707) for a range
        of versions that is none."""
        if query.version is not None:
            parse_range(query.version)
        return self._parts.routing.group(Selector.of(query))

    def view_hash(self) -> bytes:
        """Hash over all signed facts held and all DEAD verdicts: equal views, equal hash."""
        return self._parts.replica.digest_hash(self._now)

    def digest(self) -> list[DigestEntry]:
        """What that hash is over, in NodeId order: the numbers of each node whose head is still valid."""
        return self._parts.replica.digest(self._now)

    def diagnostics(self) -> dict[str, int]:
        """Counters by name (`dropped.<what>.<reason>`, `datagrams.sent`, …) and sizes (`size.<what>`) of all tables."""
        return self._questions.diagnostics()

    def task(self, task: bytes) -> TaskView | None:
        """A task by the id of its call, or None if it is unknown, or has ended long ago."""
        return self._parts.caller.tasks.get(task)

    def tasks(self) -> list[TaskView]:
        """All tasks that are known: those that run, then those that have ended."""
        return self._parts.caller.tasks.all()

    def bulkheads(self) -> list[BulkheadView]:
        """How full each capability that is offered here is, in the order in which they were declared."""
        return self._parts.callee.bulkheads()
