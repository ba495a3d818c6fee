"""Steady running and single failures: crashes, kills, loss, pauses, slow disks, wrong clocks."""

from __future__ import annotations

from statistics import median

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import completeness, healing
from reachp2p_sim.scenarios.base import Options, employ, grow, require, scenario, settle
from reachp2p_sim.scenarios.told import Told, first
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world.world import World, halves, without

MEASURED_BEFORE, MEASURED_AFTER = 160.0, 95.0
"""Seconds of calm that the checker `quiet` needs."""


@scenario(
    "steady", "nothing happens: probes and nothing else", cases=("B3.1",), group="fair weather", seconds=60.0
)
def steady(world: World, options: Options) -> None:
    """B3.1: 2.00 ± 0.05 datagrams a member and period, nobody suspected."""
    hosts = grow(world, options, work=False)
    world.run(30)
    before = world.network.sent
    suspected: list[str] = []

    def on_event(host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.new is not MemberState.ALIVE:
            suspected.append(f"{host.name} holds {event.name} {event.new}")

    world.on_event.append(on_event)
    world.run(options.number("seconds"))
    periods = options.number("seconds") / world.protocol.probe_interval
    rate = (world.network.sent - before) / len(hosts) / periods
    world.timings["datagrams_per_member_and_period"] = rate
    require(world, not suspected, f"suspicions in fair weather: {suspected[:3]}")
    require(
        world, abs(rate - 2.0) <= 0.05, f"{rate:.3f} datagrams a member and period; 2.00 ± 0.05 are promised"
    )


@scenario("crash", "one machine or process stops for good", cases=("B3.2",), group="failures", host_down=1)
def crash(world: World, options: Options) -> None:
    """Completeness, with the times to the first DEAD verdict and to the last."""
    hosts = grow(world, options)
    chosen = hosts[1 + world.randomness.stream("crash").randrange(len(hosts) - 1)]
    world.run(world.randomness.stream("phase").random() * world.protocol.probe_interval)
    crashed_at = world.now
    verdicts: list[float] = []

    def on_event(_: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.node == chosen.node and event.new is MemberState.DEAD:
            verdicts.append(world.now - crashed_at)

    world.on_event.append(on_event)
    world.crash(chosen, host_down=bool(options.number("host_down")))

    def buried(world: World) -> bool:
        views = [host.view.members.get(chosen.node) for host in world.running]
        return all(held is None or held.state is MemberState.DEAD for held in views)

    world.run_until(buried, limit=2 * completeness(options.nodes, world.protocol))
    settle(world, healing(options.nodes, world.protocol))
    world.timings["dead_first"], world.timings["dead_everywhere"] = min(verdicts), max(verdicts)


@scenario(
    "mass-crash",
    "many machines vanish at once",
    nodes_min=6,
    cases=("B3.8",),
    group="failures",
    share=0.3,
    count=0,
    window=5.0,
)
def mass_crash(world: World, options: Options) -> None:
    """B3.8: `count` machines (or a `share` of all) are out of every view in time, and placement moves few times.

    What an observer finds out within one `window` (seconds) counts as one change of its routing table: at most three.
    Every member has its own verdict, so verdicts about one crash are spread over a good part of S_min.
    """
    hosts = grow(world, options)
    many = int(options.number("count")) or max(1, int(len(hosts) * options.number("share")))
    victims = world.randomness.stream("victims").sample(hosts[1:], min(many, len(hosts) - 2))
    gone = {victim.node for victim in victims}
    verdicts: dict[str, list[float]] = {}

    def on_event(host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.node in gone and event.new is MemberState.DEAD:
            verdicts.setdefault(host.name, []).append(world.now - crashed_at)

    world.on_event.append(on_event)
    crashed_at = world.now
    world.crash(*victims, host_down=True)

    def buried(world: World) -> bool:
        return all(len(verdicts.get(host.name, ())) >= len(victims) for host in world.running)

    world.run_until(buried, limit=2 * completeness(options.nodes, world.protocol))
    settle(world, healing(options.nodes, world.protocol))
    changes = [_bursts(times, options.number("window")) for times in verdicts.values()]
    world.timings["dead_first"] = min(min(times) for times in verdicts.values())
    world.timings["dead_everywhere"] = max(max(times) for times in verdicts.values())
    world.timings["changes_median"], world.timings["changes_most"] = median(changes), max(changes)
    require(
        world, max(changes) <= 3, f"{max(changes)} changes of a routing table for one crash; 3 are allowed"
    )


def _bursts(times: list[float], window: float) -> int:
    """How many windows it takes to cover all times, each beginning at the first that is not covered yet."""
    count, until = 0, -1.0
    for when in sorted(times):
        if when > until:
            count, until = count + 1, when + window
    return count


@scenario(
    "process-kill",
    "processes are killed while their host answers: routing drops them within a period",
    nodes=16,
    cases=("B3.31",),
    group="failures",
    kills=5,
)
def process_kill(world: World, options: Options) -> None:
    """B3.31: out of every routing table in a median of at most one period; refusal evidence at work."""
    hosts = grow(world, options, work=False)
    employ(world, hosts)
    world.offer(*hosts[1:])
    world.run(5)
    times: list[float] = []
    victims = world.randomness.stream("victims").sample(
        hosts[1:], min(int(options.number("kills")), len(hosts) - 1)
    )
    for victim in victims:

        def unrouted(world: World, victim: Host = victim) -> bool:
            return not any(victim.node in host.engine.routable(CAPABILITY) for host in world.running)

        world.run(world.randomness.stream("phase", victim.name).random() * world.protocol.probe_interval)
        world.crash(victim)
        times.append(world.run_until(unrouted, limit=10.0, every=0.02))
        world.restart(victim)
        world.run(5)
    world.timings["unrouted_median"], world.timings["unrouted_worst"] = median(times), max(times)
    require(
        world, median(times) <= world.protocol.probe_interval, f"median {median(times):.2f} s until unrouted"
    )
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "lossy",
    "a tenth of all datagrams is lost for five minutes",
    nodes=16,
    cases=("B3.3", "B3.10"),
    group="network",
    loss=0.1,
    seconds=300.0,
)
def lossy(world: World, options: Options) -> None:
    """B3.3: nobody healthy is declared DEAD at up to 10 % loss (checker `accuracy`)."""
    grow(world, options)
    world.set_weather(loss=options.number("loss"))
    world.run(options.number("seconds"))
    world.set_weather()
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "pause",
    "some nodes get no processor for a while, again and again",
    nodes=16,
    cases=("B07", "B09", "B3.6"),
    group="failures",
    share=0.2,
    seconds=8.0,
    rounds=5,
)
def pause(world: World, options: Options) -> None:
    """Lifeguard's anomaly: messages block and nothing is lost. Healthy nodes must not be declared DEAD by the slow."""
    hosts = grow(world, options)
    chance = world.randomness.stream("pause")
    for _ in range(int(options.number("rounds"))):
        slow = chance.sample(hosts, max(1, int(len(hosts) * options.number("share"))))
        world.pause(*slow)
        world.run(options.number("seconds"))
        world.resume(*slow)
        world.run(chance.random() * 5)
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "starved",
    "one machine is stopped for two of every three seconds, for two minutes: it must not bury the healthy",
    nodes=16,
    cases=("B07",),
    group="failures",
    stopped=2.0,
    running=1.0,
    seconds=120.0,
)
def starved(world: World, options: Options) -> None:
    """B07, with `--nodes 50` as reported: no healthy node is declared DEAD by anybody, and few are suspected."""
    hosts = grow(world, options)
    slow = hosts[world.randomness.stream("starved").randrange(len(hosts))]
    told, others = Told(world), without(hosts, slow)
    until = world.now + options.number("seconds")
    while world.now < until:
        world.pause(slow)
        world.run(options.number("stopped"))
        world.resume(slow)
        world.run(options.number("running"))
    world.timings["false_suspicions"] = len(told.suspected(others))
    gone = told.given_up(others)
    require(world, not gone, f"a healthy node was given up: {first(gone)}")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "hanging-handlers",
    "a third of all handlers never return and a third fail, while nodes crash: every call ends once and in time",
    nodes=8,
    cases=("B31",),
    group="calls",
    seconds=60.0,
)
def hanging_handlers(world: World, options: Options) -> None:
    """One end for each call: result, error, refused, node lost, outcome unknown or out of time, never nothing."""
    hosts = grow(world, options, work=False)
    employ(world, hosts, service_time=0.2, fails=0.33, hangs=0.33)
    world.run(options.number("seconds") / 2)
    world.crash(hosts[3], hosts[6])
    world.run(options.number("seconds") / 2)
    require(world, world.ledger.codes.get(0, 0) > 0, "no call succeeded")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "slow-disk",
    "one node's writes take three seconds, then fail, while probes run",
    nodes=8,
    cases=("B3.33",),
    group="failures",
)
def slow_disk(world: World, options: Options) -> None:
    """B3.33: nobody suspects it; nothing waits for a disk but what must."""
    hosts = grow(world, options)
    slow = hosts[-1]
    accused: list[str] = []

    def on_event(host: Host, event: Event) -> None:
        if (
            isinstance(event, MemberChanged)
            and event.node == slow.node
            and event.new is not MemberState.ALIVE
        ):
            accused.append(f"{host.name} holds it {event.new}")

    world.on_event.append(on_event)
    world.set_disk(slow, latency=3.0)
    newcomers = world.add_nodes(4, within=2.0)
    world.run(20)
    world.set_disk(slow, latency=3.0, failure="no space left on device")
    world.crash(newcomers[0])
    world.run(40)
    world.set_disk(slow)
    require(world, not accused, f"a slow disk made its node look dead: {accused[:3]}")
    settle(world, healing(len(world.running), world.protocol))


@scenario(
    "clock-jump",
    "wall clocks jump by up to 288 seconds, both ways, all the time",
    nodes=16,
    cases=("B74", "B3.26"),
    group="clocks",
    seconds=120.0,
)
def clock_jump(world: World, options: Options) -> None:
    """I-CLOCK: wall time judges signed validity only, so nobody changes state."""
    hosts = grow(world, options)
    changed: list[str] = []

    def on_event(host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged):
            changed.append(f"{host.name} holds {event.name} {event.new}")

    world.on_event.append(on_event)
    chance = world.randomness.stream("clocks")
    until = world.now + options.number("seconds")
    while world.now < until:
        host = hosts[chance.randrange(len(hosts))]
        world.step_clock(host, (chance.random() * 2 - 1) * 288 - host.wall_offset)
        world.run(chance.random() * 4)
    require(world, not changed, f"a wall clock changed a view: {changed[:3]}")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "quiet-again",
    "calm for minutes, a cut and a crash, and long after them the same traffic as before",
    nodes=8,
    nodes_min=4,
    cases=("B3.30",),
    group="failures",
)
def quiet_again(world: World, options: Options) -> None:
    """I-QUIET: what has happened leaves nothing behind that goes on talking (checker `quiet`)."""
    hosts = grow(world, options, work=False)
    world.run(MEASURED_BEFORE)
    left, right = halves(hosts)
    world.partition(left, right)
    world.run(45)
    world.heal()
    world.crash(hosts[-1], host_down=True)
    world.run(45)
    world.restart(hosts[-1])
    settle(world, healing(options.nodes, world.protocol))
    world.run(2 * healing(options.nodes, world.protocol) + MEASURED_AFTER)
