"""What a run depends on, and how it is checked as a whole before anything runs.

`--set KEY=VALUE` takes an option of the scenario, one of the common options, `protocol.CONSTANT`, `protocol.rules.RULE`
(on or off), or `weather.KEY` (a value as TOML writes it).
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from reachp2p.core.rules import Rules
from reachp2p.core.settings import Protocol
from reachp2p.errors import ConfigurationInvalid
from reachp2p_sim.checkers import CHECKERS
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.mutants import MUTANTS
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.running import code_version
from reachp2p_sim.running.own_code import OwnCodeInvalid, load
from reachp2p_sim.running.scenario_file import ScenarioInvalid
from reachp2p_sim.running.scenario_reading import check_scenario, read_scenario
from reachp2p_sim.running.wrong_values import in_words, unknown
from reachp2p_sim.scenarios import SCENARIOS, Options, Scenario, Value, from_file
from reachp2p_sim.steps.paths import changed

COMMON: dict[str, Value] = {
    "delay": 0.0005,
    "spread": 0.0045,
    "path_loss": 0.0,
    "signing": "keyed",
    "codec": "on",
}
"""Options of every scenario: constant delay and mean of the exponential part (seconds, one way), loss on all paths,
`keyed` or `ed25519`, and `on` or `off`."""
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

    def line(self, code: str | None = None) -> str:
        """The one line that repeats this run, with the code that made it, or would make it now."""
        return f"{self.command()} --code {code or code_of(self.scenario)}"

    def command(self) -> str:
        """The command that runs this, from whatever folder."""
        words = ["reachp2p-sim", "run", located(self.scenario)]
        if self.nodes is not None:
            words += ["--nodes", str(self.nodes)]
        words += ["--seed", str(self.seed)]
        if self.mutant is not None:
            words += ["--mutant", self.mutant]
        for key in sorted(self.set):
            words += ["--set", f"{key}={self.set[key]}"]
        return shlex.join(words)


def is_file(name: str) -> bool:
    """Whether a scenario is named by a file of the user's, and not by a name that ships."""
    return name.endswith((".toml", ".py"))


def located(name: str) -> str:
    """The same scenario from whatever folder: of a file its whole path."""
    return os.path.abspath(name) if is_file(name) else name


def short_name(name: str) -> str:
    """The same scenario for a heading: of a file its name without the folder."""
    return Path(name).name if is_file(name) else name


def files_of(name: str) -> list[str]:
    """The files that a scenario is read from, its own checkers among them. Raises `UsageError`."""
    if not is_file(name):
        return []
    return sorted({located(name), *find_scenario(name).checker_files})


def code_of(name: str) -> str:
    """What decides a run besides its configuration: the digest of the code, and `+` that of the user's own files.

    A file that cannot be used (any more) counts as `gone`.
    """
    if not is_file(name):
        return code_version.code()
    digest = sha256()
    try:
        for file in files_of(name):
            digest.update(sha256(Path(file).read_bytes()).digest())
    except (UsageError, OSError):
        return f"{code_version.code()}+gone"
    return f"{code_version.code()}+{digest.hexdigest()[:8]}"


def check(config: RunConfig) -> None:
    """Raise `UsageError` if this cannot be run."""
    if config.seed < 0:
        raise UsageError(f"seed {config.seed}: at least 0 is wanted")
    scenario = find_scenario(config.scenario)
    options = options_of(scenario, config)
    protocol_of(scenario, config)
    _check_limits(scenario)
    if scenario.file is not None:
        try:
            check_scenario(scenario.file, options.nodes, options.values)
        except ScenarioInvalid as error:
            raise UsageError(str(error)) from error
    if config.mutant is not None:
        _known("mutant", config.mutant, MUTANTS)


def _check_limits(scenario: Scenario) -> None:
    """Raise `UsageError` for a limit that no checker of the scenario asks for, or that can never be kept."""
    source = scenario.name if scenario.file is None else scenario.file.source
    known = [limit for checker in (*CHECKERS, *scenario.checkers) for limit in checker.limits]
    for key, value in scenario.limits.items():
        if key not in known:
            raise UsageError(
                f"{source}: [limits]: no checker asks for {key!r}; they ask for: {', '.join(known)} (a checker of your "
                "own names what it asks for in its `limits`)"
            )
        if not 0 <= value < inf:
            raise UsageError(f"{source}: [limits]: {key} = {value}: a finite number of at least 0 is wanted")


def find_scenario(name: str) -> Scenario:
    """The scenario of this name, or in this file (TOML, or Python with one story); else a `UsageError`."""
    try:
        if name.endswith(".toml"):
            return _with_checkers(from_file(read_scenario(Path(name))), Path(name).parent)
        if name.endswith(".py"):
            return _in_python(Path(name))
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or error}") from error
    except (ScenarioInvalid, OwnCodeInvalid) as error:
        raise UsageError(str(error)) from error
    return SCENARIOS[_known("scenario", name, SCENARIOS)]


def _with_checkers(scenario: Scenario, folder: Path) -> Scenario:
    """With the checkers that its file names."""
    files = [folder / name for name in (scenario.file.checkers if scenario.file is not None else ())]
    try:
        checkers = [checker for file in files for checker in _checkers_in(file)]
    except OwnCodeInvalid as error:
        assert scenario.file is not None
        raise UsageError(f"{scenario.file.source}: checkers: {error}") from error
    return replace(
        scenario, checkers=tuple(checkers), checker_files=tuple(str(file.resolve()) for file in files)
    )


def _checkers_in(file: Path) -> tuple[type[Checker], ...]:
    own = load(file)
    if not own.checkers:
        raise UsageError(f"{file}: it defines no checker (a subclass of reachp2p_sim.checkers.base.Checker)")
    return own.checkers


def _in_python(file: Path) -> Scenario:
    """The one story of a Python file, with the checkers beside it."""
    own = load(file)
    if len(own.scenarios) != 1:
        names = ", ".join(scenario.name for scenario in own.scenarios) or "none"
        raise UsageError(f"{file}: one function under @scenario is wanted; there are: {names}")
    files = (str(file.resolve()),) if own.checkers else ()
    return replace(own.scenarios[0], checkers=own.checkers, checker_files=files)


def _known(kind: str, name: str, names: Mapping[str, object]) -> str:
    if name not in names:
        raise UsageError(unknown(kind, name, names))
    return name


def options_of(scenario: Scenario, config: RunConfig) -> Options:
    """The scenario's options with what was set for this run, common ones included."""
    nodes = scenario.nodes if config.nodes is None else config.nodes
    if not scenario.nodes_min <= nodes <= NODES_MAX:
        raise UsageError(f"{scenario.name} needs {scenario.nodes_min} to {NODES_MAX} nodes, not {nodes}")
    values: dict[str, Value] = {**COMMON, **scenario.options}
    for key, text in config.set.items():
        if key.startswith((PROTOCOL_PREFIX, WEATHER_PREFIX)):
            continue
        default = values[_known("option", key, values)]
        values[key] = value = _parsed(key, text, default)
        if scenario is SCENARIOS.get(scenario.name) and _is_below_0(value) and not _is_below_0(default):
            raise UsageError(f"{key}={text}: at least 0 is wanted, as in {key}={default}")
    if values["signing"] not in ("keyed", "ed25519"):
        raise UsageError(f"signing={values['signing']}: it must be keyed or ed25519")
    if values["codec"] not in SWITCH:
        raise UsageError(f"codec={values['codec']}: it must be on or off")
    conditions_of(scenario, config)
    return Options(nodes, values)


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


def _is_below_0(value: Value) -> bool:
    return not isinstance(value, str) and value < 0


def conditions_of(scenario: Scenario, config: RunConfig) -> Conditions:
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
        raise UsageError(in_words(error)) from error


def _plain(text: str) -> Any:
    """A value as TOML writes it, or else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def protocol_of(scenario: Scenario, config: RunConfig) -> Protocol:
    """The constants of the scenario, with what was set for this run."""
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
