"""What a scenario is: a name, a line about it, its options, and a story that it tells a world."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.machines.host import Host
from reachp2p_sim.running.scenario_file import ScenarioFile, ScenarioInvalid, Timed, Value, steps_of
from reachp2p_sim.running.wrong_values import unknown
from reachp2p_sim.steps.selection import StepImpossible
from reachp2p_sim.world.agreement import converged
from reachp2p_sim.world.violation import Violation
from reachp2p_sim.world.world import World

LATE = 1e-6
"""Seconds; what is later by less is in time, rounded."""


class Options:
    """The values of one run: a scenario's defaults with what was set for this run."""

    def __init__(self, nodes: int, values: Mapping[str, Value]) -> None:
        self.nodes = nodes
        self.values = values

    def number(self, name: str) -> float:
        """A numeric option. Raises `LookupError` if the scenario has no such option."""
        return float(self._value(name))

    def text(self, name: str) -> str:
        """A textual option. Raises `LookupError` if the scenario has no such option."""
        return str(self._value(name))

    def _value(self, name: str) -> Value:
        if name not in self.values:
            raise LookupError(unknown("option", name, self.values))
        return self.values[name]


Story: TypeAlias = Callable[[World, Options], None]


@dataclass(slots=True, frozen=True)
class Scenario:
    """One named scenario. `cases` are ids of docs/cases.md that it stands for."""

    name: str
    summary: str
    story: Story
    nodes: int
    nodes_min: int
    options: dict[str, Value] = field(default_factory=dict)
    cases: tuple[str, ...] = ()
    weather: dict[str, Any] = field(default_factory=dict)
    """How fair weather differs from the default."""
    protocol: dict[str, Any] = field(default_factory=dict)
    """Constants of the protocol that differ from the defaults."""
    limits: dict[str, float] = field(default_factory=dict)
    """What checkers that ask the world for a limit are told."""
    reaches: tuple[str, ...] = ()
    """Rare branches (`rare_branches.BRANCHES`) that a campaign over it must have seen."""
    file: ScenarioFile | None = None
    """Where it was read from, if it is a scenario file."""
    checkers: tuple[type[Checker], ...] = ()
    """Checkers of its own, besides those that ship."""
    checker_files: tuple[str, ...] = ()
    """The Python files that they come from."""
    group: str = "others"
    """What it is about, one of `GROUPS`."""


SCENARIOS: dict[str, Scenario] = {}
_registers: list[dict[str, Scenario]] = [SCENARIOS]
"""Where `@scenario` registers: the last of these."""


@contextmanager
def collecting() -> Iterator[dict[str, Scenario]]:
    """Let stories that are defined meanwhile register here instead of among those that ship."""
    found: dict[str, Scenario] = {}
    _registers.append(found)
    try:
        yield found
    finally:
        _registers.pop()


GROUPS: dict[str, str] = {
    "fair weather": "nothing goes wrong",
    "failures": "processes and machines that stop, stall or starve",
    "network": "loss and everything else that paths do to datagrams",
    "partitions": "cuts and what becomes of them",
    "lives": "restarts, lost and copied disks, leaves, epochs",
    "newcomers": "joining, alone and in crowds",
    "churn": "coming and going without end",
    "calls": "callers, handlers and routing under faults",
    "clocks": "wrong clocks",
    "hostile": "members and strangers that lie",
    "random": "whatever chance brings",
    "others": "what belongs nowhere else",
}
"""What scenarios are about, in the order in which they are listed."""


def scenario(
    name: str,
    summary: str,
    *,
    nodes: int = 32,
    nodes_min: int = 3,
    cases: tuple[str, ...] = (),
    group: str = "others",
    reaches: tuple[str, ...] = (),
    weather: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    limits: Mapping[str, float] | None = None,
    **options: Value,
) -> Callable[[Story], Story]:
    """Register a story under a name. Further keyword arguments are its options with their defaults."""

    def register(story: Story) -> Story:
        for key, count in (("nodes", nodes), ("nodes_min", nodes_min)):
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name}: {key}={count!r}: a whole number of at least 1 is wanted")
        for key, value in options.items():
            if not isinstance(value, int | float | str):
                raise ValueError(f"{name}: {key}={value!r}: a number or a text is wanted")
        register_of = _registers[-1]
        if name in register_of:
            raise ValueError(f"two scenarios are named {name}")
        if group not in GROUPS:
            raise ValueError(f"{name}: there is no group {group!r}; there are: {', '.join(GROUPS)}")
        register_of[name] = Scenario(
            name=name,
            summary=summary,
            story=story,
            nodes=nodes,
            nodes_min=nodes_min,
            options=options,
            cases=cases,
            weather=dict(weather or {}),
            protocol=dict(protocol or {}),
            limits=dict(limits or {}),
            reaches=reaches,
            group=group,
        )
        return story

    return register


def from_file(file: ScenarioFile) -> Scenario:
    """A scenario file as a scenario: its story performs the steps one after the other, each at its time."""

    def story(world: World, options: Options) -> None:
        world.groups.update(file.groups)
        for timed in steps_of(file, options.nodes, options.values):
            _wait_for(world, timed)
            try:
                world.perform(timed.step)
            except StepImpossible as error:
                raise ScenarioInvalid(
                    f"{timed.place}, {timed.step.text()}, at {world.now:g} s: {error}"
                ) from error

    return Scenario(
        name=file.name,
        summary=file.summary,
        story=story,
        nodes=file.nodes,
        nodes_min=file.nodes_min,
        options=dict(file.options),
        cases=file.cases,
        weather=dict(file.weather),
        protocol=dict(file.protocol),
        limits=dict(file.limits),
        file=file,
        group=file.group,
    )


def _wait_for(world: World, timed: Timed) -> None:
    """Let time pass until a step is due. Raises `Violation` if that moment has passed and the step may not be late."""
    if timed.at is None:
        return
    if timed.at < world.now - LATE:
        what = f"{timed.place}, {timed.step.text()}"
        if not timed.may_be_late:
            raise Violation(
                "scenario",
                f"{what}: it is due at {timed.at:g} s, and what the story waited for before it took until "
                f"{world.now:.3f} s; write a later time, or not_before if it may come later",
                world.now,
            )
        world.remarks.append(f"{what}: not before {timed.at:g} s, and it came at {world.now:.3f} s")
    world.run_to(timed.at)


def add_file(file: ScenarioFile) -> None:
    """Make a scenario file known under its name."""
    assert file.name not in SCENARIOS, f"two scenarios are named {file.name}"
    assert file.group in GROUPS, f"{file.name} belongs to no known group"
    SCENARIOS[file.name] = from_file(file)


# What most stories begin and end with


def grow(world: World, options: Options, *, within: float = 1.0, work: bool = True) -> list[Host]:
    """Start the nodes within a second, give them work, and wait until all see all."""
    hosts = world.add_nodes(options.nodes, within=within)
    if work:
        employ(world, hosts)
    world.run(within)
    world.timings["all_see_all"] = world.run_until(converged, limit=30)
    return hosts


def employ(world: World, hosts: list[Host], **handler: float) -> None:
    """Every third machine offers an agent, every fourth calls its capability again and again.

    The keywords are those of `OfferAgent`: service_time, fails, hangs.
    """
    world.offer(*hosts[::3], **handler)
    if callers := hosts[1::4]:
        world.call_in_a_loop(*callers)


def settle(world: World, limit: float) -> float:
    """Wait until views are equal, then see that they stay so for twenty periods; returns the seconds until equal."""
    took = world.run_until(converged, limit=limit)
    world.run(20 * world.protocol.probe_interval)
    return took


def require(world: World, condition: bool, message: str) -> None:
    """A demand of the scenario itself."""
    if not condition:
        raise Violation("scenario", message, world.now)


def require_all_answered(world: World) -> None:
    """A demand that every call that has ended has a result, and that there were some."""
    codes = world.ledger.codes
    require(world, set(codes) == {0}, f"calls ended as {dict(sorted(codes.items()))}")


def stopped(host: Host) -> Callable[[World], bool]:
    """The condition that a machine runs no process any more."""

    def has_stopped(_: World) -> bool:
        return not host.is_running

    return has_stopped
