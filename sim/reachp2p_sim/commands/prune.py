"""`reachp2p-sim prune`: make room in the store of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reachp2p_sim.commands.shared import (
    RUNS_KEPT,
    STORE,
    STORE_VARIABLE,
    AsJson,
    KeepRuns,
    print_json,
    say,
    usage,
)


def prune(
    store: Annotated[
        Path, typer.Option(envvar=STORE_VARIABLE, help="The folder that `run` keeps runs in.")
    ] = STORE,
    keep: KeepRuns = RUNS_KEPT,
    as_json: AsJson = False,
) -> None:
    """Remove the oldest runs of each scenario from the store.

    Campaigns and folders that were given another name stay."""
    from reachp2p_sim.results.store import Store, StoreError

    kept = Store(store)
    try:
        removed = [path for scenario in kept.scenarios() for path in kept.prune(scenario, keep)]
    except StoreError as error:
        usage(str(error))
    if as_json:
        print_json({"removed": [str(path) for path in removed]})
        return
    for path in removed:
        print(path)
    if not removed:
        say("nothing to remove")
