"""Calls while views differ or change, and news of every size."""

from __future__ import annotations

from reachp2p.core.commands import AgentSpec, CapabilitySpec
from reachp2p.core.events import CallEnded, Event
from reachp2p.errors import ErrorCode, ReachError
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import dissemination, healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.scenarios.told import Told
from reachp2p_sim.world.world import World


@scenario(
    "flapping-bystander",
    "a node that nobody calls is suspected and refutes, over and over, while calls run between the others",
    nodes=8,
    nodes_min=4,
    cases=("B24",),
    group="calls",
    seconds=30.0,
    stopped=3.0,
    running=2.0,
)
def flapping_bystander(world: World, options: Options) -> None:
    """B24: 99.9 % of the calls succeed; what is believed about others is no reason to refuse one."""
    hosts = grow(world, options, work=False)
    bystander, *others = hosts[1:]
    world.offer(*others)
    world.call_in_a_loop(*others, think_time=0.1)
    world.run(2)
    told = Told(world)
    until = world.now + options.number("seconds")
    while world.now < until:
        world.pause(bystander)
        world.run(options.number("stopped"))
        world.resume(bystander)
        world.run(options.number("running"))
    codes = world.ledger.codes
    share = codes.get(0, 0) / sum(codes.values())
    suspicions = len(told.suspected([bystander]))
    world.timings["suspicions"], world.timings["share_of_calls_well"] = suspicions, share
    require(world, suspicions > 0, "nobody has suspected the bystander: nothing was tried")
    require(world, share >= 0.999, f"calls ended as {dict(sorted(codes.items()))}")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "views-differ",
    "two nodes each believe that the other offers an agent, and neither does any more: calls end with a clear error",
    nodes=6,
    nodes_min=3,
    cases=("B25",),
    group="calls",
    quick=3.0,
)
def views_differ(world: World, options: Options) -> None:
    """B25: a call is never handed round; whoever is asked in vain says so, and the caller ends it with the reason.

    Both withdraw at one moment, so their calls are on the way before the news arrives.
    """
    hosts = grow(world, options, work=False)
    left, right = hosts[1], hosts[2]
    world.offer(left, right)
    world.run(5)
    ended: list[tuple[float, CallEnded]] = []
    began_at = world.now

    def on_event(host: Host, event: Event) -> None:
        if isinstance(event, CallEnded):
            ended.append((world.now - began_at, event))

    world.on_event.append(on_event)
    world.withdraw(left, right)
    world.call_in_a_loop(left, right, *hosts[3:], think_time=1_000.0, at_once=True)
    world.run(4 * options.number("quick"))
    require(world, len(ended) + world.ledger.codes.get(int(ErrorCode.UNKNOWN_TARGET), 0) > 0, "nobody called")
    for took, event in ended:
        is_clear = event.code in CLEAR and bool(event.detail)
        require(world, is_clear, f"a call ended with {event.code}: {event.detail or 'no reason'}")
        require(world, event.attempts <= 2, f"a call was handed to {event.attempts} nodes")
        require(world, took <= options.number("quick"), f"a call took {took:.1f} s to fail")
    world.timings["calls_on_the_way"], world.timings["slowest"] = len(ended), max(t for t, _ in ended)
    settle(world, healing(options.nodes, world.protocol))


CLEAR = (1301, 1303, 1406, 1411)
"""Nobody offers it; nobody healthy does; refused; the node was lost."""
SIZES = (2_000, 20_000, 200_000)


@scenario(
    "large-records",
    "agents with descriptions of 2 kB, 20 kB and 200 kB are registered, and small updates right behind them",
    nodes=12,
    nodes_min=3,
    cases=("B13",),
    group="calls",
    rounds=3,
)
def large_records(world: World, options: Options) -> None:
    """B13: what is too large is refused when it is registered; nothing blocks what comes after it."""
    hosts = grow(world, options)
    limit = dissemination(options.nodes, world.protocol)
    worst = 0.0
    refused = 0
    for number in range(int(options.number("rounds"))):
        host = hosts[number % len(hosts)]
        for size in SIZES:
            try:
                host.engine.register(_spec(f"large/a{number}-{size}", "x" * size, "large.work"), host.now)
            except ReachError as error:
                refused += 1
                require(world, bool(str(error)), "a registration was refused without a reason")
            host.settle()
        host.engine.register(_spec(f"small/a{number}", "small", f"small.s{number}"), host.now)
        host.settle()

        def told(world: World, host: Host = host, capability: str = f"small.s{number}") -> bool:
            return all(host.node in other.engine.routable(capability) for other in world.running)

        worst = max(worst, world.run_until(told, limit=limit, every=0.05))
    world.timings["small_update_worst"], world.timings["refused"] = worst, refused
    require(world, refused >= options.number("rounds"), "a description of 200 kB was accepted")
    settle(world, healing(options.nodes, world.protocol))


def _spec(agent: str, description: str, capability: str) -> AgentSpec:
    return AgentSpec(agent=agent, description=description, capabilities=(CapabilitySpec(name=capability),))
