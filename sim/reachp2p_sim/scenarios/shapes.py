"""Partitions of odd shapes: bridges, rings, pairs, one-way cuts, and cuts that come and go."""

from __future__ import annotations

from collections.abc import Callable

from reachp2p.core.events import MemberState
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.scenarios.told import Told, Word, first
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world.world import World, halves, without

OUT_WITHIN = 60.0
"""B3.15, B3.17: seconds until a member that is deaf, mute or lossy is out of all routing."""


@scenario(
    "bridge",
    "two halves do not reach each other, and one node reaches both: nobody is buried",
    nodes=16,
    cases=("B3.14",),
    group="partitions",
    limits={"flaps": 2},
    cut=120.0,
)
def bridge(world: World, options: Options) -> None:
    """B3.14: what the bridge passes on, refutations among it, keeps all alive."""
    buried = _cut_in_shape(world, options, "bridge")
    require(world, not buried, f"somebody was buried: {first(buried)}")


@scenario(
    "majorities-ring",
    "every node reaches a majority and no two the same one: nobody changes its mind more than twice",
    nodes=16,
    nodes_min=4,
    cases=("B3.14",),
    group="partitions",
    limits={"flaps": 2},
    cut=120.0,
)
def majorities_ring(world: World, options: Options) -> None:
    """B3.14."""
    _cut_in_shape(world, options, "majorities-ring")


@scenario(
    "non-transitive",
    "one pair does not reach each other for five minutes, though all others reach both: nobody is buried",
    nodes=16,
    cases=("B3.18",),
    group="partitions",
    limits={"flaps": 0},
    cut=300.0,
)
def non_transitive(world: World, options: Options) -> None:
    """B3.18: the others' word for each of the two is enough."""
    hosts = grow(world, options)
    told = Told(world)
    world.partition_shape("non-transitive")
    world.run(options.number("cut"))
    require(world, not told.buried(hosts), f"somebody was buried: {first(told.buried(hosts))}")
    world.heal()
    settle(world, healing(options.nodes, world.protocol))


def _cut_in_shape(world: World, options: Options, shape: str) -> list[Word]:
    """Cut for a while in a shape and heal; returns which burials were told."""
    hosts = grow(world, options)
    told = Told(world)
    world.partition_shape(shape)
    world.run(options.number("cut"))
    world.heal()
    world.timings["buried"] = len(told.buried(hosts))
    world.timings["flips"] = told.flips(hosts, hosts)
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))
    return told.buried(hosts)


def _unrouted(faulty: list[Host], rest: list[Host]) -> Callable[[World], bool]:
    """The condition that nobody of the rest would call any of the faulty ones."""

    def is_unrouted(_: World) -> bool:
        nodes = [host.node for host in faulty]
        return not any(node in nodes for host in rest for node in host.engine.routable(CAPABILITY))

    return is_unrouted


def _faulty_and_rest(world: World, options: Options, hosts: list[Host]) -> tuple[list[Host], list[Host]]:
    """A drawn share of the machines, at least one and never the first, and all others."""
    count = max(1, round(len(hosts) * options.number("share")))
    faulty = world.randomness.stream("faulty").sample(hosts[1:], count)
    return faulty, without(hosts, *faulty)


def _one_way(world: World, options: Options, *, deaf: bool) -> None:
    hosts = grow(world, options)
    world.offer(*hosts)
    world.run(5)
    told = Told(world)
    faulty, rest = _faulty_and_rest(world, options, hosts)
    world.partition(*((rest, faulty) if deaf else (faulty, rest)), one_way=True)
    world.timings["unrouted_after"] = world.run_until(_unrouted(faulty, rest), limit=OUT_WITHIN)
    world.run(options.number("cut") - world.timings["unrouted_after"])
    require(world, _unrouted(faulty, rest)(world), "a member that cannot be reached is routed to again")
    world.heal()
    world.timings["flips"] = told.flips(faulty, rest)
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))
    told.demand_not_buried(rest)
    require(
        world, told.flips(faulty, rest) <= 2, f"{told.flips(faulty, rest)} changes of one mind, 2 allowed"
    )


@scenario(
    "one-way-ingress",
    "a few nodes hear nobody for three minutes, though everybody hears them",
    nodes=16,
    cases=("B3.15", "B11"),
    group="partitions",
    share=0.03,
    cut=180.0,
)
def one_way_ingress(world: World, options: Options) -> None:
    """B3.15: out of all routing within a minute, and no more than out and back in any view."""
    _one_way(world, options, deaf=True)


@scenario(
    "one-way-egress",
    "a few nodes hear everybody for three minutes, and nobody hears them",
    nodes=16,
    cases=("B3.15", "B11"),
    group="partitions",
    share=0.03,
    cut=180.0,
)
def one_way_egress(world: World, options: Options) -> None:
    """The same for those who are mute."""
    _one_way(world, options, deaf=False)


@scenario(
    "flip-flop",
    "a few nodes hear nobody for twenty seconds in forty, for five minutes: nobody else is buried",
    nodes=16,
    cases=("B3.16",),
    group="partitions",
    share=0.01,
    on=20.0,
    off=20.0,
    seconds=300.0,
)
def flip_flop(world: World, options: Options) -> None:
    """B3.16: the rest stays as it is. How often a view of a faulty one changes is measured (`flips`)."""
    hosts = grow(world, options, work=False)
    told = Told(world)
    faulty, rest = _faulty_and_rest(world, options, hosts)
    on, off, seconds = (options.number(name) for name in ("on", "off", "seconds"))
    world.flap(*faulty, on=on, off=off, seconds=seconds, direction="ingress")
    world.run(seconds)
    world.timings["flips"] = told.flips(faulty, rest)
    told.demand_not_buried(rest)
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "lossy-members",
    "a few nodes lose 80 % of what they send, for five minutes: nobody else is buried",
    nodes=16,
    cases=("B3.17",),
    group="network",
    share=0.01,
    lost=0.8,
    seconds=300.0,
)
def lossy_members(world: World, options: Options) -> None:
    """B3.17: the rest stays as it is. When the faulty ones are out, and how often views change, is measured."""
    hosts = grow(world, options, work=False)
    told = Told(world)
    faulty, rest = _faulty_and_rest(world, options, hosts)
    began_at = world.now
    world.set_weather_of(faulty, rest, loss=options.number("lost"), name="lossy")
    world.run(options.number("seconds"))
    world.end_weather("lossy")
    world.timings["flips"] = told.flips(faulty, rest)
    dead = told.buried(faulty, rest)
    world.timings["buried_after"] = dead[0].at - began_at if dead else -1.0
    held = [host.view.members.get(node.node) for host in rest for node in faulty]
    world.timings["buried_at_the_end"] = sum(h is not None and h.state is MemberState.DEAD for h in held)
    told.demand_not_buried(rest)
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "swizzle",
    "a quarter is cut off one by one and let back in another order, ten times over",
    nodes=16,
    cases=("B3.19",),
    group="partitions",
    share=0.25,
    seconds=5.0,
    rounds=10,
)
def swizzle(world: World, options: Options) -> None:
    """B3.19: equal views within the budget each time."""
    grow(world, options)
    worst = 0.0
    for _ in range(int(options.number("rounds"))):
        world.swizzle(share=options.number("share"), seconds=options.number("seconds"))
        world.run(2 * options.number("seconds"))
        worst = max(worst, settle(world, healing(options.nodes, world.protocol)))
    world.timings["healed_after_worst"] = worst


@scenario(
    "flapping",
    "two halves are cut every other ten seconds, for five minutes",
    nodes=16,
    cases=("B3.11",),
    group="partitions",
    on=10.0,
    off=10.0,
    seconds=300.0,
)
def flapping(world: World, options: Options) -> None:
    """Cuts that come and go, then heal for good."""
    left, right = halves(grow(world, options))
    until = world.now + options.number("seconds")
    while world.now < until:
        world.partition(left, right)
        world.run(options.number("on"))
        world.heal()
        world.run(options.number("off"))
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))
