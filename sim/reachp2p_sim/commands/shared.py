"""What the commands have in common: exit codes, `--set`, and how wrong usage is said.

Data go to stdout and messages to stderr. Nothing heavy is imported here, so that `--help` is quick.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

PASS, FAIL, USAGE, UNFINISHED, INTERRUPTED = 0, 1, 2, 3, 130
"""Every promise kept; one broken, or the core raised; wrong usage; unfinished, to be gone on with; Ctrl-C, SIGTERM."""

Nodes = Annotated[
    int | None, typer.Option(metavar="N", help="How many nodes; the scenario's own number if not given.")
]
MutantName = Annotated[
    str | None,
    typer.Option("--mutant", metavar="NAME", help="Run a deliberately broken core, as `list` names them."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="An option of the scenario (`list --json` names them), path_loss, delay, protocol.CONSTANT, "
        "protocol.rules.RULE, or weather.PROPERTY; a wrong name lists the right ones. May be repeated.",
    ),
]
STORE = Path("store")
RUNS_KEPT = 20
"""Of each scenario so many that passed and as many that did not: some 5 MB each with 64 nodes."""
STORE_VARIABLE = "REACHP2P_SIM_STORE"
KEEP_VARIABLE = "REACHP2P_SIM_KEEP"
StoreFolder = Annotated[
    Path,
    typer.Option(
        "--store", envvar=STORE_VARIABLE, help="Keep report, log, history in SCENARIO/TIME-SEED there."
    ),
]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep nothing, and record nothing.")]
KeepRuns = Annotated[
    int,
    typer.Option(
        "--keep",
        min=0,
        envvar=KEEP_VARIABLE,
        help="Of a scenario keep so many runs that passed and as many that did not, the latest; 0 keeps all.",
    ),
]
LogFile = Annotated[
    Path | None, typer.Option("--log", help="Write the trace, one line an event, into this file.")
]
RecordFile = Annotated[
    Path | None,
    typer.Option("--record", help="Write what was done as a scenario file that can be run again."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def pairs(settings: Sequence[str] | None) -> dict[str, str]:
    """The options of `--set KEY=VALUE`. Raises `UsageError`."""
    from reachp2p_sim.running.run import UsageError

    found: dict[str, str] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {setting}: write KEY=VALUE")
        found[key] = value
    return found


def may_write(path: Path) -> None:
    """Raises `UsageError` if it is clear before a long search or run that its result could not be written there."""
    from reachp2p_sim.running.run import UsageError

    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: no file can be written there")


def usage(message: str) -> NoReturn:
    """Say what is wrong and exit."""
    leave(message, USAGE)


def say(message: str) -> None:
    """A message for the person, on stderr."""
    print(f"reachp2p-sim: {message}", file=sys.stderr)


def leave(message: str, code: int) -> NoReturn:
    """Say something on stderr and exit."""
    print(f"reachp2p-sim: {message}", file=sys.stderr)
    raise typer.Exit(code)


def print_json(data: dict[str, Any]) -> None:
    """One JSON object on stdout."""
    print(json.dumps(data, indent=2, ensure_ascii=False))
