"""Steps about what is in a machine: its clocks and its disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from reachp2p_sim.machines.clock import RATE_MAX
from reachp2p_sim.machines.disk import DiskConditions
from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.processes import Seconds
from reachp2p_sim.steps.selection import Selection

if TYPE_CHECKING:
    from reachp2p_sim.world.world import World

Rate = Annotated[float, Meta(ge=0, le=RATE_MAX)]


class StepClock(Step, frozen=True, kw_only=True):
    """Move wall clocks by some seconds. Steady clocks do not notice."""

    hosts: Selection
    seconds: float

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """The driver reports wall clocks every ten seconds."""
        for host in world.hosts(self.hosts):
            host.clock.step_wall(self.seconds)


class SetClock(Step, frozen=True, kw_only=True):
    """Let clocks run fast or slow: 1.01 is a percent fast. A steady clock of rate 0 stands still.

    Without numbers both run as they should, from what they show.
    """

    hosts: Selection
    rate: Rate = 1.0
    wall_rate: Rate = 1.0

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """A clock that is more than a tenth off makes a machine unsound."""
        for host in world.hosts(self.hosts):
            if host.has_sound_clock(self.rate):
                world.history.present(host.index, world.now, "clock")
            else:
                world.history.absent(host.index, world.now, "clock")
            host.clock.set_wall_rate(self.wall_rate, world.now)
            host.set_clock_rate(self.rate)


class StrobeClock(Step, frozen=True, kw_only=True):
    """Let wall clocks be right for `every` seconds and wrong by `by` for as long, in turn; `by` 0 ends that."""

    hosts: Selection
    by: float = 0.0
    every: Annotated[float, Meta(ge=0.001)] = 0.1

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Seen when the driver reports the wall clock: every ten seconds, and at a start."""
        for host in world.hosts(self.hosts):
            host.clock.strobe(self.by, self.every, world.now)


class SetDisk(Step, frozen=True, kw_only=True):
    """How long writes take, whether those that end from now on fail and why, what fits, what a crash leaves.

    Of the writes a share `failing` fails with the reason `failure`; those beyond `capacity` bytes (0: no limit) find no
    space; with `tears` a crash may leave a write half done. Without numbers the disk is well.
    """

    hosts: Selection
    latency: Seconds = 0.002
    spread: Seconds = 0.0
    failure: str | None = None
    failing: Annotated[float, Meta(ge=0, le=1)] = 1.0
    capacity: Annotated[int, Meta(ge=0)] = 0
    tears: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Groups of writes that are under way keep their time."""
        for host in world.hosts(self.hosts):
            host.disk.conditions = DiskConditions(
                self.latency, self.spread, self.failure, self.failing, self.capacity, self.tears
            )


class CrashAtWrite(Step, frozen=True, kw_only=True):
    """Let processes crash at their `write`-th write from now: while it is under way, or once it is `durable`.

    What else the process did in the same moment is done, too. Nobody is told that the write is durable.
    """

    hosts: Selection
    write: Annotated[int, Meta(ge=1)] = 1
    durable: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """The crash comes by itself."""
        for host in world.hosts(self.hosts):
            host.disk.set_crash(self.write, when_durable=self.durable)
