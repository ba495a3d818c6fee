"""Newcomers: a node that joins while others have just died calls at once, and reaches the living."""

from __future__ import annotations

from reachp2p_sim.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world import World

LOOK = 0.01
"""Seconds between two looks of a newcomer's program at whether it may call; the runtime is told sooner."""


@scenario(
    "newcomer-calls",
    "half of all instances are killed, a node joins and calls at once: no call fails while an instance lives",
    nodes=6,
    nodes_min=4,
    cases=("B11",),
    group="newcomers",
    killed_before=8.0,
    newcomers=3,
    ready_within=3.0,
    seconds=10.0,
)
def newcomer_calls(world: World, options: Options) -> None:
    """The dead are unknown to all, suspected, or buried already when the newcomers start: every moment is drawn.

    Handlers may not run twice, so only what certainly was not sent can go to another instance.
    """
    hosts = grow(world, options, work=False)
    world.offer(*hosts, repeatable=False)
    world.run(2)
    chance = world.randomness.stream("newcomers")
    world.crash(*chance.sample(hosts[1:], len(hosts) // 2))
    worst = 0.0
    for _ in range(int(options.number("newcomers"))):
        world.run(chance.random() * options.number("killed_before"))
        (newcomer,) = world.add_nodes(1)

        def ready(_: World) -> bool:
            return newcomer.engine.is_callable(CAPABILITY)  # noqa: B023 (asked before the next round only)

        worst = max(worst, world.run_until(ready, limit=options.number("ready_within"), every=LOOK))
        world.call_in_a_loop(newcomer, think_time=0.05, at_once=True)
    world.run(options.number("seconds"))
    world.timings["ready_worst"] = worst
    codes = world.ledger.codes
    require(world, set(codes) == {0}, f"calls ended as {dict(sorted(codes.items()))}")
    settle(world, healing(len(world.running), world.protocol))
