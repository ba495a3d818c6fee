"""Steps about the network: partitions and what ends them, holds, the weather, names.

Cuts, holds and weather over many paths may be given a name, by which they end while others stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.network.gateways import Answer
from reachp2p_sim.network.partition_shapes import SHAPES, Turn, flapping, swizzle
from reachp2p_sim.network.paths import mask
from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.processes import Seconds
from reachp2p_sim.steps.selection import Selection, StepImpossible

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.world.world import World

Direction: TypeAlias = Literal["both", "ingress", "egress"]
Share = Annotated[float, Meta(ge=0, le=1)]


class Partition(Step, frozen=True, kw_only=True):
    """Let nothing through between two groups, or only nothing from `left` to `right`."""

    left: Selection
    right: Selection = "rest"
    one_way: bool = False
    name: str = ""

    machines: ClassVar[tuple[str, ...]] = ("left", "right")
    between: ClassVar[tuple[str, str] | None] = ("left", "right")
    apart: ClassVar[bool] = True
    opens: ClassVar[str | None] = "cut"

    def perform(self, world: World) -> None:
        """Cuts add up until `heal`."""
        left, right = world.hosts(self.left), world.hosts(self.right)
        cut(world, left, right, self.name)
        if not self.one_way:
            cut(world, right, left, self.name)


class PartitionShape(Step, frozen=True, kw_only=True):
    """Cut machines from each other in a shape that has a name: `halves`, `bridge`, `majorities-ring`, …

    Who stands where in the shape is drawn by the shape, its name and its machines.
    """

    shape: str
    hosts: Selection = "all"
    name: str = ""

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    opens: ClassVar[str | None] = "cut"

    def __post_init__(self) -> None:
        """Refuse a shape that there is not."""
        if self.shape not in SHAPES:
            raise ValueError(f"there is no shape {self.shape!r}; there are: {', '.join(SHAPES)}")

    def check(self, selected: Mapping[str, tuple[str, ...]]) -> None:
        """Not every number of machines can stand in every shape."""
        if "hosts" not in selected:
            return
        try:
            cuts = SHAPES[self.shape](selected["hosts"], Random(0))  # who stands where does not matter here
        except ValueError as error:
            raise StepImpossible(f"{self.shape}: {error}") from error
        if not any(sources and targets for sources, targets in cuts):
            raise StepImpossible(f"{self.shape} of {len(selected['hosts'])} machines cuts nobody off")

    def perform(self, world: World) -> None:
        """Cuts add up until `heal`."""
        hosts = world.hosts(self.hosts)
        chance = world.randomness.stream("shape", self.shape, self.name, *[host.name for host in hosts])
        for sources, targets in SHAPES[self.shape](hosts, chance):
            cut(world, sources, targets, self.name)


class Heal(Step, frozen=True, kw_only=True):
    """End the partitions of a name, or all, with what swizzling and flapping machines would still do."""

    name: str | None = None

    ends: ClassVar[str | None] = "cut"

    def perform(self, world: World) -> None:
        """At once; streams that stood still go on."""
        mend(world, self.name)
        if self.name is not None:
            world.healed[self.name] += 1
            for one in world.network.paths.names:
                if one.startswith(f"{self.name} of "):  # of a pattern, which cuts one machine at a time
                    mend(world, one)


class Swizzle(Step, frozen=True, kw_only=True):
    """Cut a drawn share of machines off, one by one over some seconds, then let them back one by one in another order.

    It goes on beside the steps that follow, for twice `seconds`.
    """

    hosts: Selection = "all"
    share: Share = 0.25
    seconds: Annotated[float, Meta(gt=0)] = 5.0
    name: str = "swizzle"

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    opens: ClassVar[str | None] = "cut"

    def perform(self, world: World) -> None:
        """Both ways, from everybody."""
        hosts = world.hosts(self.hosts)
        chance = world.randomness.stream("swizzle", self.name, f"{world.now:.9f}")
        _plan(world, swizzle(hosts, chance, share=self.share, seconds=self.seconds), self.name, "both")


class Flap(Step, frozen=True, kw_only=True):
    """Cut machines off for `on` seconds, let them back for `off`, again and again for some seconds.

    `direction`: `both`, `ingress` (they hear nobody) or `egress` (nobody hears them). It goes on beside the steps that
    follow.
    """

    hosts: Selection
    on: Annotated[float, Meta(gt=0)] = 20.0
    off: Annotated[float, Meta(gt=0)] = 20.0
    seconds: Annotated[float, Meta(ge=0)] = 120.0
    direction: Direction = "both"
    name: str = "flap"

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    opens: ClassVar[str | None] = "cut"

    def perform(self, world: World) -> None:
        """All of them in lock-step; they reach each other as badly as everybody else."""
        for host in world.hosts(self.hosts):
            turns = flapping(host, on=self.on, off=self.off, seconds=self.seconds)
            _plan(world, turns, self.name, self.direction)


class Hold(Step, frozen=True, kw_only=True):
    """Let what goes between two groups wait; nothing is lost."""

    left: Selection
    right: Selection = "rest"
    name: str = ""

    machines: ClassVar[tuple[str, ...]] = ("left", "right")
    between: ClassVar[tuple[str, str] | None] = ("left", "right")
    apart: ClassVar[bool] = True
    opens: ClassVar[str | None] = "hold"

    def perform(self, world: World) -> None:
        """Until `release`."""
        left, right = world.hosts(self.left), world.hosts(self.right)
        for sources, targets in ((left, right), (right, left)):
            world.history.cut(mask(sources), mask(targets), world.now, self.name, is_held=True)
            world.network.paths.hold(sources, targets, self.name)


class Release(Step, frozen=True, kw_only=True):
    """Deliver what was held under a name, or all, in order."""

    name: str | None = None

    ends: ClassVar[str | None] = "hold"

    def perform(self, world: World) -> None:
        """What another hold still covers goes on waiting."""
        world.history.mended(world.now, self.name, is_held=True)
        world.network.release(self.name)


class Weather(Step, frozen=True, kw_only=True):
    """Change the conditions on all paths that have none of their own: `changes` to those the run began with."""

    changes: dict[str, Any] = msgspec.field(default_factory=dict)

    def perform(self, world: World) -> None:
        """No changes: fair weather again."""
        world.network.paths.conditions = changed(world.fair, self.changes)
        world.note_weather()


class PathWeather(Step, frozen=True, kw_only=True):
    """Give one directed path its own weather (`changes` to what the run began with), or take it away (none)."""

    source: Selection
    target: Selection
    changes: dict[str, Any] | None = None

    machines: ClassVar[tuple[str, ...]] = ("source", "target")
    between: ClassVar[tuple[str, str] | None] = ("source", "target")

    def perform(self, world: World) -> None:
        """All paths from the one group to the other."""
        conditions = None if self.changes is None else changed(world.fair, self.changes)
        for source in world.hosts(self.source):
            for target in world.hosts(self.target):
                world.network.paths.set_between(source, target, conditions)
        world.note_weather()


class WeatherBetween(Step, frozen=True, kw_only=True):
    """Give all paths from some machines to others weather of their own (`changes` to what the run began with).

    `both_ways`: the paths back, too. Of two that cover a path the later holds, and a path's own weather before both.
    """

    sources: Selection
    targets: Selection = "rest"
    changes: dict[str, Any]
    both_ways: bool = False
    name: str = ""

    machines: ClassVar[tuple[str, ...]] = ("sources", "targets")
    between: ClassVar[tuple[str, str] | None] = ("sources", "targets")
    opens: ClassVar[str | None] = "weather"

    def perform(self, world: World) -> None:
        """Until `end-weather`."""
        conditions = changed(world.fair, self.changes)
        sources, targets = world.hosts(self.sources), world.hosts(self.targets)
        world.network.paths.add_weather(sources, targets, conditions, self.name)
        if self.both_ways:
            world.network.paths.add_weather(targets, sources, conditions, self.name)
        world.note_weather()


class EndWeather(Step, frozen=True, kw_only=True):
    """End the weather between machines of a name, or all that `weather-between` brought."""

    name: str | None = None

    ends: ClassVar[str | None] = "weather"

    def perform(self, world: World) -> None:
        """What lies below it shows again."""
        world.network.paths.end_weather(self.name)
        world.note_weather()


class Translate(Step, frozen=True, kw_only=True):
    """Put machines behind translators of addresses (NAT) without a port mapping, each behind its own, for good.

    They can begin conversations, and nobody can begin one with them. `idle`: seconds after which a translator lets no
    answer to a datagram in any more. `answer`: what a dial to the address that they tell others gets.
    """

    hosts: Selection
    idle: Seconds = 60.0
    answer: Answer = "silence"

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Links that are open stay."""
        for host in world.hosts(self.hosts):
            world.network.put_behind(host, world.new_address(), self.idle, self.answer)


class BlockDials(Step, frozen=True, kw_only=True):
    """Let no dial from some machines to others through; they get an `answer` of a firewall instead.

    Datagrams pass, and so do links that are open already, unless `reset`.
    """

    source: Selection
    target: Selection
    answer: Answer = "refused"
    reset: bool = False

    machines: ClassVar[tuple[str, ...]] = ("source", "target")
    between: ClassVar[tuple[str, str] | None] = ("source", "target")

    def perform(self, world: World) -> None:
        """Until `allow-dials`."""
        sources, targets = mask(world.hosts(self.source)), mask(world.hosts(self.target))
        world.network.gateways.block_dials(sources, targets, self.answer)
        if self.reset:
            world.links.reset(sources, targets)


class AllowDials(Step, frozen=True, kw_only=True):
    """Let all dials through again."""

    def perform(self, world: World) -> None:
        """What was dialled meanwhile and got no answer is tried again by those who dialled."""
        world.network.gateways.allow_dials()


class SetName(Step, frozen=True, kw_only=True):
    """Change what a seed name leads to: the present addresses of these machines, or nothing."""

    name: str
    leads_to: Selection = ()

    machines: ClassVar[tuple[str, ...]] = ("leads_to",)
    may_be_empty: ClassVar[bool] = True

    def perform(self, world: World) -> None:
        """Nodes ask again every 15 seconds."""
        world.names[self.name] = [host.address for host in world.hosts(self.leads_to)]


def cut(world: World, sources: Sequence[Host], targets: Sequence[Host], name: str = "") -> None:
    """Let nothing through from the first to the second, and remember it."""
    world.history.cut(mask(sources), mask(targets), world.now, name)
    world.network.paths.cut(sources, targets, name)


def mend(world: World, name: str | None = None) -> None:
    """End the cuts of a name, or all."""
    world.history.mended(world.now, name)
    world.network.paths.mend(name)


def _plan(world: World, turns: list[Turn[Host]], name: str, direction: Direction) -> None:
    """Cut and mend single machines at times to come, unless everything, or this name, is healed before."""
    planned_in = world.network.paths.mended_wholly, world.healed[name]

    def act(argument: tuple[str, Host]) -> None:
        if (world.network.paths.mended_wholly, world.healed[name]) != planned_in:
            return
        what, host = argument
        others = [other for other in world.nodes if other is not host]
        world.note(f"{name} {what} {host.name}")
        world.disturbed([host.name])
        its_name = f"{name} of {host.name}"
        if what == "mend":
            mend(world, its_name)
            return
        if direction != "ingress":
            cut(world, [host], others, its_name)
        if direction != "egress":
            cut(world, others, [host], its_name)

    for after, what, host in turns:
        world.timeline.after(after, act, (what, host))


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
