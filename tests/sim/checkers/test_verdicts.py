"""Own verdicts: DEAD follows a doubt that could be refuted, and a probe of one's own."""

from __future__ import annotations

from reachp2p.core.wire.messages import Ping
from tests.sim.watched import ALIVE, DEAD, SUSPECT, Watched, caught


def test_a_burial_without_a_doubt(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.sees(a, b, ALIVE)
    life = b.life
    watched.world.crash(b)
    assert "without a doubt" in caught("verdicts", lambda: watched.sees(a, b, DEAD, life=life))


def test_a_burial_that_leaves_no_time_to_refute(watched: Watched) -> None:
    a, b, _ = watched.hosts(3)
    life = b.life
    watched.world.crash(b)
    watched.sees(a, b, SUSPECT, life=life)
    watched.ping(a, b)
    watched.world.run(0.9)
    assert "1 s at least" in caught("verdicts", lambda: watched.sees(a, b, DEAD, life=life))


def test_a_burial_without_a_probe_of_its_own(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    life = b.life
    watched.world.crash(b)
    watched.sees(a, b, SUSPECT, life=life)
    watched.ping(a, c)
    watched.send(a, b, Ping(nonce=bytes(8), origin=c.node))  # a probe for another counts for that other
    watched.world.run(5)
    assert "without a probe" in caught("verdicts", lambda: watched.sees(a, b, DEAD, life=life))


def test_a_burial_in_another_incarnation_than_the_doubt(watched: Watched) -> None:
    a, b, _ = watched.hosts(3)
    life = b.life
    watched.world.crash(b)
    watched.sees(a, b, SUSPECT, life=life)
    watched.ping(a, b)
    watched.world.run(5)
    caught("verdicts", lambda: watched.sees(a, b, DEAD, 1, life))


def test_a_burial_by_the_rules(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    lives = b.life, c.life
    watched.world.crash(b, c)
    watched.buries(a, b, lives[0])
    watched.script(a).probing = [c.node]  # it was under way when the doubt began
    watched.sees(a, c, SUSPECT, life=lives[1])
    watched.world.run(5)
    watched.sees(a, c, DEAD, life=lives[1])
    assert a.listeners is None
