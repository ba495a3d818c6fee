"""The fencing checker, on planted violations and on what is allowed."""

from __future__ import annotations

from reachp2p_sim.budgets import dissemination, healing, suspicion_maximum
from reachp2p_sim.workload import Handler, Offer, sign_reply

from reachp2p.core.events import Event, Fenced, Paused, Started
from reachp2p.core.ids import Life
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
