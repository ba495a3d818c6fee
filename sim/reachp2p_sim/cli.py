"""The command line `reachp2p-sim`. Data on stdout, messages on stderr.

Exit codes: 0 every checker passed, 1 a promise was broken (or the core raised), 2 the command was wrong,
3 what was begun could not be finished and can be gone on with.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reachp2p_sim.commands.campaign import campaign
from reachp2p_sim.commands.paper import paper
from reachp2p_sim.commands.shared import (
    FAIL,
    PASS,
    AsJson,
    MutantName,
    Nodes,
    Settings,
    pairs,
    print_json,
    usage,
)

if TYPE_CHECKING:
    from reachp2p_sim.run import RunResult
    from reachp2p_sim.world import World

app = typer.Typer(
    name="reachp2p-sim",
    help="Run reachp2p's core in a deterministic world and check its promises.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Name = Annotated[
    str, typer.Argument(help="A scenario, as `reachp2p-sim list` names it, or a TOML or Python file.")
]


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
    from reachp2p_sim.scenarios import GROUPS, SCENARIOS

    if as_json:
        scenarios = [
            {
                "name": s.name,
                "summary": s.summary,
                "group": s.group,
                "nodes": s.nodes,
                "nodes_min": s.nodes_min,
                "options": s.options,
                "cases": list(s.cases),
            }
            for s in SCENARIOS.values()
        ]
        mutants = [
            {"name": m.name, "summary": m.summary, "scenario": m.scenario, "caught_by": list(m.caught_by)}
            for m in MUTANTS.values()
        ]
        print_json({"scenarios": scenarios, "mutants": mutants})
        return
    for group, about in GROUPS.items():
        there = sorted((s for s in SCENARIOS.values() if s.group == group), key=lambda s: s.name)
        if there:
            print(f"{group}: {about}")
        for scenario in there:
            print(f"  {scenario.name:25} {scenario.summary}")
    print("mutants (run SCENARIO --mutant NAME)")
    for mutant in sorted(MUTANTS.values(), key=lambda m: m.name):
        print(f"  {mutant.name:25} {mutant.summary}; shown by {mutant.scenario}")


@app.command()
def run(
    name: Name,
    nodes: Nodes = None,
    seed: Annotated[int, typer.Option(help="The run seed: everything uncertain comes from it.")] = 0,
    mutant: MutantName = None,
    settings: Settings = None,
    log: Annotated[Path | None, typer.Option(help="Write one line an event into this file.")] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write what was done as a scenario file that can be run again.")
    ] = None,
    determinism: Annotated[
        bool, typer.Option(help="Run it a second time in another process and compare the trace digests.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Run one scenario and print verdict, timings and trace digest."""
    from reachp2p_sim.checkers.determinism import judge, second_run
    from reachp2p_sim.run import RunConfig, UsageError, record_of, run_scenario

    worlds: list[World] = []
    try:
        config = RunConfig(name, seed, nodes, mutant, pairs(settings))
        other = second_run(config) if determinism else None
        with nullcontext() if log is None else log.open("w", encoding="utf-8") as lines:
            result = run_scenario(config, lines, attach=worlds.append)
        if record is not None:
            record.write_text(record_of(worlds[0], config), encoding="utf-8")
    except (UsageError, OSError) as error:
        usage(str(error))
    if other is not None:
        judge(result, other)
    if as_json:
        print_json(result.to_json())
    else:
        _print_result(result)
    if result.verdict != "pass":
        print(f"replay: {result.replay}", file=sys.stderr)
        raise typer.Exit(FAIL)


app.command()(campaign)
app.command()(paper)


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
