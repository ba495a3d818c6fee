"""Newcomers: alone, one after the other, all at once; into fair weather and into trouble."""

from __future__ import annotations

from reachp2p.core.events import Event, MemberChanged, MemberState
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.listening import listen
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.scenarios.base import Options, grow, require, require_all_answered, scenario, settle
from reachp2p_sim.steps.work import CAPABILITY
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World

LOOK = 0.01
"""Seconds between two looks of a newcomer's program at whether it may call; the runtime is told sooner."""


@scenario(
    "newcomer-calls",
    "half of all instances are killed, a node joins and calls at once: no call fails while an instance lives",
    nodes=6,
    nodes_min=4,
    cases=("B11",),
    group="newcomers",
    killed_before=8.0,
    newcomers=3,
    ready_within=3.0,
    seconds=10.0,
)
def newcomer_calls(world: World, options: Options) -> None:
    """The dead are unknown to all, suspected, or buried already when the newcomers start: every moment is drawn.

    Handlers may not run twice, so only what certainly was not sent can go to another instance.
    """
    hosts = grow(world, options, work=False)
    world.offer(*hosts, repeatable=False)
    world.run(2)
    chance = world.randomness.stream("newcomers")
    world.crash(*chance.sample(hosts[1:], len(hosts) // 2))
    worst = 0.0
    for _ in range(int(options.number("newcomers"))):
        world.run(chance.random() * options.number("killed_before"))
        (newcomer,) = world.add_nodes(1)

        def ready(_: World) -> bool:
            return newcomer.engine.is_callable(CAPABILITY)  # noqa: B023 (asked before the next round only)

        worst = max(worst, world.run_until(ready, limit=options.number("ready_within"), every=LOOK))
        world.call_in_a_loop(newcomer, think_time=0.05, at_once=True)
    world.run(options.number("seconds"))
    world.timings["ready_worst"] = worst
    require_all_answered(world)
    settle(world, healing(len(world.running), world.protocol))


@scenario(
    "bootstrap-storm",
    "one seed node, and all others join through it within a second",
    nodes=64,
    nodes_min=2,
    cases=("B3.9",),
    group="newcomers",
    within=1.0,
    limit=30.0,
)
def bootstrap_storm(world: World, options: Options) -> None:
    """B3.9: all views are complete within `limit` seconds, and the seed has sent at most ten times the mean."""
    (seed,) = world.add_nodes(1)
    world.run(5)
    sent: dict[str, int] = {}

    def count(host: Host, data: bytes, _: object) -> None:
        sent[host.name] = sent.get(host.name, 0) + len(data)

    joiners = [world.add_node() for _ in range(options.nodes - 1)]
    for host in (seed, *joiners):
        listen(host, sent=count)
    chance = world.randomness.stream("storm")
    began_at = world.now
    moments = sorted((chance.random() * options.number("within"), host.name) for host in joiners)
    for moment, name in moments:
        world.run_to(began_at + moment)
        world.start(world.host(name))
    world.run_until(converged, limit=options.number("limit"))
    mean = sum(sent.values()) / len(sent)
    world.timings["complete_after"] = world.now - began_at
    world.timings["bytes_sent_mean"], world.timings["bytes_sent_by_seed"] = mean, sent[seed.name]
    share = sent[seed.name] / mean
    require(world, share <= 10, f"the seed has sent {share:.1f} times the mean; 10 are allowed")
    settle(world, healing(options.nodes, world.protocol))


@scenario(
    "join-under-loss",
    "seventeen nodes join one after the other while a tenth of all datagrams is lost",
    nodes=17,
    nodes_min=3,
    cases=("B3.10",),
    group="newcomers",
    loss=0.1,
    apart=5.0,
    seconds=175.0,
)
def join_under_loss(world: World, options: Options) -> None:
    """B3.10, the experiment of SWIM section 5: after `seconds` the group is complete, and nobody was ever dropped."""
    dropped: list[str] = []

    def on_event(host: Host, event: Event) -> None:
        if isinstance(event, MemberChanged) and event.new in (MemberState.DEAD, None):
            dropped.append(f"{host.name} dropped {event.name} at {world.now:.1f} s")

    world.on_event.append(on_event)
    world.set_weather(loss=options.number("loss"))
    for _ in range(options.nodes):
        world.add_nodes(1)
        world.run(options.number("apart"))
    world.run_to(max(options.number("seconds"), world.now))
    sizes = [1 + len(host.view.members) for host in world.running]
    world.timings["group_least"], world.timings["dropped"] = min(sizes), len(dropped)
    require(world, not dropped, f"members were dropped: {dropped[:3]}")
    require(world, min(sizes) == options.nodes, f"a view holds {min(sizes)} of {options.nodes} members")
    world.set_weather()
    settle(world, healing(options.nodes, world.protocol))
