"""A story in Python that says what makes no sense is told so, as a scenario file is: nothing happens in silence."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
from reachp2p_sim.machines.scripted import Story
from reachp2p_sim.steps.processes import Pause
from reachp2p_sim.steps.selection import StepImpossible
from reachp2p_sim.steps.story import Run
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

from reachp2p.core.events import Lagged


def nothing() -> None: ...


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda world: world.run(-1), "world.run: seconds from 0 to 1e+09 are wanted, not -1"),
    (lambda world: world.run(nan), "world.run: seconds from 0 to 1e+09 are wanted, not nan"),
    (lambda world: world.run(inf), "are wanted, not inf"),
    (lambda world: world.run("5"), "are wanted, not '5'"),
    (lambda world: world.run_to(nan), "world.run_to: seconds from 0"),
    (
        lambda world: world.run_until(converged, limit=5, every=0),
        "world.run_until: every: seconds from 0.001 to 1e+09 are wanted, not 0",
    ),
    (lambda world: world.run_until(converged, limit=-1), "world.run_until: limit: seconds from 0"),
    (lambda world: world.every(0, nothing), "world.every: seconds from 0.001 to 1e+09 are wanted, not 0"),
    (lambda world: world.every(nan, nothing), "world.every: seconds from 0.001"),
    (
        lambda world: world.crash("n00"),
        'a machine is wanted, such as world.nodes[3] or world.host("n03"), not',
    ),
    (lambda world: world.crash(world.nodes), "not a list; of a list write *machines"),
    (lambda world: world.partition(world.nodes[0], world.nodes[1:]), "a list of machines is wanted"),
    (lambda world: world.partition("n00", world.nodes[1:]), "such as world.nodes[:3], not 'n00'"),
    (lambda world: world.slow_down(world.nodes[0], service_time=-1.0), "slow-down: Expected `float` >= 0.0"),
    (lambda world: world.step_clock(world.nodes[0], nan), "seconds = nan: a number within ±1e+09 is wanted"),
    (lambda world: world.restart(*world.nodes, disk="old"), "no image 'old' of the disk of n01 was saved"),
    (lambda world: world.clone(world.nodes[1], image="old"), "no image 'old' of the disk of n01 was saved"),
    (lambda world: world.heal("cut"), "there is no cut named 'cut' to end"),
    (lambda world: world.perform(Pause(hosts="n99")), "there is no machine 'n99'"),
]


@pytest.mark.parametrize(("act", "says"), WRONG, ids=[says for _, says in WRONG])
def test_what_makes_no_sense_is_refused_and_nothing_has_happened(
    story: Story, act: Callable[[World], object], says: str
) -> None:
    world = story.world
    world.add_nodes(2)
    world.run(1)
    world.save_disk(world.nodes[0], image="old")
    before = (list(world.performed), world.trace.digest(), world.now, len(world.timeline), len(world.nodes))
    with pytest.raises(StepImpossible) as refused:
        act(world)
    assert says in str(refused.value)
    after = (list(world.performed), world.trace.digest(), world.now, len(world.timeline), len(world.nodes))
    assert after == before


@pytest.mark.parametrize(
    "wait",
    [
        lambda world: world.run(1),
        lambda world: world.run_to(1),
        lambda world: world.run_until(converged, limit=1),
        lambda world: world.perform(Run(seconds=1)),
    ],
)
def test_a_listener_cannot_let_time_pass(story: Story, wait: Callable[[World], object]) -> None:
    world = story.world
    (host,) = world.add_nodes(1)
    world.on_event.append(lambda *_: wait(world))
    world.timeline.after(1.0, lambda _: story.say(host, Lagged(at=host.now, seconds=1.0)))
    with pytest.raises(StepImpossible, match="only the story lets time pass"):
        world.run(2)
    assert world.now == 1.0
    world.on_event.clear()
    world.run(2)  # the story itself still can
    assert world.now == 3.0


@pytest.mark.parametrize("wait", [lambda world: world.run(1), lambda world: world.perform(Run(seconds=1))])
def test_time_does_not_pass_in_the_middle_of_a_step(story: Story, wait: Callable[[World], object]) -> None:
    world = story.world
    (host,) = world.add_nodes(1)
    world.on_process.append(lambda *_: wait(world))
    with pytest.raises(StepImpossible, match="only the story lets time pass"):
        world.crash(host)
    assert world.now == 0.0
    world.on_process.clear()
    world.run(2)
    assert world.now == 2.0


def test_an_action_again_and_again_cannot_let_time_pass(story: Story) -> None:
    world = story.world
    world.every(1.0, lambda: world.run(1))
    with pytest.raises(StepImpossible, match=r"plan what comes later with world\.timeline\.after"):
        world.run(3)
