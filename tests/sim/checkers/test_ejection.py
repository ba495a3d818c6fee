"""The ejection checker, on planted violations and on what is allowed."""

from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host

from reachp2p.core.commands import RouteQuery
from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.views import CandidateView, Explanation
from tests.sim.watched import Watched, caught


def explains(watched: Watched, host: Host, *removed_by: str | None) -> None:
    """What a node answers from now on: which stage has taken each instance out."""
    rows = tuple(
        CandidateView(
            agent="work/doer", node=NodeId(bytes([number] * 32)), node_name="", state=MemberState.ALIVE,
            version="1.0.0", weight=1.0, removed_by=stage, why="", position=None, share=None,
        )
        for number, stage in enumerate(removed_by)
    )  # fmt: skip
    watched.script(host).present_explanation = Explanation(
        capability="work.do", agent=None, policy="random", key=None, candidates=rows, picked=None, picked_agent=None,
        code=0, reason="", table_version=0, ring_fingerprint=None,
    )  # fmt: skip
    watched.world.called(host, RouteQuery(capability="work.do"), bytes(16), 0)


@pytest.mark.parametrize(("ejected", "others"), [(0, 0), (1, 1), (1, 18), (2, 18), (10, 90)])
def test_ejection_allows_a_tenth_and_one_of_few(watched: Watched, ejected: int, others: int) -> None:
    (a,) = watched.hosts(1)
    explains(watched, a, *["breaker"] * ejected, *[None] * others, "liveness", "load")
    watched.world.run(3)


@pytest.mark.parametrize(("ejected", "others"), [(1, 0), (2, 2), (2, 17), (11, 90)])
def test_ejection_sees_more_than_a_tenth_and_the_last(watched: Watched, ejected: int, others: int) -> None:
    (a,) = watched.hosts(1)
    explains(watched, a, *["breaker"] * ejected, *[None] * others, "liveness")
    assert f"skips {ejected} of" in caught("ejection", lambda: watched.world.run(3))
