"""No lost registration (I-NOLOSS): what an owner has confirmed and not withdrawn is known to everybody who is judged.

Judged once the world has been undisturbed for the heal budget, and at the end of a run whose views have converged: then
each node must know exactly the agents that each running node says it offers, in the owner's own versions; none missing,
none too many.
"""

from __future__ import annotations

from reachp2p.core.events import Event, RecordChanged
from reachp2p.core.ids import NodeId
from reachp2p.core.rules import Rules
from reachp2p.core.views import MemberView
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.checkers.rounds import rounds
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.world import World


class Registrations(Checker):
    """Follows what owners confirm; compares one node's registry a second, each node once after each disturbance."""

    name = "registrations"
    invariant = "I-NOLOSS"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._offered: dict[tuple[int, int], dict[str, int]] = {}
        """By process: its agents and the versions that its node has confirmed."""
        self._changed_at = 0.0
        self._judged: dict[int, float] = {}
        """By host: of which disturbance it was judged last."""
        world.listen(self._on_event, RecordChanged)
        rounds(world).on_look.append(self._look)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, RecordChanged) and event.node == host.node:
            self._changed_at = self.world.now
            offered = self._offered.setdefault((host.index, host.process_number), {})
            if event.present:
                offered[event.agent] = event.version
            else:
                offered.pop(event.agent, None)

    def _look(self, host: Host, members: list[MemberView]) -> None:
        world = self.world
        disturbed_at = max(world.history.last_change_at, self._changed_at)
        if self._judged.get(host.index) == disturbed_at or not world.is_calm:
            return
        budget = healing(len(world.judged), world.protocol, world.judged_weather[0])
        if world.now - disturbed_at <= budget or world.protocol.rules != Rules():
            return
        self._judged[host.index] = disturbed_at
        owners = {owner.node: owner for owner in world.judged}
        if host in world.judged and len(owners) == len(world.judged):
            self._compare(host, owners)

    def finish(self) -> None:
        """Views that have converged say that all records are there: look at each."""
        world = self.world
        owners = {owner.node: owner for owner in world.judged}
        if world.is_calm and len(owners) == len(world.judged) and converged(world):
            for host in world.judged:
                self._compare(host, owners)

    def _compare(self, host: Host, owners: dict[NodeId, Host]) -> None:
        known: dict[NodeId, dict[str, int]] = {node: {} for node in owners}
        for view in host.engine.agents():
            if view.node in known:
                known[view.node][view.agent] = view.registry_version
        for node, owner in owners.items():
            offered = self._offered.get((owner.index, owner.process_number), {})
            if known[node] != offered:
                self.fail(
                    f"knows agents {_told(known[node])} of {owner.name}, which has confirmed {_told(offered)}",
                    host,
                )


def _told(agents: dict[str, int]) -> str:
    return ", ".join(f"{agent} in version {version}" for agent, version in sorted(agents.items())) or "none"
