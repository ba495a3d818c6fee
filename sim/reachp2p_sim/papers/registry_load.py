"""Our registry under Scuttlebutt's load: the core that ships, every node an owner of agents that change all the time.

An agent's record is a key, registering it anew an update. What differs from the paper: news also travels by gossip, at
most three datagrams of 1,400 bytes every 200 ms and what probes have left; an exchange of anti-entropy has no mtu but
begins only every P; and a head whose records do not follow is answered by a pull.
"""

from __future__ import annotations

import msgspec

from reachp2p.core.commands import AgentSpec, CapabilitySpec
from reachp2p.core.events import Event, RecordChanged
from reachp2p.core.ids import NodeId
from reachp2p_sim.machines.host import Host
from reachp2p_sim.machines.workload import Handler, Offer
from reachp2p_sim.papers.reconciliation import (
    END,
    OVERLOAD_FROM,
    OVERLOAD_UNTIL,
    UPDATES_UNTIL,
    Look,
    Outcome,
)
from reachp2p_sim.world.agreement import agreed
from reachp2p_sim.world.world import World

SETTLE = 20.0


class LoadCase(msgspec.Struct, frozen=True):
    """One cluster."""

    seed: int
    nodes: int
    agents: int
    """A node."""


class _Book:
    """Which version of each record is current, and which one everybody holds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.current: dict[tuple[NodeId, str], tuple[int, float]] = {}
        """(version, when it was made) by owner and agent."""
        self.missed: dict[str, dict[tuple[NodeId, str], float]] = {host.name: {} for host in world.running}
        """Since when somebody lacks the current version."""
        self.held: dict[str, dict[tuple[NodeId, str], int]] = {host.name: {} for host in world.running}
        self.violations = 0
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, RecordChanged):
            key = (event.node, event.agent)
            if event.node == host.node:
                self.current[key] = (event.version, self.world.now)
                for name, missed in self.missed.items():
                    if name != host.name:
                        missed.setdefault(key, self.world.now)
            self.held[host.name][key] = event.version
            if self.current[key][0] == event.version:
                self.missed[host.name].pop(key, None)

    def look(self, second: int) -> Look:
        """What is stale now; also checks invariant C at everybody."""
        stale, oldest, age = 0, 0.0, 0.0
        for host in self.world.running:
            complete = {view.node: view.complete for view in host.engine.members()}
            held = self.held[host.name]
            for key, (version, made_at) in self.current.items():
                if held.get(key) != version:
                    stale += 1
                    oldest = max(oldest, self.world.now - self.missed[host.name][key])
                    age = max(age, self.world.now - made_at)
                    self.violations += version <= complete.get(key[0], 0)
        return Look(second, stale / len(self.world.running), oldest, age)


def measure_registry(case: LoadCase) -> Outcome:
    """The paper's phases on a converged cluster in which every record is known to all."""
    world = World(case.seed)
    hosts = world.add_nodes(case.nodes)
    world.run(1.0)
    world.run_until(agreed, limit=120.0)
    book = _Book(world)
    for host in hosts:
        for agent in range(case.agents):
            _register(host, agent, 0)
    world.run(SETTLE)
    chance = world.randomness.stream("updates")
    looks = []
    began_at = world.now
    for second in range(END):
        rate = 0 if second >= UPDATES_UNTIL else 2 if OVERLOAD_FROM <= second < OVERLOAD_UNTIL else 1
        moments = [(chance.random(), number) for number in range(case.nodes) for _ in range(rate)]
        for moment, number in sorted(moments):
            world.run_to(began_at + second + moment)
            _register(hosts[number], chance.randrange(case.agents), second + 1)
        world.run_to(began_at + second + 1.0)
        looks.append(book.look(second + 1))
    return Outcome(looks, book.violations)


def _register(host: Host, agent: int, update: int) -> None:
    spec = AgentSpec(
        agent=f"load/agent-{agent}",
        description=f"update {update} {host.now:.6f}",
        capabilities=(CapabilitySpec(name="load.do"),),
    )
    host.application.offer(Offer(spec, Handler()))
