"""Old news: held back for longer than anybody remembers, or played again where it never belonged."""

from __future__ import annotations

from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, employ, grow, require, scenario, settle, stopped
from reachp2p_sim.scenarios.told import Told, counted, first
from reachp2p_sim.world.agreement import agreed, converged
from reachp2p_sim.world.world import World, without


@scenario(
    "held-back",
    "all that one node sends is held back for ten minutes, while others come and go, and then arrives at once",
    nodes=8,
    nodes_min=5,
    cases=("B16",),
    group="network",
    held=600.0,
)
def held_back(world: World, options: Options) -> None:
    """B16: nothing old is taken for new, and traffic is as it was: what is late is answered once and not passed on.

    `--set held=5400` is longer than tombstones are kept.
    """
    hosts = grow(world, options)
    relay, leaver, killed, mover = hosts[1:5]
    world.run(20)
    before = _sent_in(world, 30)
    world.hold([relay], without(hosts, relay))
    world.run(10)
    world.leave(leaver)
    world.crash(killed)
    world.restart(mover)
    world.run(options.number("held"))
    world.start(leaver, killed)
    world.run(30)
    others = without(hosts, relay)
    told = Told(world)
    at_release = world.network.sent
    world.release()
    world.run(5)
    world.timings["sent_at_release"] = world.network.sent - at_release
    world.run_until(agreed, limit=healing(options.nodes, world.protocol))
    gone = told.given_up(others, others)
    require(world, not gone, f"old news made a node give up another: {first(gone)}")
    world.run(20)
    after = _sent_in(world, 30)
    world.timings["sent_before"], world.timings["sent_after"] = before, after
    require(world, after <= 1.1 * before, f"{before} datagrams in 30 s before, {after} afterwards")
    settle(world, healing(options.nodes, world.protocol))


def _sent_in(world: World, seconds: float) -> int:
    before = world.network.sent
    world.run(seconds)
    return world.network.sent - before


@scenario(
    "replayed-elsewhere",
    "recorded datagrams are played again to other nodes, to a node that has just joined, and to another cluster",
    nodes=6,
    nodes_min=4,
    cases=("B54",),
    group="hostile",
    rounds=3,
    amount=1_000,
)
def replayed_elsewhere(world: World, options: Options) -> None:
    """B54: what is signed names cluster, sender and life, so it can mean nothing in another place or at another time.

    The other cluster has nodes with the very same keys, names and addresses.
    """
    world.listen_in()
    hosts = grow(world, options)
    leaver, killed = hosts[1], hosts[2]
    world.leave(leaver)
    world.run_until(stopped(leaver), limit=10)
    world.crash(killed)
    world.restart(killed)
    settle(world, healing(options.nodes, world.protocol))
    told = Told(world)
    amount = int(options.number("amount"))
    for _ in range(int(options.number("rounds"))):
        world.replay(limit=amount)
        world.replay(*world.running[:2], limit=amount // 2)
        (newcomer,) = world.add_nodes(1)
        world.run(0.2)
        world.replay(newcomer, limit=amount)
        world.run(10)
        held = newcomer.view.members.get(killed.node)
        is_right = held is not None and held.life == killed.life
        require(world, is_right, f"a newcomer holds {held} of {killed.name}, whose life is {killed.life}")
    subjects = without(hosts, leaver)
    seen = told.given_up(subjects) + told.suspected(subjects)
    require(world, not seen, f"replays changed a view: {first(seen)}")
    _try_another_cluster(world, options, amount)
    settle(world, healing(len(world.running), world.protocol))


def _try_another_cluster(world: World, options: Options, amount: int) -> None:
    other = World(world.seed, protocol=world.protocol)
    other.cluster_id = "another"
    twins = other.add_nodes(options.nodes, within=1.0)
    employ(other, twins)
    other.run(1)
    other.run_until(converged, limit=30)
    other.run(20)
    told = Told(other)
    before = counted(twins, "dropped.datagram.")
    views = [host.engine.view_hash() for host in twins]
    wiretap = world.network.start_wiretap()
    chance = world.randomness.stream("another cluster")
    replayed = wiretap.select(chance, amount)
    for recorded in replayed:
        target = other.network.hosts[recorded.target % len(twins)]
        other.network.inject(target, recorded.data, recorded.address, recorded.number, chance.random())
    other.run(10)
    refused = counted(twins, "dropped.datagram.") - before
    world.timings["replayed_to_another_cluster"], world.timings["refused_there"] = len(replayed), refused
    require(
        world, refused == len(replayed), f"another cluster refused {refused} of {len(replayed)} datagrams"
    )
    is_same = views == [host.engine.view_hash() for host in twins] and not told.words
    require(world, is_same, f"another cluster took news from this one: {first(told.words)}")
