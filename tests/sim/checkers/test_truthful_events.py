"""The truthful events checker, on planted violations and on what is allowed."""

from __future__ import annotations

from tests.sim.watched import SUSPECT, Watched, caught, member_view


def test_truthful_events_sees_a_change_without_an_event(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    watched.world.run(3)
    life = b.life
    assert life is not None
    watched.script(a).present_members = [member_view(b, life, SUSPECT, 0)]
    caught("truthful_events", lambda: watched.world.run(3))


def test_truthful_events_leaves_a_node_alone_whose_words_wait_for_a_processor(watched: Watched) -> None:
    a, b = watched.hosts(2)
    watched.all_see_all()
    life = b.life
    assert life is not None
    watched.world.pause(a)
    watched.script(a).present_members = [member_view(b, life, SUSPECT, 0)]
    watched.world.run(5)
    watched.checker.finish()
    watched.world.resume(a)
    caught("truthful_events", watched.checker.finish)
