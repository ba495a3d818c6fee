"""The command line `reachp2p-sim`. Data on stdout, messages on stderr.

Exit codes: 0 every checker passed, 1 a promise was broken (or the core raised), 2 the command was wrong,
3 what was begun could not be finished and can be gone on with, 130 Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

from reachp2p_sim.commands.campaign import campaign
from reachp2p_sim.commands.diff import diff
from reachp2p_sim.commands.explore import explore
from reachp2p_sim.commands.mutants import mutants
from reachp2p_sim.commands.paper import paper
from reachp2p_sim.commands.prune import prune
from reachp2p_sim.commands.replay import replay
from reachp2p_sim.commands.report import report
from reachp2p_sim.commands.run import run
from reachp2p_sim.commands.shared import (
    INTERRUPTED,
    PASS,
    UNFINISHED,
    USAGE,
    AsJson,
    print_json,
    say,
)
from reachp2p_sim.commands.shiviz import shiviz
from reachp2p_sim.commands.shrink import shrink

# Typer brings its own copy of click; this is the base of all that it says about options and arguments.
UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]

EPILOG = """\b
Begin with   reachp2p-sim list
             reachp2p-sim run partition-halves --seed 7
             reachp2p-sim campaign partition-halves --seeds 20

\b
Exit codes   0  every promise was kept
             1  one was broken (the last line on stderr repeats the run), or runs differ
             2  something was named wrongly, or a file could not be written
             3  not finished, and can be gone on with
             130  Ctrl-C or SIGTERM
"""

app = typer.Typer(
    name="reachp2p-sim",
    help="Run reachp2p's core in a deterministic world and check its promises.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
    """Run the command line; every way it can end is one exit code and at most one message."""
    before = signal.signal(signal.SIGTERM, _end_as_by_ctrl_c)
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read what we print has gone, as `head` does
        code = UNFINISHED
    except OSError as error:  # a full disk under stdout, most of all
        say(f"{error.filename or 'stdout'}: {error.strerror or error}")
        code = UNFINISHED
    finally:
        signal.signal(signal.SIGTERM, before)
    if code == UNFINISHED:
        _give_up_stdout()
    return code


def _end_as_by_ctrl_c(*_: object) -> NoReturn:
    """A command that is told to end does what it does after Ctrl-C: keep what it has, and say how to go on."""
    raise KeyboardInterrupt


def _run() -> int:
    try:
        ended = app(prog_name="reachp2p-sim", standalone_mode=False)
    except UsageProblem as problem:
        problem.show()  # type: ignore[attr-defined]  # click's, which typer does not declare
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        ended = INTERRUPTED
    if ended == INTERRUPTED:  # typer's own way to say Ctrl-C
        say("interrupted")
    return ended if isinstance(ended, int) else PASS


def _give_up_stdout() -> None:
    """What could not be written is not tried again at the end of the process."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


app.command()(run)
app.command()(replay)
app.command()(shrink)
app.command()(campaign)
app.command()(explore)
app.command()(mutants)
app.command()(paper)
app.command()(diff)
app.command()(report)
app.command()(shiviz)
app.command()(prune)
