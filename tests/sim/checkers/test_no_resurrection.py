"""The no resurrection checker, on planted violations and on what is allowed."""

from __future__ import annotations

from reachp2p.core.ids import Life
from tests.sim.watched import ALIVE, DEAD, LEFT, SUSPECT, Watched, caught


def test_no_resurrection_sees_a_life_return_that_had_left_even_if_it_was_forgotten(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, LEFT)
    watched.sees(a, b, None)
    assert "had left" in caught("no_resurrection", lambda: watched.sees(a, b, ALIVE))


def test_no_resurrection_sees_a_dead_life_return_that_is_really_over(watched: Watched) -> None:
    a, b = watched.hosts(2)
    life = b.life
    watched.world.crash(b)
    watched.sees(a, b, DEAD, life=life)
    watched.sees(a, b, None, life=life)
    caught("no_resurrection", lambda: watched.sees(a, b, SUSPECT, life=life))


def test_no_resurrection_allows_the_return_of_what_only_looked_dead(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.world.set_weather(loss=0.5)
    watched.sees(a, b, DEAD)
    watched.sees(a, b, ALIVE, incarnation=1)
    watched.sees(a, b, LEFT)
    watched.sees(a, b, ALIVE, life=Life(2, bytes(16)))
