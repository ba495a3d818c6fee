"""The table, kept by increments, against a model that scans everything each time (Hypothesis drives both)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reachp2p.core.commands import RouteQuery, StreamKind
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.ring.placement import InstanceKey, fingerprint, instance_tokens, key_position, token_count
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.instance import CapabilityInfo, InstanceInfo
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.stages import Selector
from reachp2p.core.routing.table import RoutingTable

V = 5
POOLS_MAX = 4
LIVES = (Life(1, bytes(16)), Life(2, bytes(16)))
NODES = tuple(NodeId(bytes([number]) * 32) for number in range(5))
AGENTS = ("x/a", "x/b")
CAPABILITIES = ("p", "q")
TAGS = ({}, {"env": "prod"}, {"env": "test", "zone": "a"})
SELECTORS = tuple(
    Selector(capability, agent, tuple(sorted(tags.items())))
    for capability in (*CAPABILITIES, None)
    for agent in (*AGENTS, None)
    for tags in TAGS
    if capability or agent
)

nodes = st.sampled_from(NODES)
agents = st.sampled_from(AGENTS)
selectors = st.sampled_from(SELECTORS)
infos = st.builds(
    InstanceInfo,
    life=st.sampled_from(LIVES),
    capabilities=st.dictionaries(
        st.sampled_from(CAPABILITIES),
        st.sampled_from(
            [
                CapabilityInfo(),
                CapabilityInfo(parameters=b"1"),
                CapabilityInfo(stream=StreamKind.RESULTS, parameters=b"2"),
            ]
        ),
    ),
    tags=st.sampled_from(TAGS),
    weight_percent=st.sampled_from([10, 100, 300]),
)


class Belief:
    def __init__(self, state: MemberState | None, refused: bool, life: Life) -> None:
        self.state, self.refused, self.life = state, refused, life

    def places(self, info: InstanceInfo) -> bool:
        return self.state in (MemberState.ALIVE, MemberState.SUSPECT) and info.life == self.life

    def prefers(self, info: InstanceInfo) -> bool:
        return self.places(info) and self.state is MemberState.ALIVE and not self.refused


class RoutingMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.counters = Counters()
        self.table = RoutingTable(self.counters, virtual_nodes=V, pools_max=POOLS_MAX)
        self.router = Router(self.table, Random(seed), self.counters)
        self.twin = Router(self.table, Random(seed), Counters())
        self.infos: dict[InstanceKey, InstanceInfo] = {}
        self.beliefs: dict[NodeId, Belief] = {}

    # What the engine does

    @rule(node=nodes, agent=agents, info=infos)
    def put(self, node: NodeId, agent: str, info: InstanceInfo) -> None:
        version = self.table.version
        changed = self.infos.get((node, agent)) != info
        assert self.table.put_instance(node, agent, info) is changed
        assert self.table.version == version + changed
        self.infos[node, agent] = info

    @rule(node=nodes, agent=agents)
    def remove(self, node: NodeId, agent: str) -> None:
        version = self.table.version
        changed = self.infos.pop((node, agent), None) is not None
        assert self.table.remove_instance(node, agent) is changed
        assert self.table.version == version + changed

    @rule(
        node=nodes,
        state=st.sampled_from([*MemberState, None]),
        refused=st.booleans(),
        life=st.sampled_from(LIVES),
    )
    def believe(self, node: NodeId, state: MemberState | None, refused: bool, life: Life) -> None:
        self.table.set_node(node, state, refused, "name", life)
        self.beliefs[node] = Belief(state, refused, life)

    # The model: a scan

    def matching(self, selector: Selector) -> list[InstanceKey]:
        return [
            key
            for key, info in sorted(self.infos.items(), key=lambda item: item[0])
            if (selector.capability is None or selector.capability in info.capabilities)
            and (selector.agent is None or selector.agent == key[1])
            and all(info.tags.get(tag) == value for tag, value in selector.tags)
        ]

    def placed(self, selector: Selector) -> list[InstanceKey]:
        beliefs, infos = self.beliefs, self.infos
        return [k for k in self.matching(selector) if k[0] in beliefs and beliefs[k[0]].places(infos[k])]

    def candidates(self, selector: Selector, exclude: set[NodeId]) -> list[InstanceKey]:
        placed = [key for key in self.placed(selector) if key[0] not in exclude]
        preferred = [key for key in placed if self.beliefs[key[0]].prefers(self.infos[key])]
        return preferred or placed

    def preference(self, selector: Selector, key: str) -> list[InstanceKey]:
        at = key_position(key)
        circle = [
            ((token - at) % 2**64, instance)
            for instance in self.placed(selector)
            for token in instance_tokens(instance, token_count(V, self.infos[instance].weight_percent))
        ]
        return list(dict.fromkeys(instance for _, instance in sorted(circle)))

    # What a caller does

    @rule(
        selector=selectors,
        policy=st.sampled_from(["random", "round_robin", "consistent_hash"]),
        key=st.text(max_size=3),
        exclude=st.sets(nodes, max_size=2),
    )
    def pick(self, selector: Selector, policy: str, key: str, exclude: set[NodeId]) -> None:
        query = RouteQuery(
            capability=selector.capability,
            agent=selector.agent,
            tags=dict(selector.tags),
            policy=policy,
            key=key,
        )
        told = explain(self.router, query, exclude)
        expected = self.candidates(selector, exclude)
        if not expected:
            with pytest.raises(RouteFailed) as caught:
                self.router.pick(query, exclude)
            assert int(caught.value.code) == told.code
            by_name = Selector(selector.capability, selector.agent)
            assert told.code == (1303 if self.matching(by_name) else 1301)
            return
        picked = self.router.pick(query, exclude)
        assert picked.key in expected
        assert (told.picked, told.picked_agent) == picked.key
        assert (picked.info, picked.state) == (self.infos[picked.key], self.beliefs[picked.node].state)
        assert [(c.node, c.agent) for c in told.candidates if c.share is not None] == expected
        assert [(c.node, c.agent) for c in told.candidates if c.removed_by is None] == expected
        if policy == "consistent_hash":
            assert picked.key == next(k for k in self.preference(selector, key) if k in expected)
        else:
            assert self.twin.pick(query, exclude).key in expected

    @rule(selector=selectors)
    def look(self, selector: Selector) -> None:
        pool = self.table.pool(selector)
        weights = {key: self.infos[key].weight_percent for key in self.placed(selector)}
        if pool is None:
            assert not self.matching(
                Selector(selector.capability, selector.agent if not selector.capability else None)
            )
            return
        assert pool.placed.keys == list(weights)
        assert pool.fingerprint() == fingerprint(weights, V)
        assert pool.ring().weights == weights

    @invariant()
    def pools_are_those_of_a_scan(self) -> None:
        for capability in CAPABILITIES:
            expected = self.candidates(Selector(capability, None), set())
            assert [instance.key for instance in self.table.routable(capability)] == expected
        for selector, pool in self.table._pools.items():
            assert pool.placed.keys == self.placed(selector)
            assert pool.candidates().keys == self.candidates(selector, set())
            assert [i.key for i in pool.placed.items] == pool.placed.keys
            assert [i.info for i in pool.placed.items] == [self.infos[key] for key in pool.placed.keys]

    @rule(tags=st.sampled_from([*TAGS, {"env": "prod", "zone": "a"}]), streams=st.booleans())
    def call_by_tags(self, tags: dict[str, str], streams: bool) -> None:
        query = RouteQuery(tags=tags, streams=streams)
        found = self.table.group(Selector.of(query)).offers(streams=streams)
        assert found == self.offered(tags, streams)
        named = self.router.named(query)
        if tags and len(found) == 1:
            assert self.matching(Selector(named.capability, None, tuple(sorted(tags.items()))))
            assert named == RouteQuery(capability=next(iter(found)), tags=tags, streams=streams)
            return
        assert named is query
        with pytest.raises(RouteFailed) as caught:
            self.router.pick(query)
        told = explain(self.router, query)
        assert (told.code, told.picked) == (int(caught.value.code), None)
        if found or not tags:
            assert told.code == 1302
            assert all(f"{name} (" in told.reason for name in found) or not tags

    def offered(self, tags: dict[str, str], streams: bool) -> dict[str, dict[bytes | None, int]]:
        offered: dict[str, dict[bytes | None, int]] = {}
        for key in self.placed(Selector(None, None, tuple(sorted(tags.items())))):
            for name, info in self.infos[key].capabilities.items():
                if bool(info.stream) is streams:
                    counts = offered.setdefault(name, {})
                    counts[info.parameters] = counts.get(info.parameters, 0) + 1
        return offered

    @invariant()
    def groups_are_those_of_a_scan(self) -> None:
        for selector, group in self.table._groups._held.items():
            tags = dict(selector.tags)
            assert (group.calls, group.streams) == (self.offered(tags, False), self.offered(tags, True))
            assert len(group) == len(self.placed(selector))

    @invariant()
    def tables_hold_what_was_put_and_no_more(self) -> None:
        sizes = self.table.sizes()
        assert [instance.key for instance in self.table.instances()] == sorted(self.infos)
        assert sizes["routing.instances"] == len(self.infos)
        assert sizes["routing.pools"] <= POOLS_MAX
        assert self.table.capabilities() == sorted(
            {c for info in self.infos.values() for c in info.capabilities}
        )
        assert self.table.agents() == sorted({agent for _, agent in self.infos})
        known = {node for node, _ in self.infos} | {n for n, b in self.beliefs.items() if b.state is not None}
        assert sizes["routing.nodes"] == len(known)


RoutingMachine.TestCase.settings = settings(stateful_step_count=40)
TestRouting = RoutingMachine.TestCase
