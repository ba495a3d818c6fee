"""Machines that are slow, whose clocks are wrong in every way, whose disks are full or die at the worst moment."""

from __future__ import annotations

from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle, stopped
from reachp2p_sim.scenarios.told import Told, first
from reachp2p_sim.world.world import World, without


@scenario(
    "slow-processing",
    "some members need twenty times as long for every message: no other is buried, by nobody",
    nodes=50,
    nodes_min=8,
    cases=("B3.7", "B07"),
    group="failures",
    slow=8,
    service_time=0.05,
    seconds=120.0,
)
def slow_processing(world: World, options: Options) -> None:
    """B3.7: FP− = 0, no healthy member is declared DEAD by a healthy one. 2.5 ms for a message is what a busy node
    needs."""
    hosts = grow(world, options, work=False)
    told = Told(world)
    chance = world.randomness.stream("slow")
    slow = chance.sample(hosts, min(int(options.number("slow")), len(hosts) - 2))
    rest = without(hosts, *slow)
    world.slow_down(*slow, service_time=options.number("service_time"))
    world.run(options.number("seconds"))
    world.timings["backlog_worst"] = max(host.processor.waiting_max for host in slow)
    world.timings["dropped"] = sum(host.processor.dropped for host in slow)
    world.timings["false_positives"] = len(told.buried(hosts))
    told.demand_not_buried(rest)
    world.slow_down(*slow)
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "clock-drift",
    "clocks a percent fast or slow, set wrong by up to five minutes, and strobing: nobody changes its mind",
    nodes=16,
    cases=("B3.26", "B74"),
    group="clocks",
    drift=0.01,
    bump=288.0,
    seconds=180.0,
)
def clock_drift(world: World, options: Options) -> None:
    """B3.26: no change of any view, no fact refused."""
    hosts = grow(world, options)
    told = Told(world)
    chance = world.randomness.stream("clocks")
    drift, bump = options.number("drift"), options.number("bump")
    for host in chance.sample(hosts, len(hosts) // 2):
        rate = 1.0 + chance.choice((-1, 1)) * drift
        world.set_clock(host, rate=rate, wall_rate=rate)
    world.strobe_clock(*chance.sample(hosts, len(hosts) // 4), by=bump, every=0.2)
    until = world.now + options.number("seconds")
    while world.now < until:
        host = hosts[chance.randrange(len(hosts))]
        world.step_clock(host, (chance.random() * 2 - 1) * bump - host.wall_offset)
        world.run(chance.random() * 8)
    require(world, not told.words, f"a clock changed a view: {first(told.words)}")
    refused = sum(
        count
        for host in hosts
        for name, count in host.engine.diagnostics().items()
        if name in ("dropped.head.expired", "dropped.head.from_the_future")
    )
    require(world, not refused, f"{refused} heads were refused for the time on them")
    world.set_clock(*hosts)
    world.strobe_clock(*hosts)
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "clock-stands",
    "the steady clocks of some members stand still for a minute, then go on",
    nodes=16,
    cases=("B3.26", "B09"),
    group="clocks",
    share=0.2,
    seconds=60.0,
)
def clock_stands(world: World, options: Options) -> None:
    """Who has no time does nothing by itself and answers all the same, so nobody is buried, and all is well after."""
    hosts = grow(world, options)
    told = Told(world)
    chosen = world.randomness.stream("clocks").sample(
        hosts, max(1, round(len(hosts) * options.number("share")))
    )
    world.set_clock(*chosen, rate=0.0)
    world.run(options.number("seconds"))
    world.set_clock(*chosen)
    require(world, not told.buried(hosts), f"somebody was buried: {first(told.buried(hosts))}")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "crash-points",
    "a process is killed at its first write, its second, and so on: before it is durable, and just after",
    nodes=4,
    cases=("B43", "B3.24"),
    group="lives",
    writes=12,
)
def crash_points(world: World, options: Options) -> None:
    """No epoch is used twice (checker `lives`), and every start gets through."""
    hosts = grow(world, options)
    chosen = hosts[-1]
    for write in range(1, int(options.number("writes")) + 1):
        for durable in (False, True):
            world.crash(chosen)
            world.run(1)
            world.crash_at_write(chosen, write=write, durable=durable)
            world.start(chosen)
            world.offer(chosen)
            try_until = world.now + 10.0
            while chosen.is_running and world.now < try_until:
                world.run(0.25)
            world.run(1)
            if not chosen.is_running:
                world.start(chosen)
            world.run(2)
    world.timings["epochs"] = chosen.disk.stored_epoch()
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "disk-full",
    "a node's disk takes nothing more, then the node is killed and starts on the full disk; later there is room again",
    nodes=6,
    cases=("B43", "B3.33"),
    group="failures",
    seconds=30.0,
)
def disk_full(world: World, options: Options) -> None:
    """A running node serves on; a start that cannot store its epoch refuses, and says why; with room it starts."""
    hosts = grow(world, options)
    told = Told(world)
    chosen = hosts[-1]
    world.set_disk(chosen, capacity=1)
    world.offer(chosen, agent="work/other")
    world.run(options.number("seconds"))
    require(world, chosen.is_running, f"a full disk ended {chosen.name}")
    require(world, not told.buried([chosen]), f"a full disk buried its node: {first(told.buried([chosen]))}")
    world.restart(chosen)
    world.run_until(stopped(chosen), limit=30)
    require(world, chosen.ended_by is not None, "it ended without a word")
    world.set_disk(chosen)
    world.start(chosen)
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "leave-crash",
    "nodes are told to leave and killed before they have said goodbye to everybody",
    nodes=16,
    cases=("B3.21",),
    group="lives",
    count=4,
    within=0.3,
)
def leave_crash(world: World, options: Options) -> None:
    """Some hear LEFT, others find them DEAD: both mean gone, and nobody is resurrected."""
    hosts = grow(world, options)
    chance = world.randomness.stream("leavers")
    for host in chance.sample(hosts[1:], min(int(options.number("count")), len(hosts) - 3)):
        world.leave(host)
        world.run(chance.random() * options.number("within"))
        world.crash(host)
        world.run(2)
    world.timings["settled_after"] = settle(world, 2 * healing(options.nodes, world.protocol))
