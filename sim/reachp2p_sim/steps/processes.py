"""Steps about machines and the processes on them: add, start, crash, restart, pause, resume, leave, clone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec import Meta

from reachp2p.core.counters import Counters
from reachp2p.core.effects import Table
from reachp2p.core.trust.facts import FactChecker
from reachp2p.core.wire.facts import Head
from reachp2p_sim.machines.processor import BACKLOG_MAX
from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.selection import Selection
from reachp2p_sim.world import trace

if TYPE_CHECKING:
    from reachp2p_sim.machines.host import Host
    from reachp2p_sim.world.world import World

Seconds = Annotated[float, Meta(ge=0)]
INTRODUCED_AFTER = 0.1
"""Seconds from the start of converged machines to their knowing each other: each has its life on disk by then."""


class AddNodes(Step, frozen=True, kw_only=True):
    """Add machines, and start them at moments drawn from the next `within` seconds unless `start` is false.

    `names` are chosen when it is done, if there are none: the next free ones. `converged` ones start at once and have
    each other's heads a moment later, as if they had lived together for long: no join is simulated. With `tells_load`
    they tell those whom they answer how busy they are.
    """

    count: Annotated[int, Meta(ge=0, le=10_000)] = 0
    within: Seconds = 0.0
    seeds: tuple[str, ...] = ("seeds",)
    start: bool = True
    converged: bool = False
    tells_load: bool = False
    names: tuple[str, ...] = ()

    machines: ClassVar[tuple[str, ...]] = ("names",)

    def __post_init__(self) -> None:
        """Refuse what cannot be both."""
        if self.converged and (self.within or not self.start):
            raise ValueError("converged machines start at once: leave out `within` and `start`")

    def resolved(self, world: World) -> Step:
        """With the names of the machines to come."""
        if self.names:
            return self
        return msgspec.structs.replace(self, count=0, names=tuple(world.next_names(self.count)))

    def perform(self, world: World) -> None:
        """Build them all, then start each at its moment."""
        seeds = () if self.converged else self.seeds
        hosts = [world.build(name, world.signing.signer(name), seeds) for name in self.names]
        for host in hosts:
            host.tells_load = self.tells_load
        if not self.start:
            return
        if self.converged:
            world.timeline.after(INTRODUCED_AFTER, _introduce, (world, hosts, self.seeds))
        for host in hosts:
            if self.within:
                moment = world.randomness.stream("start", host.name).random() * self.within
                world.timeline.after(moment, _start_if_idle, (world, host.name))
            else:
                start(world, host.name)


class Start(Step, frozen=True, kw_only=True):
    """Start the process of machines that run none."""

    hosts: Selection
    take_over: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """At once."""
        for name in self.hosts:
            start(world, name, self.take_over)


class Crash(Step, frozen=True, kw_only=True):
    """End processes without a word. With `host_down` the machines vanish too: silence instead of refusal."""

    hosts: Selection
    host_down: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """At once; what runs no process stays as it is."""
        for name in self.hosts:
            crash(world, name, self.host_down)


class Restart(Step, frozen=True, kw_only=True):
    """Start processes again (ending them first): with their disk, without, or with a saved image of it.

    `moved`: at another address. `disk` may be `kept`, `lost`, or the name of an image (`save-disk`).
    """

    hosts: Selection
    disk: str = "kept"
    moved: bool = False
    take_over: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def resolved(self, world: World) -> Step:
        """An image that was not saved is an `UnknownMachine`, too."""
        step = super().resolved(world)
        if self.disk not in ("kept", "lost"):
            _find_images(world, self.disk, step)
        return step

    def perform(self, world: World) -> None:
        """One after the other."""
        for name in self.hosts:
            host = world.host(name)
            crash(world, name)
            if self.disk != "kept":
                host.disk.replace({} if self.disk == "lost" else world.image(self.disk, host))
            if self.moved:
                world.network.move(host, world.new_address())
            start(world, name, self.take_over)


class Pause(Step, frozen=True, kw_only=True):
    """Take the processor away (SIGSTOP): messages wait, nothing is lost."""

    hosts: Selection

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Those that run and are not paused."""
        for name in self.hosts:
            host = world.host(name)
            if host.is_running and not host.is_paused:
                world.history.absent(host.index, world.now)
                host.processor.pause()


class Block(Step, frozen=True, kw_only=True):
    """Block processes right before they send and right after they receive (Lifeguard §V), until `resume`.

    Timers run until a process wants to send. Nothing is lost, and all is released together.
    """

    hosts: Selection

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Those that run and are not paused."""
        for host in world.hosts(self.hosts):
            if host.is_running and not host.is_paused:
                world.history.absent(host.index, world.now)
                host.processor.block()


class SlowDown(Step, frozen=True, kw_only=True):
    """Let each input, a due timer too, take `service_time` seconds of the one processor; 0 ends that.

    At most `backlog` inputs wait; beyond it datagrams are dropped, and counted.
    """

    hosts: Selection
    service_time: Seconds = 0.0
    backlog: Annotated[int, Meta(ge=1)] = BACKLOG_MAX

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Machines stay slow over restarts."""
        for host in world.hosts(self.hosts):
            if self.service_time:
                world.history.absent(host.index, world.now, "slow")
            else:
                world.history.present(host.index, world.now, "slow")
            host.processor.slow_down(self.service_time, self.backlog)


class Resume(Step, frozen=True, kw_only=True):
    """Give the processor back, to those that are paused and those that are blocked."""

    hosts: Selection

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Those that are paused."""
        for name in self.hosts:
            host = world.host(name)
            if host.is_paused:
                world.history.present(host.index, world.now)
                host.processor.resume()


class Leave(Step, frozen=True, kw_only=True):
    """Let nodes drain, say goodbye and end."""

    hosts: Selection

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def perform(self, world: World) -> None:
        """Those that run."""
        for name in self.hosts:
            host = world.host(name)
            if host.is_running:
                world.history.absent(host.index, world.now)
                host.application.is_leaving = True
                host.engine.leave(host.now)
                host.settle()


class Clone(Step, frozen=True, kw_only=True):
    """A second machine with the key of each of these and a copy of its disk (or of a saved image); it is not started.

    The twin of n03 is called `n03-clone1`, the next one `n03-clone2`, and has an address of its own.
    """

    hosts: Selection
    image: str | None = None

    machines: ClassVar[tuple[str, ...]] = ("hosts",)

    def resolved(self, world: World) -> Step:
        """An image that was not saved is an `UnknownMachine`, too."""
        step = super().resolved(world)
        if self.image is not None:
            _find_images(world, self.image, step)
        return step

    def perform(self, world: World) -> None:
        """The twin offers what the original offers."""
        for host in world.hosts(self.hosts):
            twin = world.build(world.next_clone(host), host.signer, host.seeds)
            twin.disk.replace(host.disk.image() if self.image is None else world.image(self.image, host))
            twin.application.offers = list(host.application.offers)
            twin.tells_load = host.tells_load


class SaveDisk(Step, frozen=True, kw_only=True):
    """Keep a copy of what is durable on disks, under a name, to restart or clone from later."""

    hosts: Selection
    image: str

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """A later image of the same name and machine replaces an earlier one."""
        for host in world.hosts(self.hosts):
            world.images[self.image, host.name] = host.disk.image()


class ShowName(Step, frozen=True, kw_only=True):
    """From its next start on a node tells others this display name; two nodes may have one."""

    hosts: Selection
    shown: str

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """Names are for people: nothing is decided by them."""
        for host in world.hosts(self.hosts):
            host.shown_name = self.shown


def _introduce(argument: tuple[World, list[Host], tuple[str, ...]]) -> None:
    """Let each know the heads of all."""
    world, hosts, seeds = argument
    running = [host for host in hosts if host.is_running]
    checker = FactChecker(world.signing.verifier, world.cluster_id, Counters())
    data = [head for host in running if (head := host.engine.head()) is not None]
    heads = [checker.open(Head, head) for head in data]
    rows = {head.fact.node: head.data for head in heads}
    for host in running:
        world.trace.text(trace.COMMAND, world.now, host.index, f"learns {len(heads)} heads")
        host.seeds = seeds
        host.disk.hold(Table.HEADS, {node: head for node, head in rows.items() if node != host.node})
        host.engine.learn(heads, host.now, is_all=True)
        host.settle()


class Upgrade(Step, frozen=True, kw_only=True):
    """Let machines run the next release from their next start on: it sends what the present one does not know."""

    hosts: Selection

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """What runs goes on until it is restarted."""
        for host in world.hosts(self.hosts):
            host.is_upgraded = True


def start(world: World, name: str, take_over: bool = False) -> None:
    """Start a process unless one runs there."""
    host = world.host(name)
    if host.is_running:
        return
    world.note(f"start {name}")
    world.disturbed((host.name,))
    world.history.present(host.index, world.now)
    host.start(take_over)
    world.links.host_came_up()


def crash(world: World, name: str, host_down: bool = False) -> None:
    """End a process if one runs there; switch the machine off if that is wanted."""
    host = world.host(name)
    if not host.is_running and not (host_down and host.is_up):
        return
    world.note(f"{'power off' if host_down else 'crash'} {name}")
    world.history.absent(host.index, world.now)
    if host_down:
        host.power_off()
    else:
        host.stop()


def _start_if_idle(argument: tuple[World, str]) -> None:
    start(*argument)


def _find_images(world: World, name: str, step: Step) -> None:
    for host in world.hosts(step.named()):
        world.image(name, host)
