"""The single outcome checker, on planted violations and on what is allowed."""

from __future__ import annotations

from tests.sim.watched import Watched, caught, ended, start_call


def test_single_outcome_sees_a_call_end_twice(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    start_call(watched, a)
    ((_, call),) = [what for what in watched.heard(a) if what[0] == "call"]
    watched.say(a, ended(call))
    assert "a second time" in caught("single_outcome", lambda: watched.say(a, ended(call, 1401)))


def test_single_outcome_sees_the_end_of_a_call_that_nobody_made(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    caught("single_outcome", lambda: watched.say(a, ended(bytes(16))))


def test_single_outcome_sees_a_call_that_never_ends_unless_its_caller_was_away(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    start_call(watched, a)
    watched.world.pause(a)
    watched.world.run(20)
    watched.world.resume(a)
    start_call(watched, b)
    assert "past its deadline" in caught("single_outcome", lambda: watched.world.run(20))
