"""`reachp2p-sim report CAMPAIGN`: the page of a campaign, with reports of its worst seeds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from reachp2p_sim.commands.shared import (
    RUNS_KEPT,
    STORE,
    STORE_VARIABLE,
    UNFINISHED,
    AsJson,
    leave,
    print_json,
    say,
    usage,
)

RUNS = "runs"
"""The folder, in that of a campaign, for the reports of its worst seeds."""


def report(
    folder: Annotated[
        Path | None,
        typer.Argument(help="The folder of a campaign; the latest one in the store if not given."),
    ] = None,
    reports: Annotated[
        int, typer.Option(min=0, max=20, help="Run so many of the worst seeds again, and link their reports.")
    ] = 3,
    store: Annotated[
        Path, typer.Option(envvar=STORE_VARIABLE, help="The store that the latest campaign is looked for in.")
    ] = STORE,
    as_json: AsJson = False,
) -> None:
    """Draw the page of a campaign.

    campaign.html in its folder has every run, failure rates, spreads, worst seeds with their reports, rare branches.
    """
    from reachp2p_sim.recording import Recorder
    from reachp2p_sim.report import campaign_page
    from reachp2p_sim.results.files import said_of
    from reachp2p_sim.results.run_again import past_run
    from reachp2p_sim.results.store import CAMPAIGNS, LATEST, Store, StoreError
    from reachp2p_sim.running.configuration import UsageError
    from reachp2p_sim.running.run import run_scenario

    folder = folder or store / CAMPAIGNS / LATEST
    runs = Store(folder / RUNS)
    try:
        summary, rows = campaign_page.read(folder)
    except OSError as error:
        usage(f"{folder}: no campaign that has ended: {said_of(error)}")
    except ValueError as error:
        usage(f"{folder}: no campaign that has ended: {error}")
    links: dict[str, str] = {}
    try:
        for one in campaign_page.worst(summary, campaign_page.by_cell(rows), {})[:reports]:
            say(f"running {one.replay}")
            config = past_run(one.replay).config
            recorder = Recorder()
            began_at = time.monotonic()
            result = run_scenario(config, attach=recorder.attach)
            recorder.finish(result)
            made = runs.write(config, result, recorder, time.monotonic() - began_at)
            runs.prune(made.parent, RUNS_KEPT)
            links[one.replay] = (made.relative_to(folder) / "report.html").as_posix()
        page = campaign_page.write(folder, links)
    except (UsageError, StoreError) as error:
        usage(str(error))
    except OSError as error:
        leave(f"{said_of(error)}; no page was written", UNFINISHED)
    if as_json:
        print_json({"page": str(page), "reports": {k: str(folder / v) for k, v in links.items()}})
    else:
        print(page)
