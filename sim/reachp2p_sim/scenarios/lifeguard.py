"""The two experiments of Lifeguard (Dadgar, Phillips, Currey 2018, section V): members that are blocked for a while.

An anomalous member handles nothing that arrives and sends nothing; all of it waits, nothing is lost, and all anomalous
members are released together. The names of the paper: C members are anomalous, for D seconds, I seconds apart.
"""

from __future__ import annotations

from statistics import median

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.world.world import World

QUIESCE = 15.0
"""Seconds of fair weather before the first anomaly (section V.A)."""


class FailureEvents:
    """Every DEAD verdict of a run, by whether it was about an anomalous member and whether one gave it."""

    def __init__(self, world: World, anomalous: list[Host]) -> None:
        self.world = world
        self.nodes = {host.node for host in anomalous}
        self.false = 0
        """FP: about a healthy member, at anybody."""
        self.false_at_healthy = 0
        """FP−: about a healthy member, at a healthy member."""
        self.first: dict[bytes, float] = {}
        """When an anomalous member was first declared DEAD by a healthy one, by NodeId, in run time."""
        self.last: dict[bytes, float] = {}
        """When the last healthy one did."""
        self.told: dict[bytes, set[str]] = {}
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged) or event.new is not MemberState.DEAD:
            return
        is_healthy = host.node not in self.nodes
        if event.node not in self.nodes:
            self.false += 1
            self.false_at_healthy += is_healthy
        elif is_healthy:
            self.first.setdefault(event.node, self.world.now)
            self.last[event.node] = self.world.now
            self.told.setdefault(event.node, set()).add(host.name)


def choose(world: World, hosts: list[Host], count: int) -> list[Host]:
    """The anomalous members, drawn."""
    return world.randomness.stream("anomalous").sample(hosts, min(count, len(hosts) - 2))


@scenario(
    "lifeguard-threshold",
    "Lifeguard's latency experiment: some members are blocked once, long enough to be declared DEAD",
    nodes_min=5,
    cases=("B3.5",),
    group="failures",
    C=4,
    D=32.768,
)
def lifeguard_threshold(world: World, options: Options) -> None:
    """B3.5: how long from the beginning of the anomaly to the first verdict, and until all healthy members have one."""
    hosts = grow(world, options, work=False)
    world.run(QUIESCE)
    anomalous = choose(world, hosts, int(options.number("C")))
    seen = FailureEvents(world, anomalous)
    began_at = world.now
    world.pause(*anomalous)
    world.run(options.number("D"))
    world.resume(*anomalous)
    world.timings["all_healthy_again"] = settle(world, healing(options.nodes, world.protocol))
    healthy = len(hosts) - len(anomalous)
    everywhere = [seen.last[node] - began_at for node, told in seen.told.items() if len(told) == healthy]
    if seen.first:
        world.timings["first_median"] = median(seen.first.values()) - began_at
    if everywhere:
        world.timings["everywhere_median"] = median(everywhere)
    _demand(world, seen)


@scenario(
    "lifeguard-interval",
    "Lifeguard's accuracy experiment: some members are blocked again and again, in lock-step",
    nodes_min=5,
    cases=("B3.6",),
    group="failures",
    C=4,
    D=8.192,
    I=0.064,
    seconds=120.0,
)
def lifeguard_interval(world: World, options: Options) -> None:
    """B3.6: blocked for D, released for I, for two minutes at least, and until the last anomaly is over."""
    hosts = grow(world, options, work=False)
    world.run(QUIESCE)
    anomalous = choose(world, hosts, int(options.number("C")))
    seen = FailureEvents(world, anomalous)
    until = world.now + options.number("seconds")
    while world.now < until:
        world.run(options.number("I"))
        world.pause(*anomalous)
        world.run(options.number("D"))
        world.resume(*anomalous)
    world.timings["false_positives"] = seen.false
    world.timings["false_positives_at_healthy"] = seen.false_at_healthy
    _demand(world, seen)
    settle(world, healing(options.nodes, world.protocol))
    _demand(world, seen)


def _demand(world: World, seen: FailureEvents) -> None:
    healthy = seen.false_at_healthy
    require(
        world, not healthy, f"{healthy} verdicts of healthy members about healthy members; none is allowed"
    )
