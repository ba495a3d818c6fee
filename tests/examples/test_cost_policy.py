"""The worked example of a policy: installed as a package is, and picked by its name."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.routing.explain import explain
from reachp2p.core.routing.failure import RouteFailed
from reachp2p.core.routing.instance import CapabilityInfo, InstanceInfo
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.table import RoutingTable
from reachp2p.runtime.policies import Policies

PACKAGE = Path(__file__).resolve().parents[2] / "examples" / "cost_policy"
QUERY = RouteQuery(capability="text.hello", policy="cheapest", in_flight_max=2)


@pytest.fixture
def router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A router beside an installed package: its module, and the metadata that installing it writes."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "reachp2p_cost-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = ["[reachp2p.policies]"]
    lines += [f"{name} = {value}" for name, value in project["entry-points"]["reachp2p.policies"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    table = RoutingTable(Counters())
    for number, tier in enumerate(["high", "low", "low", "medium", None], 1):
        node, life = NodeId(bytes([number]) * 32), Life(1, bytes(16))
        tags = {} if tier is None else {"cost_tier": tier}
        table.set_node(node, MemberState.ALIVE, False, f"n{number}", life)
        table.put_instance(
            node,
            "demo/hello",
            InstanceInfo(life=life, capabilities={"text.hello": CapabilityInfo()}, tags=tags),
        )
    yield Router(table, Random(1), Counters(), Policies())
    sys.modules.pop("reachp2p_cost", None)


def test_the_cheapest_with_room_are_asked_and_then_the_dearer_ones(router: Router) -> None:
    asked = []
    for _ in range(10):
        told = explain(router, QUERY)
        pick = router.route(QUERY)
        assert told.picked == pick.instance.node
        router.start(pick, 0.0)
        asked.append(pick.instance.node[0])
    assert Counter(asked[:4]) == {2: 2, 3: 2}
    assert asked[4:] == [4, 4, 1, 1, 5, 5]
    with pytest.raises(RouteFailed, match=r"policy 'cheapest' lets none of the 5 instances.*\[1305\]"):
        router.route(QUERY)


def test_it_accounts_for_itself(router: Router) -> None:
    told = explain(router, QUERY)
    assert "one of 2 with room in the cheapest tier, low" in told.reason
    assert [candidate.share for candidate in told.candidates] == [0.0, 0.5, 0.5, 0.0, 0.0]
