"""Lifeguard's anomalies (arXiv 1707.00788 §V), as any configuration meets them.

An anomalous agent blocks right before it sends and right after it receives; nothing is lost, and all are released
together. A false positive is a DEAD verdict about an agent that was never anomalous, at any agent (FP), or at one that
was not anomalous itself (FP−).

Time-outs are proportional to α·log10 n. Small networks stand for the 128 agents of the paper, so α is scaled to give
them the time-outs of 128; what depends on n otherwise (how long news travels) is a few tenths of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from random import Random

from msgspec.structs import replace

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p.core.settings import Protocol
from reachp2p_sim.machines.host import Host
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.papers import presets
from reachp2p_sim.papers.packets import DATAGRAM_MAX, PacketCodec
from reachp2p_sim.world.world import World

AGENTS = 128
"""Of the paper."""
LOOPBACK = Conditions(delay=0.00005, spread=0.00005)
"""All agents run on one host (§V.B): what one says in the millisecond between two anomalies is still heard in it."""
HANDLING = 50e-6
"""Seconds that an anomalous agent takes for one datagram. The paper does not say. One goroutine of memberlist reads
datagrams one after the other, another handles what they say: a system call, some five parts decoded by reflection, a
lock and a counter for each, a line of log for some. That is some tens of microseconds, on a host with 128 agents."""
BACKLOG_MAX = 1_000_000
"""Nothing is lost in the paper's anomalies; memberlist asks for a socket buffer of 2 MB, and a blocked agent is sent
less than that."""
QUIESCE = 15.0
"""Seconds of quiet before the anomalies begin (§V.C)."""


@dataclass(slots=True, frozen=True)
class Configuration:
    """A preset by its name, other α and β where those are compared, and rules that are off besides."""

    preset: str
    alpha: float | None = None
    beta: float | None = None
    off: tuple[str, ...] = ()

    def protocol(self, nodes: int) -> Protocol:
        """The constants for a group of this size that stands for `AGENTS`."""
        known = {**presets.CONFIGURATIONS, "reachp2p": presets.reachp2p}
        protocol = known[self.preset]()
        alpha = protocol.suspicion_alpha if self.alpha is None else self.alpha
        beta = protocol.suspicion_beta if self.beta is None else self.beta
        scale = log10(AGENTS) / max(1.0, log10(nodes))
        rules = replace(protocol.rules, **dict.fromkeys(self.off, False))
        return replace(protocol, suspicion_alpha=alpha * scale, suspicion_beta=beta, rules=rules)

    @property
    def label(self) -> str:
        """For tables and charts."""
        numbers = [f"{sign} = {value:g}" for sign, value in (("α", self.alpha), ("β", self.beta)) if value]
        return ", ".join([self.preset, *numbers, *(f"without {rule}" for rule in self.off)])


@dataclass(slots=True, frozen=True)
class ThresholdCase:
    """One anomaly: `blocked` agents for `duration` seconds, until all others have buried them."""

    configuration: Configuration
    nodes: int
    blocked: int
    duration: float
    seed: int


@dataclass(slots=True, frozen=True)
class IntervalCase:
    """Anomalies in lock-step: `blocked` agents for `duration` seconds, then awake for `awake`, `seconds` long."""

    configuration: Configuration
    nodes: int
    blocked: int
    duration: float
    awake: float
    seconds: float
    seed: int
    handling: float = HANDLING
    memberlist_sizes: bool = False
    """Messages are as large as memberlist's (`packets`), not as our own."""


@dataclass(slots=True, frozen=True)
class Detection:
    """Seconds from the beginning of an anomaly to DEAD at the first healthy agent and the last; None: not in time."""

    first: float | None
    full: float | None


@dataclass(slots=True, frozen=True)
class Disturbance:
    """What an interval run amounts to. Datagrams and their bytes during the anomalies, as memberlist counts them: what
    goes over links is not among them (its exchanges of state go over TCP; our links also have keepalives)."""

    false_positives: int
    at_healthy: int
    messages: int
    bytes: int


def threshold(case: ThresholdCase) -> list[Detection]:
    """Block once and watch until everyone knows, or the anomaly is over."""
    world, hosts, blocked = _begin(case.configuration, case.nodes, case.blocked, case.seed)
    subjects = {host.node: host for host in blocked}
    healthy = len(hosts) - len(blocked)
    began_at = world.now
    seen: dict[str, list[float]] = {host.name: [] for host in blocked}

    def note(host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.new is MemberState.DEAD:
            subject = subjects.get(event.node)
            if subject is not None and host.node not in subjects:
                seen[subject.name].append(world.now - began_at)

    world.on_event.append(note)
    _block(blocked)
    while world.now - began_at < case.duration and any(len(times) < healthy for times in seen.values()):
        world.run(0.25)
    return [
        Detection(times[0] if times else None, times[-1] if len(times) == healthy else None)
        for times in seen.values()
    ]


def interval(case: IntervalCase) -> Disturbance:
    """Block and release again and again; count what was said of those who were well."""
    world, _, blocked = _begin(case.configuration, case.nodes, case.blocked, case.seed, case.memberlist_sizes)
    anomalous = {host.node: None for host in blocked}
    counts = [0, 0]

    def note(host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.new is MemberState.DEAD and event.node not in anomalous:
            counts[0] += 1
            counts[1] += host.node not in anomalous

    world.on_event.append(note)
    for host in blocked:
        host.processor.slow_down(case.handling, BACKLOG_MAX)
    began_at = world.now
    messages, size = world.network.sent, world.network.sent_bytes
    while world.now - began_at < case.seconds:
        _block(blocked)
        world.run(case.duration)
        for host in blocked:
            host.processor.resume()
        world.run(case.awake)
    sent, sent_bytes = world.network.sent - messages, world.network.sent_bytes - size
    return Disturbance(counts[0], counts[1], sent, sent_bytes)


def _begin(
    configuration: Configuration, nodes: int, blocked: int, seed: int, memberlist_sizes: bool = False
) -> tuple[World, list[Host], list[Host]]:
    """A quiet group and those who will be anomalous: the same of one seed, whatever the configuration."""
    protocol = configuration.protocol(nodes)
    if memberlist_sizes:
        protocol = replace(protocol, datagram_max=DATAGRAM_MAX)
    world = World(seed, conditions=LOOPBACK, protocol=protocol, codec="off")
    if memberlist_sizes:
        world.codec = PacketCodec()
    hosts = world.add_nodes(nodes, converged=True)
    world.run(QUIESCE)
    chance: Random = world.randomness.stream("anomalous agents", blocked)
    return world, hosts, chance.sample(hosts, blocked)


def _block(hosts: list[Host]) -> None:
    for host in hosts:
        host.processor.block()
