"""Cuts that heal: halves, for ever so long, one node alone, names that are wrong."""

from __future__ import annotations

from reachp2p.core.events import MemberState
from reachp2p_sim.agreement import converged
from reachp2p_sim.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.world import SEEDS, World, halves, without


@scenario(
    "partition-long",
    "two halves are cut for a hundred failure time-outs, forget each other, and merge without help",
    nodes=6,
    nodes_min=4,
    cases=("B12", "B3.12"),
    group="partitions",
    cut=2_400.0,
)
def partition_long(world: World, options: Options) -> None:
    """B12: each node of a half holds the other half DEAD, or has forgotten it."""
    left, right = halves(grow(world, options))
    world.partition(left, right)
    world.run(options.number("cut"))
    for host in left:
        for other in right:
            held = host.view.members.get(other.node)
            require(
                world,
                held is None or held.state is MemberState.DEAD,
                f"{host.name} still believes in {other.name} after {options.number('cut'):g} s of silence",
            )
    world.heal()
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "isolate-one",
    "one node is cut off for ten minutes and returns with the same life",
    nodes=16,
    cases=("B12", "B3.13"),
    group="partitions",
    cut=600.0,
)
def isolate_one(world: World, options: Options) -> None:
    """B3.13: back everywhere within the budget, without a new epoch."""
    hosts = grow(world, options)
    chosen = hosts[world.randomness.stream("isolate").randrange(len(hosts))]
    life = chosen.life
    world.partition([chosen], without(hosts, chosen))
    world.run(options.number("cut"))
    world.heal()
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))
    require(world, chosen.life == life, f"{chosen.name} opened a new life although it never stopped")


@scenario(
    "one-way",
    "one node hears nobody for two minutes, though everybody hears it",
    nodes=16,
    cases=("B11", "B3.15"),
    group="partitions",
    cut=120.0,
)
def one_way(world: World, options: Options) -> None:
    """Deaf, then healed."""
    hosts = grow(world, options)
    deaf = hosts[-1]
    world.partition(without(hosts, deaf), [deaf], one_way=True)
    world.run(options.number("cut"))
    world.heal()
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "stale-seeds",
    "all nodes restart elsewhere while the names point to the old addresses; the names are corrected after a minute",
    nodes=16,
    cases=("B56",),
    group="newcomers",
    stale=60.0,
)
def stale_seeds(world: World, options: Options) -> None:
    """B56: names are resolved again for ever, so the cluster forms without a restart."""
    hosts = grow(world, options)
    world.crash(*hosts)
    world.restart(*hosts, moved=True)
    world.run(options.number("stale"))
    world.set_name(SEEDS, [hosts[0]])
    world.timings["formed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "late-names",
    "the seed name resolves to nothing for a minute after the start",
    nodes=8,
    cases=("B56",),
    group="newcomers",
    late=60.0,
)
def late_names(world: World, options: Options) -> None:
    """B56, the other half: a name that is not known yet is asked for again."""
    hosts = [world.add_node() for _ in range(options.nodes)]
    world.set_name(SEEDS, [])
    for host in hosts:
        world.start(host)
    world.run(options.number("late"))
    require(world, not converged(world), "the nodes found each other without an address")
    world.set_name(SEEDS, [hosts[0]])
    world.timings["formed_after"] = settle(world, 60.0)
