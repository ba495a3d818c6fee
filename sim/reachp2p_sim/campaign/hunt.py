"""Broken cores, each found by a campaign, repeated from the line that its failure prints, and shrunk.

For each mutant: seeds of the scenario that shows it, one after the other, until a checker that owns the promise reports
it; the printed line, run again; the smallest case of it within a number of runs; and that case once more with the core
that ships, which must pass it. Everything depends on seeds and code alone, so two hunts by one code find the same. What
is found of a mutant is kept as soon as it is found, in `NAME.json` and `NAME.toml`, and not looked for again by the
same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from reachp2p_sim.campaign.plan import Plan
from reachp2p_sim.campaign.pool import Lost, Target, run, run_twice
from reachp2p_sim.checkers.determinism import NAME as DETERMINISM
from reachp2p_sim.mutants import MUTANTS, Mutant
from reachp2p_sim.results.files import write_whole
from reachp2p_sim.results.run_again import past_run
from reachp2p_sim.running import code_version
from reachp2p_sim.running.run import RunConfig, RunResult, UsageError, run_scenario
from reachp2p_sim.running.wrong_values import unknown
from reachp2p_sim.shrink.case import Case, case_of
from reachp2p_sim.shrink.reduce import fewest_nodes, reduce
from reachp2p_sim.shrink.trial import Budget, StoryDemands, Trial
from reachp2p_sim.world.world import World

NODES_MAX, FAULTS_MAX = 6, 5
"""How much a person can read."""


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How hard is looked. `nodes`: as few as show the mutant if None; `budget`: runs of a search for a smaller case."""

    seeds: int = 200
    nodes: int | None = None
    budget: int = 300


class Small(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure after shrinking. `file` is None if only nodes could be taken away: a story in Python demands it.

    `story` has a line for each step, with its time.
    """

    file: str | None
    replay: str
    checker: str
    message: str
    nodes: int
    faults: int
    steps: int
    seconds: float
    runs: int
    story: tuple[str, ...]
    passes_mended: bool | None = None
    """Whether the core that ships passes it. None as long as that has not been tried."""

    @property
    def is_readable(self) -> bool:
        """Whether it is small enough for a person."""
        return self.nodes <= NODES_MAX and self.faults <= FAULTS_MAX


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of one mutant.

    `seed` is that of the first run which a checker that owns the promise stopped, or None; `others` counts runs before
    it that failed in another way; `repeated` says whether its line did the same again.
    """

    mutant: str
    code: str
    terms: Terms
    scenario: str
    nodes: int
    seed: int | None = None
    others: int = 0
    checker: str | None = None
    message: str | None = None
    at: float | None = None
    replay: str | None = None
    repeated: bool = False
    faults: int | None = None
    small: Small | None = None

    @property
    def is_caught(self) -> bool:
        """Found, repeated, and shrunk to what a person can read and the core that ships passes."""
        small = self.small
        return self.repeated and small is not None and small.is_readable and small.passes_mended is True


def hunt(
    names: list[str], terms: Terms, folder: Path, say: Callable[[str], None] = lambda _: None
) -> Iterator[Found]:
    """What becomes of each of these mutants, in their order.

    Raises `UsageError` before anything runs if there is no such mutant, `OSError` if the folder takes nothing.
    """
    for name in names:
        if name not in MUTANTS:
            raise UsageError(unknown("mutant", name, MUTANTS))
        _plan(MUTANTS[name], terms).check()
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        found = _kept(folder / f"{name}.json", terms)
        if found is None:
            say(name)
            found = _look_for(MUTANTS[name], terms, folder, say)
            _keep(folder, found)
        if found.small is not None and found.small.passes_mended is None:
            small = msgspec.structs.replace(found.small, passes_mended=_passes_mended(found.small, name))
            found = msgspec.structs.replace(found, small=small)
            _keep(folder, found)
        yield found


def _keep(folder: Path, found: Found) -> None:
    text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    write_whole(folder / f"{found.mutant}.json", text + b"\n")


def _passes_mended(small: Small, name: str) -> bool:
    result = _target(MUTANTS[name])(replace(past_run(small.replay).config, mutant=None))
    return not isinstance(result, Lost) and result.verdict == "pass"


def _kept(path: Path, terms: Terms) -> Found | None:
    """What was found before by this code on these terms."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Found)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: {error}; remove it, and it is looked for again") from error
    return found if (found.code, found.terms) == (code_version.code(), terms) else None


def _plan(mutant: Mutant, terms: Terms) -> Plan:
    nodes = mutant.nodes if terms.nodes is None else terms.nodes
    return Plan((mutant.scenario,), terms.seeds, nodes=nodes, mutant=mutant.name, set=dict(mutant.set))


def _target(mutant: Mutant) -> Target:
    return run_twice if DETERMINISM in mutant.caught_by else run


def _look_for(mutant: Mutant, terms: Terms, folder: Path, say: Callable[[str], None]) -> Found:
    target = _target(mutant)
    plan = _plan(mutant, terms)
    found = Found(mutant.name, code_version.code(), terms, mutant.scenario, plan.nodes or 0)
    others = 0
    for task in plan.tasks():
        result = target(task.config)
        if isinstance(result, Lost):
            raise UsageError(f"{task.config.command()} has no result: {result.reason}")
        if result.violation is None or result.violation["checker"] not in mutant.caught_by:
            others += result.verdict != "pass"
            continue
        say(f"  {result.violation['checker']} reports seed {task.config.seed}")
        return _followed(found, task.config, result, others, target, folder, say)
    say(f"  no checker of its own reports it in {terms.seeds} seeds")
    return msgspec.structs.replace(found, others=others)


def _followed(
    found: Found,
    config: RunConfig,
    result: RunResult,
    others: int,
    target: Target,
    folder: Path,
    say: Callable[[str], None],
) -> Found:
    """After a failure: its line, run again, and its smallest case."""
    assert result.violation is not None
    again = target(past_run(result.replay).config)
    faults, small = _shrunk(found, config, folder, say)
    return msgspec.structs.replace(
        found,
        seed=config.seed,
        others=others,
        checker=result.violation["checker"],
        message=result.violation["message"],
        at=result.violation["at"],
        replay=result.replay,
        repeated=_is_the_same(again, result),
        faults=faults,
        small=small,
    )


def _is_the_same(again: RunResult | Lost, first: RunResult) -> bool:
    if isinstance(again, Lost) or again.violation is None or first.violation is None:
        return False
    if again.trace_digest != first.trace_digest:
        return False
    return all(again.violation[key] == first.violation[key] for key in ("checker", "at", "node"))


def _shrunk(found: Found, config: RunConfig, folder: Path, say: Callable[[str], None]) -> tuple[int, Small]:
    """How many faults the failing run had, and the smallest one found."""
    budget = Budget(runs=found.terms.budget)
    try:
        trial = Trial(config, budget, MUTANTS[found.mutant].caught_by)
    except StoryDemands:
        return _with_fewer_nodes(config, budget)
    faults = trial.case.faults
    smallest = reduce(trial, lambda text: say(f"  {text}"))
    path = folder / f"{found.mutant}.toml"
    write_whole(path, trial.text(smallest).encode())
    replay = trial.run_config(str(path), smallest).line()
    return faults, _small(smallest, str(path), replay, (trial.checker or "", trial.message), budget)


def _with_fewer_nodes(config: RunConfig, budget: Budget) -> tuple[int, Small]:
    worlds: list[World] = []
    run_scenario(config, attach=worlds.append)
    before = case_of(worlds[0].performed, worlds[0].now, config.seed)
    smaller = fewest_nodes(config, budget)
    result = run_scenario(smaller, attach=worlds.append)
    assert result.violation is not None, "what was found to fail fails again"
    after = case_of(worlds[1].performed, worlds[1].now, smaller.seed)
    broken = (result.violation["checker"], result.violation["message"])
    return before.faults, _small(after, None, smaller.line(), broken, budget)


def _small(case: Case, file: str | None, replay: str, broken: tuple[str, str], budget: Budget) -> Small:
    checker, message = broken
    return Small(
        file=file,
        replay=replay,
        checker=checker,
        message=message,
        nodes=len(case.machines),
        faults=case.faults,
        steps=len(case.steps),
        seconds=round(case.ends_at, 3),
        runs=budget.spent,
        story=tuple(f"t = {timed.at:<8g} {timed.step.text()}" for timed in case.steps),
    )
