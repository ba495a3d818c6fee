"""The convergence checker, on planted violations and on what is allowed."""

from __future__ import annotations

from reachp2p_sim.measuring.budgets import healing

from tests.sim.watched import ALIVE, SUSPECT, Watched, caught


def test_convergence_sees_views_that_stay_apart(watched: Watched) -> None:
    watched.hosts(3)
    budget = healing(3, watched.world.protocol)
    watched.world.run(budget - 2)
    message = caught("convergence", lambda: watched.world.run(5))
    assert "n00 misses n01,n02" in message


def test_convergence_sees_views_with_equal_members_and_different_facts(watched: Watched) -> None:
    a, _ = watched.hosts(2)
    watched.all_see_all()
    watched.script(a).present_view_hash = b"other"
    message = caught("convergence", lambda: watched.world.run(healing(2, watched.world.protocol) + 5))
    assert "the ALIVE sets agree" in message


def test_convergence_waits_while_the_world_is_disturbed_and_begins_anew_after_it(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.world.partition([a], [b])
    watched.world.run(1_000)
    watched.world.heal()
    watched.world.run(healing(2, watched.world.protocol) - 5)
    watched.all_see_all()
    watched.world.run(1_000)


def test_convergence_sees_at_the_end_that_views_have_parted_again(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    watched.world.run(30)
    watched.sees(a, b, SUSPECT)
    caught("convergence", watched.checker.finish)


def test_convergence_sees_views_that_do_not_stay_equal_for_twenty_periods(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    for _ in range(int(healing(2, watched.world.protocol)) // 10 + 1):
        watched.world.run(10)
        watched.sees(a, b, SUSPECT)
        watched.sees(a, b, ALIVE)
    assert "have changed again" in caught("convergence", lambda: watched.world.run(30))


def test_convergence_judges_a_declared_core_alone_and_whatever_happens_elsewhere(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.sees(a, b, ALIVE)
    watched.sees(b, a, ALIVE)
    watched.world.partition([a], [c])
    watched.world.declare_core([a, b])
    for _ in range(10):
        watched.world.restart(c)
        watched.begin(c, epoch=len(c.lives) + 1)
        watched.world.run(30)


def test_convergence_sees_a_declared_core_that_stays_apart(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.sees(a, b, ALIVE)
    watched.world.declare_core([a, b])
    budget = healing(3, watched.world.protocol)
    for _ in range(int(budget) // 10):
        watched.world.crash(c)
        watched.world.restart(c)
        watched.world.run(10)
    assert "n01 misses n00" in caught("convergence", lambda: watched.world.run(15))


def test_convergence_goes_on_looking_until_something_happens(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    watched.world.run(30)
    watched.sees(a, b, SUSPECT)
    watched.world.run(5)
    watched.sees(a, b, ALIVE)  # a doubt that is refuted is no parting of views
    watched.world.run(1_000)
    watched.sees(a, b, SUSPECT)
    message = caught("convergence", lambda: watched.world.run(healing(2, watched.world.protocol) + 5))
    assert "differ again" in message
