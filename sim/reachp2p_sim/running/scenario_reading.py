"""Scenario files read, and checked as a whole before anything runs.

What depends on the run (who is running when a step comes, who is drawn) is checked when the step is performed; all else
is refused here, with file, step, key, and what would be valid.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from reachp2p.core.settings import Protocol
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.running.scenario_file import (
    KEYS,
    RESERVED,
    STEPS_MAX,
    ScenarioFile,
    ScenarioInvalid,
    Timed,
    Value,
    are_too_many,
    as_selection,
    only,
    steps_of,
)
from reachp2p_sim.running.wrong_values import in_words
from reachp2p_sim.steps import Step
from reachp2p_sim.steps.in_force import InForce
from reachp2p_sim.steps.paths import PathWeather, SetName, Weather, WeatherBetween, changed
from reachp2p_sim.steps.processes import AddNodes, Clone, Restart, SaveDisk
from reachp2p_sim.steps.selection import among
from reachp2p_sim.steps.story import Run

Groups = Mapping[str, str | tuple[str, ...]]


def read_scenario(path: Path) -> ScenarioFile:
    """Read and check a file. Raises `ScenarioInvalid`, or `OSError` if it cannot be read."""
    return parse_scenario(path.read_bytes(), str(path))


def parse_scenario(data: bytes, source: str) -> ScenarioFile:
    """The same from bytes; `source` is for messages. Raises `ScenarioInvalid`."""
    try:
        table = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioInvalid(f"{source}: no TOML: {error}") from error
    except RecursionError as error:
        raise ScenarioInvalid(f"{source}: nested too deeply") from error
    only(table, KEYS, source, "the file")
    for key in ("name", "summary", "nodes", "steps"):
        if key not in table:
            raise ScenarioInvalid(f"{source}: {key!r} is missing")
    try:
        groups = table.pop("groups", {})
        if isinstance(groups, dict):
            groups = {name: as_selection(value) for name, value in groups.items()}
        scenario = msgspec.convert({"source": source, **table, "groups": groups}, ScenarioFile)
    except (msgspec.ValidationError, TypeError, AttributeError) as error:
        raise ScenarioInvalid(f"{source}: {in_words(error)}") from error
    if not 1 <= scenario.nodes_min <= scenario.nodes:
        raise ScenarioInvalid(
            f"{source}: nodes = {scenario.nodes}, nodes_min = {scenario.nodes_min}: "
            "at least 1 is wanted, and no fewer nodes than nodes_min"
        )
    check_scenario(scenario, scenario.nodes, scenario.options)
    return scenario


def check_scenario(scenario: ScenarioFile, nodes: int, options: Mapping[str, Value]) -> None:
    """Raise `ScenarioInvalid` if any step could not be performed in a run with so many nodes and these options."""
    source = scenario.source
    _check_tables(scenario)
    if are_too_many(scenario.steps, {**options, "nodes": nodes}):
        raise ScenarioInvalid(f"{source}: more than {STEPS_MAX} steps")
    following = _Following(scenario)
    for number, timed in enumerate(steps_of(scenario, nodes, options), 1):
        if number > STEPS_MAX:
            raise ScenarioInvalid(f"{source}: more than {STEPS_MAX} steps")
        try:
            following.next(timed)
        except (ValueError, msgspec.ValidationError) as error:
            raise ScenarioInvalid(f"{timed.place}, {timed.step.text()}: {in_words(error)}") from error
    try:
        following.end()
    except ValueError as error:
        raise ScenarioInvalid(f"{source}: {error}") from error


def _check_tables(scenario: ScenarioFile) -> None:
    source = scenario.source
    try:
        changed(Conditions(), scenario.weather)
    except (ValueError, msgspec.ValidationError) as error:
        raise ScenarioInvalid(f"{source}: [weather]: {in_words(error)}") from error
    known = [f.name for f in msgspec.structs.fields(Protocol)]
    for key in scenario.protocol:
        if key not in known:
            raise ScenarioInvalid(
                f"{source}: [protocol]: unknown constant {key!r}; there are: {', '.join(known)}"
            )
    try:
        msgspec.convert({**msgspec.to_builtins(Protocol()), **scenario.protocol}, Protocol)
    except (ValueError, msgspec.ValidationError) as error:
        raise ScenarioInvalid(f"{source}: [protocol]: {in_words(error)}") from error
    for key in scenario.options:
        if key in RESERVED or "." in key:
            raise ScenarioInvalid(
                f"{source}: [options]: {key!r} means the same in every run; write weather under [weather], constants "
                "under [protocol], and give an option of your own another name"
            )


class _Following:
    """Goes through the steps as a run would, as far as it is known beforehand what that will bring."""

    def __init__(self, scenario: ScenarioFile) -> None:
        self._groups = scenario.groups
        self._fair = changed(Conditions(), scenario.weather)
        self._names: list[str] = []
        self._clones: dict[str, int] = {}
        self._seed_names: set[str] = set()
        self._set_names: dict[str, Step] = {}
        self._images: dict[str, set[str] | None] = {}
        """Of each image the machines whose disks it is of; None if they are not known beforehand."""
        self._in_force = InForce()
        self._earliest = 0.0
        """No step can come earlier than this."""

    def next(self, timed: Timed) -> None:
        """One more step. Raises `ValueError` if it cannot be performed."""
        step = timed.step
        self._check_time(timed)
        step.check_values()
        self._in_force.note(step)
        if isinstance(step, Weather | PathWeather | WeatherBetween) and step.changes is not None:
            changed(self._fair, step.changes)
        if isinstance(step, SetName):
            self._set_names.setdefault(step.name, step)
        if isinstance(step, AddNodes):
            self._add(step)
            return
        selected = self._selected(step)
        step.check(selected)
        self._check_image(step, selected)
        if isinstance(step, Clone):
            for name in self._mentioned(step.hosts):
                self._clones[name] = self._clones.get(name, 0) + 1
                self._names.append(f"{name}-clone{self._clones[name]}")

    def end(self) -> None:
        """There are no more steps. Raises `ValueError` if something is missing among them."""
        if not self._names:
            raise ValueError('no step adds a node: begin with do = "grow" or "add-nodes"')
        for name, step in self._set_names.items():
            if name not in self._seed_names:
                there_are = ", ".join(sorted(self._seed_names)) or "none"
                raise ValueError(
                    f"{step.text()}: no node looks for its seeds under {name!r}; they look under: {there_are}"
                )

    def _check_time(self, timed: Timed) -> None:
        if timed.at is not None:
            if timed.at < self._earliest and not timed.may_be_late:
                raise ValueError(
                    f"at = {timed.at:g} is in the past: the steps before it take until {self._earliest:g} s at least; "
                    "write a later time, or not_before if it may come later"
                )
            self._earliest = max(self._earliest, timed.at)
        if isinstance(timed.step, Run) and not isinstance(timed.step.seconds, str):
            self._earliest += timed.step.seconds

    def _add(self, step: AddNodes) -> None:
        if step.names and step.count not in (0, len(step.names)):
            raise ValueError(f"count = {step.count} and {len(step.names)} names: leave one of them out")
        first = sum("-" not in name for name in self._names)
        for name in step.names or [f"n{first + i:02d}" for i in range(step.count)]:
            if name in self._names:
                raise ValueError(f"there is a machine {name} already")
            self._names.append(name)
        self._seed_names.update(step.seeds)

    def _selected(self, step: Step) -> dict[str, tuple[str, ...]]:
        """The machines of each field, if they are known before the run."""
        known: dict[str, tuple[str, ...]] = {}
        is_known = True
        for field in step.machines:
            selection = getattr(step, field)
            if selection is None or selection == "rest":
                continue
            self._mentioned(selection)  # raises if it cannot be
            names = self._known(selection)
            if names is None:
                is_known = False
            else:
                known[field] = names
        taken = {name for names in known.values() for name in names}
        for field in step.machines:
            if is_known and getattr(step, field) == "rest":
                known[field] = tuple(name for name in self._names if name not in taken)
        return known

    def _known(self, selection: str | tuple[str, ...]) -> tuple[str, ...] | None:
        """The names, or None if they depend on the run."""
        if not isinstance(selection, str):
            parts = [self._known(part) for part in selection]
            return None if None in parts else tuple(name for part in parts for name in part or ())
        text = selection.strip()
        if text in self._groups:
            return self._known(self._groups[text]) if self._groups[text] != text else None
        if text.startswith("all but "):
            excluded = self._known(text.removeprefix("all but "))
            return None if excluded is None else tuple(name for name in self._names if name not in excluded)
        if text in ("running", "stopped", "rest") or text.startswith("random "):
            return None
        return among(text, self._names)

    def _mentioned(self, selection: str | tuple[str, ...], groups: Groups | None = None) -> tuple[str, ...]:
        """The names as far as they are known; of drawn ones as many. Raises `UnknownMachine` if it cannot be."""
        groups = self._groups if groups is None else groups
        if not isinstance(selection, str):
            return tuple(name for part in selection for name in self._mentioned(part, groups))
        text = selection.strip()
        if text in groups:
            return self._mentioned(groups[text], {})
        if text in ("running", "stopped", "rest"):
            return ()
        if text.startswith("all but "):
            excluded = self._mentioned(text.removeprefix("all but "), groups)
            return tuple(name for name in self._names if name not in excluded)
        if text.startswith("random "):
            return among(f"first {text.removeprefix('random ')}", self._names)
        return among(text, self._names)

    def _check_image(self, step: Step, selected: Mapping[str, tuple[str, ...]]) -> None:
        """Follow which images of disks will have been saved, and see that the step uses no other."""
        hosts = selected.get("hosts")
        if isinstance(step, SaveDisk):
            before = self._images.get(step.image, set())
            self._images[step.image] = None if hosts is None or before is None else before | set(hosts)
        used = step.disk if isinstance(step, Restart) else step.image if isinstance(step, Clone) else None
        if used in (None, "kept", "lost"):
            return
        if used not in self._images:
            there_are = ", ".join(["kept", "lost", *self._images])
            raise ValueError(f"no image {used!r} has been saved before (save-disk); there are: {there_are}")
        of = self._images[used]
        for name in hosts or ():
            if of is not None and name not in of and name.split("-clone")[0] not in of:
                raise ValueError(
                    f"the image {used!r} is of {', '.join(sorted(of))} and not of {name} (save-disk)"
                )
