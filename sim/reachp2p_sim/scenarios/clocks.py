"""Wrong clocks: machines that sleep, clocks that were never set."""

from __future__ import annotations

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.scenarios.told import counted
from reachp2p_sim.world.agreement import agreed
from reachp2p_sim.world.world import World


@scenario(
    "sleep",
    "one machine sleeps for ten minutes and wakes up; with standing=1 its steady clock has slept, too",
    nodes=8,
    cases=("B09",),
    group="clocks",
    seconds=600.0,
    standing=0,
    back_within=10.0,
)
def sleep(world: World, options: Options) -> None:
    """B09: the sleeper accuses nobody in its first round of probes, and is back in all views within ten seconds."""
    hosts = grow(world, options)
    sleeper = hosts[1 + world.randomness.stream("sleep").randrange(len(hosts) - 1)]
    if options.number("standing"):
        world.set_clock(sleeper, rate=0.0)
    world.pause(sleeper)
    world.run(options.number("seconds"))
    accused: list[str] = []
    woke_at = world.now

    def on_event(host: Host, event: Event) -> None:
        if host is sleeper and isinstance(event, MemberChanged) and event.new is MemberState.SUSPECT:
            accused.append(f"{event.name} after {world.now - woke_at:.2f} s: {event.reason}")

    world.on_event.append(on_event)
    if options.number("standing"):
        world.set_clock(sleeper)
    world.resume(sleeper)
    world.timings["back_after"] = world.run_until(agreed, limit=options.number("back_within"))
    require(world, not accused, f"the sleeper accused {accused[:3]}")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "clock-off",
    "nodes start with clocks that are 30 seconds, nearly ten minutes and a year off; the last is set right later",
    nodes=8,
    nodes_min=4,
    cases=("B74",),
    group="clocks",
    off=365 * 86_400.0,
)
def clock_off(world: World, options: Options) -> None:
    """B74: within the tolerance nobody notices; beyond it heads are refused and counted.

    When the clock has been set the node joins without a restart.
    """
    hosts = grow(world, options)
    tolerance = world.protocol.clock_tolerance
    chance = world.randomness.stream("clocks")
    sign = 1 if chance.random() < 0.5 else -1
    slightly, nearly, far = (world.add_node() for _ in range(3))
    world.step_clock(slightly, sign * 30.0)
    world.step_clock(nearly, sign * (tolerance - 60.0))
    world.start(slightly, nearly)
    world.timings["within_tolerance_joined"] = world.run_until(agreed, limit=30)
    world.step_clock(far, -sign * options.number("off"))
    world.start(far)
    world.run(20)
    for host in hosts:
        require(world, far.node not in host.view.members, f"{host.name} believes a head of another year")
    refused = counted(hosts, "dropped.head."), counted([far], "dropped.head.")
    world.timings["heads_refused_by_others"], world.timings["heads_refused_by_it"] = refused
    require(world, sum(refused) > 0, "no head was refused and counted")
    world.step_clock(far, sign * options.number("off"))
    world.timings["joined_after_setting"] = world.run_until(
        agreed, limit=healing(len(world.running), world.protocol)
    )
    settle(world, healing(len(world.running), world.protocol))
