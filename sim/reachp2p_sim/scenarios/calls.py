"""Calls while views differ or change, and news of every size."""

from __future__ import annotations

from reachp2p.core.commands import AgentSpec, CapabilitySpec
from reachp2p.core.events import CallEnded, Event
from reachp2p.errors import ErrorCode, ReachError
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import (
    completeness,
    dissemination,
    healing,
    suspicion_maximum,
    suspicion_minimum,
)
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle, stopped
from reachp2p_sim.scenarios.pools import serve, teams
from reachp2p_sim.scenarios.served import Served
from reachp2p_sim.scenarios.told import Told
from reachp2p_sim.world.violation import Violation
from reachp2p_sim.world.world import World, without


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


@scenario(
    "exclusive-agent",
    "one of three owns an agent and crashes, another takes over; a cut makes two owners, and after it one remains",
    nodes=8,
    nodes_min=4,
    group="calls",
    cut=60.0,
)
def exclusive_agent(world: World, options: Options) -> None:
    """docs/protocol/claims.md: a takeover within its bound, and one owner outside of partitions."""
    hosts = grow(world, options, work=False)
    offering = hosts[:3]
    world.offer(*offering, agent=LEDGER, capability="pay.book", service_time=0.05, exclusive=True)
    world.call_in_a_loop(*hosts, capability="pay.book", think_time=0.5, timeout=2.0)
    minimum = suspicion_minimum(options.nodes, world.protocol)
    world.timings["first_owner_after"] = world.run_until(_is_owned, limit=3 * minimum)
    first = _owner(world)
    world.crash(first)
    # DEAD, twice S_min, one more turn for a standby that is not first in line, and the time for its disk and its word.
    bound = completeness(options.nodes, world.protocol) + 2.5 * minimum
    bound += dissemination(options.nodes, world.protocol)

    def is_taken_over(world: World) -> bool:
        return _is_owned(world) and _owner(world) is not first

    world.timings["taken_over_after"] = world.run_until(is_taken_over, limit=bound)
    second = _owner(world)
    world.restart(first)
    settle(world, healing(options.nodes, world.protocol))
    require(world, _owner(world) is second, "a former owner has taken the agent from one that lives")
    aside = [second, *hosts[3:]][: options.nodes // 2]
    world.partition(aside, without(hosts, *aside))
    world.run(options.number("cut"))
    owners = {host.engine.owner(LEDGER) for host in hosts}
    require(world, len(owners) == 2, f"{len(owners)} owners while a cut separates those who offer the agent")
    world.heal()
    settle(world, healing(options.nodes, world.protocol))
    require(world, _owner(world) is not second, "the lower claim has remained")


LEDGER = "pay/ledger"


def _is_owned(world: World) -> bool:
    owners = {host.engine.owner(LEDGER) for host in world.running}
    return len(owners) == 1 and None not in owners and _owner(world).is_running


def _owner(world: World) -> Host:
    """Who owns the agent, as the first running machine sees it."""
    node = world.running[0].engine.owner(LEDGER)
    if node is None:
        raise Violation("scenario", "nobody owns the agent", world.now)
    return world.by_node[node][0]


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


@scenario(
    "restarts-under-load",
    "each of three instances leaves and comes back while they are called, and no call may run twice: not one fails",
    nodes=8,
    nodes_min=5,
    cases=("B24",),
    group="calls",
    instances=3,
    rate=15.0,
    second_max=0.01,
)
def restarts_under_load(world: World, options: Options) -> None:
    """An instance that stops refuses what it has not begun, finishes what it has, and says goodbye then."""
    hosts = world.add_nodes(options.nodes, converged=True, tells_load=True)
    world.run(1)
    servers, callers = hosts[-int(options.number("instances")) :], hosts[:2]
    serve(world, servers, repeatable=False, service_time=0.05)
    served = Served(world)
    world.call_at_rate(*callers, rate=options.number("rate"))
    world.run(2)
    for server in servers:
        world.leave(server)
        world.run_until(stopped(server), limit=15)
        world.run(1)
        world.start(server)
        world.run(4)
    world.timings["second_attempts"] = served.again / served.started
    require(world, set(served.codes()) == {0}, f"calls ended as {served.codes()}")
    most = options.number("second_max") * served.started
    require(world, served.again <= most, f"{served.again} second attempts of {served.started} calls")


@scenario(
    "bridge-callers",
    "two halves reach each other only through one node, with callers and instances on both sides: calls go on",
    nodes=8,
    nodes_min=5,
    cases=("B3.14", "B31"),
    group="calls",
    limits={"flaps": 2},
    cut=60.0,
    rate=4.0,
)
def bridge_callers(world: World, options: Options) -> None:
    """Nobody is buried, so each side holds the other's instances ALIVE; whoever cannot be dialled is passed over."""
    hosts = world.add_nodes(options.nodes, converged=True, tells_load=True)
    world.run(1)
    callers = [hosts[0], hosts[-1]]
    serve(world, hosts[1:-1])
    served = Served(world)
    world.call_at_rate(*callers, rate=options.number("rate"))
    world.run(3)
    world.partition_shape("bridge")
    noticed = suspicion_maximum(len(hosts), world.protocol) + dissemination(len(hosts), world.protocol)
    world.run(noticed)
    since = world.now
    world.run(options.number("cut") - noticed)
    world.timings["well_at_first"] = served.well()
    for caller in callers:
        codes = [end.code for end in served.ends if end.caller is caller and end.at >= since]
        failed = [code for code in codes if code]
        require(world, len(codes) > 0, f"{caller.name} has made no call during the cut")
        require(
            world, not failed, f"{len(failed)} of {len(codes)} calls of {caller.name} ended as {failed[:3]}"
        )
    world.heal()
    settle(world, healing(len(hosts), world.protocol))


@scenario(
    "caller-flood",
    "one caller calls far faster than it may, another one as it should: only the first is refused, and told when",
    nodes=6,
    nodes_min=3,
    group="calls",
    flood=200.0,
    per_second=10.0,
    burst=50,
    seconds=5.0,
)
def caller_flood(world: World, options: Options) -> None:
    """A token bucket for each caller at each instance: no caller can take another one's share."""
    callers, servers = teams(world, options)
    greedy, polite = callers[:2]
    per_second, burst, seconds = (options.number(name) for name in ("per_second", "burst", "seconds"))
    serve(world, servers, rate=per_second, burst=int(burst))
    served = Served(world)
    refusals: list[CallEnded] = []

    def on_event(host: Host, event: Event) -> None:
        if isinstance(event, CallEnded) and event.code == ErrorCode.RATE_LIMITED:
            refusals.append(event)

    world.listen(on_event, CallEnded)
    world.call_at_rate(greedy, rate=options.number("flood") * len(servers) / 4, seconds=seconds)
    world.call_at_rate(polite, rate=5.0, seconds=seconds)
    world.run(seconds + 1)
    done = sum(end.code == 0 and end.caller is greedy for end in served.ends)
    allowed = len(servers) * (burst + per_second * seconds)
    world.timings["served_of_allowed"] = done / allowed
    require(
        world,
        done <= allowed + len(servers),
        f"{greedy.name} was served {done} times, {allowed:.0f} are allowed",
    )
    require(world, done > 0.8 * allowed, f"{greedy.name} was served {done} times only, of {allowed:.0f}")
    codes = {end.code for end in served.ends if end.caller is polite}
    require(world, codes == {0}, f"the calls of {polite.name} ended as {sorted(codes)}")
    require(world, len(refusals) > 0, "nobody was refused")
    require(
        world,
        all(
            event.retry_after is not None and 0 < event.retry_after <= 1 / per_second + 0.001
            for event in refusals
        ),
        "a refusal does not say when to come back",
    )
