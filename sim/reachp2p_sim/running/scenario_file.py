"""What a scenario file is, which steps it stands for, and how one is written from the record of a run.

    name = "partition-halves"
    summary = "two halves are cut for a minute and find each other again"
    nodes = 32
    cases = ["B3.11"]

    checkers = ["mine.py"]   # checkers of your own, besides those that ship

    [options]            # what `--set` may change; "$cut" in a step stands for the value
    cut = 60.0

    [weather]            # how fair weather differs from the default
    [protocol]           # constants of the protocol that differ from the defaults
    [limits]             # what this scenario allows, for the checkers that ask
    [groups]             # selections with a name
    left = "first half"

    [[steps]]
    do = "grow"          # add all nodes, give them work, wait until all see all
    [[steps]]
    do = "partition"
    left = "left"
    [[steps]]
    do = "run"
    seconds = "$cut"
    [[steps]]
    do = "heal"
    [[steps]]
    do = "expect"
    condition = "converged"
    stays = 20
    measure = "healed_after"

Any step may have `at`, the time in run seconds at which it is due: the story waits for that, and fails if the steps
before it took longer. With `not_before` instead, it is done at once then. Three words stand for several steps: `grow`
(`within`, `work`), `repeat` (`times`, `steps`), and `heal-everything`. Kinds of steps are in `steps/`; files are read
and checked in `scenario_reading`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec
import tomli_w

from reachp2p_sim.running.wrong_values import in_words
from reachp2p_sim.steps import KINDS, Step
from reachp2p_sim.steps.base import default_of

Value: TypeAlias = float | int | str | bool
KEYS = (
    "name",
    "summary",
    "nodes",
    "nodes_min",
    "group",
    "cases",
    "options",
    "weather",
    "protocol",
    "limits",
    "groups",
    "checkers",
    "steps",
)
MACROS: dict[str, tuple[str, ...]] = {
    "grow": ("within", "work"),
    "repeat": ("times", "steps"),
    "heal-everything": (),
}
"""Words for several steps, and the keys they take."""
STEPS_MAX = 20_000
"""Steps of one scenario, with repetitions; more is a mistake."""
TIMES_MAX = 10_000
DEPTH_MAX = 8
"""Repetitions within repetitions."""
RESERVED = ("delay", "spread", "path_loss", "signing", "codec", "nodes")
"""Options that every run has: a file says them in `[weather]`, or they are set for a run."""


class ScenarioInvalid(ValueError):
    """A scenario file is wrong; nothing was run. The message names file, step, key and what would be valid."""


@dataclass(slots=True, frozen=True)
class Timed:
    """A step, and the run time it waits for, if any."""

    step: Step
    at: float | None = None
    may_be_late: bool = False
    """Whether it is done at once if that time has passed (`not_before`), or else the story fails (`at`)."""
    place: str = field(default="", compare=False)
    """Where it stands in its file, for messages: file and number, of repeated steps and words for several `2.1`."""


@dataclass(slots=True, frozen=True)
class ScenarioFile:
    """A scenario that was read. Its steps are made when the options are known (`steps_of`)."""

    source: str
    """The file's path, for messages."""
    name: str
    summary: str
    nodes: int
    nodes_min: int = 1
    group: str = "others"
    cases: tuple[str, ...] = ()
    options: dict[str, Value] = field(default_factory=dict)
    weather: dict[str, Any] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    groups: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    checkers: tuple[str, ...] = ()
    """Python files with checkers of the scenario's own; relative paths begin at the scenario file's folder."""
    steps: tuple[dict[str, Any], ...] = ()


def steps_of(scenario: ScenarioFile, nodes: int, options: Mapping[str, Value]) -> Iterator[Timed]:
    """The steps with options filled in and macros written out. Raises `ScenarioInvalid`."""
    for number, table in enumerate(scenario.steps, 1):
        yield from _written_out(table, f"{scenario.source}: step {number}", nodes, options)


def are_too_many(tables: Sequence[Any], options: Mapping[str, Value]) -> bool:
    """Whether these would be more than `STEPS_MAX` steps; what is wrong in them is not looked at, nor written out."""
    return _count(tables, options, DEPTH_MAX) > STEPS_MAX


def _count(tables: Sequence[Any], options: Mapping[str, Value], depth: int) -> int:
    count = 0
    for table in tables:
        count += 1
        if not isinstance(table, dict) or table.get("do") != "repeat" or not depth:
            continue
        times, steps = table.get("times", 1), table.get("steps", ())
        if isinstance(times, str):
            times = options.get(times.removeprefix("$"), 1)
        if isinstance(times, int | float) and 0 <= times <= TIMES_MAX and isinstance(steps, list | tuple):
            count += int(times) * max(1, _count(steps, options, depth - 1)) - 1
    return count


def _written_out(
    table: Mapping[str, Any], where: str, nodes: int, options: Mapping[str, Value]
) -> Iterator[Timed]:
    if not isinstance(table, dict) or not isinstance(table.get("do"), str):
        raise ScenarioInvalid(f'{where}: it needs do = "…", one of: {", ".join(sorted([*KINDS, *MACROS]))}')
    table = _filled(table, where, {**options, "nodes": nodes})
    word = table["do"]
    at, may_be_late = _time(table, f"{where} ({word})")
    if word in MACROS:
        only(table, ("do", *MACROS[word]), where, word)
        for timed in _macro(word, table, where, nodes, options):
            yield timed if at is None else replace(timed, at=at, may_be_late=may_be_late)
            at = None  # of several steps the first waits
        return
    if word not in KINDS:
        known = ", ".join(sorted([*KINDS, *MACROS]))
        raise ScenarioInvalid(f"{where}: there is no step {word!r}; there are: {known}")
    kind = KINDS[word]
    only(table, ("do", *(f.name for f in msgspec.structs.fields(kind))), where, word)
    for machines in kind.machines:
        if machines in table:
            table[machines] = as_selection(table[machines])
    try:
        yield Timed(msgspec.convert(table, kind), at, may_be_late, where)
    except (msgspec.ValidationError, ValueError) as error:
        raise ScenarioInvalid(f"{where} ({word}): {in_words(error)}") from error


def _time(table: dict[str, Any], where: str) -> tuple[float | None, bool]:
    """When a step is due, if that is said, and whether it may come later; taken out of its table."""
    if "at" in table and "not_before" in table:
        raise ScenarioInvalid(
            f"{where}: at (then and not later) or not_before (then or later): leave one out"
        )
    key = "not_before" if "not_before" in table else "at"
    at = table.pop(key, None)
    if at is not None and (isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < 1e9):
        raise ScenarioInvalid(f"{where}: {key} = {at!r}: a time in seconds from the start is wanted")
    return at, key == "not_before"


def _macro(
    word: str, table: Mapping[str, Any], where: str, nodes: int, options: Mapping[str, Value]
) -> Iterator[Timed]:
    if word == "repeat":
        if where.count(".") > DEPTH_MAX + 1:
            raise ScenarioInvalid(f"{where}: more than {DEPTH_MAX} repetitions within each other")
        times, steps = table.get("times", 1), table.get("steps", ())
        if isinstance(times, float) and times.is_integer():
            times = int(times)
        if not isinstance(times, int) or not 0 <= times <= TIMES_MAX:
            raise ScenarioInvalid(f"{where} (repeat): times = {times!r}: 0 to {TIMES_MAX} are possible")
        if not isinstance(steps, list | tuple):
            raise ScenarioInvalid(f"{where} (repeat): steps = {steps!r}: a list of steps is wanted")
        for _ in range(times):
            for number, step in enumerate(steps, 1):
                yield from _written_out(step, f"{where}.{number}", nodes, options)
        return
    tables: Sequence[Mapping[str, Any]]
    if word == "grow":
        within = table.get("within", 1.0)
        work = (
            [
                {"do": "offer-agent", "hosts": "every 3"},
                {"do": "call-loop", "hosts": "every 4 from 1"},
            ]
            if table.get("work", True)
            else []
        )
        tables = [
            {"do": "add-nodes", "count": nodes, "within": within},
            *work,
            {"do": "run", "seconds": within},
            {"do": "expect", "condition": "converged", "limit": 30, "measure": "all_see_all"},
        ]
    else:
        tables = [
            {"do": "heal"},
            {"do": "release"},
            {"do": "allow-dials"},
            {"do": "weather"},
            {"do": "end-weather"},
            {"do": "slow-down", "hosts": "all"},
            {"do": "set-clock", "hosts": "all"},
            {"do": "strobe-clock", "hosts": "all"},
            {"do": "set-disk", "hosts": "all"},
            {"do": "turn-honest", "hosts": "all"},
            {"do": "resume", "hosts": "all"},
            {"do": "start", "hosts": "all"},
        ]
    for step in tables:
        yield from _written_out(step, f"{where} ({word})", nodes, options)


def _filled(table: Mapping[str, Any], where: str, options: Mapping[str, Value]) -> dict[str, Any]:
    """With `$name` replaced by the option of this name; not in nested steps, which are filled in their turn."""

    def fill(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("$"):
            if value[1:] not in options:
                raise ScenarioInvalid(f"{where}: no option {value[1:]!r}; there are: {', '.join(options)}")
            return options[value[1:]]
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return value

    return {key: value if key == "steps" else fill(value) for key, value in table.items()}


def as_selection(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def only(table: Mapping[str, Any], keys: Sequence[str], where: str, what: str) -> None:
    for key in table:
        if key not in keys:
            valid = ", ".join(name for name in keys if name != "do")
            takes = f"it takes: {valid}" if valid else "it takes none"
            raise ScenarioInvalid(f"{where}: unknown key {key!r} in {what}; {takes}")


def write_scenario(
    *,
    name: str,
    summary: str,
    nodes: int,
    weather: Mapping[str, Any],
    protocol: Mapping[str, Any],
    limits: Mapping[str, float],
    checkers: Sequence[str] = (),
    steps: Sequence[Timed],
) -> str:
    """A scenario file with these steps; times are kept exactly, so that a record gives the same trace again."""
    tables = {"weather": dict(weather), "protocol": dict(protocol), "limits": dict(limits)}
    return tomli_w.dumps(
        {
            "name": name,
            "summary": summary,
            "nodes": nodes,
            **({"checkers": list(checkers)} if checkers else {}),
            **{title: table for title, table in tables.items() if table},
            "steps": [_table(timed) for timed in steps],
        }
    )


def _table(timed: Timed) -> dict[str, Any]:
    key = "not_before" if timed.may_be_late else "at"
    table: dict[str, Any] = {} if timed.at is None else {key: timed.at}
    table["do"] = timed.step.word()
    for column in msgspec.structs.fields(type(timed.step)):
        value = getattr(timed.step, column.name)
        if value is not None and (column.required or value != default_of(column)):
            table[column.name] = msgspec.to_builtins(value)
    return table
