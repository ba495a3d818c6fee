"""Bad weather: loss that comes in bursts, datagrams that arrive twice, late, damaged or again, and jams."""

from __future__ import annotations

from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.scenarios.told import Told, first
from reachp2p_sim.world.world import World


@scenario(
    "burst-loss",
    "every path is bad for two seconds in a minute, 90 % lost; then all are for two minutes at once",
    nodes=16,
    cases=("B3.4",),
    group="network",
    good=60.0,
    bad=2.0,
    loss=0.9,
    seconds=120.0,
    storm=120.0,
)
def burst_loss(world: World, options: Options) -> None:
    """B3.4: bursts shorter than the shortest suspicion bury nobody; after the long one all are back within X."""
    hosts = grow(world, options)
    told = Told(world)
    loss = options.number("loss")
    bursts = {"good": options.number("good"), "bad": options.number("bad"), "loss_bad": loss}
    world.set_weather(bursts=bursts)
    world.run(options.number("seconds"))
    buried = told.buried(hosts)
    require(world, not buried, f"bursts of {options.number('bad'):g} s buried somebody: {first(buried)}")
    world.set_weather(loss=loss)
    world.run(options.number("storm"))
    world.set_weather()
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "mangled-datagrams",
    "a fifth of all datagrams come twice, a fifth late, half bring an old one along, one in twenty has flipped bits",
    nodes=16,
    cases=("B3.27",),
    group="network",
    duplicate=0.2,
    reorder=0.2,
    corrupt=0.05,
    replay=0.5,
    seconds=60.0,
    jam=30.0,
)
def mangled_datagrams(world: World, options: Options) -> None:
    """B3.27: nothing damaged is taken for a message, and nobody is buried, also not by a jam of half a minute."""
    hosts = grow(world, options)
    told = Told(world)
    world.set_weather(
        duplicate=options.number("duplicate"),
        reorder=options.number("reorder"),
        corrupt=options.number("corrupt"),
        replay=options.number("replay"),
    )
    world.run(options.number("seconds"))
    tally = world.network.tally
    for name in ("duplicated", "reordered", "corrupted", "replayed"):
        require(world, getattr(tally, name) > 0, f"nothing was {name}")
        world.timings[name] = getattr(tally, name)
    require(world, not told.buried(hosts), f"somebody was buried: {first(told.buried(hosts))}")
    world.set_weather()
    jammed = world.randomness.stream("jam").sample(hosts, max(1, len(hosts) // 8))
    rest = [host for host in hosts if host not in jammed]
    world.hold(jammed, rest, name="jam")
    world.run(options.number("jam"))
    world.release("jam")
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))
    buried = told.buried(rest, rest)
    require(world, not buried, f"somebody whom nothing held up was buried: {first(buried)}")


@scenario(
    "heavy-tail",
    "delays of a heavy tail: most are short, one in a thousand takes longer than a probe waits",
    nodes=16,
    cases=("B3.3",),
    group="network",
    weather={"shape": "pareto", "alpha": 1.5, "spread": 0.01},
    seconds=120.0,
)
def heavy_tail(world: World, options: Options) -> None:
    """A slow datagram is no dead member."""
    hosts = grow(world, options)
    told = Told(world)
    world.run(options.number("seconds"))
    require(world, not told.buried(hosts), f"somebody was buried: {first(told.buried(hosts))}")
    settle(world, healing(options.nodes, world.protocol))
