"""The completeness checker, on planted violations and on what is allowed."""

from __future__ import annotations

from reachp2p_sim.measuring.budgets import completeness

from tests.sim.watched import DEAD, SUSPECT, Watched, caught


def test_completeness_sees_a_crashed_node_that_is_still_believed_in(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.all_see_all()
    lives = {host: host.life for host in (b, c)}
    watched.world.crash(b)
    watched.world.pause(c)  # keeps the convergence checker quiet
    watched.sees(a, b, SUSPECT, life=lives[b])
    budget = completeness(2, watched.world.protocol)
    watched.world.run(budget - 10)
    assert "still SUSPECT" in caught("completeness", lambda: watched.world.run(30))


def test_completeness_is_content_once_it_is_dead(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    life = b.life
    watched.world.crash(b)
    watched.sees(a, b, DEAD, life=life)
    watched.world.run(2 * completeness(2, watched.world.protocol))
