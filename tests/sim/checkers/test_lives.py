"""The lives checker, on planted violations and on what is allowed."""

from __future__ import annotations

from reachp2p.core.events import Started
from reachp2p.core.ids import Life
from tests.sim.watched import Watched, caught


def test_lives_sees_an_epoch_used_twice_on_one_disk(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    watched.world.restart(a)
    assert "on the same disk" in caught("lives", lambda: watched.begin(a, epoch=1))


def test_lives_sees_an_epoch_that_is_not_on_disk(watched: Watched) -> None:
    (a,) = watched.world.add_nodes(1)
    announced = Started(at=0.0, life=Life(1, bytes(16)))
    assert "only epoch 0 is on its disk" in caught("lives", lambda: watched.say(a, announced))


def test_lives_allows_a_low_epoch_on_another_disk(watched: Watched) -> None:
    (a,) = watched.hosts(1)
    watched.world.restart(a)
    watched.begin(a, epoch=2)
    watched.world.restart(a, disk="lost")
    watched.begin(a, epoch=1)
