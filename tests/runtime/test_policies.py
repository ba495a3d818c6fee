"""Policies that packages bring: found by name, loaded when asked for, and refused in words."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import EntryPoint
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId, Rng
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.instance import CapabilityInfo, Instance, InstanceInfo
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.policy import Choice, Policy
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.table import RoutingTable
from reachp2p.errors import ConfigurationInvalid
from reachp2p.runtime.policies import GROUP, Policies


class First(Policy):
    """The first in key order."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng

    def choose(self, choice: Choice) -> Instance:
        return choice.candidates.items[0]


def broken(rng: Rng) -> Policy:
    raise ZeroDivisionError("no luck")


def no_policy(rng: Rng) -> object:
    return SimpleNamespace(choose=len)


class Clumsy(First):
    """Does everything wrong, one thing at a time."""

    fault = ""

    def __getattribute__(self, name: str) -> Any:
        if name == Clumsy.fault:
            return lambda *arguments: 1 / 0
        return super().__getattribute__(name)


class Foreign(First):
    """Chooses what it has made itself, and accounts for nobody."""

    def choose(self, choice: Choice) -> Instance:
        return replace(choice.candidates.items[0], node_name="mine")


def brought(monkeypatch: pytest.MonkeyPatch, **values: str) -> Policies:
    points = [EntryPoint(name.partition("__")[0], value, GROUP) for name, value in values.items()]
    asked: list[str] = []

    def find(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return points

    monkeypatch.setattr(metadata, "entry_points", find)
    found = Policies()
    assert found["random"] is BUILT_IN["random"]
    assert asked == [], "nothing is looked for before somebody asks"
    return found


def table() -> RoutingTable:
    """Two instances."""
    made = RoutingTable(Counters())
    for number in (1, 2):
        node, life = NodeId(bytes([number]) * 32), Life(1, bytes(16))
        made.set_node(node, MemberState.ALIVE, False, f"n{number}", life)
        made.put_instance(node, "x/y", InstanceInfo(life=life, capabilities={"a": CapabilityInfo()}))
    return made


def test_a_policy_of_a_package_is_picked_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = brought(monkeypatch, first=f"{__name__}:First", ruin="no_such_module:X")
    monkeypatch.setattr(EntryPoint, "load", lambda point: globals()[point.value.partition(":")[2]])
    assert set(found) == {*BUILT_IN, "first", "ruin"}
    assert len(found) == len(BUILT_IN) + 2
    router = Router(table(), Random(1), Counters(), found)
    assert router.pick(RouteQuery(capability="a", policy="first")).key == table().instances()[0].key
    assert found.get("other") is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module_at_all:X", "cannot be made: ModuleNotFoundError"),
        ("math:no_such_thing", "cannot be made: AttributeError"),
        ("math:pi", "cannot be made: TypeError"),
        ("builtins:list", "cannot be made: TypeError|lacks"),
        ("builtins:str", "lacks missing, choose, on_picked, on_started, on_ended, account: let it inherit"),
    ],
)
def test_what_cannot_be_used_is_a_1704_that_names_it(
    monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    found = brought(monkeypatch, bad=value)
    with pytest.raises(ConfigurationInvalid, match=rf"policy 'bad' \({value}\) ({said}).* \[1704\]"):
        found["bad"](Random(1))
    router = Router(RoutingTable(Counters()), Random(1), Counters(), found)
    with pytest.raises(RouteFailed, match=r"policy 'bad'.*\[1704\]"):
        router.pick(RouteQuery(capability="a", policy="bad"))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"random": "x:Y"}, r"policy 'random' \(x:Y\): the name is built in"),
        ({"one": "x:Y", "one__too": "x:Z"}, r"policy 'one' comes from two packages: x:Y and x:Z"),
    ],
)
def test_names_mean_one_thing(monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], said: str) -> None:
    found = brought(monkeypatch, **values)
    with pytest.raises(ConfigurationInvalid, match=said):
        list(found)
    router = Router(RoutingTable(Counters()), Random(1), Counters(), found)
    with pytest.raises(RouteFailed, match=rf"{said}.*\[1704\]"):
        router.pick(RouteQuery(capability="a", policy="one"))


@pytest.mark.parametrize("fault", ["missing", "choose", "account", "on_picked", "on_started", "on_ended"])
def test_the_mistakes_of_a_policy_are_never_the_nodes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    found = brought(monkeypatch, clumsy=f"{__name__}:Clumsy")
    monkeypatch.setattr(EntryPoint, "load", lambda point: Clumsy)
    router = Router(table(), Random(1), Counters(), found)
    query = RouteQuery(capability="a", policy="clumsy")
    router.pick(query)
    monkeypatch.setattr(Clumsy, "fault", fault)
    told = explain(router, query)
    if fault in ("missing", "choose"):
        said = rf"policy 'clumsy' \(.*Clumsy\): {fault} has failed: ZeroDivisionError"
        with pytest.raises(RouteFailed, match=said):
            router.route(query)
        assert told.code == 1704
        return
    for _ in range(3):
        pick = router.route(query)
        router.start(pick, 0.0)
        router.end(pick, 0, 1.0)
    assert ("account has failed: ZeroDivisionError" in told.reason) is (fault == "account")
    assert len(caplog.records) == (fault != "account"), "it is told once"


def test_what_is_no_candidate_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = brought(monkeypatch, foreign=f"{__name__}:Foreign")
    monkeypatch.setattr(EntryPoint, "load", lambda point: Foreign)
    router = Router(table(), Random(1), Counters(), found)
    with pytest.raises(RouteFailed, match=r"policy 'foreign'.*chose what is no candidate \[1704\]"):
        router.pick(RouteQuery(capability="a", policy="foreign"))
