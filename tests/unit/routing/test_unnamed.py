"""Calls that name nobody: their tags mean the one capability that is offered with them, or they are refused."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from reachp2p.core.commands import IN_FLIGHT_MAX, RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.registry.access import Access
from reachp2p.core.routing.access import AccessStage, Identity
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.groups import GROUPS_MAX
from reachp2p.core.routing.instance import CapabilityInfo, InstanceInfo
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.rules import Layer, Match, Rule, RuleSet, RulesInForce
from reachp2p.core.routing.stages import STAGES, Selector
from reachp2p.core.routing.table import RoutingTable

BLUE = {"team": "blue"}


def meant(desk: Any, tags: dict[str, str] = BLUE, **rest: Any) -> str | None:
    capability: str | None = desk.router.named(desk.query(None, tags=tags, **rest)).capability
    return capability


def refused(desk: Any, tags: dict[str, str] = BLUE, **rest: Any) -> tuple[int, str]:
    query = desk.router.named(desk.query(None, tags=tags, **rest))
    with pytest.raises(RouteFailed) as caught:
        desk.router.pick(query)
    return int(caught.value.code), caught.value.reason


def test_tags_mean_the_one_capability_that_is_offered_with_them(desk: Any) -> None:
    desk.offer(1, "a/one", tags=BLUE)
    desk.offer(2, "b/two", tags=BLUE | {"env": "prod"})
    desk.offer(3, "c/three", "text.check", tags={"team": "red"})
    query = desk.router.named(desk.query(None, tags=BLUE))
    assert query == RouteQuery(capability="text.summarize", tags=BLUE)
    assert {desk.router.pick(query).agent for _ in range(40)} == {"a/one", "b/two"}


def test_a_tie_is_refused_with_the_names(desk: Any) -> None:
    desk.offer(1, "a/one", "text.check", tags=BLUE)
    desk.offer(2, "b/two", "text.summarize", tags=BLUE)
    desk.offer(3, "b/two", "text.summarize", tags=BLUE)
    assert refused(desk) == (
        1302,
        "anything with team=blue may be one of 2 capabilities, name one: text.summarize (2 instances), "
        "text.check (1 instance)",
    )
    desk.offer(4, "c/many", *(f"c.{letter}" for letter in "abcdefghijk"), tags=BLUE)
    assert refused(desk)[1].endswith("c.i (1 instance) and 3 more")


def test_doubts_decide_no_tie_but_death_and_access_do(desk: Any) -> None:
    desk.offer(1, "a/one", "text.check", tags=BLUE)
    desk.offer(2, "b/two", tags=BLUE)
    for doubt in (MemberState.SUSPECT, MemberState.ALIVE):
        desk.believe(1, doubt, refused=True)
        assert refused(desk)[0] == 1302
    desk.believe(1, MemberState.DEAD)
    assert meant(desk) == "text.summarize"
    desk.believe(1, MemberState.ALIVE)
    assert refused(desk)[0] == 1302
    desk.table.remove_instance(desk.node(1), "a/one")
    assert meant(desk) == "text.summarize"


def test_what_this_node_may_not_call_is_not_meant() -> None:
    identity, counters = Identity(NodeId(bytes(32))), Counters()
    stages = (*STAGES[:-1], AccessStage(identity), STAGES[-1])
    table = RoutingTable(counters, stages=stages, identity=identity)
    router = Router(table, Random(1), counters)
    life = Life(1, bytes(16))
    own = NodeId(bytes(32))
    for number, access in ((1, Access.PUBLIC), (2, Access.PRIVATE)):
        node = NodeId(bytes([number]) * 32)
        table.set_node(node, MemberState.ALIVE, False, "n", life)
        offered = {f"c.n{number}": CapabilityInfo()}
        info = InstanceInfo(life=life, capabilities=offered, tags=BLUE, access=access)
        table.put_instance(node, f"team{number}/a", info)
    query = RouteQuery(tags=BLUE)
    assert router.named(query).capability == "c.n1"
    table.set_node(own, MemberState.ALIVE, False, "own", life)
    table.put_instance(own, "team2/b", InstanceInfo(life=life))  # now of the namespace that may
    assert router.named(query) is query
    with pytest.raises(RouteFailed, match=r"one of 2 capabilities, .* \[1302\]"):
        router.pick(query)


def test_a_range_of_versions_narrows_what_tags_mean(desk: Any) -> None:
    desk.offer(1, "a/one", "text.check", tags=BLUE, version="2.0.0")
    desk.offer(2, "b/two", tags=BLUE)
    assert (meant(desk, version="^1"), meant(desk, version="^2")) == ("text.summarize", "text.check")
    assert refused(desk, version="^3") == (
        1306, "no such version of anything@^3 with team=blue: 2 known (1 version 1.2.0, 1 version 2.0.0)"
    )  # fmt: skip
    assert refused(desk, version="newest")[0] == 1707


def test_nobody_with_the_tags_is_said_as_for_a_name(desk: Any) -> None:
    assert refused(desk) == (1301, "nobody is known to offer anything")
    desk.offer(1)
    desk.offer(2, tags=BLUE, state=MemberState.DEAD)
    assert refused(desk) == (
        1303, "no healthy instance of anything with team=blue: 2 known (1 DEAD, 1 without tag team)"
    )  # fmt: skip


def test_a_fallback_serves_when_nobody_has_the_tags_but_decides_no_tie(desk: Any) -> None:
    desk.offer(1)
    query = desk.router.named(desk.query(None, tags=BLUE, fallback=("text.summarize",)))
    assert query.capability is None
    with pytest.raises(RouteFailed, match=r"nor can any fallback be asked .* \[1303\]"):
        desk.router.pick(query)  # the tags are asked of it, too
    desk.offer(2, "a/one", "text.check", tags=BLUE)
    desk.offer(3, "b/two", tags=BLUE)
    assert refused(desk, fallback=("text.check",))[0] == 1302


def test_groups_are_bounded_and_made_again(desk: Any) -> None:
    desk.offer(1, tags=BLUE)
    for number in range(GROUPS_MAX + 3):
        assert meant(desk, {"env": str(number)}) is None
    assert desk.table.sizes()["routing.groups"] == GROUPS_MAX
    assert desk.counters.value("routing.groups.evicted") == 3
    assert meant(desk) == "text.summarize"


def test_a_group_that_is_in_use_follows_the_table_without_a_scan(desk: Any) -> None:
    desk.offer(1, tags=BLUE)
    group = desk.table.group(Selector(None, None, (("team", "blue"),)))
    revision = group.revision
    desk.believe(1, MemberState.SUSPECT)
    desk.offer(2, tags=BLUE)
    assert desk.table.group(group.selector) is group
    assert (len(group), group.revision) == (2, revision)  # nothing else is offered than before
    desk.offer(2, "a/one", "text.check", tags=BLUE)
    assert (sorted(group.calls), group.revision) == (["text.check", "text.summarize"], revision + 1)


def test_rules_leave_alone_what_they_do_not_set() -> None:
    rules = RulesInForce(Counters())
    rule = Rule(match=Match(capability="a.b"), policy="round_robin")
    rules.set((Layer("rules.toml", RuleSet((rule,))),))
    for query in (
        RouteQuery(capability="a.b", in_flight_max=IN_FLIGHT_MAX + 1),
        RouteQuery(capability="a.b"),
        RouteQuery(capability="a.b", streams=True),
    ):
        settled, _ = rules.settle(query, None, None)
        assert settled.policy == "round_robin"
        assert (settled.in_flight_max, settled.streams) == (query.in_flight_max, query.streams)
