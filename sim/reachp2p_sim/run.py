"""One run of one scenario: from its configuration to a verdict that can be printed, stored and repeated."""

from __future__ import annotations

import shlex
import time
import tomllib
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec

from reachp2p.core.rules import Rules
from reachp2p.core.settings import Protocol
from reachp2p.errors import ConfigurationInvalid
from reachp2p_sim.checkers import CHECKERS, attach_all
from reachp2p_sim.mutants import MUTANTS
from reachp2p_sim.network import Conditions
from reachp2p_sim.scenario_file import ScenarioInvalid, Timed, check_scenario, read_scenario, write_scenario
from reachp2p_sim.scenarios import SCENARIOS, Options, Scenario, Value, from_file
from reachp2p_sim.steps.paths import changed, difference
from reachp2p_sim.steps.story import Run
from reachp2p_sim.violation import Violation
from reachp2p_sim.world import World

COMMON: dict[str, Value] = {"delay": 0.0005, "spread": 0.0045, "path_loss": 0.0, "signing": "keyed"}
"""Options of every scenario: constant delay and mean of the exponential part (seconds, one way), loss on all paths,
and `keyed` or `ed25519`."""
WEATHER_OPTIONS = {"delay": "delay", "spread": "spread", "path_loss": "loss"}
"""Short names of `weather.` settings."""
PROTOCOL_PREFIX = "protocol."
RULES_PREFIX = "rules."
SWITCH = {"on": True, "off": False}
WEATHER_PREFIX = "weather."
NODES_MAX = 10_000


class UsageError(ValueError):
    """The configuration of a run is wrong; nothing was run. The message says what would be right."""


@dataclass(slots=True, frozen=True)
class RunConfig:
    """Everything a run depends on, besides the version of the code."""

    scenario: str
    seed: int = 0
    nodes: int | None = None
    mutant: str | None = None
    set: Mapping[str, str] = field(default_factory=dict)

    def command(self) -> str:
        """The one line that repeats this run."""
        words = ["reachp2p-sim", "run", self.scenario]
        if self.nodes is not None:
            words += ["--nodes", str(self.nodes)]
        words += ["--seed", str(self.seed)]
        if self.mutant is not None:
            words += ["--mutant", self.mutant]
        for key in sorted(self.set):
            words += ["--set", f"{key}={self.set[key]}"]
        return shlex.join(words)


@dataclass(slots=True)
class RunResult:
    """How a run went. `verdict` is `pass`, `fail` (a promise was broken) or `error` (the core raised)."""

    scenario: str
    seed: int
    nodes: int
    mutant: str | None
    verdict: Literal["pass", "fail", "error"]
    trace_digest: str
    checkers: dict[str, str]
    timings: dict[str, float]
    violation: dict[str, Any] | None
    error: str | None
    replay: str
    simulated_seconds: float
    cpu_seconds: float
    events: int
    messages: int
    datagrams: dict[str, int]
    frames: dict[str, int]
    calls: dict[str, Any]
    options: dict[str, Value]

    def to_json(self) -> dict[str, Any]:
        """All fields, as plain data."""
        return asdict(self)


def run_scenario(
    config: RunConfig, log: TextIO | None = None, attach: Callable[[World], None] | None = None
) -> RunResult:
    """Run it to its end or to the first violation. Raises `UsageError` before anything runs if a name is wrong.

    `attach` is called with the world before anything happens in it, for whoever wants to watch.
    """
    check(config)
    scenario = find_scenario(config.scenario)
    options, values = _options(scenario, config)
    protocol = _protocol(scenario, config)
    mutant = MUTANTS[config.mutant] if config.mutant is not None else None
    world = World(
        config.seed,
        conditions=_conditions(scenario, config),
        protocol=protocol,
        signing="ed25519" if options.text("signing") == "ed25519" else "keyed",
        log=log,
    )
    if attach is not None:
        attach(world)
    world.limits.update(scenario.limits)
    began_at = time.process_time()
    violation: Violation | None = None
    error: str | None = None
    with mutant.installed(world) if mutant is not None else nullcontext():
        checkers = attach_all(world)
        try:
            scenario.story(world, options)
            for checker in checkers:
                checker.finish()
        except Violation as broken:
            violation = broken
        except Exception:  # noqa: BLE001 a defect of the core, whatever it is, is reported with the seed that shows it
            error = traceback.format_exc()
    return _result(config, options, values, world, violation, error, time.process_time() - began_at)


def record_of(world: World, config: RunConfig) -> str:
    """What was done to a world, as a scenario file: run with the same seed it gives the same trace digest.

    Signing and mutant are not part of it; they are set for a run. What a Python story demanded beyond conditions with a
    name is not part of it either.
    """
    steps = [Timed(performed.step, performed.at) for performed in world.performed]
    default = msgspec.to_builtins(Protocol())
    constants = msgspec.to_builtins(world.protocol)
    return write_scenario(
        name=f"{Path(config.scenario).stem}-{config.seed}",
        summary=f"the record of: {config.command()}",
        nodes=max(1, sum(not host.is_clone for host in world.nodes)),
        weather=difference(Conditions(), world.fair),
        protocol={key: value for key, value in constants.items() if value != default[key]},
        limits=world.limits,
        steps=[*steps, Timed(Run(seconds=0.0), world.now)],
    )


def check(config: RunConfig) -> None:
    """Raise `UsageError` if this cannot be run."""
    scenario = find_scenario(config.scenario)
    options, _ = _options(scenario, config)
    _protocol(scenario, config)
    if scenario.file is not None:
        try:
            check_scenario(scenario.file, options.nodes, options.values)
        except ScenarioInvalid as error:
            raise UsageError(str(error)) from error
    if config.mutant is not None:
        _known("mutant", config.mutant, MUTANTS)


def find_scenario(name: str) -> Scenario:
    """The scenario of this name or in this TOML file, or a `UsageError` that lists the names there are."""
    if name.endswith(".toml"):
        try:
            return from_file(read_scenario(Path(name)))
        except (ScenarioInvalid, OSError) as error:
            raise UsageError(str(error)) from error
    return SCENARIOS[_known("scenario", name, SCENARIOS)]


def _known(kind: str, name: str, names: Mapping[str, object]) -> str:
    if name not in names:
        raise UsageError(f"there is no {kind} {name!r}; there are: {', '.join(sorted(names))}")
    return name


def _options(scenario: Scenario, config: RunConfig) -> tuple[Options, dict[str, Value]]:
    nodes = scenario.nodes if config.nodes is None else config.nodes
    if not scenario.nodes_min <= nodes <= NODES_MAX:
        raise UsageError(f"{scenario.name} needs {scenario.nodes_min} to {NODES_MAX} nodes, not {nodes}")
    values: dict[str, Value] = {**COMMON, **scenario.options}
    for key, text in config.set.items():
        if key.startswith((PROTOCOL_PREFIX, WEATHER_PREFIX)):
            continue
        default = values[_known("option", key, values)]
        values[key] = _parsed(key, text, default)
    if values["signing"] not in ("keyed", "ed25519"):
        raise UsageError(f"signing={values['signing']}: it must be keyed or ed25519")
    _conditions(scenario, config)
    return Options(nodes, values), values


def _parsed(key: str, text: str, default: Value) -> Value:
    if isinstance(default, str):
        return text
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{key}={text}: a number is wanted, as in {key}={default}") from None
    if not 0 <= abs(value) < float("inf"):
        raise UsageError(f"{key}={text}: a finite number is wanted")
    return value


def _conditions(scenario: Scenario, config: RunConfig) -> Conditions:
    """The weather of the scenario, with what was set for this run."""
    changes = dict(scenario.weather)
    for key, text in config.set.items():
        if key in WEATHER_OPTIONS:
            changes[WEATHER_OPTIONS[key]] = float(_parsed(key, text, 0.0))
        elif key.startswith(WEATHER_PREFIX):
            changes[key.removeprefix(WEATHER_PREFIX)] = _plain(text)
    try:
        return changed(Conditions(), changes)
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(str(error)) from error


def _plain(text: str) -> Any:
    """A value as TOML writes it, or else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _protocol(scenario: Scenario, config: RunConfig) -> Protocol:
    told = msgspec.convert({**msgspec.to_builtins(Protocol()), **scenario.protocol}, Protocol)
    known = {f.name: f for f in msgspec.structs.fields(Protocol) if f.name != "rules"}
    changes: dict[str, Any] = {"rules": _rules(told, config)}
    for key, text in config.set.items():
        if key.startswith(PROTOCOL_PREFIX) and not key.startswith(PROTOCOL_PREFIX + RULES_PREFIX):
            name = _known("protocol constant", key.removeprefix(PROTOCOL_PREFIX), known)
            value = float(_parsed(key, text, 0.0))
            changes[name] = int(value) if isinstance(known[name].default, int) else value
    try:
        return msgspec.structs.replace(told, **changes)
    except ConfigurationInvalid as error:
        raise UsageError(str(error)) from error


def _rules(told: Protocol, config: RunConfig) -> Rules:
    known = dict.fromkeys(f.name for f in msgspec.structs.fields(Rules))
    changes: dict[str, Any] = {}
    for key, text in config.set.items():
        if key.startswith(PROTOCOL_PREFIX + RULES_PREFIX):
            name = _known("rule", key.removeprefix(PROTOCOL_PREFIX + RULES_PREFIX), known)
            if text not in SWITCH:
                raise UsageError(f"{key}={text}: it must be on or off")
            changes[name] = SWITCH[text]
    return msgspec.structs.replace(told.rules, **changes)


def _result(
    config: RunConfig,
    options: Options,
    values: dict[str, Value],
    world: World,
    violation: Violation | None,
    error: str | None,
    cpu_seconds: float,
) -> RunResult:
    broken = violation.checker if violation is not None else None
    network, links, ledger = world.network, world.links, world.ledger
    return RunResult(
        scenario=config.scenario,
        seed=config.seed,
        nodes=options.nodes,
        mutant=config.mutant,
        verdict="error" if error else "fail" if violation else "pass",
        trace_digest=world.trace.digest(),
        checkers={checker.name: "fail" if checker.name == broken else "pass" for checker in CHECKERS},
        timings={name: round(seconds, 6) for name, seconds in world.timings.items()},
        violation=None
        if violation is None
        else {
            "checker": violation.checker,
            "message": violation.message,
            "at": round(violation.at, 6),
            "node": violation.node,
        },
        error=error,
        replay=config.command(),
        simulated_seconds=round(world.now, 6),
        cpu_seconds=round(cpu_seconds, 3),
        events=world.trace.events,
        messages=world.messages,
        datagrams={
            "sent": network.sent,
            "delivered": network.delivered,
            "lost": network.lost,
            "cut_off": network.cut_off,
            "to_nobody": network.to_nobody,
            "bytes": network.sent_bytes,
            "largest": network.sent_max,
        },
        frames={
            "sent": links.frames_sent,
            "delivered": links.frames_delivered,
            "bytes": links.frame_bytes_sent,
            "dials": links.dialled,
            "refused": links.refused,
        },
        calls={
            "started": ledger.started,
            "ended": {str(code): count for code, count in sorted(ledger.codes.items())},
            "abandoned": ledger.abandoned,
            "handlers_run": ledger.invoked,
        },
        options=values,
    )
