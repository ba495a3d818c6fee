"""Flapping: as often as the story allows, and no more."""

from __future__ import annotations

from tests.sim.watched import ALIVE, DEAD, SUSPECT, Watched, caught


def flap(watched: Watched, times: int) -> None:
    a, b = watched.world.nodes
    for _ in range(times):
        incarnation = a.view.members[b.node].incarnation
        watched.sees(a, b, SUSPECT, incarnation)
        watched.sees(a, b, DEAD, incarnation)
        watched.world.run(5)
        watched.sees(a, b, ALIVE, incarnation + 1)
        watched.world.run(5)


def test_more_changes_than_the_story_allows(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, ALIVE)
    flap(watched, 20)  # nobody has said how many are allowed
    watched.world.limits["flaps"] = 3
    flap(watched, 1)
    assert "4 times; 3 are allowed" in caught("flapping", lambda: flap(watched, 1))


def test_changes_that_are_far_enough_apart(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.world.limits.update(flaps=3, flaps_within=9)
    watched.sees(a, b, ALIVE)
    flap(watched, 20)
    watched.world.limits["flaps_within"] = 25
    assert "within 25 s" in caught("flapping", lambda: flap(watched, 2))


def test_a_doubt_is_no_change_of_mind(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.world.limits["flaps"] = 0
    for incarnation in range(5):
        watched.sees(a, b, ALIVE, incarnation)
        watched.sees(a, b, SUSPECT, incarnation)
