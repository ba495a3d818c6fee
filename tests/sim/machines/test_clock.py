from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reachp2p_sim.machines.clock import Clock
from reachp2p_sim.machines.scripted import Story
from reachp2p_sim.world.world import WALL_START

from reachp2p.core.effects import SendDatagram

rates = st.floats(0.9, 1.1)
times = st.floats(0.0, 1e5)


@given(offset=st.floats(0, 1e5), rate=rates, changed_at=times, later=times, ahead=st.floats(0, 1e4))
def test_a_clock_is_never_read_before_a_deadline_that_it_was_asked_for(
    offset: float, rate: float, changed_at: float, later: float, ahead: float
) -> None:
    clock = Clock(offset, WALL_START)
    before = clock.steady(changed_at)
    clock.set_rate(rate, changed_at)
    assert clock.steady(changed_at) >= before
    now = changed_at + later
    deadline = clock.steady(now) + ahead
    when = clock.when(deadline, now)
    assert when is not None
    assert when >= now
    assert clock.steady(when) >= deadline
    assert clock.steady(when) == pytest.approx(deadline, abs=1e-7)


@given(changes=st.lists(st.tuples(st.floats(0, 100), st.sampled_from([0.0, 0.99, 1.0, 1.01])), max_size=20))
def test_a_steady_clock_never_goes_back_whatever_its_rate_does(changes: list[tuple[float, float]]) -> None:
    clock, now, shown = Clock(77_777.0, WALL_START), 0.0, 77_777.0
    for wait, rate in changes:
        now += wait
        assert clock.steady(now) >= shown
        shown = clock.steady(now)
        clock.set_rate(rate, now)
        assert clock.steady(now) >= shown
        shown = clock.steady(now)


def test_a_clock_that_stands_still_shows_no_deadline_but_the_one_it_has_reached() -> None:
    clock = Clock(100.0, WALL_START)
    clock.set_rate(0.0, 5.0)
    assert clock.steady(1_000.0) == 105.0
    assert clock.when(105.0, 50.0) == 50.0
    assert clock.when(105.1, 50.0) is None


def test_the_wall_clock_drifts_is_set_and_strobes_apart_from_the_steady_one() -> None:
    clock = Clock(0.0, WALL_START)
    clock.set_wall_rate(1.01, 100.0)
    assert clock.wall(200.0) == pytest.approx(WALL_START + 201)
    clock.step_wall(-50)
    assert clock.wall(200.0) == pytest.approx(WALL_START + 151)
    moments = [200.0 + tick * 0.25 for tick in range(8)]
    right = [clock.wall(moment) for moment in moments]
    clock.strobe(30.0, 0.5, 200.0)
    wrong = [clock.wall(moment) - shown for moment, shown in zip(moments, right, strict=True)]
    assert wrong == pytest.approx([0, 0, 30, 30, 0, 0, 30, 30])
    clock.strobe(0.0, 1.0, 300.0)
    assert [clock.wall(moment) for moment in moments] == right
    assert clock.steady(200.0) == 200.0


@pytest.mark.parametrize("rate", [-0.1, 11.0, float("nan")])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="clock rate"):
        Clock(0.0, WALL_START).set_rate(rate, 0.0)


def test_an_engine_lives_by_its_own_clock(story: Story) -> None:
    fast, slow = story.world.add_nodes(2)
    fast.set_clock_rate(1.01)
    slow.set_clock_rate(0.99)
    for host in (fast, slow):
        story.wake_at(host, host.now + 10)
    story.world.run(9.95)
    assert [story.heard(fast), story.heard(slow)] == [[("timeout",)], []]
    story.world.run(0.2)
    assert story.heard(slow) == [("timeout",)]


def test_a_deadline_moves_with_the_rate_of_the_clock(story: Story) -> None:
    (a,) = story.world.add_nodes(1)
    deadline = a.now + 10
    story.wake_at(a, deadline)
    story.world.run(5)
    a.set_clock_rate(0.5)
    story.world.run(9)
    assert story.heard(a) == []
    a.set_clock_rate(2.0)
    story.world.run(0.26)
    assert story.script(a).times == [pytest.approx(deadline)]
    assert story.script(a).times[0] >= deadline


def test_while_a_clock_stands_messages_arrive_and_no_timer_fires(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.wake_at(a, a.now + 1)
    story.world.run(0.5)
    a.set_clock_rate(0.0)
    stood_at = a.now
    story.want(b, SendDatagram(a.address, b"x"), SendDatagram(a.address, b"y"))
    story.world.run(100)
    assert story.script(a).times == [stood_at, stood_at]
    assert [what[0] for what in story.heard(a)] == ["datagram", "datagram"]
    a.set_clock_rate(1.0)
    story.world.run(0.6)
    assert story.heard(a) == [("timeout",)]
