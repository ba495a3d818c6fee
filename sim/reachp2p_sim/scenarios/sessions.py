"""Calls that are more than a question and an answer: chains of agents, and streams."""

from __future__ import annotations

from reachp2p.core.effects import Invoke
from reachp2p.errors import ErrorCode
from reachp2p_sim.machines.host import Host
from reachp2p_sim.scenarios.base import Options, require, scenario
from reachp2p_sim.scenarios.pools import serve, teams
from reachp2p_sim.scenarios.served import Served
from reachp2p_sim.world.world import World


@scenario(
    "sessions",
    "chains of three agents, each of whom calls the next, while one fails and another crashes: each chain ends once",
    nodes=9,
    nodes_min=7,
    group="calls",
    rate=5.0,
    seconds=15.0,
)
def sessions(world: World, options: Options) -> None:
    """A call of a handler has no more time than the call that it serves; nothing is left of a chain that has ended."""
    hosts = world.add_nodes(options.nodes, converged=True, tells_load=True)
    world.run(1)
    caller = hosts[0]
    teams_of = [hosts[1::3], hosts[2::3], hosts[3::3]]
    names = ("plan", "retrieve", "check")
    for place, team in enumerate(teams_of):
        after = f"work.{names[place + 1]}" if place < 2 else ""
        world.offer(*team, agent=f"work/{names[place]}", capability=f"work.{names[place]}", calls=after)
    world.run(2)
    served = Served(world)
    depths: list[int] = []

    def on_invoke(host: Host, invoke: Invoke) -> None:
        depths.append(len(invoke.path))

    world.on_invoke.append(on_invoke)
    seconds = options.number("seconds")
    world.call_at_rate(
        caller, rate=options.number("rate"), capability="work.plan", seconds=seconds, timeout=4.0
    )
    world.run(seconds / 3)
    world.change_handlers(teams_of[2][-1], agent="work/check", fails=1.0)
    world.run(seconds / 3)
    world.crash(teams_of[1][-1])
    world.run(seconds / 3 + 5)
    chains = [end for end in served.ends if end.caller is caller]
    well = sum(end.code == 0 for end in chains) / len(chains)
    world.timings["chains_well"] = well
    require(world, max(depths) == 3, f"the longest chain has {max(depths)} links")
    codes = {end.code for end in chains}
    require(world, codes <= {0, int(ErrorCode.HANDLER_FAILED)}, f"chains ended as {sorted(codes)}")
    require(
        world, well > 0.6, f"{well:.0%} of the chains went well: failures must stay with those who meet them"
    )
    require(
        world,
        not world.ledger.pending,
        f"{len(world.ledger.pending)} calls are left of chains that have ended",
    )


@scenario(
    "streams",
    "streams of items while a caller is cut off for some seconds: no item is missing, doubled or out of order",
    nodes=6,
    nodes_min=4,
    cases=("B36",),
    group="calls",
    items=200,
    cut=3.0,
)
def streams(world: World, options: Options) -> None:
    """What is cut for less than a stream waits goes on where it was."""
    callers, servers = teams(world, options)
    serve(world, servers, items=int(options.number("items")), service_time=0.02)
    world.call_in_a_loop(*callers, stream=True, think_time=0.5, timeout=60.0, seconds=15.0)
    world.run(4)
    world.partition(callers[:1], servers)
    world.run(options.number("cut"))
    world.heal()
    world.run(25)
    ledger, codes = world.ledger.streams, dict(sorted(world.ledger.codes.items()))
    world.timings["items"], world.timings["streams"] = ledger.taken, ledger.completed
    require(world, ledger.completed > 0, f"no stream has ended well: {codes}")
    require(world, ledger.misplaced == 0, f"{ledger.misplaced} items do not follow the one before")
    require(world, ledger.miscounted == 0, f"{ledger.miscounted} streams say another number of items")
    require(world, set(codes) == {0}, f"streams ended as {codes}")
