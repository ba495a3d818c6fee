"""Runs cases and says whether they fail as the first one did. Counts runs and time against a budget."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from time import monotonic

import msgspec

from reachp2p.core.settings import Protocol
from reachp2p_sim.checkers.determinism import NAME as DETERMINISM
from reachp2p_sim.checkers.determinism import judge, second_run
from reachp2p_sim.network.conditions import Conditions
from reachp2p_sim.running.run import RunConfig, RunResult, UsageError, find_scenario, run_scenario
from reachp2p_sim.running.scenario_file import Timed, write_scenario
from reachp2p_sim.scenarios import Options, Scenario
from reachp2p_sim.shrink.case import Case, case_of
from reachp2p_sim.steps.paths import difference
from reachp2p_sim.steps.story import Run
from reachp2p_sim.world.world import World

KEPT = ("signing", "codec")
"""Options of a run that are no part of a scenario file."""


class StoryDemands(UsageError):
    """The run fails because of what its story says in Python, which no list of steps repeats."""


class BudgetSpent(Exception):
    """No more runs: what has been reached is the answer."""


@dataclass(slots=True)
class Budget:
    """How much may be tried: runs, or seconds of real time."""

    runs: int | None = None
    seconds: float | None = None
    spent: int = 0
    began_at: float = 0.0

    def begin(self, now: Callable[[], float] = monotonic) -> None:
        """Time counts from now on."""
        self.began_at = now()

    def spend(self, now: Callable[[], float] = monotonic) -> None:
        """One more run. Raises `BudgetSpent`."""
        if self.runs is not None and self.spent >= self.runs:
            raise BudgetSpent
        if self.seconds is not None and now() - self.began_at >= self.seconds:
            raise BudgetSpent
        self.spent += 1


@dataclass(slots=True, frozen=True)
class Failure:
    """In which way a run fails: the checker whose promise is broken, or the exception that the core raised.

    Whether the world was calm by then belongs to it, or else views that cannot become equal in a divided network would
    pass for views that did not become equal after it was healed.
    """

    what: str
    was_calm: bool

    @classmethod
    def of(cls, result: RunResult, world: World) -> Failure | None:
        """None if it passed."""
        if result.violation is not None:
            return cls(str(result.violation["checker"]), world.is_calm)
        if result.error is not None:
            return cls(result.error.strip().splitlines()[-1].split(":")[0], was_calm=False)
        return None

    def is_like(self, first: Failure, alike: Collection[str] = ()) -> bool:
        """The same promise, or one of several that are `alike`, and not in a world that is worse."""
        is_same = self.what == first.what or {self.what, first.what} <= set(alike)
        return is_same and (self.was_calm or not first.was_calm)


class Trial:
    """Knows the first failure, and what of it stays as it was: weather, protocol, limits, checkers, mutant."""

    def __init__(self, config: RunConfig, budget: Budget, alike: Collection[str] = ()) -> None:
        """Runs it once. `alike`: checkers whose promises one defect breaks, so that one of them stands for the other.

        Raises `UsageError` if it cannot be run, or does not fail, or fails otherwise when its steps alone are run
        again.
        """
        self.config = config
        self.budget = budget
        self._alike = alike
        self._scenario = find_scenario(config.scenario)
        worlds: list[World] = []
        result = run_scenario(config, attach=worlds.append)
        world = worlds[0]
        failure = Failure.of(result, world)
        if failure is None:
            judge(result, second_run(config))
            failure = Failure.of(result, world)
        if failure is None:
            raise UsageError(f"nothing to shrink: this run passes: {config.command()}")
        self.failure = failure
        self._weather = difference(Conditions(), world.fair)
        default = msgspec.to_builtins(Protocol())
        constants = msgspec.to_builtins(world.protocol)
        self._protocol = {key: value for key, value in constants.items() if value != default[key]}
        self._limits = dict(world.limits)
        self._passed: set[tuple[str, int]] = set()
        self.result = result
        self.case = case_of(world.performed, float(ceil(world.now)), config.seed)
        budget.begin()
        if not self.fails(self.case):
            raise StoryDemands(
                f"{self.failure.what} fails, but not when the steps of the run are performed without their story: "
                "what the story itself demands, or does besides its steps, cannot be taken apart"
            )

    @property
    def checker(self) -> str | None:
        """Which promise the smallest case breaks; None if it ends in an exception."""
        return None if self.result.violation is None else str(self.result.violation["checker"])

    @property
    def message(self) -> str:
        """How the smallest case fails."""
        if self.result.violation is not None:
            return str(self.result.violation["message"])
        return (self.result.error or "").strip().splitlines()[-1]

    def fails(self, case: Case, seeds: Sequence[int] = ()) -> bool:
        """Whether a case fails in the same way, with its seed or another; `case` is then that one, cut at its end.

        What has been seen not to is not run again. Raises `BudgetSpent`.
        """
        text = self.text(case)
        for seed in dict.fromkeys((case.seed, *seeds)):
            if (text, seed) in self._passed:
                continue
            if self._fails(replace(case, seed=seed)):
                return True
            self._passed.add((text, seed))
        return False

    def _fails(self, case: Case) -> bool:
        self.budget.spend()
        worlds: list[World] = []
        result = self._run(case, worlds)
        failure = Failure.of(result, worlds[-1])
        if failure is None or not failure.is_like(self.failure, self._alike):
            return False
        self.result = result
        if failure.what != DETERMINISM:
            case = case.as_performed(worlds[-1].performed).until(worlds[-1].now)
        self.case = case
        return True

    def _run(self, case: Case, worlds: list[World]) -> RunResult:
        config = self.run_config("shrunk", case)
        if self.failure.what != DETERMINISM:
            return run_scenario(config, attach=worlds.append, scenario=self._as_scenario(case))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shrunk.toml"
            path.write_text(self.text(case), encoding="utf-8")
            config = self.run_config(str(path), case)
            other = second_run(config)
            result = run_scenario(config, attach=worlds.append)
            judge(result, other)
            return result

    def _as_scenario(self, case: Case) -> Scenario:
        def story(world: World, _: Options) -> None:
            for timed in _ended(case):
                if timed.at is not None:
                    world.run_to(timed.at)
                world.perform(timed.step)

        return replace(
            self._scenario,
            story=story,
            nodes=max(1, len(case.machines)),
            nodes_min=1,
            options={},
            weather=self._weather,
            protocol=self._protocol,
            limits=self._limits,
            file=None,
        )

    def run_config(self, scenario: str, case: Case) -> RunConfig:
        """How a case that was written to a file is run."""
        kept = {key: value for key, value in self.config.set.items() if key in KEPT}
        return RunConfig(scenario, case.seed, None, self.config.mutant, kept)

    def text(self, case: Case) -> str:
        """A case as a scenario file."""
        return write_scenario(
            name=f"{Path(self.config.scenario).stem}-{self.failure.what}",
            summary=f"shrunk from: {self.config.command()}",
            nodes=max(1, len(case.machines)),
            weather=self._weather,
            protocol=self._protocol,
            limits=self._limits,
            checkers=self._scenario.checker_files,
            steps=_ended(case),
        )


def _ended(case: Case) -> list[Timed]:
    return [*case.steps, Timed(Run(seconds=0.0), case.ends_at)]
