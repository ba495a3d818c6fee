"""`reachp2p-sim replay`: run again what a line or a folder is of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from reachp2p_sim.commands.run import STORE, STORE_VARIABLE, Keep, carry_out, tell_other_code
from reachp2p_sim.commands.shared import FAIL, AsJson, usage

What = Annotated[
    str,
    typer.Argument(
        metavar="LINE|FOLDER",
        help="The line that a failure prints, in quotes; or the folder of a stored run or a campaign.",
    ),
]


def replay(
    what: What,
    store: Annotated[
        Path,
        typer.Option(envvar=STORE_VARIABLE, help="Keep report, log and history in SCENARIO/TIME-SEED there."),
    ] = STORE,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep nothing, and record nothing.")] = False,
    log: Annotated[
        Path | None, typer.Option(help="Write the trace, one line an event, into this file.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write what was done as a scenario file that can be run again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run it again, and say whether the same happened."""
    from reachp2p_sim.results.run_again import past_run
    from reachp2p_sim.running.run import UsageError

    try:
        past = past_run(what)
    except UsageError as error:
        usage(str(error))
    tell_other_code(past.code, past.config)
    result, code = carry_out(past.config, Keep(None if no_store else store, log, record), False, as_json)
    if past.digest == result.trace_digest:
        print("the same trace as before", file=sys.stderr)
    elif past.digest is not None:
        print(f"another trace: {past.digest} was stored", file=sys.stderr)
        code = FAIL
    raise typer.Exit(code)
