"""Ownership: what a node believes was signed by its subject's key, and was valid when it was taken up."""

from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host

from reachp2p.core.events import RecordChanged
from reachp2p.core.ids import Life
from reachp2p.core.trust.facts import FactSigner
from reachp2p.core.wire.facts import AgentRecord
from tests.sim.watched import ALIVE, LEFT, SUSPECT, Watched, caught, member_view


@pytest.mark.parametrize("state", [ALIVE, SUSPECT, LEFT])
def test_a_head_that_nobody_signed(watched: Watched, state: object) -> None:
    a, b = watched.hosts(2)
    act = lambda: watched.sees(a, b, state, signed=False)  # type: ignore[arg-type]  # noqa: E731
    assert "never signed" in caught("ownership", act)


def test_numbers_above_those_that_were_signed(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, ALIVE)
    caught("ownership", lambda: watched.sees(a, b, ALIVE, incarnation=1, signed=False))
    caught("ownership", lambda: watched.sees(a, b, ALIVE, life=Life(9, bytes(16)), signed=False))


def test_left_that_its_subject_never_said(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, ALIVE)
    assert "the contrary" in caught("ownership", lambda: watched.sees(a, b, LEFT, signed=False))


def test_a_version_that_was_never_signed_is_seen_in_the_member_list(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    watched.world.run(3)
    life = b.life
    assert life is not None
    watched.script(a).present_members = [member_view(b, life, ALIVE, 0, version=7)]
    assert "version 7" in caught("ownership", lambda: watched.world.run(3))


def test_a_head_is_taken_up_only_while_it_is_valid_by_the_clock_of_who_takes_it_up(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.sign_head(b)
    watched.world.run(3_600 + 600)
    watched.sees(a, b, ALIVE, signed=False)
    watched.world.run(10)
    assert "expired" in caught("ownership", lambda: watched.sees(c, b, ALIVE, signed=False))


def test_a_head_from_the_future(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sign_head(b, issued_at=watched.world.wall_start + 700)
    assert "future" in caught("ownership", lambda: watched.sees(a, b, ALIVE, signed=False))


def record(watched: Watched, host: Host, version: int, life: Life, *, withdrawn: bool = False) -> None:
    fact = AgentRecord(
        node=host.node, life=life, version=version, agent="work/doer", issued_at=0, withdrawn=withdrawn
    )
    FactSigner(host.signer, watched.world.cluster_id).sign(fact)


def offers(watched: Watched, host: Host, node: Host, version: int) -> None:
    event = RecordChanged(at=0.0, node=node.node, agent="work/doer", version=version, present=True)
    watched.say(host, event)


def test_an_agent_that_was_signed_in_the_life_that_is_held(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, ALIVE)
    life = b.life
    assert life is not None
    record(watched, b, 1, life)
    offers(watched, a, b, 1)
    assert "version 2" in caught("ownership", lambda: offers(watched, a, b, 2))
    record(watched, b, 3, life, withdrawn=True)
    caught("ownership", lambda: offers(watched, a, b, 3))
    watched.sees(a, b, ALIVE, life=Life(2, bytes(16)))
    assert "in the life 2" in caught("ownership", lambda: offers(watched, a, b, 1))
