"""One run of one scenario: from its configuration to a verdict that can be printed, stored and repeated."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal

from reachp2p_sim.checkers import CHECKERS, attach_all
from reachp2p_sim.measuring.rare_branches import Coverage
from reachp2p_sim.mutants import MUTANTS
from reachp2p_sim.running.configuration import (
    RunConfig,
    UsageError,
    check,
    code_of,
    conditions_of,
    find_scenario,
    options_of,
    protocol_of,
)
from reachp2p_sim.running.scenario_file import ScenarioInvalid
from reachp2p_sim.running.scenario_of_run import record_of
from reachp2p_sim.scenarios import Options, Scenario, Value
from reachp2p_sim.world.trace import Lines
from reachp2p_sim.world.violation import Violation
from reachp2p_sim.world.world import World

__all__ = ["RunConfig", "RunResult", "UsageError", "check", "find_scenario", "record_of", "run_scenario"]


@dataclass(slots=True)
class RunResult:
    """How a run went. `verdict` is `pass`, `fail` (a promise was broken), `error` (the core raised) or `interrupted`
    (it was stopped before its end, and nothing was broken until then)."""

    scenario: str
    seed: int
    nodes: int
    mutant: str | None
    verdict: Literal["pass", "fail", "error", "interrupted"]
    trace_digest: str
    checkers: dict[str, str]
    """`pass` or `fail`, by name; `open` if the run was interrupted: what is judged at the end is not known then."""
    timings: dict[str, float]
    violation: dict[str, Any] | None
    error: str | None
    replay: str
    code: str
    """What made it (`configuration.code_of`)."""
    simulated_seconds: float
    cpu_seconds: float
    events: int
    messages: int
    datagrams: dict[str, int]
    frames: dict[str, int]
    calls: dict[str, Any]
    options: dict[str, Value]
    branches: dict[str, int]
    """How often the run went through each rare branch (`measuring.rare_branches`)."""
    steps: dict[str, int]
    """How many steps of each kind were performed."""
    remarks: list[str]
    """What a person should know besides: steps of a file that came later than `not_before` says."""

    def to_json(self) -> dict[str, Any]:
        """All fields, as plain data."""
        return asdict(self)


def run_scenario(
    config: RunConfig,
    log: Lines | None = None,
    attach: Callable[[World], None] | None = None,
    scenario: Scenario | None = None,
    *,
    keep_interrupted: bool = False,
) -> RunResult:
    """Run it to its end or to the first violation. Raises `UsageError` before anything runs if a name is wrong, and if
    a step of a scenario file turns out to be impossible when it comes.

    `attach` is called with the world before anything happens in it, for whoever wants to watch. `scenario`: the
    scenario itself, if it is not one that is found by its name. `keep_interrupted`: `KeyboardInterrupt` ends the run
    and not the caller, who gets the result of the part.
    """
    if scenario is None:
        check(config)
        scenario = find_scenario(config.scenario)
    options = options_of(scenario, config)
    protocol = protocol_of(scenario, config)
    mutant = MUTANTS[config.mutant] if config.mutant is not None else None
    world = World(
        config.seed,
        conditions=conditions_of(scenario, config),
        protocol=protocol,
        signing="ed25519" if options.text("signing") == "ed25519" else "keyed",
        codec="off" if options.text("codec") == "off" else "on",
        log=log,
    )
    coverage = Coverage(world)
    if attach is not None:
        attach(world)
    world.limits.update(scenario.limits)
    code = code_of(config.scenario)  # now, for a file of the user's may be another when the run has ended
    began_at = time.process_time()
    violation: Violation | None = None
    error: str | None = None
    is_interrupted = False
    with mutant.installed(world) if mutant is not None else nullcontext():
        try:
            checkers = attach_all(world, scenario.checkers)
            scenario.story(world, options)
            for checker in checkers:
                checker.finish()
            _check_timings(world)
        except Violation as broken:
            violation = broken
        except ScenarioInvalid as wrong:
            raise UsageError(str(wrong)) from wrong
        except KeyboardInterrupt:
            if not keep_interrupted:
                raise
            is_interrupted = True
        except (Exception, SystemExit):  # noqa: BLE001 a defect, whatever it is, is reported with its seed
            error = traceback.format_exc()
    result = _result(
        config, scenario, options, world, coverage, violation, error, code, time.process_time() - began_at
    )
    if is_interrupted:
        result.verdict = "interrupted"
        result.checkers = dict.fromkeys(result.checkers, "open")
    return result


def _check_timings(world: World) -> None:
    """What a story has measured is printed, summed up and drawn. Raises `Violation` if it is no number."""
    for name, value in world.timings.items():
        if not isinstance(name, str) or not _is_timing(value):
            message = f"world.timings[{name!r}] is {value!r}: a finite number is wanted"
            raise Violation("scenario", message, world.now)


def _is_timing(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _result(
    config: RunConfig,
    scenario: Scenario,
    options: Options,
    world: World,
    coverage: Coverage,
    violation: Violation | None,
    error: str | None,
    code: str,
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
        checkers={
            checker.name: "fail" if checker.name == broken else "pass"
            for checker in (*CHECKERS, *scenario.checkers)
        },
        timings={name: round(seconds, 6) for name, seconds in world.timings.items() if _is_timing(seconds)},
        violation=None
        if violation is None
        else {
            "checker": violation.checker,
            "message": violation.message,
            "at": round(violation.at, 6),
            "node": violation.node,
        },
        error=error,
        replay=config.line(code),
        code=code,
        simulated_seconds=round(world.now, 6),
        cpu_seconds=round(cpu_seconds, 3),
        events=world.trace.events,
        messages=world.messages,
        datagrams={
            "sent": network.sent,
            "delivered": network.delivered,
            "cut_off": network.cut_off,
            "kept_out": network.gateways.kept_out,
            "to_nobody": network.to_nobody,
            **asdict(network.tally),
            "bytes": network.sent_bytes,
            "largest": network.sent_max,
        },
        frames={
            "sent": links.frames_sent,
            "delivered": links.frames_delivered,
            "bytes": links.frame_bytes_sent,
            "without_link": links.frames_without_link,
            "dials": links.dialled,
            "refused": links.refused,
            "blocked": network.gateways.dials_blocked,
        },
        calls={
            "started": ledger.started,
            "ended": {str(code): count for code, count in sorted(ledger.codes.items())},
            "abandoned": ledger.abandoned,
            "handlers_run": ledger.invoked,
        },
        options=dict(options.values),
        branches=coverage.branches(),
        steps=coverage.steps(),
        remarks=list(world.remarks),
    )
