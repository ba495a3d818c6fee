"""The token checker, on planted violations and on what is allowed."""

from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host

from reachp2p.core.effects import Invoke
from reachp2p.core.events import ClaimChanged
from tests.sim.watched import Watched, caught

AGENT = "pay/ledger"


@pytest.fixture
def watched() -> Watched:
    return Watched("tokens")


def owns(watched: Watched, host: Host, token: int | None) -> None:
    watched.say(host, ClaimChanged(at=host.now, agent=AGENT, epoch=1 if token else 0, token=token))


def run(watched: Watched, host: Host, token: int) -> None:
    watched.world.invoked(
        host,
        Invoke(
            invocation=1, agent=AGENT, capability="pay.book", content_type="", payload=b"", caller=host.node,
            message_id=bytes(16), deadline=host.now + 1, attempt=1, session_id=None, idempotency_key=None,
            traceparent=None, fencing_token=token,
        ),
    )  # fmt: skip


def test_tokens_sees_two_holders_of_one(watched: Watched) -> None:
    a, b = watched.hosts(2)
    owns(watched, a, 7)
    run(watched, a, 7)
    owns(watched, a, None)
    assert "which n00 held" in caught("tokens", lambda: owns(watched, b, 7))


def test_tokens_sees_a_handler_without_a_claim(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    owns(watched, a, 7)
    run(watched, a, 7)
    owns(watched, a, None)
    assert "does not hold" in caught("tokens", lambda: run(watched, a, 7))


def test_tokens_sees_one_that_goes_down(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    owns(watched, a, 7)
    run(watched, a, 7)
    owns(watched, a, 6)
    assert "under token 6 after 7" in caught("tokens", lambda: run(watched, a, 6))


def test_tokens_sees_two_owners_in_equal_views(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    owns(watched, a, 7)
    watched.world.run(3)
    owns(watched, b, 8)
    assert "n00 and n01 own pay/ledger" in caught("tokens", lambda: watched.world.run(10))


def test_tokens_allows_two_owners_while_a_cut_lasts_and_one_after_the_other(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    watched.world.partition([a], [b])
    owns(watched, a, 7)
    owns(watched, b, 8)
    watched.world.run(10)
    watched.world.heal()
    owns(watched, a, None)
    watched.world.run(10)
    watched.checker.finish()
