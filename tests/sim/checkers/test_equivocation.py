"""Equivocation: one set of numbers, one body."""

from __future__ import annotations

from reachp2p.core.ids import Life
from reachp2p.core.trust.facts import FactSigner
from reachp2p.core.wire.facts import AgentRecord
from tests.sim.watched import Watched, caught


def test_two_heads_for_one_set_of_numbers(watched: Watched) -> None:
    a, _ = watched.hosts(2)
    watched.sign_head(a, version=3)
    watched.sign_head(a, version=3)  # the same again
    watched.sign_head(a, version=3, left=True)
    watched.sign_head(a, version=4, issued_at=1.0)
    watched.sign_head(a, version=3, life=Life(9, bytes(16)), issued_at=1.0)
    message = caught("equivocation", lambda: watched.sign_head(a, version=3, issued_at=1.0))
    assert "incarnation 0, version 3" in message


def test_two_records_of_one_version(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    life = a.life
    assert life is not None

    def sign(description: str) -> None:
        fact = AgentRecord(
            node=a.node, life=life, version=1, agent="work/doer", issued_at=0, description=description
        )
        FactSigner(a.signer, watched.world.cluster_id).sign(fact)

    sign("one thing")
    assert "work/doer" in caught("equivocation", lambda: sign("another"))


def test_a_hostile_node_is_expected_to_lie(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    a.is_hostile = True
    watched.sign_head(a)
    watched.sign_head(a, issued_at=1.0)
