"""Load: an update leaves one node a bounded number of times."""

from __future__ import annotations

import pytest
from reachp2p_sim.machines.host import Host

from reachp2p.core.events import MemberChanged, MemberState
from reachp2p.core.ids import Life
from reachp2p.core.membership.suspicion import transmit_limit
from reachp2p.core.wire.messages import AccusationUpdate, HeadUpdate, Ping, PingReq
from tests.sim.watched import Watched, caught
from tests.support import node_id

LIMIT = transmit_limit(3, 3)


@pytest.fixture
def trio(watched: Watched) -> tuple[Host, Host, Host]:
    """Three nodes; the first is the one that is listened to."""
    a, b, c = watched.hosts(3)
    watched.world.run(10.1)  # it is the first one's turn again
    return a, b, c


def test_an_update_that_is_sent_too_often(watched: Watched, trio: tuple[Host, Host, Host]) -> None:
    a, b, c = trio
    head = HeadUpdate(head=watched.sign_head(c))

    def tell() -> None:
        watched.world.run(0.2)
        watched.send(a, b, head)

    for _ in range(LIMIT + 1):
        tell()
    assert f"{LIMIT} are allowed among 3 nodes" in caught("load", tell)


def test_a_table_with_invented_members_allows_more(watched: Watched, trio: tuple[Host, Host, Host]) -> None:
    a, b, c = trio
    head = HeadUpdate(head=watched.sign_head(c))
    for number in range(20):
        held = MemberChanged(
            at=0.0, node=node_id(number), name="", life=Life(1, bytes(16)), incarnation=0, old=None,
            new=MemberState.ALIVE, reason="new member",
        )  # fmt: skip
        watched.say(a, held)

    def tell() -> None:
        watched.world.run(0.1)
        watched.send(a, b, head)

    limit = transmit_limit(3, len(a.view.members) + 1)
    assert limit > LIMIT
    for _ in range(limit + 1):
        tell()
    assert f"{limit} are allowed" in caught("load", tell)


def test_answers_and_ones_own_word_and_what_a_subject_and_its_helpers_are_told_do_not_count(
    watched: Watched, trio: tuple[Host, Host, Host]
) -> None:
    a, b, c = trio
    own, doubt = HeadUpdate(head=watched.sign_head(a)), watched.sign_accusation(b, c)
    head = HeadUpdate(head=watched.sign_head(b))
    for _ in range(LIMIT + 1):
        watched.world.run(0.1)
        watched.send(a, b, own)
        watched.send(a, c, AccusationUpdate(accusation=doubt))
        help_me = PingReq(nonce=bytes(8), target=c.node, timeout_ms=500)
        watched.send(a, b, help_me, AccusationUpdate(accusation=doubt))
        watched.world.run(0.1)
        watched.send(a, b, help_me)  # in which there was no room for the doubt
        watched.send(a, b, AccusationUpdate(accusation=doubt))
        watched.world.run(0.1)
        watched.send(a, c, head)  # and at this moment it hears something: that was an answer
        a.receive_datagram((c.address, watched.datagram(c, a, Ping(nonce=bytes(8))), 0))


def test_a_process_is_not_judged_by_what_the_former_one_sent(
    watched: Watched, trio: tuple[Host, Host, Host]
) -> None:
    a, b, c = trio
    head = HeadUpdate(head=watched.sign_head(c))
    for _ in range(LIMIT):
        watched.world.run(0.1)
        watched.send(a, b, head)
    watched.world.restart(a)
    watched.begin(a, epoch=2)
    for _ in range(2):
        watched.world.run(0.1)
        watched.send(a, b, head)
    watched.world.run(5)
