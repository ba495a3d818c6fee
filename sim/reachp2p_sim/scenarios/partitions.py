"""Cuts that heal: halves, for ever so long, one node alone, names that are wrong."""

from __future__ import annotations

from reachp2p.core.events import MemberState
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.world.acts import SEEDS
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World, halves, without


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
    "partition-majority",
    "a quarter is cut off for half an hour, until each side has buried the other; they merge without help",
    nodes=16,
    nodes_min=4,
    cases=("B12", "B3.12"),
    group="partitions",
    share=0.25,
    cut=1_800.0,
)
def partition_majority(world: World, options: Options) -> None:
    """B3.12: longer than gossip goes to the dead. Each node refutes its death once: incarnations rise by one."""
    hosts = grow(world, options)
    minority = hosts[-max(1, round(len(hosts) * options.number("share"))) :]
    majority = without(hosts, *minority)
    before = _incarnations(world)
    world.partition(majority, minority)
    world.run(options.number("cut"))
    for side, other in ((majority, minority), (minority, majority)):
        for host in side:
            states = {host.view.members[gone.node].state for gone in other if gone.node in host.view.members}
            require(
                world,
                states <= {MemberState.DEAD},
                f"{host.name} still believes in the other side after {options.number('cut'):g} s of silence",
            )
    world.heal()
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))
    raised = {name: now - before[name] for name, now in _incarnations(world).items()}
    world.timings["refutations_most"] = max(raised.values())
    more = [name for name, steps in raised.items() if steps > 1]
    require(world, not more, f"raised their incarnation more than once: {more[:4]}")


def _incarnations(world: World) -> dict[str, int]:
    """Everybody's incarnation, in its own words."""
    own = {host.name: next(m for m in host.engine.members() if m.is_self) for host in world.running}
    return {name: view.incarnation for name, view in own.items()}


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
    limits={"flaps": 2},
    cut=120.0,
)
def one_way(world: World, options: Options) -> None:
    """Deaf, then healed; B3.15: at most two changes of mind a pair."""
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
