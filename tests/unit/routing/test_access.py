"""The access stage follows what this node offers itself, and tells who is wanted."""

from __future__ import annotations

import pytest

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.registry.access import Access
from reachp2p.core.routing.access import AccessStage, Identity
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.instance import CapabilityInfo, InstanceInfo
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.stages import STAGES
from reachp2p.core.routing.table import RoutingTable
from tests.support import seeded

OWN, OTHER = NodeId(bytes([1]) * 32), NodeId(bytes([2]) * 32)
LIFE, NEXT = Life(1, bytes(16)), Life(2, bytes(16))
QUERY = RouteQuery(capability="a")


class World:
    def __init__(self) -> None:
        identity = Identity(OWN)
        stages = (*STAGES[:-1], AccessStage(identity), STAGES[-1])
        self.table = RoutingTable(Counters(), stages=stages, identity=identity)
        self.router = Router(self.table, seeded(), Counters())
        for node in (OWN, OTHER):
            self.table.set_node(node, MemberState.ALIVE, False, "n", LIFE)

    def offer(
        self, node: NodeId, agent: str, access: Access = Access.PUBLIC, *callers: str, life: Life = LIFE
    ) -> None:
        capabilities = {"b" if node == OWN and access is Access.PUBLIC else "a": CapabilityInfo()}
        info = InstanceInfo(life=life, capabilities=capabilities, access=access, callers=tuple(callers))
        self.table.put_instance(node, agent, info)

    def code(self) -> int:
        try:
            self.router.pick(QUERY)
        except RouteFailed as failure:
            return int(failure.code)
        return 0


def test_a_private_agent_is_called_by_nodes_of_its_namespace_while_they_offer_one() -> None:
    world = World()
    world.offer(OTHER, "nlp/x", Access.PRIVATE)
    with pytest.raises(RouteFailed, match=r"no access to a: 1 known \(1 private to namespace nlp\) \[1304\]"):
        world.router.pick(QUERY)
    world.offer(OWN, "shop/cart")
    assert world.code() == 1304
    world.offer(OWN, "nlp/mine")
    assert world.code() == 0
    world.table.remove_instance(OWN, "nlp/mine")
    assert world.code() == 1304


def test_what_was_offered_in_a_former_life_gives_no_right() -> None:
    world = World()
    world.offer(OTHER, "nlp/x", Access.RESTRICTED, "shop")
    world.offer(OWN, "shop/cart")
    assert world.code() == 0
    world.table.set_node(OWN, MemberState.ALIVE, False, "n", NEXT)
    assert world.code() == 1304
    world.offer(OWN, "shop/cart", life=NEXT)
    assert world.code() == 0
    assert world.table.offered_by(OWN, NEXT) == ["shop/cart"]
    assert world.table.offered_by(OWN, LIFE) == world.table.offered_by(NodeId(bytes(32)), LIFE) == []


def test_the_reason_names_whom_a_restricted_agent_wants() -> None:
    world = World()
    world.offer(OTHER, "nlp/x", Access.RESTRICTED, "d", "c", "b", "a/y")
    with pytest.raises(RouteFailed, match=r"restricted to a/y, b, c and 1 more"):
        world.router.pick(QUERY)


def test_a_node_calls_what_it_offers_itself() -> None:
    world = World()
    world.offer(OWN, "nlp/x", Access.RESTRICTED, "shop")
    assert world.router.pick(QUERY).node == OWN


def test_an_agent_that_becomes_public_is_guarded_no_more() -> None:
    world = World()
    world.offer(OTHER, "nlp/x", Access.PRIVATE)
    assert world.code() == 1304
    world.offer(OTHER, "nlp/x")
    assert world.code() == 0
    world.offer(OTHER, "nlp/x", Access.PRIVATE)
    world.table.remove_instance(OTHER, "nlp/x")
    world.offer(OWN, "nlp/mine")
    assert world.code() == 1301


def test_views_are_compared_without_regard_to_who_may_call() -> None:
    world, other = World(), World()
    for one in (world, other):
        one.offer(OTHER, "nlp/x", Access.PRIVATE)
    world.offer(OWN, "nlp/mine")
    other.offer(OWN, "shop/cart")
    world.table.remove_instance(OWN, "nlp/mine")
    other.table.remove_instance(OWN, "shop/cart")
    assert world.code() == other.code() == 1304
    assert world.table.fingerprint() == other.table.fingerprint()
    world.offer(OWN, "nlp/mine")
    placed = world.table.fingerprint()
    world.table.remove_instance(OWN, "nlp/mine")
    assert world.table.fingerprint() == other.table.fingerprint() != placed
