"""Steps about what is in a machine: its wall clock and its disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from reachp2p_sim.selection import Selection
from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.processes import Seconds

if TYPE_CHECKING:
    from reachp2p_sim.world import World


class StepClock(Step, frozen=True, kw_only=True):
    """Move wall clocks by some seconds. Steady clocks do not notice."""

    hosts: Selection
    seconds: float

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """The driver reports wall clocks every ten seconds."""
        for host in world.hosts(self.hosts):
            host.wall_offset += self.seconds


class SetDisk(Step, frozen=True, kw_only=True):
    """How long writes take, and whether those that end from now on fail, and why."""

    hosts: Selection
    latency: Seconds = 0.002
    failure: str | None = None

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Groups of writes that are under way keep their time."""
        for host in world.hosts(self.hosts):
            host.disk.conditions.latency = self.latency
            host.disk.conditions.failure = self.failure
