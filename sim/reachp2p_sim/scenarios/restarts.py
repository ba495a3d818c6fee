"""Lives: crashes and restarts with good, lost and wrong disks, moves, leaves, clones."""

from __future__ import annotations

from reachp2p.core.events import Event, Fenced, MemberState, StartRefused
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import completeness, dissemination, healing, suspicion_minimum
from reachp2p_sim.scenarios.base import Options, grow, require, scenario, settle
from reachp2p_sim.world.agreement import agreed, converged
from reachp2p_sim.world.world import World, halves

COPIED_AFTER = 5.0
"""Seconds before a state folder is copied: it then says where others are, as any that is worth copying does."""


def _chosen(world: World, hosts: list[Host], purpose: str) -> Host:
    """Any machine but the seed node."""
    return hosts[1 + world.randomness.stream(purpose).randrange(len(hosts) - 1)]


def seen_again(world: World, host: Host, limit: float) -> float:
    """Seconds until every other node sees this machine's present life as ALIVE."""

    def everywhere_alive(world: World) -> bool:
        life = host.life
        return life is not None and all(
            (held := other.view.members.get(host.node)) is not None
            and held.state is MemberState.ALIVE
            and held.life == life
            for other in world.running
            if other is not host
        )

    return world.run_until(everywhere_alive, limit=limit, every=0.05)


@scenario(
    "crash-restart",
    "a process is killed and started again after a drawn while, three times",
    nodes=16,
    cases=("B3.21",),
    group="lives",
    wait_max=20.0,
)
def crash_restart(world: World, options: Options) -> None:
    """Back in every view within three seconds of each start, each time under a higher epoch."""
    hosts = grow(world, options)
    chosen = _chosen(world, hosts, "crash-restart")
    waits = world.randomness.stream("crash-restart waits")
    worst = 0.0
    for _ in range(3):
        world.crash(chosen)
        world.run(waits.random() * options.number("wait_max"))
        world.restart(chosen)
        worst = max(worst, seen_again(world, chosen, limit=3.0))
    world.timings["back_in_every_view"] = worst
    require(world, [life.epoch for life in chosen.lives] == [1, 2, 3, 4], f"epochs were {chosen.lives}")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "mass-restart",
    "a third is dead already, then all nodes crash at once and start again with lost disks and wrong clocks",
    nodes=16,
    cases=("B04", "B21"),
    group="lives",
    disk="lost",
    clock=-86_400.0,
)
def mass_restart(world: World, options: Options) -> None:
    """B04 and B21: with `--set disk=kept` for the other half; a clock a day back changes nothing."""
    hosts = grow(world, options)
    third = hosts[1::3]
    world.crash(*third)
    world.run_until(agreed, limit=completeness(options.nodes, world.protocol))
    world.crash(*[host for host in hosts if host.is_running])
    for host in hosts:
        world.step_clock(host, options.number("clock"))
        world.restart(host, disk="lost" if options.text("disk") == "lost" else "kept")
    world.timings["all_see_all_again"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "preloaded-death",
    "half of the views hold a node DEAD at a high incarnation when it restarts with nothing on its disk",
    nodes=6,
    cases=("B04", "B3.24"),
    group="lives",
)
def preloaded_death(world: World, options: Options) -> None:
    """B04's trigger: three of six hold it DEAD, and it begins at one again."""
    hosts = grow(world, options)
    chosen = hosts[1]
    for _ in range(3):
        world.restart(chosen)
        seen_again(world, chosen, limit=10)
    rest = [host for host in hosts if host is not chosen]
    world.partition([*rest[:2], chosen], rest[2:])
    world.crash(chosen)
    world.run(60)
    world.restart(chosen, disk="lost")
    world.run(5)
    world.heal()
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "restart-moved",
    "a node is killed and comes back at another address before the others have forgotten it",
    nodes=8,
    cases=("B01",),
    group="lives",
)
def restart_moved(world: World, options: Options) -> None:
    """B01: the key is the identity, the address follows in a few rounds."""
    hosts = grow(world, options)
    chosen = _chosen(world, hosts, "restart-moved")
    world.crash(chosen, host_down=True)
    world.run(2)
    world.restart(chosen, moved=True)
    limit = dissemination(options.nodes, world.protocol) + 2
    world.timings["back_in_every_view"] = seen_again(world, chosen, limit)
    settle(world, healing(options.nodes, world.protocol))
    for host in hosts:
        view = next(member for member in host.engine.members() if member.node == chosen.node)
        require(
            world,
            view.addresses == (chosen.address,),
            f"{host.name} still has {chosen.name} at {view.addresses}",
        )


@scenario(
    "leave-rejoin",
    "one node leaves and joins again, twenty times",
    nodes=8,
    cases=("B03",),
    group="lives",
    rounds=20,
)
def leave_rejoin(world: World, options: Options) -> None:
    """B03: each join opens a life above the node's own tombstone."""
    hosts = grow(world, options)
    chosen = _chosen(world, hosts, "leave-rejoin")
    worst = 0.0
    for _ in range(int(options.number("rounds"))):
        world.leave(chosen)
        world.run_until(lambda _: not chosen.is_running, limit=10)
        world.start(chosen)
        worst = max(worst, seen_again(world, chosen, limit=10))
    world.timings["back_in_every_view"] = worst
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "leave",
    "a third of the nodes leave one after the other and nobody takes them for dead",
    nodes=16,
    cases=("B06",),
    group="lives",
)
def leave(world: World, options: Options) -> None:
    """A clean leave is LEFT in every view, never DEAD."""
    hosts = grow(world, options)
    leaving = hosts[1::3]
    for host in leaving:
        world.leave(host)
        world.run(1)
    world.timings["agreed_after"] = settle(world, healing(options.nodes, world.protocol))
    for host in world.running:
        for gone in leaving:
            held = host.view.members.get(gone.node)
            require(
                world, held is None or held.state is MemberState.LEFT, f"{host.name} holds {gone.name} {held}"
            )


@scenario(
    "leave-unheard",
    "one node is cut off while another leaves; minutes later it brings the old news back, in vain",
    nodes=8,
    cases=("B03", "B06", "B3.22"),
    group="lives",
    cut=200.0,
)
def leave_unheard(world: World, options: Options) -> None:
    """No resurrection: whoever holds LEFT is not talked out of it by somebody who has not heard."""
    hosts = grow(world, options)
    leaving, deaf = hosts[1], hosts[2]
    world.partition([deaf], [host for host in hosts if host is not deaf])
    world.run(1)
    world.leave(leaving)
    world.run(options.number("cut"))
    world.heal()
    world.timings["healed_after"] = settle(world, healing(options.nodes, world.protocol))


@scenario(
    "restart-third-party",
    "a node restarts; a newcomer then hears of its former life from somebody else",
    nodes=4,
    cases=("B17",),
    group="lives",
)
def restart_third_party(world: World, options: Options) -> None:
    """B17: nobody keeps the former life, and every record is expired by something."""
    hosts = grow(world, options)
    teller, chosen = hosts[0], hosts[1]
    world.partition([teller], [chosen])
    world.restart(chosen)
    newcomer = world.add_nodes(1)[0]
    world.run(3)
    world.heal()
    settle(world, healing(options.nodes, world.protocol))
    held = newcomer.view.members[chosen.node]
    require(world, held.life == chosen.life, f"the newcomer holds life {held.life} of {chosen.name}")


@scenario(
    "amnesia",
    "a node that the others remember at a high epoch comes back with an empty disk, also across a partition",
    nodes=12,
    cases=("B21", "B3.24"),
    group="lives",
)
def amnesia(world: World, options: Options) -> None:
    """B3.24: a new life above every remembered one, seen by all within D of its restart; never fenced by its own past.

    In a group so small that D is shorter than the challenge of the life which it is told of (S_min of one, as nobody
    answers), it has that and a period.
    """
    hosts = grow(world, options)
    chosen = _chosen(world, hosts, "amnesia")
    for _ in range(4):
        world.restart(chosen)
        seen_again(world, chosen, limit=10)
    world.restart(chosen, disk="lost")
    challenge = suspicion_minimum(1, world.protocol) + world.protocol.probe_interval
    limit = max(challenge, dissemination(options.nodes, world.protocol))
    world.timings["back_in_every_view"] = seen_again(world, chosen, limit)
    require(world, chosen.lives[-1].epoch > chosen.lives[-2].epoch, f"lives were {chosen.lives}")

    rest = [host for host in hosts if host is not chosen]
    world.partition([chosen], rest)
    world.crash(chosen)
    world.run(1)  # what was on its way to the former process must not teach the next one
    world.restart(chosen, disk="lost")
    world.run(30)
    require(world, chosen.lives[-1].epoch == 1, "a node that reaches nobody begins at epoch 1")
    world.heal()
    world.timings["outbid_after"] = settle(world, healing(options.nodes, world.protocol))
    require(world, chosen.is_running, f"{chosen.name} was ended by its own past: {chosen.ended_by}")


@scenario(
    "epoch-clone-across-split",
    "a copied state folder runs on both sides of a partition; after the heal one of the two stops for good",
    nodes=12,
    cases=("B51", "B3.23"),
    group="lives",
    equal=0,
    cut=40.0,
)
def epoch_clone_across_split(world: World, options: Options) -> None:
    """B3.23; with `--set equal=1` both start at one epoch. A supervisor restarts what stopped, in vain."""
    hosts = grow(world, options)
    chosen = _chosen(world, hosts, "clone")
    rest = [host for host in hosts if host is not chosen]
    left, right = halves(rest)
    world.offer(chosen, agent="work/cloned", capability="work.cloned", service_time=0.05)
    world.call_in_a_loop(*rest, capability="work.cloned", think_time=0.2)
    world.run(COPIED_AFTER)
    if options.number("equal"):
        world.crash(chosen)
    twin = world.clone(chosen)
    world.partition([*left, chosen], [*right, twin])
    if options.number("equal"):
        world.restart(chosen)
    world.start(twin)
    world.run(options.number("cut"))
    require(world, twin.life is not None and chosen.life is not None, "both run while nothing connects them")
    for one, side in ((chosen, left), (twin, right)):
        strangers = [host.name for host in side if not _holds(host, one)]
        require(
            world,
            not strangers,
            f"{', '.join(strangers)} did not hear of {one.name}, with which they are cut off",
        )
    world.heal()

    def one_left(_: World) -> bool:
        return chosen.is_running != twin.is_running

    limit = 3 * healing(options.nodes, world.protocol)  # the checker has the first word
    world.timings["one_stopped_after"] = world.run_until(one_left, limit)
    loser = twin if chosen.is_running else chosen
    require(world, isinstance(loser.ended_by, Fenced), f"{loser.name} was not fenced: {loser.ended_by}")
    for _ in range(3):
        world.restart(loser)
        world.run(5)
        refused: Event | None = loser.ended_by
        require(
            world, isinstance(refused, StartRefused), f"{loser.name} started again although it was fenced"
        )
    settle(world, healing(options.nodes, world.protocol))


def _holds(host: Host, other: Host) -> bool:
    """Whether a node believes the very life alive that runs on `other`."""
    held = host.view.members.get(other.node)
    return held is not None and held.life == other.life and held.state is MemberState.ALIVE


@scenario(
    "clone-beside",
    "a copied state folder is started beside the original: the second refuses, the first goes on",
    nodes=8,
    cases=("B51",),
    group="lives",
)
def clone_beside(world: World, options: Options) -> None:
    """B51: uniqueness is checked before anything is announced."""
    hosts = grow(world, options)
    chosen = _chosen(world, hosts, "clone")
    world.save_disk(chosen, image="before")
    life = chosen.life
    world.restart(chosen)
    seen_again(world, chosen, limit=10)
    twin = world.clone(chosen, "before")
    world.start(twin)
    world.run_until(lambda _: not twin.is_running, limit=30)
    require(world, isinstance(twin.ended_by, StartRefused), f"the second was not refused: {twin.ended_by}")
    require(world, chosen.is_running and chosen.life != life, f"{chosen.name} did not go on")
    world.run_until(converged, limit=healing(options.nodes, world.protocol))
