"""Whoever is asked to help (docs/protocol/membership.md): with any number of members and helpers a row of failed rounds
asks everybody, so the one member that reaches the target is found in bounded time."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from reachp2p.core.events import MemberState
from reachp2p.core.ids import NodeId
from reachp2p.core.rules import Rules
from reachp2p.core.wire.messages import Ping, PingReq
from tests.support import node_id, seeded
from tests.unit.membership.watch import Watch


def asked(watch: Watch, *, is_last: bool) -> list[NodeId]:
    """The helpers of a round with member 1 that nobody answers."""
    assert watch.prober.probe(watch.row(1), watch.now, is_last=is_last)
    ((_, ping),) = watch.sent
    assert isinstance(ping, Ping)
    watch.prober.on_direct_late(ping.nonce, watch.now)
    found = [node for node, message in watch.sent if isinstance(message, PingReq)]
    watch.prober.on_probe_ends(ping.nonce)
    return found


@given(
    others=st.integers(1, 24),
    k=st.integers(1, 5),
    seed=st.integers(0, 2**16),
    earlier=st.lists(st.booleans(), max_size=8),
    doubted=st.lists(st.integers(2, 25), max_size=8),
)
def test_failed_rounds_ask_everybody(
    others: int, k: int, seed: int, earlier: list[bool], doubted: list[int]
) -> None:
    watch = Watch(*range(1, others + 2), rng=seeded(seed), indirect_probes=k, rules=Rules(link_probes=False))
    for is_last in earlier:
        asked(watch, is_last=is_last)
    for number in doubted:
        if number <= others + 1:
            watch.table.doubt(node_id(number), MemberState.SUSPECT, watch.now, "doubted, too")
    able = [m.node for m in watch.table if m.state is MemberState.ALIVE and m.node != node_id(1)]
    rounds = [asked(watch, is_last=False) for _ in range(2 * ceil(others / k))]
    for helpers in rounds:
        assert len(helpers) == len(set(helpers)) == min(k, len(able))
    assert {node for helpers in rounds for node in helpers} == set(able)
