"""Coming and going without end: short lives, restarts one after the other, visitors that stay for seconds."""

from __future__ import annotations

from reachp2p.core.events import MemberState
from reachp2p.core.upkeep import SWEEP_INTERVAL
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.listening import listen
from reachp2p_sim.machines.next_release import NEW_KEY, NEW_VALUE, held_head
from reachp2p_sim.measuring.budgets import detection_p99, healing
from reachp2p_sim.scenarios.base import (
    Options,
    grow,
    require,
    require_all_answered,
    scenario,
    settle,
    stopped,
)
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

LIVE_MIN = 3
"""Machines that run at least, the seed node among them."""
NEWCOMERS = 5
"""Whose mean says what a newcomer receives: over seeds, a mean of five is within a fifth of 5,500 bytes, where single
newcomers receive 3,200 to 10,800 (n = 8). Sixty tombstones too many would be 15,000 bytes more."""


@scenario(
    "churn-continuous",
    "machines join and crash at random moments for ten minutes; views follow",
    nodes=16,
    nodes_min=5,
    cases=("B3.20",),
    group="churn",
    lifetime=300.0,
    seconds=600.0,
)
def churn_continuous(world: World, options: Options) -> None:
    """B3.20: Poisson crashes and joins, `lifetime` seconds in the mean; views are wrong about few at any time.

    The error of a view is the number of members that it takes for dead and that live, or the other way. Its mean over
    time and views is at most twice what is gone but not noticed yet: rate of changes times time to detect.
    """
    hosts = grow(world, options)
    chance = world.randomness.stream("churn")
    rate = len(hosts) / options.number("lifetime")
    until = world.now + options.number("seconds")
    errors: list[float] = []
    crashes = 0
    next_look = world.now + 1.0
    while world.now < until:
        moment = world.now + chance.expovariate(2 * rate)
        while next_look < min(moment, until):
            world.run_to(next_look)
            errors.append(_error(world))
            next_look += 1.0
        world.run_to(min(moment, until))
        if chance.random() < 0.5:
            world.add_nodes(1)
        elif len(mortal := world.running[1:]) >= LIVE_MIN:
            crashes += 1
            world.crash(mortal[chance.randrange(len(mortal))], host_down=chance.random() < 0.5)
    allowed = 2 * rate * detection_p99(len(hosts), world.protocol)
    mean = sum(errors) / len(errors)
    world.timings["view_error_mean"], world.timings["view_error_allowed"] = mean, allowed
    world.timings["crashes"], world.timings["machines"] = crashes, len(world.nodes)
    require(
        world,
        mean <= allowed,
        f"a view is wrong about {mean:.2f} members in the mean; {allowed:.2f} are allowed",
    )
    settle(world, healing(len(world.running), world.protocol))


def _error(world: World) -> float:
    """Wrong entries a view, in the mean over the nodes that run."""
    living = {host.node for host in world.running}
    wrong = 0
    for host in world.running:
        believed = {
            node
            for node, held in host.view.members.items()
            if held.state in (MemberState.ALIVE, MemberState.SUSPECT)
        }
        wrong += len(believed ^ (living - {host.node}))
    return wrong / len(world.running)


@scenario(
    "rolling-restart",
    "every node is restarted, one every five seconds, some of them after a clean leave; calls go on",
    nodes=16,
    nodes_min=4,
    cases=("B3.21", "B24"),
    group="churn",
    every=5.0,
    down=2.0,
    leave_every=3,
)
def rolling_restart(world: World, options: Options) -> None:
    """B3.21: every life is a new epoch, and with two instances or more there is always one to call."""
    hosts = grow(world, options, work=False)
    world.offer(*hosts[::3])
    callers = hosts[1::4]
    world.call_in_a_loop(*callers, think_time=0.2, waits=True)
    world.run(5)
    without: list[str] = []

    def look() -> None:
        for host in world.running:
            is_settled = host.life is not None and world.now - host.started_at > options.number("every")
            if is_settled and not host.engine.routable(CAPABILITY):
                without.append(f"{host.name} at {world.now:.1f} s")

    for number, host in enumerate(hosts):
        began_at = world.now
        if options.number("leave_every") and number % int(options.number("leave_every")) == 1:
            world.leave(host)
            world.run_until(stopped(host), limit=10)
        else:
            world.crash(host)
        world.run(options.number("down"))
        world.start(host)
        while world.now < began_at + options.number("every"):
            world.run(0.25)
            look()
    settle(world, healing(len(hosts), world.protocol))
    require(world, not without, f"no instance to call: {without[:3]}")
    for host in hosts:
        require(
            world, [life.epoch for life in host.lives] == [1, 2], f"{host.name} had the lives {host.lives}"
        )
    require_all_answered(world)


@scenario(
    "rolling-upgrade",
    "half of the nodes are restarted with the next release, which says things that the others do not know yet",
    nodes=12,
    nodes_min=4,
    cases=("B3.32",),
    group="churn",
    every=5.0,
    seconds=30.0,
)
def rolling_upgrade(world: World, options: Options) -> None:
    """B3.32: optional keys are kept as they were signed, unknown messages skipped, new demands rejected; both counted.

    Views are equal and calls succeed all the time, between any two releases.
    """
    hosts = grow(world, options, work=False)
    world.offer(*hosts)
    world.call_in_a_loop(*hosts[::3], think_time=0.3, waits=True)
    world.run(5)
    upgraded, others = hosts[1::2], hosts[::2]
    world.upgrade(*upgraded)
    for host in upgraded:
        world.restart(host)
        world.run(options.number("every"))
    world.run(options.number("seconds"))
    (newcomer,) = world.add_nodes(1)
    settle(world, healing(len(world.running), world.protocol))
    for host in (*others, newcomer):
        counters = host.engine.diagnostics()
        for name in ("skipped.message.unknown_number", "dropped.message.unknown_key"):
            require(world, counters.get(name, 0) > 0, f"{host.name} has not counted {name}")
        for other in upgraded:
            head = held_head(host.engine, other.node)
            is_kept = head is not None and head.extensions == {NEW_KEY: NEW_VALUE}
            require(world, is_kept, f"{host.name} holds {head} of {other.name}: the new key is not kept")
    require_all_answered(world)


@scenario(
    "short-lives",
    "many nodes join, stay for a few seconds and leave; later nothing is left of them and one more joins",
    nodes=6,
    nodes_min=3,
    cases=("B06",),
    group="churn",
    protocol={"head_validity": 240.0, "clock_tolerance": 20.0, "tombstone_retention": 300.0},
    visitors=60,
    stay=4.0,
    seconds=120.0,
)
def short_lives(world: World, options: Options) -> None:
    """B06: tombstones expire, so tables, what a newcomer pulls, and traffic return to the level of the living.

    As it was reported: `--set visitors=5000 --set seconds=3600`, with `protocol.head_validity=3600`,
    `protocol.clock_tolerance=600` and `protocol.tombstone_retention=4800` for the constants that ship.
    """
    hosts = grow(world, options)
    before = [_sizes(host) for host in hosts]
    usual = _newcomer_bytes(world)
    visits, stay = int(options.number("visitors")), options.number("stay")
    began_at, apart = world.now, options.number("seconds") / max(visits, 1)
    moments = [(began_at + number * apart, number, "comes") for number in range(visits)]
    moments += [(when + stay, number, "goes") for when, number, _ in moments]
    visitors: list[Host] = []
    most = 0
    for when, number, what in sorted(moments):
        world.run_to(when)
        if what == "comes":
            visitors += world.add_nodes(1)
        else:
            world.leave(visitors[number])
        most = max(most, hosts[0].engine.diagnostics()["size.members"])
    world.run(world.protocol.tombstone_retention + 2 * SWEEP_INTERVAL)
    world.timings["members_most"] = most
    for host, sizes in zip(hosts, before, strict=True):
        now = _sizes(host)
        require(world, now == sizes, f"{host.name} held {sizes} and holds {now} after all visitors are gone")
    later = _newcomer_bytes(world)
    world.timings["newcomer_bytes_before"], world.timings["newcomer_bytes_after"] = usual, later
    require(
        world,
        later <= 1.5 * usual + 2_000,
        f"a newcomer was sent {usual} bytes before and {later} afterwards",
    )
    settle(world, healing(len(world.running), world.protocol))


def _sizes(host: Host) -> dict[str, int]:
    sizes = host.engine.diagnostics()
    return {name: sizes[f"size.{name}"] for name in ("members", "records", "suspicions")}


def _newcomer_bytes(world: World) -> int:
    """Let some nodes join and leave again, one after the other: how many bytes each received until its view was that of
    the others, on average, for one alone receives between half of that and twice as much, as chance has its gossip."""
    received = 0

    def heard(_: Host, data: bytes, __: object) -> None:
        nonlocal received
        received += len(data)

    for _ in range(NEWCOMERS):
        newcomer = world.add_node()
        world.start(newcomer)
        stop = listen(newcomer, heard=heard)
        world.run_until(converged, limit=10)
        stop()
        world.leave(newcomer)
        world.run_until(stopped(newcomer), limit=10)
    return received // NEWCOMERS
