"""`reachp2p-sim replay`: run again what a line or a folder is of."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from reachp2p_sim.commands.run import Leaves, carry_out, tell_other_code
from reachp2p_sim.commands.shared import (
    FAIL,
    INTERRUPTED,
    RUNS_KEPT,
    STORE,
    AsJson,
    KeepRuns,
    LogFile,
    NoStore,
    RecordFile,
    StoreFolder,
    usage,
)

What = Annotated[
    str,
    typer.Argument(
        metavar="LINE|FOLDER",
        help="The line that a failure prints, in quotes; or the folder of a stored run or a campaign.",
    ),
]


def replay(
    what: What,
    store: StoreFolder = STORE,
    no_store: NoStore = False,
    keep: KeepRuns = RUNS_KEPT,
    log: LogFile = None,
    record: RecordFile = None,
    as_json: AsJson = False,
) -> None:
    """Run a failure, or a stored run, again: does the same happen?"""
    from reachp2p_sim.results.run_again import past_run
    from reachp2p_sim.running.run import UsageError

    try:
        past = past_run(what)
    except UsageError as error:
        usage(str(error))
    tell_other_code(past.code, past.config)
    result, code = carry_out(
        past.config, Leaves(None if no_store else store, log, record, keep), False, as_json
    )
    if code == INTERRUPTED:
        raise typer.Exit(code)
    if past.digest == result.trace_digest:
        print("the same trace as before", file=sys.stderr)
    elif past.digest is not None:
        print(f"another trace: {past.digest} was stored", file=sys.stderr)
        code = FAIL
    raise typer.Exit(code)
