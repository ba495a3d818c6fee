from __future__ import annotations

from statistics import mean

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.scripted import ScriptedEngine, Story
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.world.world import World

from reachp2p.core.effects import SendDatagram


def send(story: Story, source: Host, target: Host, data: bytes = b"x", count: int = 1) -> None:
    for _ in range(count):
        story.want(source, SendDatagram(target.address, data))


def test_a_datagram_arrives_after_the_delay_with_its_source(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    send(story, a, b, b"hello")
    story.world.run(0.009)
    assert story.heard(b) == []
    story.world.run(0.002)
    assert story.script(b).times == [0.01 + b.steady_offset]
    assert story.heard(b) == [("datagram", a.address, b"hello")]


def test_engine_time_is_the_steady_clock_of_its_own_host(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    assert a.steady_offset != b.steady_offset
    send(story, a, b)
    story.world.run(1)
    assert story.script(b).times == [pytest.approx(0.01 + b.steady_offset)]


def test_a_partition_lets_nothing_through_until_it_is_healed(story: Story) -> None:
    a, b, c = story.world.add_nodes(3)
    story.world.partition([a], [b])
    send(story, a, b)
    send(story, b, a)
    send(story, a, c)
    story.world.run(1)
    assert story.heard(a) == story.heard(b) == []
    assert len(story.heard(c)) == 1
    story.world.heal()
    send(story, a, b)
    story.world.run(1)
    assert len(story.heard(b)) == 1
    assert story.world.network.cut_off == 2


def test_a_one_way_partition_lets_the_other_direction_through(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.world.partition([a], [b], one_way=True)
    send(story, a, b)
    send(story, b, a)
    story.world.run(1)
    assert story.heard(b) == []
    assert len(story.heard(a)) == 1


def test_two_partitions_at_once_both_hold(story: Story) -> None:
    a, b, c = story.world.add_nodes(3)
    story.world.partition([a], [b])
    story.world.partition([a], [c])
    send(story, a, b)
    send(story, a, c)
    story.world.run(1)
    assert story.heard(b) == story.heard(c) == []


def test_what_is_held_arrives_in_order_after_the_release(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.world.hold([a], [b])
    for number in range(5):
        send(story, a, b, bytes([number]))
    story.world.run(1)
    assert story.heard(b) == []
    story.world.release()
    story.world.run(1)
    assert [data for _, _, data in story.heard(b)] == [bytes([number]) for number in range(5)]


def test_nobody_answers_at_an_address_that_was_left(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    old = b.address
    story.world.restart(b, moved=True)
    assert b.address != old
    story.want(a, SendDatagram(old, b"x"))
    story.world.run(1)
    assert story.heard(b) == []
    assert story.world.network.to_nobody == 1


def test_loss_and_delay_have_the_rates_they_are_given() -> None:
    conditions = Conditions(delay=0.001, spread=0.02, loss=0.3)
    story = Story(World(seed=5, conditions=conditions, engine_factory=ScriptedEngine))
    a, b = story.world.add_nodes(2)
    send(story, a, b, count=5_000)
    story.world.run(10)
    times = story.script(b).times
    assert len(times) == pytest.approx(3_500, rel=0.05)
    assert mean(times) - b.steady_offset == pytest.approx(0.021, rel=0.08)
    assert min(times) - b.steady_offset >= 0.001 - 1e-9


def test_switching_loss_on_shifts_no_delay() -> None:
    arrivals = []
    for loss in (0.0, 0.3):
        conditions = Conditions(delay=0.001, spread=0.02, loss=loss)
        story = Story(World(seed=5, conditions=conditions, engine_factory=ScriptedEngine))
        a, b = story.world.add_nodes(2)
        send(story, a, b, count=200)
        story.world.run(10)
        arrivals.append(set(story.script(b).times))
    assert arrivals[1] < arrivals[0]


def test_more_traffic_on_one_path_shifts_nothing_on_another() -> None:
    arrivals = []
    for others in (0, 50):
        story = Story(World(seed=5, engine_factory=ScriptedEngine))
        a, b, c = story.world.add_nodes(3)
        send(story, a, c, count=others)
        send(story, a, b, count=100)
        story.world.run(10)
        arrivals.append(story.script(b).times)
    assert arrivals[0] == arrivals[1]


def test_one_path_can_have_weather_of_its_own(story: Story) -> None:
    a, b = story.world.add_nodes(2)
    story.world.set_weather_between(a, b, loss=1.0)
    send(story, a, b)
    send(story, b, a)
    story.world.run(1)
    assert story.heard(b) == []
    assert len(story.heard(a)) == 1
    assert story.world.network.paths.worst()[0] == 1.0


@pytest.mark.parametrize("wrong", [{"delay": -1.0}, {"spread": -0.1}, {"loss": 1.5}])
def test_impossible_weather_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        Conditions(**wrong)
