"""A mix of faults drawn from the seed, then a liveness phase: heal for good, and converge within the budget.

The draws are steps like all others: `--record FILE` writes them as a scenario, and the trace log (`--log`) has them as
lines that begin with FAULT.
"""

from __future__ import annotations

from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.measuring.rare_branches import BRANCHES
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.scenarios.fault_mix import LIVE_MIN, SEED_NODES, FaultMix, repaired
from reachp2p_sim.world.acts import SEEDS
from reachp2p_sim.world.world import World

CORE_SHARE = 0.6


@scenario(
    "random-faults",
    "faults of every kind as the seed draws them; then a core is healed for good and must converge",
    nodes=16,
    nodes_min=4,
    cases=("B3.30",),
    group="random",
    reaches=tuple(BRANCHES),
    seconds=120.0,
    rate=0.3,
)
def random_faults(world: World, options: Options) -> None:
    """B3.30: safety while faults go on, liveness after them."""
    hosts = grow(world, options)
    world.set_name(SEEDS, hosts[:SEED_NODES])
    mix = FaultMix(world, hosts, world.randomness.stream("faults"))
    until = world.now + options.number("seconds")
    while world.now < until:
        world.run(mix.chance.expovariate(options.number("rate")))
        mix.act()
    core = _heal_a_core(mix)
    require(world, len(core) >= LIVE_MIN, "the core is too small to say anything")
    world.timings["healed_after"] = settle(world, healing(len(world.nodes), world.protocol))


def _heal_a_core(mix: FaultMix) -> list[Host]:
    """Declare a drawn part of the machines the core and make it sound, with all paths; what is elsewhere stays broken.

    Nobody in the core is hostile or shares a key with a clone: which of two goes on is not for us to say. A part of the
    others is cut off for good.
    """
    world, chance = mix.world, mix.chance
    single = mix.trustworthy()
    count = max(LIVE_MIN, round(CORE_SHARE * len(mix.hosts)))
    core = _in_order(chance.sample(range(len(single)), min(count, len(single))), single)
    names = tuple(host.name for host in core)
    world.heal()
    world.release()
    world.set_weather()
    world.end_weather()
    for step in repaired(names):
        world.perform(step)
    for host in core:
        if not host.is_running:
            world.restart(host)
    world.set_name(SEEDS, core[:SEED_NODES])
    others = [host for host in world.nodes if host not in core]
    lost = _in_order([index for index in range(len(others)) if chance.random() < 0.3], others)
    if lost:
        world.partition(lost, [host for host in world.nodes if host not in lost])
    world.declare_core(core)
    return core


def _in_order(indices: list[int], hosts: list[Host]) -> list[Host]:
    return [hosts[index] for index in sorted(indices)]
