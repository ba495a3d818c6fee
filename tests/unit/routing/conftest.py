"""A table with a few words to fill it, and chance from a seed."""

from __future__ import annotations

from random import Random

import pytest

from reachp2p.core.commands import RouteQuery
from reachp2p.core.counters import Counters
from reachp2p.core.events import MemberState
from reachp2p.core.ids import Life, NodeId
from reachp2p.core.routing.instance import CapabilityInfo, Instance, InstanceInfo
from reachp2p.core.routing.router import Router
from reachp2p.core.routing.table import RoutingTable

FIRST, SECOND = Life(1, bytes(16)), Life(2, bytes(16))


class Desk:
    """What the engine does to the table, in short."""

    def __init__(self, pools_max: int = 1_024, seed: int = 1) -> None:
        self.counters = Counters()
        self.table = RoutingTable(self.counters, virtual_nodes=50, pools_max=pools_max)
        self.router = Router(self.table, Random(seed), self.counters)

    @staticmethod
    def node(number: int) -> NodeId:
        return NodeId(bytes([number]) * 32)

    def offer(
        self,
        number: int,
        agent: str = "nlp/summarizer",
        *capabilities: str,
        state: MemberState | None = MemberState.ALIVE,
        refused: bool = False,
        tags: dict[str, str] | None = None,
        weight: int = 100,
        life: Life = FIRST,
        zone: str = "",
        version: str = "1.2.0",
        percent: int | None = None,
    ) -> None:
        """Node `number` is in `state` and offers `agent` with `capabilities` (default `text.summarize`)."""
        self.table.set_node(self.node(number), state, refused, f"n{number}", FIRST, zone)
        named = capabilities or ("text.summarize",)
        info = InstanceInfo(
            life=life,
            version=version,
            capabilities={name: CapabilityInfo(repeatable=True, timeout=5.0) for name in named},
            tags=tags or {},
            weight_percent=weight,
            candidate_percent=percent,
        )
        self.table.put_instance(self.node(number), agent, info)

    def believe(
        self, number: int, state: MemberState | None, refused: bool = False, life: Life = FIRST
    ) -> bool:
        return self.table.set_node(self.node(number), state, refused, f"n{number}", life)

    def query(self, capability: str | None = "text.summarize", **rest: object) -> RouteQuery:
        return RouteQuery(capability=capability, **rest)  # type: ignore[arg-type]

    def picks(self, count: int, query: RouteQuery | None = None) -> list[int]:
        """The numbers of the nodes that the next `count` calls go to."""
        return [self.router.pick(query or self.query()).node[0] for _ in range(count)]

    def routable(self, capability: str = "text.summarize") -> list[int]:
        return numbers(self.table.routable(capability))


def numbers(instances: list[Instance]) -> list[int]:
    return [instance.node[0] for instance in instances]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def small_desk() -> Desk:
    """A desk whose table caches two pools."""
    return Desk(pools_max=2)


@pytest.fixture
def twin_desks() -> tuple[Desk, Desk]:
    """Two desks with the same chance."""
    return Desk(seed=7), Desk(seed=7)
