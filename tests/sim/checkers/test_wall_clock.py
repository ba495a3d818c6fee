"""Wall clocks: nobody's view changes because the time of day does."""

from __future__ import annotations

import pytest

from tests.sim.watched import SUSPECT, Watched, caught


def test_a_view_that_changes_when_only_a_wall_clock_has_jumped(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    watched.world.run(200)
    watched.world.step_clock(a, 60)
    watched.world.run(5)
    assert "only wall clocks" in caught("wall_clock", lambda: watched.sees(a, b, SUSPECT))


@pytest.mark.parametrize(
    "excuse", ["no jump", "never agreed", "too far", "loss", "crash", "cut", "flap", "pause", "retention"]
)
def test_a_change_that_may_have_another_reason(watched: Watched, excuse: str) -> None:
    a, b, c = watched.hosts(3)
    watched.all_see_all()
    if excuse == "never agreed":
        watched.sees(b, c, SUSPECT)
    watched.world.run(200)
    if excuse != "no jump":
        watched.world.step_clock(a, 700 if excuse == "too far" else 60)
    match excuse:
        case "loss":
            watched.world.set_weather(loss=0.01)
        case "crash":
            watched.world.crash(c)
        case "cut":
            watched.world.partition([a], [b])
            watched.world.heal()
        case "flap":
            watched.world.flap(c, on=1.0, off=2.0, seconds=10.0)
            watched.world.run(5)
        case "pause":
            watched.world.pause(c)
    watched.sees(a, b, None if excuse == "retention" else SUSPECT)
