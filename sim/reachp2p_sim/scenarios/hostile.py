"""Hostile members: insiders that lie, repeat, flood and keep silent, alone and together."""

from __future__ import annotations

from reachp2p_sim.hostile import BEHAVIOURS
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.scenarios.told import Told, first
from reachp2p_sim.world.agreement import agreed
from reachp2p_sim.world.world import World, without

MIX = (
    "equivocation",
    "false-accusation",
    "repetition",
    "epoch-inflation",
    "forwards-nothing",
    "forgery",
    "silent-to-victims",
)


@scenario(
    "hostile-mix",
    "a fifth of the members are hostile, each in another way: no honest one is buried or believes a lie",
    nodes=24,
    nodes_min=8,
    cases=("B3.25",),
    group="hostile",
    reaches=("equivocation-proof",),
    share=0.2,
    seconds=90.0,
)
def hostile_mix(world: World, options: Options) -> None:
    """B3.25 without its flood, which has a scenario of its own. The drawn victim of the accusers is honest."""
    hosts = grow(world, options)
    told = Told(world)
    chance = world.randomness.stream("hostile")
    hostile = chance.sample(hosts[1:], max(1, round(len(hosts) * options.number("share"))))
    honest = without(hosts, *hostile)
    victims = chance.sample(honest, 2)
    kinds = chance.sample(MIX, len(MIX))
    for number, host in enumerate(hostile):
        world.turn_hostile(host, behaviour=kinds[number % len(kinds)], victims=victims)
    world.run(options.number("seconds"))
    buried = told.buried(honest, honest)
    require(world, not buried, f"an honest member was buried by another: {first(buried)}")
    world.turn_honest(*hostile)
    world.timings["agreed_after"] = world.run_until(agreed, limit=healing(options.nodes, world.protocol))
    world.restart(*hostile)
    back = [host for host in hostile if host.life is not None or host.is_running]
    world.timings["back"] = len(back)
    world.run(healing(options.nodes, world.protocol) / 2)
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "false-accusation",
    "a fifth of the members accuse one that is well, in every grade and period, in lossy weather",
    nodes=20,
    nodes_min=6,
    cases=("B3.25", "B3.31"),
    group="hostile",
    share=0.2,
    lost=0.1,
    seconds=120.0,
)
def false_accusation(world: World, options: Options) -> None:
    """Nobody's word kills: colluding accusers cost datagrams, and their victim a refutation each time."""
    hosts = grow(world, options)
    told = Told(world)
    hostile = hosts[1 : 1 + max(1, round(len(hosts) * options.number("share")))]
    honest = without(hosts, *hostile)
    world.set_weather(loss=options.number("lost"))
    world.turn_hostile(*hostile, behaviour="false-accusation", victims=[hosts[-1]])
    world.run(options.number("seconds"))
    buried = told.buried(honest, honest)
    require(world, not buried, f"an honest member was buried by another: {first(buried)}")
    world.timings["refutations"] = hosts[-1].engine.diagnostics().get("refutations", 0)
    world.turn_honest(*hostile)
    world.set_weather()
    world.run_until(agreed, limit=healing(options.nodes, world.protocol))


@scenario(
    "flood",
    "one member sends everything a hundred times and asks two others for work as often",
    nodes=12,
    nodes_min=6,
    cases=("B3.25",),
    group="hostile",
    seconds=20.0,
)
def flood(world: World, options: Options) -> None:
    """I-BOUND: every queue and table keeps its limit (checker `bounded`), and nobody honest is buried."""
    hosts = grow(world, options)
    told = Told(world)
    flooder, victims = hosts[-1], hosts[1:3]
    honest = without(hosts, flooder)
    world.turn_hostile(flooder, behaviour="flood", victims=victims)
    before = {host.name: _sent(host) for host in honest}
    world.run(options.number("seconds"))
    worst = max(_sent(host) - before[host.name] for host in honest if host not in victims)
    world.timings["sent_by_bystanders"] = worst / options.number("seconds")
    buried = told.buried(honest, honest)
    require(world, not buried, f"an honest member was buried by another: {first(buried)}")
    world.turn_honest(flooder)
    world.run_until(agreed, limit=healing(options.nodes, world.protocol))


@scenario(
    "hostile-one",
    "one member does harm of one kind (`behaviour`) to two others",
    nodes=12,
    nodes_min=6,
    cases=("B3.25",),
    group="hostile",
    behaviour="equivocation",
    seconds=60.0,
)
def hostile_one(world: World, options: Options) -> None:
    """Any one behaviour, to look at."""
    behaviour = options.text("behaviour")
    require(world, behaviour in BEHAVIOURS, f"no behaviour {behaviour!r}; there are: {', '.join(BEHAVIOURS)}")
    hosts = grow(world, options)
    told = Told(world)
    hostile = hosts[-1]
    honest = without(hosts, hostile)
    world.turn_hostile(hostile, behaviour=behaviour, victims=hosts[1:3])
    world.run(options.number("seconds"))
    buried = told.buried(honest, honest)
    require(world, not buried, f"an honest member was buried by another: {first(buried)}")
    world.turn_honest(hostile)
    if behaviour != "sybils":  # which stay in the views as long as any dead member does
        world.timings["agreed_after"] = world.run_until(agreed, limit=healing(options.nodes, world.protocol))


@scenario(
    "replay-after-leave",
    "all datagrams are recorded, a third leaves, and for long after the record is replayed, to newcomers too",
    nodes=8,
    nodes_min=6,
    cases=("B3.22", "B06"),
    group="hostile",
    protocol={"head_validity": 300, "clock_tolerance": 50, "tombstone_retention": 400.0},
    every=10.0,
    replayed=150,
    retentions=2.0,
)
def replay_after_leave(world: World, options: Options) -> None:
    """B3.22 with all retentions a twelfth of what ships: nobody who left is ever ALIVE again (I-NORES)."""
    world.listen_in()
    hosts = grow(world, options)
    world.run(10)
    gone = world.randomness.stream("gone").sample(hosts[1:], max(1, len(hosts) // 3))
    world.leave(*gone)
    world.run(15)
    require(world, not any(host.is_running for host in gone), "a node that was told to leave still runs")
    told = Told(world)
    until = world.now + options.number("retentions") * world.protocol.tombstone_retention
    limit, number = int(options.number("replayed")), 0
    while world.now < until:
        world.replay(limit=limit, within=options.number("every"))
        if number % 10 == 0:
            (newcomer,) = world.add_nodes(1)
            world.run(1)
            world.replay(newcomer, limit=limit, within=5.0)
        elif number % 10 == 9:
            world.leave(world.running[-1])
        world.run(options.number("every"))
        number += 1
    back = told.about(gone)
    back = [word for word in back if word.new is not None and word.new.value in ("ALIVE", "SUSPECT")]
    require(world, not back, f"somebody who had left came back: {first(back)}")
    settle(world, healing(len(world.running), world.protocol))


def _sent(host: Host) -> int:
    return host.engine.diagnostics().get("datagrams.sent", 0)
