"""Steps about paths, clocks, disks and processors do to a world what their words say."""

from __future__ import annotations

from pathlib import Path

import pytest
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.scripted import Story
from reachp2p_sim.running.configuration import RunConfig
from reachp2p_sim.running.run import run_scenario
from reachp2p_sim.running.scenario_of_run import record_of
from reachp2p_sim.steps import KINDS
from reachp2p_sim.steps.paths import PartitionShape
from reachp2p_sim.steps.selection import StepImpossible
from reachp2p_sim.world.world import World

from reachp2p.core.effects import Persist, SendDatagram, Table
from reachp2p.core.ids import Ticket


def reached(story: Story, source: Host, target: Host) -> bool:
    story.heard(target)
    story.want(source, SendDatagram(target.address, b"x"))
    story.world.run(0.05)
    return bool(story.heard(target))


def test_partitions_with_names_end_one_by_one(story: Story) -> None:
    world = story.world
    a, b, c = world.add_nodes(3)
    world.partition([a], [b], name="first")
    world.partition([a], [c])
    world.run(1)
    world.heal("first")
    assert reached(story, a, b)
    assert not reached(story, a, c)
    assert world.history.were_cut(a.index, b.index, 0.0)
    assert not world.history.were_cut(a.index, b.index, world.now)
    assert world.history.were_cut(a.index, c.index, world.now)
    world.heal()
    assert world.is_calm


def test_healing_leaves_what_is_held_and_releasing_what_is_cut(story: Story) -> None:
    world = story.world
    a, b, c = world.add_nodes(3)
    world.hold([a], [b], name="jam")
    world.partition([a], [c])
    world.heal()
    assert world.history.were_cut(a.index, b.index, world.now)
    assert not reached(story, a, b)
    with pytest.raises(StepImpossible, match=r"no hold named 'another' to end \(there are: 'jam'\)"):
        world.release("another")
    assert not reached(story, a, b)
    world.release("jam")
    world.run(0.1)
    assert len(story.heard(b)) == 2
    assert world.is_calm


def test_what_would_do_nothing_is_refused_and_leaves_no_trace(story: Story) -> None:
    world = story.world
    a, b, c = world.add_nodes(3)
    world.partition([a], [b], name="x")
    world.heal("x")
    before = len(world.performed), world.trace.digest()
    for act, says in (
        (lambda: world.heal("x"), "no cut named 'x' to end"),
        (lambda: world.partition([a], []), "right selects no machine"),
        (lambda: world.partition([a, b], [b, c]), "n01 would be on both sides"),
        (lambda: world.hold([], [c]), "left selects no machine"),
        (lambda: world.block_dials([a], []), "target selects no machine"),
        (lambda: world.set_weather_of([], [c], loss=0.5), "sources selects no machine"),
        (lambda: world.end_weather("x"), "no weather named 'x' to end"),
        (lambda: world.partition_shape("majorities-ring"), "a ring of 3 hosts: at least 4 are needed"),
    ):
        with pytest.raises(StepImpossible, match=says):
            act()
    assert (len(world.performed), world.trace.digest()) == before


def test_a_pattern_of_cuts_ends_by_its_name(story: Story) -> None:
    world = story.world
    a, b, c = world.add_nodes(3)
    world.flap(a, on=5, off=5, seconds=100, name="mine")
    world.flap(b, on=5, off=5, seconds=100)
    world.run(1)
    assert not reached(story, a, c)
    world.heal("mine")
    assert reached(story, a, c)
    assert not reached(story, b, c)
    world.run(10)  # the other goes on
    assert reached(story, a, c)
    assert not reached(story, b, c)


@pytest.mark.parametrize("shape", ["bridge", "non-transitive", "isolate-one", "random-groups"])
def test_a_shape_is_drawn_alike_whenever_it_is_drawn(shape: str, story: Story) -> None:
    world = story.world
    hosts = world.add_nodes(6)
    world.partition_shape(shape)
    cut = [host.cut for host in hosts]
    assert any(cut)
    world.heal()
    world.run(3)
    world.partition_shape(shape)
    assert [host.cut for host in hosts] == cut


def test_an_unknown_shape_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="majorities-ring"):
        PartitionShape(shape="star")


def test_swizzling_cuts_a_quarter_off_and_lets_all_back(story: Story) -> None:
    world = story.world
    hosts = world.add_nodes(8)
    world.swizzle(share=0.25, seconds=5.0)
    world.run(5)
    assert len([host for host in hosts if host.cut.bit_count() == 7]) == 2
    world.run(5)
    assert world.network.paths.are_whole
    assert world.history.last_change_at > 5


@pytest.mark.parametrize(
    ("direction", "hears", "is_heard"), [("ingress", False, True), ("egress", True, False)]
)
def test_flapping_goes_on_and_off_in_its_direction(
    direction: str, hears: bool, is_heard: bool, story: Story
) -> None:
    world = story.world
    a, b = world.add_nodes(2)
    world.flap(b, on=10, off=10, seconds=40, direction=direction)
    for moment in range(2):
        world.run_to(20 * moment + 5)
        assert reached(story, a, b) is hears
        assert reached(story, b, a) is is_heard
        world.run_to(20 * moment + 15)
        assert reached(story, a, b)
        assert reached(story, b, a)


def test_healing_everything_ends_what_flapping_would_still_do(story: Story) -> None:
    world = story.world
    _, b = world.add_nodes(2)
    world.flap(b, on=1, off=1, seconds=40)
    world.run(2.5)
    world.heal()
    world.run(10)
    assert world.network.paths.are_whole
    assert world.history.last_change_at == 2.5


def test_weather_between_groups_is_judged_on_their_paths_alone(story: Story) -> None:
    world = story.world
    a, b, c = world.add_nodes(3)
    world.set_weather_of([a], [b], name="bad", loss=0.8)
    assert world.network.paths.between(a, b).loss == 0.8
    assert world.network.paths.between(b, a).loss == 0.0
    assert world.history.worst_loss(0.0, a.index, b.index) == 0.8
    assert world.history.worst_loss(0.0, b.index, a.index) == 0.8
    assert world.history.worst_loss(0.0, a.index, c.index) == 0.0
    assert world.history.worst_loss(0.0) == 0.8
    assert not world.is_calm
    world.run(1)
    world.end_weather("bad")
    assert world.history.worst_loss(1.5, a.index, b.index) == 0.0
    assert world.is_calm


def test_a_hindered_machine_is_unsound_until_nothing_hinders_it(story: Story) -> None:
    world = story.world
    (a,) = world.add_nodes(1)
    for begin, end in (
        (lambda: world.block(a), lambda: world.resume(a)),
        (lambda: world.slow_down(a, service_time=0.1), lambda: world.slow_down(a)),
        (lambda: world.set_clock(a, rate=0.0), lambda: world.set_clock(a)),
    ):
        world.run(1)
        assert world.is_calm
        assert not world.history.was_absent(a.index, world.now)
        begin()
        assert not world.is_calm
        assert world.history.was_absent(a.index, world.now)
        world.run(1)
        end()
    world.set_clock(a, rate=1.01)
    assert world.is_calm, "a percent of drift is what real clocks have"


def test_a_slow_machine_that_restarts_is_still_unsound(story: Story) -> None:
    world = story.world
    (a,) = world.add_nodes(1)
    world.slow_down(a, service_time=0.1)
    world.run(1)
    world.restart(a)
    world.run(1)
    assert world.history.was_absent(a.index, world.now)


@pytest.mark.parametrize("durable", [False, True])
def test_a_crash_comes_at_the_write_it_was_set_for(durable: bool, story: Story) -> None:
    world = story.world
    (a,) = world.add_nodes(1)
    world.crash_at_write(a, write=2, durable=durable)
    for number in range(1, 4):
        story.want(a, Persist(Ticket(number), Table.HEADS, bytes([number]), b"v"))
        world.run(0.5)
        if not a.is_running:
            break
    assert number == 2
    assert bytes([1]) in a.disk.rows[Table.HEADS]
    if durable:
        assert bytes([2]) in a.disk.rows[Table.HEADS]
    world.restart(a)
    world.run(1)
    assert a.is_running


def test_what_was_listened_to_comes_again(story: Story) -> None:
    world = story.world
    a, b = world.add_nodes(2)
    world.listen_in()
    story.want(a, SendDatagram(b.address, b"x"))
    world.run(1)
    (c,) = world.add_nodes(1)
    world.replay()
    world.replay(c, limit=5)
    world.run(2)
    assert len(story.heard(b)) == 2
    assert len(story.heard(c)) == 1


EVERYTHING = """
name = "everything"
summary = "a bit of everything"
nodes = 8
[[steps]]
do = "grow"
[[steps]]
do = "listen-in"
[[steps]]
do = "partition-shape"
shape = "majorities-ring"
name = "ring"
[[steps]]
do = "weather-between"
sources = "first 2"
both_ways = true
changes = { duplicate = 0.2, reorder = 0.2, corrupt = 0.05, replay = 0.5, bursts = { good = 5.0, bad = 1.0 } }
[[steps]]
do = "swizzle"
seconds = 3
[[steps]]
do = "flap"
hosts = "n05"
on = 1.5
off = 0.7
seconds = 9
direction = "ingress"
[[steps]]
do = "run"
seconds = 5
[[steps]]
do = "heal"
name = "ring"
[[steps]]
do = "set-clock"
hosts = "n01"
rate = 0.0
[[steps]]
do = "set-clock"
hosts = "n02"
rate = 1.01
wall_rate = 1.01
[[steps]]
do = "strobe-clock"
hosts = "n03"
by = 100
[[steps]]
do = "slow-down"
hosts = "n04"
service_time = 0.05
[[steps]]
do = "block"
hosts = "n06"
[[steps]]
do = "set-disk"
hosts = "n07"
spread = 0.1
tears = true
[[steps]]
do = "crash-at-write"
hosts = "n07"
durable = true
[[steps]]
do = "run"
seconds = 5
[[steps]]
do = "replay"
limit = 50
[[steps]]
do = "heal-everything"
[[steps]]
do = "expect"
condition = "converged"
limit = 300
"""


def test_a_file_may_use_every_word_and_its_record_gives_the_same_trace(tmp_path: Path) -> None:
    path = tmp_path / "everything.toml"
    path.write_text(EVERYTHING)
    worlds: list[World] = []
    config = RunConfig(str(path), seed=1)
    first = run_scenario(config, attach=worlds.append)
    assert first.verdict == "pass", first.violation
    record = tmp_path / "record.toml"
    record.write_text(record_of(worlds[0], config))
    assert run_scenario(RunConfig(str(record), seed=1)).trace_digest == first.trace_digest
    assert run_scenario(RunConfig(str(path), seed=2)).trace_digest != first.trace_digest


def test_every_step_says_what_it_is_in_one_line() -> None:
    assert all(kind.__doc__ for kind in KINDS.values())
