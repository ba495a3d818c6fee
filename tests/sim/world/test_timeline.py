from __future__ import annotations

from reachp2p_sim.world.timeline import Timeline


def test_what_is_due_at_one_moment_happens_in_the_order_it_was_planned() -> None:
    timeline = Timeline()
    happened: list[str] = []
    for word in ("b", "a", "c"):
        timeline.after(1.0, happened.append, word)
    timeline.after(0.5, happened.append, "first")
    timeline.run(1.0)
    assert happened == ["first", "b", "a", "c"]


def test_time_stands_at_the_end_of_a_run_even_if_nothing_was_planned() -> None:
    timeline = Timeline()
    timeline.run(12.5)
    assert timeline.now == 12.5


def test_an_action_may_plan_another_one_for_now() -> None:
    timeline = Timeline()
    seen: list[float] = []

    def again(left: int) -> None:
        seen.append(timeline.now)
        if left:
            timeline.after(0.0, again, left - 1)

    timeline.after(1.0, again, 2)
    timeline.run(1.0)
    assert seen == [1.0, 1.0, 1.0]


def test_a_time_that_has_passed_means_now() -> None:
    timeline = Timeline()
    timeline.run(5.0)
    seen: list[float] = []
    timeline.at(3.0, lambda _: seen.append(timeline.now))
    timeline.run(5.0)
    assert seen == [5.0]
