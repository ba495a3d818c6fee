"""How long one update of ours takes to reach everybody, in the simulator: the core that ships, with all that helps it.

An agent is registered at a node; the others learn of it by piggyback and gossip ticks, and, where those miss somebody,
by pulls and anti-entropy. Four updates from different nodes are under way at once.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.events import Event, RecordChanged
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Offer
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.world.agreement import agreed
from reachp2p_sim.world.world import World

AT_ONCE = 4
SETTLE = 15.0
"""Seconds after everybody sees everybody in which the news of the start dies down."""
PAUSE = 15.0
"""Seconds for one batch of updates; what has not arrived by then counts as missed."""


class SpreadCase(msgspec.Struct, frozen=True):
    """Some batches of updates in one world."""

    seed: int
    nodes: int
    loss: float
    batches: int


def measure_spread(case: SpreadCase) -> list[list[float]]:
    """For each update the seconds until each other node knew it, sorted; fewer than n - 1 if some never did."""
    world = World(case.seed, conditions=Conditions())
    hosts = world.add_nodes(case.nodes)
    world.run(1.0)
    world.run_until(agreed, limit=120.0)
    world.set_weather(loss=case.loss)
    world.run(SETTLE)
    chance = world.randomness.stream("updates")
    began_at: dict[tuple[bytes, str], float] = {}
    heard: dict[tuple[bytes, str], list[float]] = {}

    def note(host: Host, event: Event) -> None:
        if isinstance(event, RecordChanged) and event.node != host.node:
            key = (event.node, event.agent)
            if key in began_at:
                heard[key].append(world.now - began_at[key])

    world.on_event.append(note)
    for batch in range(case.batches):
        for host in chance.sample(hosts, AT_ONCE):
            world.run(chance.random())
            agent = f"news/item-{batch}"
            began_at[host.node, agent] = world.now
            heard[host.node, agent] = []
            host.application.offer(Offer.simple(agent, "news.read", Handler()))
        world.run(PAUSE)
    return list(heard.values())
