"""The stages one by one, the list as a whole, and a further stage in the list."""

from __future__ import annotations

from typing import Any

import pytest

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.routing.instance import CapabilityInfo, Instance, InstanceInfo
from reachp2p.core.routing.stages import STAGES, Selector, Stage, Verdict, judge
from reachp2p.core.routing.table import RoutingTable
from reachp2p.errors import ErrorCode

NODE = NodeId(bytes(32))
FIRST, SECOND = Life(1, bytes(16)), Life(2, bytes(16))


def instance(
    state: MemberState | None = MemberState.ALIVE,
    refused: bool = False,
    node_life: Life | None = FIRST,
    version: str = "1.2.0",
    **tags: str,
) -> Instance:
    info = InstanceInfo(life=FIRST, version=version, capabilities={"a": CapabilityInfo()}, tags=tags)
    return Instance(
        key=(NODE, "x/y"), node_name="n", state=state, refused=refused, node_life=node_life, info=info
    )


A = Selector("a", None)


@pytest.mark.parametrize(
    ("state", "refused", "life", "verdict", "why"),
    [
        (MemberState.ALIVE, False, FIRST, Verdict.PASS, None),
        (MemberState.ALIVE, True, FIRST, Verdict.AVOID, "process gone"),
        (MemberState.SUSPECT, False, FIRST, Verdict.AVOID, "SUSPECT"),
        (MemberState.SUSPECT, True, FIRST, Verdict.AVOID, "process gone"),
        (MemberState.DEAD, False, FIRST, Verdict.REMOVE, "DEAD"),
        (MemberState.DEAD, True, SECOND, Verdict.REMOVE, "DEAD"),
        (MemberState.LEFT, False, FIRST, Verdict.REMOVE, "LEFT"),
        (None, False, FIRST, Verdict.REMOVE, "forgotten or not yet known"),
        (MemberState.ALIVE, False, SECOND, Verdict.REMOVE, "registered by another life"),
        (MemberState.SUSPECT, True, None, Verdict.REMOVE, "registered by another life"),
    ],
)
def test_liveness(
    state: MemberState | None, refused: bool, life: Life | None, verdict: Verdict, why: str | None
) -> None:
    given = instance(state, refused, life)
    found, stage = judge(STAGES, A, given)
    assert found is verdict
    assert (stage.why(A, given) if stage else None) == why
    assert stage is None or stage.name == "liveness"


@pytest.mark.parametrize(
    ("selector", "stage", "why"),
    [
        (Selector("a", None), None, None),
        (Selector(None, "x/y"), None, None),
        (Selector("a", "x/y", (("env", "prod"),)), None, None),
        (Selector("b", None), "match", "does not offer b"),
        (Selector("a", "x/z"), "match", "is not x/z"),
        (Selector("a", "x"), None, None),
        (Selector("a", "y"), "match", "is not y/*"),
        (Selector("a", None, (("env", "test"),)), "tags", "with env=prod"),
        (Selector("a", None, (("env", "prod"), ("zone", "a"))), "tags", "without tag zone"),
    ],
)
def test_match_and_tags(selector: Selector, stage: str | None, why: str | None) -> None:
    given = instance(env="prod")
    _, found = judge(STAGES, selector, given)
    assert (found.name if found else None) == stage
    assert (found.why(selector, given) if found else None) == why


def test_the_first_stage_that_removes_has_the_last_word_over_one_that_avoids() -> None:
    class Never:
        name, code = "never", ErrorCode.ACCESS_DENIED

        def judge(self, selector: Selector, instance: Instance) -> Verdict:
            return Verdict.REMOVE

        def why(self, selector: Selector, instance: Instance) -> str:
            return "never"

    verdict, stage = judge((*STAGES, Never()), A, instance(MemberState.SUSPECT))
    assert verdict is Verdict.REMOVE
    assert stage is not None
    assert stage.name == "never"


def test_a_selector_is_the_same_whatever_the_order_of_tags() -> None:
    one = Selector.of(RouteQuery(capability="a", tags={"env": "prod", "arch": "arm"}))
    other = Selector.of(RouteQuery(capability="a", tags={"arch": "arm", "env": "prod"}))
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "a with arch=arm, env=prod"
    assert str(Selector("a", "x/y")) == "a of x/y"
    assert str(Selector(None, "x/y")) == "x/y"
    assert str(Selector("a", "x")) == "a of x/*"


class Breaker(Stage):
    """A stage of a later kind: its own events change what it says."""

    name, code = "breaker", ErrorCode.NO_HEALTHY_INSTANCE

    def __init__(self) -> None:
        self.open: dict[NodeId, bool] = {}

    def judge(self, selector: Selector, instance: Instance) -> Verdict:
        return Verdict.AVOID if self.open.get(instance.node) else Verdict.PASS

    def why(self, selector: Selector, instance: Instance) -> str:
        return "its breaker is OPEN"


def test_a_further_stage_takes_its_place_in_the_list_and_asks_to_judge_again(desk: Any) -> None:
    breaker = Breaker()
    table = RoutingTable(Counters(), stages=(*STAGES, breaker))
    for number in (1, 2):
        table.set_node(desk.node(number), MemberState.ALIVE, False, f"n{number}", FIRST)
        table.put_instance(
            desk.node(number), "x/y", InstanceInfo(life=FIRST, capabilities={"a": CapabilityInfo()})
        )
    pool = table.pool(A)
    assert pool is not None
    before = (table.version, pool.fingerprint())
    breaker.open[desk.node(1)] = True
    table.reconsider(desk.node(1), "x/y")
    assert [i.node[0] for i in table.routable("a")] == [2]
    assert len(pool.placed) == 2
    assert (table.version, pool.fingerprint()) == (before[0] + 1, before[1])
    table.reconsider(desk.node(9), "x/y")
    assert table.version == before[0] + 1


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("1.2.0", None, True),
        ("1.2.0", "^1.1", True),
        ("2.0.0", "^1.1", False),
        ("1.2.0-rc.1", "^1.1", False),
        ("1.2.0-rc.1", "^1.2.0-rc.0", True),
        ("not one", "*", False),
        ("not one", None, True),
    ],
)
def test_a_version_outside_the_range_is_removed(version: str, wanted: str | None, fits: bool) -> None:
    selector = Selector("a", None, version=wanted)
    verdict, stage = judge(STAGES, selector, instance(version=version))
    assert verdict is (Verdict.PASS if fits else Verdict.REMOVE)
    if stage is not None:
        assert (stage.name, stage.why(selector, instance(version=version))) == (
            "version",
            f"version {version}",
        )
