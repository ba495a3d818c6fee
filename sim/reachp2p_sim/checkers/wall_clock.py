"""Wall clocks judge validity and nothing else (I-CLOCK): a jump of the time of day changes nobody's view.

Once all have agreed and news has had the time to spread, while nothing but wall clocks is touched in fair weather, no
view may change at all. (Retention that is over is no change of mind.) Jumps larger than the tolerance for clocks that
differ are another matter: what is signed then comes from a time that others do not believe.
"""

from __future__ import annotations

from math import inf

from reachp2p.core.events import Event, MemberChanged
from reachp2p.core.ids import short
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.measuring.budgets import dissemination
from reachp2p_sim.steps.machines import StepClock
from reachp2p_sim.world.agreement import agreed
from reachp2p_sim.world.world import World

LOOK_INTERVAL = 1.0
DELAY_SHARE_MAX = 0.1
"""Of the probe time-out that a mean one-way delay may take."""


class WallClock(Checker):
    """Judges every `MemberChanged` by what was done to the world before it."""

    name = "wall_clock"
    invariant = "I-CLOCK"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._read = 0
        self._disturbed_at = 0.0
        self._stepped_at = -inf
        self._agreed_since: float | None = None
        """Since when all have agreed, if nothing has disturbed them after that."""
        world.every(LOOK_INTERVAL, self._look)
        world.on_event.append(self._on_event)
        world.on_process.append(self._on_process)

    def _on_process(self, host: Host, what: str) -> None:
        self._disturbed_at, self._agreed_since = self.world.now, None

    def _look(self) -> None:
        self._catch_up()
        if self._agreed_since is None and self._is_fair() and agreed(self.world):
            self._agreed_since = self.world.now

    def _on_event(self, host: Host, event: Event) -> None:
        if not isinstance(event, MemberChanged) or event.new is None:
            return
        self._catch_up()
        world = self.world
        if self._agreed_since is None or self._stepped_at < self._disturbed_at:
            return
        if world.now - self._agreed_since <= dissemination(len(world.nodes), world.protocol):
            self._agreed_since = None
            return
        offsets = [machine.wall_offset for machine in world.nodes]
        if max(offsets) - min(offsets) > world.protocol.clock_tolerance or not self._is_fair():
            return
        what = f"{event.name or short(event.node)} from {event.old} to {event.new}"
        quiet_for = world.now - self._disturbed_at
        self.fail(f"moved {what} although only wall clocks were touched for {quiet_for:.0f} s", host)

    def _catch_up(self) -> None:
        performed = self.world.performed
        while self._read < len(performed):
            done = performed[self._read]
            self._read += 1
            if isinstance(done.step, StepClock):
                self._stepped_at = done.at
            elif done.step.disturbs:
                self._disturbed_at, self._agreed_since = done.at, None
        changed_at = (
            self.world.history.last_change_at
        )  # by a step that goes on for a while, such as flapping paths
        if changed_at > self._disturbed_at and changed_at != self._stepped_at:
            self._disturbed_at, self._agreed_since = changed_at, None

    def _is_fair(self) -> bool:
        world = self.world
        loss, delay = world.network.paths.worst()
        is_sound = all(host.is_sound or not host.is_running for host in world.nodes)
        return (
            world.network.paths.are_whole
            and is_sound
            and not loss
            and delay <= world.protocol.probe_timeout * DELAY_SHARE_MAX
        )
