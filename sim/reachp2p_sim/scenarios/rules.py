"""Rules of a whole cluster: applied on two sides of a cut, by nodes that go, known to nodes that come."""

from __future__ import annotations

from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.world.world import World, halves

KNOWN_WITHIN = 5.0
"""Seconds in which a rules record has reached everybody who is connected: gossip, and a link to whoever has it."""
FIRST = '[[rule]]\npolicy = "round_robin"\n'
LEFT = '[[rule]]\nname = "left"\nretry = false\n'
RIGHT = '[[rule]]\nname = "right"\nprefer = "zone"\n'


@scenario(
    "rules-two-sides",
    "both halves of a cut apply rules, one author dies; healed, all go by the same ones, and so does a newcomer",
    nodes=8,
    nodes_min=4,
    group="partitions",
    cut=60.0,
)
def rules_two_sides(world: World, options: Options) -> None:
    """The higher (version, author, digest) wins; the history of every node has the other, too."""
    hosts = grow(world, options)
    world.apply_rules(hosts[-1], rules=FIRST)
    world.run(KNOWN_WITHIN)
    require(world, all(in_force(host) == FIRST for host in hosts), _differing(hosts))
    left, right = halves(hosts)
    world.partition(left, right)
    world.run(options.number("cut"))
    world.apply_rules(left[-1], rules=LEFT)
    world.apply_rules(right[0], rules=RIGHT)
    world.run(KNOWN_WITHIN)
    require(world, all(in_force(host) == LEFT for host in left), _differing(left))
    require(world, all(in_force(host) == RIGHT for host in right), _differing(right))
    world.crash(left[-1])  # not the seed, which the newcomer needs
    world.run(5)
    world.heal()
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))
    (newcomer,) = world.add_nodes(1)
    settle(world, healing(options.nodes + 1, world.protocol))
    living = [*left[:-1], *right, newcomer]
    winner = LEFT if left[-1].node > right[0].node else RIGHT
    require(world, all(in_force(host) == winner for host in living), _differing(living))
    histories = {tuple(one.digest for one in host.engine.rules().history) for host in living}
    require(world, [len(one) for one in histories] == [3], f"the histories differ: {histories}")


def in_force(host: Host) -> str | None:
    """The rules of the cluster that a node goes by, as text; None if there are none."""
    return next((one.toml for one in host.engine.rules().history if one.in_force), None)


def _differing(hosts: list[Host]) -> str:
    return "rules differ: " + ", ".join(f"{host.name} goes by {in_force(host)!r}" for host in hosts)
