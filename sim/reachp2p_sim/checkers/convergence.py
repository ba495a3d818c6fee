"""Convergence (I-CONV): within the heal budget of the last disturbance all connected nodes hold equal views.

Equal means: the same ALIVE set, which is the set of running lives, and the same `view_hash` over all signed facts.
Once equal, views stay so until the next disturbance.
"""

from __future__ import annotations

from reachp2p.core.events import Event, RecordChanged
from reachp2p_sim.agreement import agreed, converged, differences
from reachp2p_sim.budgets import healing
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.host import Host
from reachp2p_sim.world import World

LOOK_INTERVAL = 1.0
"""Seconds between two looks."""


class Convergence(Checker):
    """Looks once a second; a deadline runs from the last disturbance while the world is calm."""

    name = "convergence"
    invariant = "I-CONV"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._judged_at = -1.0
        self._is_judged = False
        self._changed_at = 0.0
        world.every(LOOK_INTERVAL, self._look)
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, RecordChanged) and event.node == host.node:
            self._changed_at = self.world.now

    def _look(self) -> None:
        world = self.world
        disturbed_at = max(world.history.last_change_at, self._changed_at)
        if disturbed_at != self._judged_at:
            self._judged_at, self._is_judged = disturbed_at, False
        if self._is_judged or not world.is_calm or _has_twins(world):
            return
        if converged(world):
            self._is_judged = True
            return
        budget = healing(len(world.running), world.protocol, world.network.worst()[0])
        if world.now - disturbed_at > budget:
            self.fail(f"views differ {budget:.0f} s after the last disturbance: {differences(world)}")

    def finish(self) -> None:
        """A world that had converged is still converged."""
        if self._is_judged and self.world.is_calm and not agreed(self.world):
            self.fail(f"views agreed and differ again: {differences(self.world)}")


def _has_twins(world: World) -> bool:
    """Two running machines with one key: views cannot agree before one has stopped, which `fencing` sees to."""
    return any(
        len(hosts) > 1 and sum(host.is_running for host in hosts) > 1 for hosts in world.by_node.values()
    )
