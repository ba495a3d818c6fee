"""`reachp2p-sim prune`: make room in the store of runs."""

from __future__ import annotations

from typing import Annotated

import typer

from reachp2p_sim.commands.shared import (
    KEEP_VARIABLE,
    RUNS_KEPT,
    STORE,
    AsJson,
    StoreFolder,
    print_json,
    usage,
)


def prune(
    store: StoreFolder = STORE,
    keep: Annotated[
        int,
        typer.Option(
            min=1,
            envvar=KEEP_VARIABLE,
            help="Of a scenario keep so many runs that passed and as many that did not.",
        ),
    ] = RUNS_KEPT,
    as_json: AsJson = False,
) -> None:
    """Remove the oldest runs of each scenario. Campaigns and folders that were given another name stay."""
    from reachp2p_sim.results.store import Store, StoreError

    kept = Store(store)
    try:
        removed = [path for scenario in kept.scenarios() for path in kept.prune(scenario, keep)]
    except StoreError as error:
        usage(str(error))
    if as_json:
        print_json({"removed": [str(path) for path in removed]})
    else:
        for path in removed:
            print(path)
