"""The fencing checker, on planted violations and on what is allowed."""

from __future__ import annotations

import msgspec
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Offer, sign_reply
from reachp2p_sim.measuring.budgets import dissemination, healing, suspicion_maximum

from reachp2p.core.events import Event, Fenced, Paused, Started
from reachp2p.core.ids import Life
from reachp2p.core.wire.messages import HeadUpdate
from tests.sim.watched import ALIVE, Watched, caught, ended, invoke, start_call


def test_fencing_sees_a_paused_life_run_a_handler(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    a.application.offer(Offer.simple("work/doer", "work.do", Handler()))
    watched.want(a, invoke())
    watched.say(a, Paused(at=0.0, other=Life(9, bytes(16))))
    assert "while it is paused" in caught("fencing", lambda: watched.want(a, invoke()))


def test_fencing_sees_a_fenced_life_say_more(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    events: list[Event] = [
        Fenced(at=0.0, other=Life(9, bytes(16))),
        Started(at=0.0, life=Life(10, bytes(16))),
    ]
    assert "after it was fenced" in caught("fencing", lambda: watched.say(a, *events))


def test_fencing_sees_the_result_of_a_life_that_is_known_to_be_over(watched: Watched) -> None:
    a, b = watched.hosts(2)
    former = b.life
    assert former is not None
    start_call(watched, a)
    (_, call), *_ = [what for what in watched.heard(a) if what[0] == "call"]
    watched.sees(a, b, ALIVE, life=Life(2, bytes(16)))
    reply = ended(call, payload=sign_reply(b.node, former))
    assert "although it holds" in caught("fencing", lambda: watched.say(a, reply))


def test_fencing_sees_two_machines_with_one_key_go_on(watched: Watched) -> None:
    a, _ = watched.hosts(2)
    twin = watched.world.clone(a)
    watched.world.start(twin)
    watched.begin(twin, epoch=2)
    protocol = watched.world.protocol
    budget = healing(3, protocol) + suspicion_maximum(3, protocol) + dissemination(3, protocol)
    watched.world.run(budget - 3)
    assert "run under one key" in caught("fencing", lambda: watched.world.run(10))


def twins(watched: Watched) -> tuple[Host, Host, Host]:
    """A node, its clone in a higher life, and somebody else who knows both heads."""
    a, b = watched.hosts(2)
    twin = watched.world.clone(a)
    watched.world.start(twin)
    watched.begin(twin, epoch=2)
    watched.sign_head(a)
    return a, twin, b


def test_fencing_sees_a_life_that_goes_on_serving_although_it_was_told(watched: Watched) -> None:
    a, twin, b = twins(watched)
    watched.send(b, a, HeadUpdate(head=watched.sign_head(twin)))
    watched.world.run(0.9)
    assert "still serves in life 1" in caught("fencing", lambda: watched.world.run(0.3))


def test_fencing_is_content_when_it_stops_in_time_or_was_not_told_properly(watched: Watched) -> None:
    a, twin, b = twins(watched)
    head = HeadUpdate(head=watched.sign_head(twin))
    a.receive_datagram((b.address, watched.datagram(b, b, head), 0))  # meant for another
    watched.world.run(5)
    watched.send(b, a, head)
    watched.world.run(0.5)
    assert twin.life is not None
    watched.say(a, Paused(at=0.0, other=twin.life))
    watched.world.run(5)


def test_fencing_sees_a_life_that_is_over_sign_or_send_its_head(watched: Watched) -> None:
    a, twin, b = twins(watched)
    own = watched.sign_head(a, version=1)
    watched.send(b, a, HeadUpdate(head=watched.sign_head(twin)))
    watched.world.run(0.5)
    assert twin.life is not None
    watched.say(a, Paused(at=0.0, other=twin.life))
    watched.world.run(1)
    watched.send(a, b, HeadUpdate(head=watched.sign_head(twin)))  # passing on the other's is fine
    watched.ping(a, b)
    assert "goes on saying" in caught("fencing", lambda: watched.send(a, b, HeadUpdate(head=own)))
    assert "signs a head" in caught("fencing", lambda: watched.sign_head(a, version=2))


def test_fencing_sees_a_request_to_a_life_that_its_caller_knows_to_be_over(watched: Watched) -> None:
    a, b = watched.hosts(2)
    a.application.offer(Offer.simple("work/doer", "work.do", Handler()))
    request = msgspec.structs.replace(invoke(), caller=b.node)
    watched.sees(b, a, ALIVE)
    watched.want(a, request)
    watched.sees(b, a, ALIVE, life=Life(2, bytes(16)))
    watched.want(a, request)  # it was under way
    watched.world.run(15)
    assert "is asked by n01" in caught("fencing", lambda: watched.want(a, request))


def test_fencing_blames_nobody_for_a_request_of_a_machine_with_the_same_key_that_does_not_know(
    watched: Watched,
) -> None:
    """As after a split, with one of two clones on each side."""
    a, b = watched.hosts(2)
    twin = watched.world.clone(b)
    watched.world.start(twin)
    watched.begin(twin, epoch=2)
    a.application.offer(Offer.simple("work/doer", "work.do", Handler()))
    request = msgspec.structs.replace(invoke(), caller=b.node)
    for caller in (b, twin):
        watched.sees(caller, a, ALIVE)
    watched.sees(twin, a, ALIVE, life=Life(2, bytes(16)))
    watched.world.run(15)
    watched.want(a, request)
    watched.sees(b, a, ALIVE, life=Life(2, bytes(16)))
    watched.world.run(15)
    assert "is asked by n01" in caught("fencing", lambda: watched.want(a, request))
