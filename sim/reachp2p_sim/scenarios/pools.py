"""Pools of instances of which some are broken, slow or overloaded, and callers who have to live with them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random

from reachp2p.core.routing.breaker import OPEN_FIRST, RECENT_FAILURES
from reachp2p.core.routing.budget import CREDIT_SECONDS, FREE_PER_SECOND, PERCENT
from reachp2p.core.routing.hashing import BOUND_FACTOR, BOUND_FROM
from reachp2p.errors import ErrorCode
from reachp2p_sim.machines.host import Host
from reachp2p_sim.scenarios.base import Options, require, scenario
from reachp2p_sim.scenarios.served import Served
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

IN_FLIGHT = 2
"""Calls that may be on their way to an instance when its breaker opens: these handlers are quick."""
FAILED = int(ErrorCode.HANDLER_FAILED)
DEALS = 50
"""Times that the calls of `herding` are dealt by chance: their mean is then known to a few percent."""
WORTH = 0.9
"""What a call takes in `herding` at most, as a part of what it would by chance; 0.67 to 0.77 is usual."""
ALL_CALL_WITHIN = 1.0
"""Seconds after which all callers of an open loop call."""
KNOWN_WITHIN = 2.0
"""Seconds in which a record has reached everybody in a group as small as these."""


def teams(world: World, options: Options) -> tuple[list[Host], list[Host]]:
    """Machines that know each other: a quarter of them will call, the others serve."""
    hosts = world.add_nodes(options.nodes, converged=True, tells_load=True)
    world.run(1.0)
    world.run_until(converged, limit=30)
    callers = max(2, len(hosts) // 4)
    return hosts[:callers], hosts[callers:]


def serve(world: World, hosts: list[Host], **how: object) -> None:
    """Let machines offer the agent, and wait until everybody knows it."""
    world.offer(*hosts, **how)
    world.run(KNOWN_WITHIN)


@scenario(
    "breaker",
    "one instance fails for a while: its callers leave it alone after five failures, and come back when it is well",
    nodes=8,
    nodes_min=4,
    cases=("B8.4",),
    group="calls",
    rate=12.0,
)
def breaker(world: World, options: Options) -> None:
    """It fails for 20 s; then trials at 30 s find it well, and it has its part of the calls again."""
    callers, servers = teams(world, options)
    serve(world, servers)
    served = Served(world)
    broken = servers[-1]
    world.call_at_rate(*callers, rate=options.number("rate"))
    world.run(2)
    world.change_handlers(broken, fails=1.0)
    world.run(20)
    for caller in callers:
        failures = sum(end.caller is caller and end.code == FAILED for end in served.ends)
        require(
            world,
            failures <= RECENT_FAILURES + IN_FLIGHT,
            f"{caller.name} has met {failures} failures of {broken.name}",
        )
    world.change_handlers(broken)
    world.run(OPEN_FIRST)
    since = world.now
    world.run(10)
    share = served.answered_by([broken], since)[0] / len(served.times(since))
    world.timings["share_afterwards"] = share
    require(world, served.well(since) == 1.0, f"calls ended as {served.codes(since)} when all was well again")
    require(
        world, share > 0.5 / len(servers), f"{broken.name} is well again and has {share:.1%} of the calls"
    )


@scenario(
    "sinkhole",
    "one instance fails at once and so looks the least loaded of all: it is left alone after five failures",
    nodes=8,
    nodes_min=4,
    cases=("B8.4",),
    group="calls",
    rate=30.0,
)
def sinkhole(world: World, options: Options) -> None:
    """Failures are the breaker's matter: a load score alone would send everything there."""
    callers, servers = teams(world, options)
    serve(world, servers, service_time=0.1)
    hole = servers[0]
    served = Served(world)
    world.call_at_rate(*callers, rate=options.number("rate"), policy="least_loaded")
    world.run(2)
    world.change_handlers(hole, fails=1.0, service_time=0.0)
    since = world.now
    world.run(20)
    codes = served.codes(since)
    world.timings["failures_per_caller"] = codes.get(FAILED, 0) / len(callers)
    require(
        world,
        codes.get(FAILED, 0) <= len(callers) * (RECENT_FAILURES + IN_FLIGHT),
        f"calls ended as {codes}: the hole has swallowed more than five of each caller",
    )
    require(world, set(codes) <= {0, FAILED}, f"calls ended as {codes}")


@scenario(
    "half-the-pool-fails",
    "half of the instances fail: a tenth of the pool may be skipped, and the rest is not buried under all calls",
    nodes=8,
    nodes_min=5,
    cases=("B8.4",),
    group="calls",
    rate=30.0,
)
def half_the_pool_fails(world: World, options: Options) -> None:
    """Skipping all that fail would double the load of the others; and when they are mended calls go well at once."""
    callers, servers = teams(world, options)
    serve(world, servers)
    served = Served(world)
    world.call_at_rate(*callers, rate=options.number("rate"))
    world.run(2)
    broken, sound = servers[: len(servers) // 2], servers[len(servers) // 2 :]
    world.change_handlers(*broken, fails=1.0)
    world.run(5)
    since = world.now
    world.run(10)
    share = served.well(since)
    allowed = max(1, len(servers) // 10)
    expected = len(sound) / (len(servers) - allowed)
    world.timings["share_well"], world.timings["share_expected"] = share, expected
    require(world, abs(share - expected) < 0.12, f"{share:.0%} of the calls went well, not {expected:.0%}")
    world.change_handlers(*broken)
    world.run(1)
    since = world.now
    world.run(5)
    require(world, served.well(since) == 1.0, f"calls ended as {served.codes(since)} when all was well again")


@scenario(
    "dead-but-alive",
    "one of twenty replicas answers probes and no call: each caller stops asking it after five failures",
    nodes=26,
    nodes_min=6,
    cases=("B8.4",),
    group="calls",
    rate=40.0,
    timeout=2.0,
    seconds=25.0,
)
def dead_but_alive(world: World, options: Options) -> None:
    """B8.4: nobody asks it any more when five attempts have failed; second attempts keep to their budget; no more than
    a tenth of the pool is skipped (`ejection`)."""
    callers, servers = teams(world, options)
    serve(world, servers)
    dead = servers[-1]
    timeout, rate, seconds = (options.number(name) for name in ("timeout", "rate", "seconds"))
    world.change_handlers(dead, hangs=1.0)
    served = Served(world)
    world.call_at_rate(*callers, rate=rate, timeout=timeout, seconds=seconds)
    world.run(seconds + timeout)
    patience = world.protocol.attempt_fraction * timeout
    most = 0
    for caller in callers:
        asked = [sent.at for sent in served.sent if sent.caller is caller and sent.target is dead]
        require(
            world, len(asked) >= RECENT_FAILURES, f"{caller.name} has asked {dead.name} {len(asked)} times"
        )
        tripped_at = asked[RECENT_FAILURES - 1] + patience
        late = [at for at in asked if at > tripped_at + 0.01]
        require(
            world,
            not late,
            f"{caller.name} asks {dead.name} {len(late)} times more after five failures",
        )
        most = max(most, len(asked))
    world.timings["asked_per_caller"] = most
    world.timings["attempts_per_call"] = len(served.sent) / served.started
    allowed = PERCENT / 100 * served.started + FREE_PER_SECOND * seconds * len(callers)
    require(world, served.again <= allowed, f"{served.again} second attempts of {served.started} calls")
    require(world, served.well() == 1.0, f"calls ended as {served.codes()}: one safe retry finds another")


@scenario(
    "retry-storm",
    "callers want three times what a pool can do: refused calls are tried again within the budget, no more",
    nodes=6,
    nodes_min=4,
    group="calls",
    overload=3.0,
    seconds=6.0,
)
def retry_storm(world: World, options: Options) -> None:
    """Without a budget each refused call asks once more, and the pool refuses twice as much. What it can do it does."""
    callers, servers = teams(world, options)
    service_time, seconds = 0.05, options.number("seconds")
    serve(world, servers, service_time=service_time, times="constant", concurrency=1, queue=1)
    capacity = len(servers) / service_time
    served = Served(world)
    rate = options.number("overload") * capacity / len(callers)
    world.call_at_rate(*callers, rate=rate, seconds=seconds)
    world.run(ALL_CALL_WITHIN)
    since = world.now
    world.run(seconds - ALL_CALL_WITHIN)
    done = served.codes(since).get(0, 0) / (world.now - since) / capacity
    world.run(2)
    allowed = PERCENT / 100 * served.started + FREE_PER_SECOND * (seconds + CREDIT_SECONDS) * len(callers)
    world.timings["attempts_per_call"] = len(served.sent) / served.started
    world.timings["second_attempts"] = served.again
    require(world, served.again <= allowed, f"{served.again} second attempts, {allowed:.0f} are allowed")
    world.timings["of_what_is_possible"] = done
    require(world, done > 0.95, f"the pool does {done:.0%} of what it could do")


@scenario(
    "herding",
    "many callers with old reports of the load of a few busy instances: they do not all run to the same one",
    nodes=12,
    nodes_min=6,
    group="calls",
    busy=0.7,
    seconds=20.0,
)
def herding(world: World, options: Options) -> None:
    """A call takes clearly less than if the same calls, with the same work, were dealt to the servers by chance
    (`by_chance`: the mean of M/M/1, 1/(1 − ρ), says little of a run of a thousand calls). Nobody is given much more
    than the others."""
    hosts = world.add_nodes(options.nodes, converged=True, tells_load=True)
    world.run(1.0)
    world.run_until(converged, limit=30)
    count = max(3, len(hosts) // 3)
    servers, callers = hosts[:count], hosts[count:]
    busy, service_time, seconds = options.number("busy"), 0.05, options.number("seconds")
    serve(world, servers, service_time=service_time, concurrency=1, queue=1_000)
    served = Served(world)
    rate = busy * len(servers) / service_time / len(callers)
    world.call_at_rate(*callers, rate=rate, policy="least_loaded", timeout=30.0, seconds=seconds)
    world.run(seconds + 5)
    times = served.times()
    mean = sum(times) / len(times) / service_time
    on_the_way = 2 * world.network.paths.worst()[1] / service_time
    dealt = by_chance(served.arrivals(), served.works, len(servers), world.randomness.stream("by chance"))
    chance = dealt / service_time + on_the_way
    world.timings["mean_in_service_times"] = mean
    world.timings["mean_by_chance"] = chance
    world.timings["p99_in_service_times"] = times[ceil(0.99 * len(times)) - 1] / service_time
    require(world, set(served.codes()) == {0}, f"calls ended as {served.codes()}")
    allowed = WORTH * chance
    require(world, mean < allowed, f"a call takes {mean:.2f} service times; by chance it were {chance:.2f}")
    counts = served.answered_by(servers)
    part = sum(counts) / len(counts)
    require(world, max(counts) < 1.3 * part, f"the servers have answered {counts}")


def by_chance(arrivals: Sequence[float], works: Sequence[float], servers: int, chance: Random) -> float:
    """The mean time, in seconds, that calls would have taken if each had gone to any server, drawn with equal chances.

    `arrivals`: when they came, in order; `works`: seconds of work that they brought, in any order, for it does not
    depend on when they came. A server works on one call after the other, so a call begins when it comes or when the
    one before it is done (Lindley's recursion).
    """
    total = 0.0
    for _ in range(DEALS):
        free_at = [0.0] * servers
        for arrival, work in zip(arrivals, works, strict=True):
            server = chance.randrange(servers)
            free_at[server] = max(free_at[server], arrival) + work
            total += free_at[server] - arrival
    return total / (DEALS * len(arrivals))


@scenario(
    "hot-key",
    "half of all calls are for one key: its owner gets a quarter more than its part at most, the next in line the rest",
    nodes=8,
    nodes_min=5,
    group="calls",
    rate=150.0,
    seconds=6.0,
)
def hot_key(world: World, options: Options) -> None:
    """The bound is each caller's own: it knows its own calls in flight best (`bounded_load`)."""
    callers, servers = teams(world, options)
    callers = callers[:1]
    service_time, rate, seconds = 0.4, options.number("rate"), options.number("seconds")
    serve(world, servers, service_time=service_time, concurrency=1_000)
    served = Served(world)
    world.call_at_rate(
        *callers, rate=rate, policy="consistent_hash", keys=50, zipf=1.6, seconds=seconds, timeout=30.0
    )
    world.run(seconds + 10)
    require(world, set(served.codes()) == {0}, f"calls ended as {served.codes()}")
    counts = served.answered_by(servers)
    share = max(counts) / sum(counts)
    in_flight = rate * service_time
    allowed = max(BOUND_FACTOR / len(servers), BOUND_FROM / in_flight)
    world.timings["largest_share"], world.timings["allowed"] = share, allowed
    require(world, share <= 1.25 * allowed, f"one instance has {share:.0%} of the calls, {counts}")
    weights, owners = callers[0].engine.owners("work.do", ("key 1",))
    assert owners[0] is not None
    owner = world.by_node[owners[0][0]][0]
    place = servers.index(owner)
    require(
        world,
        counts[place] >= 0.8 * max(counts),
        f"{owner.name} owns the hot key and has {counts[place]} of {counts}",
    )
    require(world, len(weights) == len(servers), "somebody is not on the ring")


@scenario(
    "canary",
    "release candidates are given 0, 10 and 100 % of the calls, changed while calls go on: the shares follow",
    nodes=8,
    nodes_min=4,
    group="calls",
    calls=600,
)
def canary(world: World, options: Options) -> None:
    """Shares within four standard deviations of a draw; 0 and 100 % exactly."""
    callers, servers = teams(world, options)
    candidates, stable = servers[:1], servers[1:]
    serve(world, stable)
    served = Served(world)
    rate = 100.0
    count = int(options.number("calls"))
    for percent in (0, 10, 100):
        serve(world, candidates, candidate_percent=percent)
        seconds = count / rate / len(callers)
        since = world.now
        world.call_at_rate(*callers, rate=rate, seconds=seconds)
        world.run(seconds + 2)
        total = len(served.times(since))
        share = served.answered_by(candidates, since)[0] / total
        world.timings[f"share_at_{percent}"] = share
        error = 4 * (percent / 100 * (1 - percent / 100) / total) ** 0.5
        require(world, served.well(since) == 1.0, f"calls ended as {served.codes(since)} at {percent} %")
        require(
            world,
            abs(share - percent / 100) <= error,
            f"candidates have {share:.1%} of {total} calls, not {percent} %",
        )
