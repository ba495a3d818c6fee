"""The capability table: every instance this node knows, and the pools that calls choose from, kept incrementally.

The engine feeds it what the registry holds (`put_instance`, `remove_instance`) and what membership believes
(`set_node`); it answers without a scan. It never decides on its own what is true: an instance of a dead node is kept,
out of every pool, until the registry takes it away, so that a node that comes back in the same life serves at once.

Bounds: instances and nodes are those of the registry and the member table that feed it (bounded there); cached pools
are at most `pools_max`, the least recently used is dropped first (counter `routing.pools.evicted`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

import msgspec

from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.membership.table import PRESENT
from reachp2p.core.registry.access import Access
from reachp2p.core.ring.placement import InstanceKey, fingerprint
from reachp2p.core.routing.access import Identity
from reachp2p.core.routing.groups import Group, Groups
from reachp2p.core.routing.instance import Instance, InstanceInfo
from reachp2p.core.routing.pool import NOBODY, Candidates, Pool
from reachp2p.core.routing.stages import STAGES, Selector, Stage, Verdict, judge

POOLS_MAX = 1_024
"""Selectors in use at one node: a few dozen is usual; a caller that invents tag values must not cost memory."""


_NO_AGENTS: dict[str, Instance] = {}
"""What a node has until it offers something; never written to. In a large group most offer nothing."""


class _Node(msgspec.Struct, gc=False):
    """What is believed about a node, and its agents."""

    state: MemberState | None = None
    refused: bool = False
    name: str = ""
    life: Life | None = None
    unreached: bool = False
    unsteady: bool = False
    unanswered: bool = False
    zone: str = ""
    agents: dict[str, Instance] = {}


class _Named(msgspec.Struct):
    """All instances under one name (a capability, or an agent id), in any state, and the cached pools of that name."""

    instances: dict[InstanceKey, Instance] = {}
    pools: dict[Selector, Pool] = {}


class RoutingTable:
    """Who can do what, as this node sees it now. `version` grows with every change."""

    def __init__(
        self,
        counters: Counters,
        *,
        virtual_nodes: int = 150,
        pools_max: int = POOLS_MAX,
        stages: tuple[Stage, ...] = STAGES,
        identity: Identity | None = None,
    ) -> None:
        """`identity`: who calls from here, for the access stage; it is kept true from now on."""
        self.version = 0
        self.is_isolated = False
        """Nobody answers this node: there is no last resort (`touch`)."""
        self.stages = stages
        self._common_stages = tuple(stage for stage in stages if not stage.depends_on_caller)
        self._identity = identity
        self._guarded: dict[InstanceKey, None] = {}
        """Instances that not everybody may call."""
        self._counters = counters
        self._virtual_nodes = virtual_nodes
        self._pools_max = pools_max
        self._nodes: dict[NodeId, _Node] = {}
        self._capabilities: dict[str, _Named] = {}
        self._agents: dict[str, _Named] = {}
        self._pools: OrderedDict[Selector, Pool] = OrderedDict()
        self._groups = Groups(stages, counters)
        self._fingerprint: tuple[int, str] | None = None

    # Changes

    def put_instance(self, node: NodeId, agent: str, info: InstanceInfo) -> bool:
        """An agent of a node was registered or has changed; false if it is as it was."""
        entry = self._nodes.get(node)
        if entry is None:
            entry = self._nodes[node] = _Node(agents=_NO_AGENTS)
        old = entry.agents.get(agent)
        if old is not None and old.info == info:
            return False
        key = (node, agent) if old is None else old.key
        self._replace(entry, key, old, _instance(key, entry, info))
        self._note_offered(node, entry)
        self.version += 1
        return True

    def remove_instance(self, node: NodeId, agent: str) -> bool:
        """An agent of a node was withdrawn, or its record has ended with its life; false if it was not here."""
        entry = self._nodes.get(node)
        old = entry.agents.get(agent) if entry is not None else None
        if entry is None or old is None:
            return False
        self._replace(entry, old.key, old, None)
        self._note_offered(node, entry)
        self._forget_if_empty(node, entry)
        self.version += 1
        return True

    def set_node(
        self,
        node: NodeId,
        state: MemberState | None,
        refused: bool = False,
        node_name: str = "",
        life: Life | None = None,
        zone: str = "",
    ) -> bool:
        """What membership believes about a node now (`state` None: forgotten); false if nothing is new.

        Its instances follow at once. Those registered by another life than `life` are in no pool.
        """
        entry = self._nodes.get(node)
        if entry is None:
            if state is None:
                return False
            entry = self._nodes[node] = _Node(agents=_NO_AGENTS)
        elif (entry.state, entry.refused, entry.name, entry.life, entry.zone) == (
            state,
            refused,
            node_name,
            life,
            zone,
        ):
            return False
        if life != entry.life or (state is MemberState.ALIVE and entry.state is not state):
            entry.unreached = entry.unanswered = False  # it has told news of itself since
        if life != entry.life:
            entry.unsteady = False
        entry.state, entry.refused, entry.name, entry.life, entry.zone = state, refused, node_name, life, zone
        self._rejudge(entry)
        self._note_offered(node, entry)
        self._forget_if_empty(node, entry)
        self.version += 1
        return True

    def set_unreached(self, node: NodeId, unreached: bool) -> bool:
        """Whether no link to a node opens from here; false if that is not new, or the node not known."""
        entry = self._nodes.get(node)
        if entry is None or entry.unreached is unreached:
            return False
        entry.unreached = unreached
        self._rejudge(entry)
        self.version += 1
        return True

    def set_unsteady(self, node: NodeId, unsteady: bool) -> bool:
        """Whether a node comes and goes; false if that is not new, or the node not known."""
        entry = self._nodes.get(node)
        if entry is None or entry.unsteady is unsteady:
            return False
        entry.unsteady = unsteady
        self._rejudge(entry)
        self.version += 1
        return True

    def set_unanswered(self, node: NodeId, unanswered: bool) -> bool:
        """Whether a node has not answered since this one is out of touch; false if that is not new, or it not known."""
        entry = self._nodes.get(node)
        if entry is None or entry.state is None or entry.unanswered is unanswered:
            return False
        entry.unanswered = unanswered
        self._rejudge(entry)
        self.version += 1
        return True

    def is_unanswered(self, node: NodeId) -> bool:
        """Whether a node is marked as one that has not answered."""
        entry = self._nodes.get(node)
        return entry is not None and entry.unanswered

    def unanswered(self) -> list[NodeId]:
        """The nodes that are marked so, in the order in which they came."""
        return [node for node, entry in self._nodes.items() if entry.unanswered]

    def set_isolated(self, isolated: bool) -> None:
        """Whether nobody answers this node."""
        self.is_isolated = isolated
        self.version += 1

    def present(self) -> list[NodeId]:
        """The nodes that are ALIVE or SUSPECT, this one among them, in the order in which they came."""
        return [node for node, entry in self._nodes.items() if entry.state in PRESENT]

    @property
    def nodes(self) -> int:
        """How many nodes it knows, in whatever state."""
        return len(self._nodes)

    def is_unreached(self, node: NodeId) -> bool:
        """Whether a node is marked as not reached from here."""
        entry = self._nodes.get(node)
        return entry is not None and entry.unreached

    def _rejudge(self, entry: _Node) -> None:
        for old in list(entry.agents.values()):
            self._replace(entry, old.key, old, _instance(old.key, entry, old.info))

    def reconsider(self, node: NodeId, agent: str) -> None:
        """A stage judges this instance otherwise than before: judge it again in every pool."""
        entry = self._nodes.get(node)
        instance = entry.agents.get(agent) if entry is not None else None
        if entry is not None and instance is not None:
            self._replace(entry, instance.key, instance, instance)
            self.version += 1

    def reconsider_node(self, node: NodeId) -> None:
        """The same for all agents of a node."""
        entry = self._nodes.get(node)
        for agent in list(entry.agents) if entry is not None else ():
            self.reconsider(node, agent)

    def _note_offered(self, node: NodeId, entry: _Node) -> None:
        """What this node offers itself decides which guarded instances it may call."""
        identity = self._identity
        if identity is None or node != identity.node:
            return
        offered = dict.fromkeys(name for name, i in entry.agents.items() if i.info.life == entry.life)
        if offered != identity.offered:
            identity.offered = offered
            for guarded, agent in list(self._guarded):
                self.reconsider(guarded, agent)

    def _forget_if_empty(self, node: NodeId, entry: _Node) -> None:
        if entry.state is None and not entry.agents:
            del self._nodes[node]

    def _replace(self, entry: _Node, key: InstanceKey, old: Instance | None, new: Instance | None) -> None:
        """Put `new` where `old` was, under every name that either has, and tell the pools of those names."""
        agent = key[1]
        if new is None:
            del entry.agents[agent]
        else:
            if not entry.agents:
                entry.agents = {}
            entry.agents[agent] = new
        if new is not None and new.info.access != Access.PUBLIC:
            self._guarded[key] = None
        elif old is not None and old.info.access != Access.PUBLIC:
            del self._guarded[key]
        self._rename(self._agents, agent, key, new)
        offered = new.info.capabilities if new is not None else {}
        for capability in offered:
            self._rename(self._capabilities, capability, key, new)
        for capability in old.info.capabilities if old is not None else ():
            if capability not in offered:
                self._rename(self._capabilities, capability, key, None)
        if self._groups:
            self._groups.update(key, new)

    def _rename(self, index: dict[str, _Named], name: str, key: InstanceKey, new: Instance | None) -> None:
        named = index.get(name)
        if named is None:
            named = index[name] = _Named()
        if new is None:
            del named.instances[key]
        else:
            named.instances[key] = new
        if named.instances:
            for pool in named.pools.values():
                pool.update(key, new)
        else:
            del index[name]
            for selector in named.pools:
                del self._pools[selector]

    # Questions

    def pool(self, selector: Selector) -> Pool | None:
        """The pool of a selector, cached from now on; None if nobody offers what it names."""
        pool = self._pools.get(selector)
        if pool is not None:
            if 2 * len(self._pools) > self._pools_max:  # far from the bound nobody asks who was used last
                self._pools.move_to_end(selector)
            return pool
        named = self._named(selector)
        if named is None:
            return None
        pool = Pool(selector, self.stages, self._virtual_nodes, named.instances.values())
        self._pools[selector] = named.pools[selector] = pool
        if len(self._pools) > self._pools_max:
            self._evict()
        return pool

    def group(self, selector: Selector) -> Group:
        """The group of a selector that names neither a capability nor an agent, in use from now on."""
        group = self._groups.get(selector)
        return self._groups.add(selector, self.instances()) if group is None else group

    def peek_group(self, selector: Selector) -> Group:
        """The same group for a look: nothing is put to use, evicted or renewed."""
        group = self._groups.peek(selector)
        return Group(selector, self.stages, self.instances()) if group is None else group

    def peek(self, selector: Selector) -> Pool | None:
        """The same pool for a look: nothing is cached, evicted or renewed."""
        named = self._named(selector)
        if named is None:
            return None
        cached = self._pools.get(selector)
        if cached is not None:
            return cached
        return Pool(selector, self.stages, self._virtual_nodes, named.instances.values())

    def _named(self, selector: Selector) -> _Named | None:
        if selector.capability is not None:
            return self._capabilities.get(selector.capability)
        return self._agents.get(selector.agent) if selector.agent is not None else None

    def _evict(self) -> None:
        selector, _ = self._pools.popitem(last=False)
        named = self._named(selector)
        assert named is not None, "a name without instances has no pools"
        del named.pools[selector]
        self._counters.add("routing.pools.evicted")

    def routable(self, capability: str) -> Sequence[Instance]:
        """The instances that a call of `capability` could go to now, in key order. Valid until the table changes."""
        pool = self.pool(Selector(capability, None))
        return self.candidates(pool).items if pool is not None else ()

    def candidates(self, pool: Pool, exclude: Collection[NodeId] = ()) -> Candidates:
        """Who may be asked of a pool: `Pool.candidates`, but nobody as a last resort while this node is isolated."""
        found = pool.candidates(exclude)
        return NOBODY if found.last_resort and self.is_isolated else found

    def undoubted(self, capability: str) -> Sequence[Instance]:
        """Those of `routable` that no stage avoids; if there are none, those that are only busy. Valid until the table
        changes."""
        pool = self.pool(Selector(capability, None))
        if pool is None:
            return ()
        return pool.preferred.items or pool.busy.items

    def known(self, selector: Selector) -> list[Instance]:
        """Every instance under the name of a selector, whatever its state, in key order; all if it names nobody."""
        if selector.capability is None and selector.agent is None:
            return self.instances()
        named = self._named(selector)
        return [named.instances[key] for key in sorted(named.instances)] if named is not None else []

    def instance(self, node: NodeId, agent: str) -> Instance | None:
        """One instance, whatever its state."""
        entry = self._nodes.get(node)
        return entry.agents.get(agent) if entry is not None else None

    def offered_by(self, node: NodeId, life: Life) -> list[str]:
        """The agents that a node offers in one of its lives, as far as is known here."""
        entry = self._nodes.get(node)
        if entry is None:
            return []
        return [agent for agent, instance in entry.agents.items() if instance.info.life == life]

    def instances(self) -> list[Instance]:
        """Every instance, whatever its state, in key order."""
        entries = [instance for entry in self._nodes.values() for instance in entry.agents.values()]
        return sorted(entries, key=lambda instance: instance.key)

    def capabilities(self) -> list[str]:
        """Every capability that anybody offers, whatever the state, sorted."""
        return sorted(self._capabilities)

    def agents(self) -> list[str]:
        """Every agent id, whatever the state, sorted."""
        return sorted(self._agents)

    def fingerprint(self) -> str:
        """Over all placed instances and their weights, whoever may call them: equal in two views that place alike."""
        if self._fingerprint is None or self._fingerprint[0] != self.version:
            weights = {i.key: i.info.weight_percent for i in self.instances() if self._is_placed(i)}
            self._fingerprint = (self.version, fingerprint(weights, self._virtual_nodes))
        return self._fingerprint[1]

    def _is_placed(self, instance: Instance) -> bool:
        anyone = Selector(None, instance.agent)
        return judge(self._common_stages, anyone, instance)[0] is not Verdict.REMOVE

    def sizes(self) -> dict[str, int]:
        """Gauges of every table here, by name, for diagnostics."""
        return {
            "routing.nodes": len(self._nodes),
            "routing.instances": sum(len(entry.agents) for entry in self._nodes.values()),
            "routing.capabilities": len(self._capabilities),
            "routing.pools": len(self._pools),
            "routing.groups": len(self._groups),
        }


def _instance(key: InstanceKey, entry: _Node, info: InstanceInfo) -> Instance:
    return Instance(
        key=key,
        node_name=entry.name,
        state=entry.state,
        refused=entry.refused,
        node_life=entry.life,
        info=info,
        unreached=entry.unreached,
        unsteady=entry.unsteady,
        unanswered=entry.unanswered,
        zone=entry.zone,
    )
