"""Steps about the network: partitions and what ends them, holds, the weather, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from reachp2p_sim.network import Conditions, mask
from reachp2p_sim.selection import Selection
from reachp2p_sim.steps.base import Step

if TYPE_CHECKING:
    from reachp2p_sim.world import World


class Partition(Step, frozen=True, kw_only=True):
    """Let nothing through between two groups, or only nothing from `left` to `right`."""

    left: Selection
    right: Selection = "rest"
    one_way: bool = False

    machines: ClassVar[tuple[str, ...]] = ("left", "right")

    def perform(self, world: World) -> None:
        """Cuts add up until `heal`."""
        left, right = world.hosts(self.left), world.hosts(self.right)
        world.history.cut(mask(left), mask(right), world.now)
        world.network.cut(left, right)
        if not self.one_way:
            world.history.cut(mask(right), mask(left), world.now)
            world.network.cut(right, left)


class Heal(Step, frozen=True, kw_only=True):
    """End all partitions."""

    def perform(self, world: World) -> None:
        """At once; streams that stood still go on."""
        world.history.mended(world.now)
        world.network.mend()


class Hold(Step, frozen=True, kw_only=True):
    """Let what goes between two groups wait; nothing is lost."""

    left: Selection
    right: Selection = "rest"

    machines: ClassVar[tuple[str, ...]] = ("left", "right")

    def perform(self, world: World) -> None:
        """Until `release`."""
        left, right = world.hosts(self.left), world.hosts(self.right)
        world.history.cut(mask(left), mask(right), world.now)
        world.history.cut(mask(right), mask(left), world.now)
        world.network.hold(left, right)
        world.network.hold(right, left)


class Release(Step, frozen=True, kw_only=True):
    """Deliver what was held, in order."""

    def perform(self, world: World) -> None:
        """All holds end."""
        world.history.mended(world.now)
        world.network.release()


class Weather(Step, frozen=True, kw_only=True):
    """Change the conditions on all paths that have none of their own: `changes` to those the run began with."""

    changes: dict[str, Any] = msgspec.field(default_factory=dict)

    def perform(self, world: World) -> None:
        """No changes: fair weather again."""
        world.network.conditions = changed(world.fair, self.changes)
        world.note_weather()


class PathWeather(Step, frozen=True, kw_only=True):
    """Give one directed path its own weather (`changes` to what the run began with), or take it away (none)."""

    source: Selection
    target: Selection
    changes: dict[str, Any] | None = None

    machines: ClassVar[tuple[str, ...]] = ("source", "target")

    def perform(self, world: World) -> None:
        """All paths from the one group to the other."""
        conditions = None if self.changes is None else changed(world.fair, self.changes)
        for source in world.hosts(self.source):
            for target in world.hosts(self.target):
                world.network.set_between(source, target, conditions)
        world.note_weather()


class SetName(Step, frozen=True, kw_only=True):
    """Change what a seed name leads to: the present addresses of these machines, or nothing."""

    name: str
    leads_to: Selection = ()

    machines: ClassVar[tuple[str, ...]] = ("leads_to",)
    may_be_empty: ClassVar[bool] = True

    def perform(self, world: World) -> None:
        """Nodes ask again every 15 seconds."""
        world.names[self.name] = [host.address for host in world.hosts(self.leads_to)]


def changed(fair: Conditions, changes: dict[str, Any]) -> Conditions:
    """Conditions with some values changed. Raises `ValueError` (or msgspec's) for what there is not."""
    known: dict[str, Any] = msgspec.to_builtins(fair)
    unknown = [key for key in changes if key not in known]
    if unknown:
        raise ValueError(f"weather has no {unknown[0]!r}; it has: {', '.join(known)}")
    return msgspec.convert({**known, **changes}, Conditions)


def difference(fair: Conditions, conditions: Conditions) -> dict[str, Any]:
    """The other way: what must be changed to get there."""
    before, after = msgspec.to_builtins(fair), msgspec.to_builtins(conditions)
    return {key: value for key, value in after.items() if value != before[key]}
