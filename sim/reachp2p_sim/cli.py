"""The command line `reachp2p-sim`: list, run, campaign. Data on stdout, messages on stderr.

Exit codes: 0 every checker passed, 1 a promise was broken (or the core raised), 2 the command was wrong.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reachp2p_sim.commands.paper import paper

if TYPE_CHECKING:
    from reachp2p_sim.run import RunConfig, RunResult

PASS, FAIL, USAGE = 0, 1, 2

app = typer.Typer(
    name="reachp2p-sim",
    help="Run reachp2p's core in a deterministic world and check its promises.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(help="A scenario, as `reachp2p-sim list` names it.")]
Nodes = Annotated[int | None, typer.Option(help="How many nodes; the scenario's own number if not given.")]
MutantName = Annotated[str | None, typer.Option("--mutant", help="Run a deliberately broken core.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE: an option of the scenario, or protocol.CONSTANT."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # the import contracts keep us from asking the package

        print(f"reachp2p-sim {version('reachp2p')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None: ...


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        app()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else PASS
    return PASS


@app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """Name the scenarios and the mutants."""
    from reachp2p_sim.mutants import MUTANTS
    from reachp2p_sim.scenarios import SCENARIOS

    if as_json:
        scenarios = [
            {
                "name": s.name,
                "summary": s.summary,
                "nodes": s.nodes,
                "options": s.options,
                "cases": list(s.cases),
            }
            for s in SCENARIOS.values()
        ]
        mutants = [
            {"name": m.name, "summary": m.summary, "scenario": m.scenario, "caught_by": list(m.caught_by)}
            for m in MUTANTS.values()
        ]
        _print_json({"scenarios": scenarios, "mutants": mutants})
        return
    print("scenarios")
    for scenario in sorted(SCENARIOS.values(), key=lambda s: s.name):
        print(f"  {scenario.name:22} {scenario.summary}")
    print("mutants (run SCENARIO --mutant NAME)")
    for mutant in sorted(MUTANTS.values(), key=lambda m: m.name):
        print(f"  {mutant.name:22} {mutant.summary}; shown by {mutant.scenario}")


@app.command()
def run(
    name: Name,
    nodes: Nodes = None,
    seed: Annotated[int, typer.Option(help="The run seed: everything uncertain comes from it.")] = 0,
    mutant: MutantName = None,
    settings: Settings = None,
    log: Annotated[Path | None, typer.Option(help="Write one line an event into this file.")] = None,
    determinism: Annotated[
        bool, typer.Option(help="Run it a second time in another process and compare the trace digests.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Run one scenario and print verdict, timings and trace digest."""
    from reachp2p_sim.checkers.determinism import judge, second_run
    from reachp2p_sim.run import UsageError, run_scenario

    try:
        config = _config(name, nodes, seed, mutant, settings)
        other = second_run(config) if determinism else None
        if log is None:
            result = run_scenario(config)
        else:
            with log.open("w", encoding="utf-8") as lines:
                result = run_scenario(config, lines)
    except (UsageError, OSError) as error:
        _usage(str(error))
    if other is not None:
        judge(result, other)
    if as_json:
        _print_json(result.to_json())
    else:
        _print_result(result)
    if result.verdict != "pass":
        print(f"replay: {result.replay}", file=sys.stderr)
        raise typer.Exit(FAIL)


@app.command()
def campaign(
    name: Name,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --first-seed on.")] = 200,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    nodes: Nodes = None,
    mutant: MutantName = None,
    settings: Settings = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes at once.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Run one scenario with many seeds and count how they end."""
    from reachp2p_sim.campaign import run_campaign
    from reachp2p_sim.run import UsageError, check

    try:
        config = _config(name, nodes, first_seed, mutant, settings)
        check(config)
    except UsageError as error:
        _usage(str(error))
    summary = run_campaign(config, seeds, workers, progress=sys.stderr)
    if as_json:
        _print_json(summary.to_json())
    else:
        _print_campaign(summary.to_json())
    if summary.failed:
        print(f"replay: {summary.failures[0]['replay']}", file=sys.stderr)
        raise typer.Exit(FAIL)


app.command()(paper)


def _config(
    name: str, nodes: int | None, seed: int, mutant: str | None, settings: list[str] | None
) -> RunConfig:
    from reachp2p_sim.run import RunConfig, UsageError

    pairs: dict[str, str] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {setting}: write KEY=VALUE")
        pairs[key] = value
    return RunConfig(name, seed, nodes, mutant, pairs)


def _usage(message: str) -> None:
    print(f"reachp2p-sim: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, indent=2))


def _print_result(result: RunResult) -> None:
    print(f"{result.scenario}, {result.nodes} nodes, seed {result.seed}: {result.verdict.upper()}")
    print(f"  trace digest   {result.trace_digest}")
    print(f"  simulated      {result.simulated_seconds:.1f} s in {result.cpu_seconds:.1f} s of CPU")
    print(f"  delivered      {result.messages} datagrams and frames, {result.events} events")
    for name, seconds in result.timings.items():
        print(f"  {name.replace('_', ' '):28} {seconds:.3f}")
    if result.calls["started"]:
        ended = ", ".join(f"{count} with {code}" for code, count in result.calls["ended"].items())
        print(f"  calls          {result.calls['started']} started; ended: {ended.replace('with 0', 'well')}")
    print("  checkers       " + ", ".join(f"{name} {verdict}" for name, verdict in result.checkers.items()))
    if result.violation is not None:
        where = f" at {result.violation['node']}" if result.violation["node"] else ""
        print(f"  BROKEN         {result.violation['checker']}{where}, t = {result.violation['at']:.3f} s")
        print(f"                 {result.violation['message']}")
    if result.error is not None:
        print(result.error, file=sys.stderr)


def _print_campaign(summary: dict[str, Any]) -> None:
    print(
        f"{summary['scenario']}: {summary['passed']} of {summary['runs']} seeds pass, {summary['failed']} fail"
    )
    for name, spread in summary["timings"].items():
        spread_text = f"median {spread['median']:.3f}  p99 {spread['p99']:.3f}  worst {spread['max']:.3f}"
        print(f"  {name.replace('_', ' '):28} {spread_text}")
    for failure in summary["failures"][:5]:
        print(f"  seed {failure['seed']}: {failure['what']}")
