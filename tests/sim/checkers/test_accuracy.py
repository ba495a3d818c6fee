"""The accuracy checker, on planted violations and on what is allowed."""

from __future__ import annotations

import pytest

from tests.sim.watched import DEAD, Watched, caught


def test_accuracy_sees_a_healthy_member_buried_or_forgotten(watched: Watched) -> None:
    a, b, c = watched.hosts(3)
    watched.all_see_all()
    watched.world.run(100)
    assert "declared n01 DEAD" in caught("accuracy", lambda: watched.sees(a, b, DEAD))
    assert "forgot n02" in caught("accuracy", lambda: watched.sees(a, c, None))


@pytest.mark.parametrize(
    "excuse", ["crash", "pause", "partition", "observer", "loss", "just started", "former life"]
)
def test_accuracy_allows_a_burial_that_has_a_reason(watched: Watched, excuse: str) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    life = b.life
    if excuse != "just started":
        watched.world.run(100)
    match excuse:
        case "crash":
            watched.world.crash(b)
        case "pause":
            watched.world.pause(b)
        case "observer":
            watched.world.pause(a)
            watched.world.resume(a)
        case "partition":
            watched.world.partition([a], [b])
            watched.world.heal()
        case "loss":
            watched.world.set_weather(loss=0.3)
        case "former life":
            watched.begin(b, epoch=2)
    watched.sees(a, b, DEAD, life=life)
