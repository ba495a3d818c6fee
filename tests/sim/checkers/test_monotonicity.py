"""The monotonicity checker, on planted violations and on what is allowed."""

from __future__ import annotations

from reachp2p.core.ids import Life
from tests.sim.watched import ALIVE, DEAD, LEFT, SUSPECT, Watched, caught, member_view


def test_monotonicity_sees_a_rank_that_falls_inside_an_incarnation(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, ALIVE)
    watched.sees(a, b, SUSPECT)
    assert "back to ALIVE" in caught("monotonicity", lambda: watched.sees(a, b, ALIVE))


def test_monotonicity_sees_a_lower_incarnation_and_a_lower_life(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.sees(a, b, ALIVE, incarnation=3)
    caught("monotonicity", lambda: watched.sees(a, b, SUSPECT, incarnation=2))
    watched.sees(a, c, ALIVE, life=Life(5, bytes(16)))
    caught("monotonicity", lambda: watched.sees(a, c, ALIVE, life=Life(4, bytes(16))))


def test_monotonicity_sees_a_version_that_falls_without_an_event(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    life = b.life
    assert life is not None
    watched.script(a).present_members = [member_view(b, life, ALIVE, 0, version=5)]
    watched.world.run(3)
    watched.script(a).present_members = [member_view(b, life, ALIVE, 0, version=4)]
    caught("monotonicity", lambda: watched.world.run(3))


def test_monotonicity_allows_a_refutation_a_new_life_and_a_fresh_start(watched: Watched) -> None:
    a, b = watched.hosts(2)
    for state, incarnation, life in (
        (ALIVE, 0, None), (SUSPECT, 0, None), (ALIVE, 1, None), (DEAD, 1, None), (ALIVE, 2, None), (LEFT, 0, None),
        (ALIVE, 0, Life(9, bytes(16))),
    ):  # fmt: skip
        watched.sees(a, b, state, incarnation, life)
    watched.world.restart(a)
    watched.begin(a, epoch=2)
    watched.sees(a, b, ALIVE)


def test_monotonicity_allows_a_lower_incarnation_in_a_higher_life_of_the_same_epoch(watched: Watched) -> None:
    a, b = watched.hosts(2)
    for life_id, incarnation in ((b"\x10", 7), (b"\x20", 0)):
        life = Life(1, life_id * 16)
        watched.script(a).present_members = [member_view(b, life, ALIVE, incarnation)]
        watched.world.run(3)
    watched.script(a).present_members = [member_view(b, Life(1, b"\x10" * 16), ALIVE, 9)]
    caught("monotonicity", lambda: watched.world.run(3))
