"""`reachp2p-sim shrink`: from a run that fails to a small scenario file that fails in the same way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reachp2p_sim.commands.replay import What
from reachp2p_sim.commands.run import tell_other_code
from reachp2p_sim.commands.shared import AsJson, may_write, print_json, usage

if TYPE_CHECKING:
    from reachp2p_sim.running.run import RunConfig
    from reachp2p_sim.shrink.trial import Budget, StoryDemands


def shrink(
    what: What,
    out: Annotated[
        Path | None, typer.Option(help="The scenario file to write; SCENARIO-CHECKER.toml if not given.")
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME|RUNS", help="How much to try: 90s, 5m, or a number of runs.")
    ] = "5m",
    as_json: AsJson = False,
) -> None:
    """Make a failing run smaller: fewer nodes, faults and seconds.

    What is taken away stays away if the run still fails in the same way without it. What is left is written as a
    scenario file, with the line that runs it.
    """
    from reachp2p_sim.results.files import said_of, write_whole
    from reachp2p_sim.results.run_again import past_run
    from reachp2p_sim.running.run import UsageError
    from reachp2p_sim.shrink.reduce import reduce
    from reachp2p_sim.shrink.trial import StoryDemands, Trial

    try:
        past = past_run(what)
        tell_other_code(past.code, past.config)
        try:
            trial = Trial(past.config, _budget(budget))
        except StoryDemands as demands:
            _shrink_story(past.config, demands, _budget(budget), as_json)
            return
        first = trial.case
        path = out or Path(f"{Path(past.config.scenario).stem}-{trial.failure.what}.toml")
        may_write(path)
        smallest = reduce(trial, lambda text: print(text, file=sys.stderr))
    except (UsageError, OSError) as error:
        usage(str(error))
    try:
        write_whole(path, trial.text(smallest))
    except OSError as error:
        print(trial.text(smallest))
        usage(f"{said_of(error)}; the scenario is above")
    config = trial.run_config(str(path), smallest)
    if as_json:
        print_json(
            {
                "file": str(path),
                "replay": config.line(),
                "failure": trial.failure.what,
                "message": trial.message,
                "runs": trial.budget.spent,
                "before": first.counts,
                "after": smallest.counts,
            }
        )
        return
    print(f"{trial.failure.what}: {trial.message}")
    print(f"  before         {first.size}")
    print(f"  after          {smallest.size}, in {trial.budget.spent} runs")
    for timed in smallest.steps:
        print(f"  t = {timed.at:<10g} {timed.step.text()}")
    print(f"  {path}")
    print(f"replay: {config.line()}")


def _shrink_story(config: RunConfig, demands: StoryDemands, budget: Budget, as_json: bool) -> None:
    """Say that only nodes can be taken away, and do so."""
    from reachp2p_sim.shrink.reduce import fewest_nodes

    print(f"reachp2p-sim: {demands}; only nodes are", file=sys.stderr)
    smaller = fewest_nodes(config, budget)
    if as_json:
        print_json(
            {"file": None, "replay": smaller.line(), "runs": budget.spent, "after": {"nodes": smaller.nodes}}
        )
    else:
        print(f"  after          {smaller.nodes} nodes, in {budget.spent} runs")
        print(f"replay: {smaller.line()}")


def _budget(text: str) -> Budget:
    from reachp2p_sim.commands.durations import seconds_of
    from reachp2p_sim.running.run import UsageError
    from reachp2p_sim.shrink.trial import Budget

    if text.isdecimal() and int(text) > 0:
        return Budget(runs=int(text))
    seconds = seconds_of(text)
    if seconds is None:
        raise UsageError(f"--budget {text}: write a time such as 90s or 5m, or a number of runs")
    return Budget(seconds=seconds)
