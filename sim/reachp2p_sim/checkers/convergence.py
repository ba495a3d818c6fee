"""Convergence (I-CONV): within the heal budget of the last disturbance connected nodes hold equal views, and keep them.

Equal means: the same ALIVE set, which is the set of running lives, and the same `view_hash` over all signed facts. What
has become equal stays so for twenty periods, whoever is looked at when; then until the next disturbance, which the
end of the run looks at. After `world.declare_core` the core alone is judged, and what it holds about itself.

Loss may make a node doubt another for a moment at any time, so views must stay equal only where nothing is lost.
"""

from __future__ import annotations

from reachp2p.core.events import Event, MemberChanged, RecordChanged
from reachp2p.core.rules import Rules
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import healing
from reachp2p_sim.world.agreement import agreed, converged, differences
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
"""Seconds between two looks."""
STAYS = 20
"""Periods for which equal views must stay equal, before anything else is believed of them."""


class Convergence(Checker):
    """Looks once a second; a deadline runs from the last disturbance while the world is calm."""

    name = "convergence"
    invariant = "I-CONV"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._judged_at = -1.0
        self._is_judged = False
        self._equal_since: float | None = None
        self._changed_at = 0.0
        self._differ_since: float | None = None
        """Since when views that had been judged differ again."""
        world.every(LOOK_INTERVAL, self._look)
        world.on_event.append(self._on_event)

    def _on_event(self, host: Host, event: Event) -> None:
        if isinstance(event, RecordChanged) and event.node == host.node:
            self._changed_at = self.world.now
        elif isinstance(event, MemberChanged) and self._equal_since is not None and not self._is_judged:
            self._equal_since = None  # until the next look finds them equal again

    def _look(self) -> None:
        world = self.world
        disturbed_at = max(world.history.last_change_at, self._changed_at)
        if disturbed_at != self._judged_at:
            self._judged_at, self._is_judged, self._equal_since = disturbed_at, False, None
            self._differ_since = None
        if not world.is_calm or _has_twins(world) or world.protocol.rules != Rules():
            return
        loss = world.judged_weather[0]
        stays = STAYS * world.protocol.probe_interval if not loss else 0.0
        budget = healing(len(world.running), world.protocol, loss)
        if self._is_judged:
            self._look_on(budget)
            return
        if self._equal_since is None:
            if converged(world):
                self._equal_since = world.now
            elif world.now - disturbed_at > budget:
                self.fail(f"views differ {budget:.0f} s after the last disturbance: {differences(world)}")
            else:
                return
        if self._equal_since - disturbed_at > budget + LOOK_INTERVAL:
            self.fail(
                f"views were equal and have changed again more than {budget:.0f} s after the last disturbance"
            )
        if world.now - self._equal_since >= stays:
            if not converged(world):
                self.fail(f"views agreed {stays:g} s ago and differ again: {differences(world)}")
            self._is_judged = True

    def _look_on(self, budget: float) -> None:
        """Nothing has happened since views were found equal: they may differ no longer than after a disturbance."""
        if agreed(self.world):
            self._differ_since = None
        elif self._differ_since is None:
            self._differ_since = self.world.now
        elif self.world.now - self._differ_since > budget:
            self.fail(f"views agreed and differ again, for {budget:.0f} s: {differences(self.world)}")

    def finish(self) -> None:
        """A world that had converged is still converged."""
        if self._is_judged and self.world.is_calm and not agreed(self.world):
            self.fail(f"views agreed and differ again: {differences(self.world)}")


def _has_twins(world: World) -> bool:
    """Two running machines with one key: views cannot agree before one has stopped, which `fencing` sees to."""
    return any(
        len(hosts) > 1 and sum(host.is_running for host in hosts) > 1 for hosts in world.by_node.values()
    )
