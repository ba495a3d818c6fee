"""What is tried, in which order: what takes most away comes first, because it makes all later runs shorter.

Each round takes away machines, then steps, then makes what is left simpler and shorter; rounds go on until one changes
nothing. A smaller network draws other chances, so from the second round on a case that passes is tried with a few other
seeds: what matters is that it fails, not with which number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import floor

from reachp2p_sim.running.run import RunConfig, RunResult, find_scenario, run_scenario
from reachp2p_sim.shrink.case import Case
from reachp2p_sim.shrink.delta import smallest
from reachp2p_sim.shrink.trial import Budget, BudgetSpent, Trial
from reachp2p_sim.steps.processes import AddNodes

OTHER_SEEDS = 3
ROUNDS_MAX = 10
TIME_SAVED_MIN = 1e-6
"""Seconds; what differs by less is the same time, rounded."""


def reduce(trial: Trial, said: Callable[[str], None] = lambda _: None) -> Case:
    """The smallest case found within the budget, or until it is interrupted (SIGINT)."""
    try:
        for number in range(ROUNDS_MAX):
            before = trial.case
            seeds = () if number == 0 else tuple(range(OTHER_SEEDS))
            for change in (_machines, _steps, _details, _times):
                size = trial.case.size
                change(trial, seeds)
                if trial.case.size != size:
                    said(f"{trial.case.size} after {trial.budget.spent} runs")
            if number and trial.case == before:
                break
    except BudgetSpent:
        said(f"the budget is spent after {trial.budget.spent} runs")
    except KeyboardInterrupt:
        said(f"interrupted after {trial.budget.spent} runs: this is the smallest so far")
    return trial.case


def fewest_nodes(config: RunConfig, budget: Budget) -> RunConfig:
    """The same story with as few nodes as it takes, for a failure that no list of steps repeats (`StoryDemands`)."""
    scenario = find_scenario(config.scenario)
    first = run_scenario(config)
    budget.begin()
    try:
        for nodes in range(scenario.nodes_min, first.nodes):
            for seed in (config.seed, *range(OTHER_SEEDS)):
                budget.spend()
                smaller = replace(config, nodes=nodes, seed=seed)
                if _fails_alike(run_scenario(smaller), first):
                    return smaller
    except BudgetSpent:
        pass
    return config


def _fails_alike(result: RunResult, first: RunResult) -> bool:
    one, other = result.violation, first.violation
    return one is not None and other is not None and one["checker"] == other["checker"]


def _machines(trial: Trial, seeds: tuple[int, ...]) -> None:
    base = trial.case
    smallest(base.machines, lambda kept: bool(kept) and trial.fails(base.with_machines(kept), seeds))


def _steps(trial: Trial, seeds: tuple[int, ...]) -> None:
    base = trial.case
    free = [number for number, timed in enumerate(base.steps) if not isinstance(timed.step, AddNodes)]

    def fails(kept: list[int]) -> bool:
        wanted = set(kept)
        steps = [
            timed
            for number, timed in enumerate(base.steps)
            if number in wanted or isinstance(timed.step, AddNodes)
        ]
        return trial.fails(base.with_steps(steps), seeds)

    smallest(free, fails)


def _details(trial: Trial, seeds: tuple[int, ...]) -> None:
    number = 0
    while number < len(trial.case.steps):
        while number < len(trial.case.steps) and _first(trial, trial.case.simpler(number), seeds):
            pass
        number += 1


def _times(trial: Trial, seeds: tuple[int, ...]) -> None:
    for number in range(len(trial.case.steps) + 1):
        while number <= len(trial.case.steps) and _first(trial, shorter(trial.case, number), seeds):
            pass


def shorter(case: Case, number: int) -> Iterator[Case]:
    """With less time before a step, or a rounder one."""
    gap = case.gap(number)
    for better in (0.0, floor(gap / 2), float(floor(gap)), floor(gap * 10) / 10):
        if gap - better > TIME_SAVED_MIN:
            yield case.shifted(number, better)


def _first(trial: Trial, cases: Iterator[Case], seeds: tuple[int, ...]) -> bool:
    """Take the first of some cases that still fails."""
    return any(trial.fails(case, seeds) for case in cases)
