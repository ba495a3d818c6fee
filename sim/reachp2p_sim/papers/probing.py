"""Groups whose probing is written down: who probes whom and when, how rounds end, when heads arrive.

The engines are those that ship; notes are taken beside them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from reachp2p.core.engine import Engine
from reachp2p.core.ids import Entropy, NodeId, Rng
from reachp2p.core.membership.member import Member
from reachp2p.core.membership.probe import ProbeResult
from reachp2p.core.membership.table import Change
from reachp2p.core.settings import Protocol, Settings
from reachp2p.core.trust.signer import Signer, Verifier
from reachp2p.core.wire.engine_codec import Codec
from reachp2p_sim.machines.host import Host
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.papers import presets
from reachp2p_sim.world.world import World

SETTLE = 5.0
"""Seconds after the start, in which everybody knows everybody from the first moment."""


@dataclass(slots=True)
class Notes:
    """What is written down. Empty until `is_on`, so that the start leaves no trace in it."""

    is_on: bool = False
    failures_count: bool = True
    """Whether anything follows from a failed probe; if not, it is only noted."""
    probes: list[tuple[float, NodeId, NodeId]] = field(default_factory=list)
    """(now, prober, target) of each round begun."""
    failed: int = 0
    """Rounds that nobody answered."""


def watched(
    protocol: Protocol, conditions: Conditions, seed: int, nodes: int
) -> tuple[World, list[Host], Notes]:
    """A settled group whose probing is noted from now on."""
    notes = Notes()

    def build(
        settings: Settings, *, signer: Signer, verifier: Verifier, rng: Rng, entropy: Entropy, codec: Codec
    ) -> Engine:
        engine = Engine(settings, signer=signer, verifier=verifier, rng=rng, entropy=entropy, codec=codec)
        _watch(engine, signer.node, notes, world)
        return engine

    world = World(seed, protocol=protocol, codec="off", engine_factory=build)
    hosts = world.add_nodes(nodes, converged=True)
    world.run(SETTLE)
    world.set_weather(delay=conditions.delay, spread=conditions.spread, loss=conditions.loss)
    world.run(2 * protocol.probe_interval)
    notes.is_on = True
    return world, hosts, notes


def _watch(engine: Engine, node: NodeId, notes: Notes, world: World) -> None:
    prober, detector = engine._parts.prober, engine._parts.detector
    begin, judge = prober.probe, detector.on_probe

    def probe(member: Member, now: float, *, is_last: bool = False) -> bool:
        has_begun = begin(member, now, is_last=is_last)
        if has_begun and notes.is_on:
            notes.probes.append((world.now, node, member.node))
        return has_begun

    def on_probe(result: ProbeResult, now: float) -> list[Change]:
        if not result.answered:
            notes.failed += notes.is_on
            if not notes.failures_count:
                return []
        return judge(result, now)

    prober.probe = probe  # type: ignore[method-assign]
    detector.on_probe = on_probe  # type: ignore[method-assign]


class ProbingCase(msgspec.Struct, frozen=True):
    """A quiet group for some periods of one second."""

    seed: int
    nodes: int
    periods: int
    round_robin: bool


class Probing(msgspec.Struct, frozen=True):
    """What would happen to members that crash, and how long members let pass between two probes of another.

    `rounds` and `waits` (periods) until somebody probes the crashed one: means over all moments of `BLOCK` periods
    of one member. `longest`: the most own periods between two probes of one member by one other, of `gaps` seen.
    """

    rounds: list[float]
    waits: list[float]
    longest: int
    gaps: int


BLOCK = 20
"""Periods. A wait is seldom longer than a few of them, so what is seen in one block hardly depends on another."""
AFTER = 20
"""Periods that are watched after the last block: longer waits have a chance of e^-20."""


def measure_probing(case: ProbingCase) -> Probing:
    """Until somebody probes a crashed member nobody does anything else than before: so nobody needs to crash."""
    protocol = presets.swim_2002()
    rules = replace(protocol.rules, round_robin=case.round_robin)
    world, hosts, notes = watched(replace(protocol, rules=rules), Conditions(), case.seed, case.nodes)
    began_at = world.now
    world.run(case.periods)
    by_target: dict[NodeId, list[float]] = {host.node: [] for host in hosts}
    turn: dict[NodeId, int] = dict.fromkeys(by_target, 0)
    last: dict[tuple[NodeId, NodeId], int] = {}
    longest = gaps = 0
    for at, prober, target in notes.probes:
        by_target[target].append(at)
        turn[prober] += 1
        before = last.get((prober, target))
        if before is not None:
            longest, gaps = max(longest, turn[prober] - before), gaps + 1
        last[prober, target] = turn[prober]
    counted: list[float] = []
    waits: list[float] = []
    for times in by_target.values():
        for start in range(0, case.periods - BLOCK - AFTER + 1, BLOCK):
            found = over_all_moments(times, began_at + start, BLOCK)
            if found is not None:
                counted.append(found[0])
                waits.append(found[1])
    return Probing(counted, waits, longest, gaps)


def over_all_moments(times: list[float], start: float, length: float) -> tuple[float, float] | None:
    """Rounds and periods from a moment to the next of these times, each its mean over all moments of a stretch: no
    moment is drawn, so none is drawn badly. None if a moment has no such time.

    SWIM counts in whole rounds that begin at the crash (§3.1): a wait of w periods is over in round ⌈w⌉.
    """
    place = bisect_left(times, start)
    rounds = waits = 0.0
    at, end = start, start + length
    while at < end:
        if place == len(times):
            return None
        until = min(end, times[place])
        longest, shortest = times[place] - at, times[place] - until
        rounds += _rounds_below(longest) - _rounds_below(shortest)
        waits += (longest**2 - shortest**2) / 2
        at, place = until, place + 1
    return rounds / length, waits / length


def _rounds_below(wait: float) -> float:
    """The integral of ⌈w⌉ from 0 to a wait."""
    whole = int(wait)
    return whole * (whole + 1) / 2 + (wait - whole) * (whole + 1)


class LoadCase(msgspec.Struct, frozen=True):
    """A quiet group of nodes as they ship."""

    seed: int
    nodes: int
    periods: int


def measure_load(case: LoadCase) -> list[float]:
    """Datagrams that each member sends in a period."""
    world = World(case.seed, codec="off")
    hosts = world.add_nodes(case.nodes, converged=True)
    world.run(SETTLE)
    before = [_sent(host) for host in hosts]
    world.run(case.periods)
    return [(_sent(host) - old) / case.periods for host, old in zip(hosts, before, strict=True)]


def _sent(host: Host) -> int:
    return host.engine.diagnostics()["datagrams.sent"]


class RateCase(msgspec.Struct, frozen=True):
    """Healthy members that lose datagrams; nothing follows from a failed probe."""

    seed: int
    nodes: int
    loss: float
    helpers: int
    periods: int


class Rate(msgspec.Struct, frozen=True):
    """Failed rounds among all."""

    failed: int
    rounds: int


def measure_rate(case: RateCase) -> Rate:
    """A round fails if ping or Ack is lost and so is, for each helper, one of four datagrams."""
    protocol = presets.swim_2002(indirect_probes=case.helpers)
    world, _, notes = watched(protocol, Conditions(loss=case.loss), case.seed, case.nodes)
    notes.failures_count = False
    world.run(case.periods)
    return Rate(notes.failed, len(notes.probes))


class NewsCase(msgspec.Struct, frozen=True):
    """Updates, one a second, each from a member drawn at random: by SWIM's piggyback alone, or by all that ships."""

    seed: int
    nodes: int
    loss: float
    updates: int
    ships: bool = False


def measure_news(case: NewsCase) -> list[list[float]]:
    """For each update the periods until each other member held it, sorted; fewer than n − 1 if some never did."""
    protocol = presets.reachp2p() if case.ships else presets.swim_2002()
    world, hosts, notes = watched(protocol, Conditions(loss=case.loss), case.seed, case.nodes)
    notes.failures_count = False
    began_at: dict[tuple[NodeId, int], float] = {}
    heard: dict[tuple[NodeId, int], dict[int, float]] = {}
    for host in hosts:
        _listen(host, world, began_at, heard)
    chance = world.randomness.stream("updates")
    idle = list(hosts)
    for _ in range(case.updates):
        host = idle.pop(chance.randrange(len(idle)))
        idle = idle or list(hosts)
        addresses = (host.address, world.new_address())
        key = (host.node, host.engine._parts.own.version + 1)
        began_at[key], heard[key] = world.now, {}
        host.engine.set_addresses(addresses, host.now)
        host.settle()
        world.run(1.0)
    world.run(40.0)
    return [sorted(times.values()) for times in heard.values()]


def _listen(
    host: Host,
    world: World,
    began_at: dict[tuple[NodeId, int], float],
    heard: dict[tuple[NodeId, int], dict[int, float]],
) -> None:
    table = host.engine._parts.table
    merge = table.merge

    def merged(head: object, now: float) -> object:
        seen = merge(head, now)  # type: ignore[arg-type]
        fact = head.fact  # type: ignore[attr-defined]
        key = (NodeId(fact.node), fact.version)
        if key in heard:
            heard[key].setdefault(host.index, world.now - began_at[key])
        return seen

    table.merge = merged  # type: ignore[method-assign,assignment]
