"""`reachp2p-sim campaign SCENARIO…`: many seeds, and how they end."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reachp2p_sim.commands.shared import (
    FAIL,
    STORE,
    STORE_VARIABLE,
    UNFINISHED,
    AsJson,
    MutantName,
    Nodes,
    Settings,
    leave,
    pairs,
    print_json,
    say,
    usage,
)

if TYPE_CHECKING:
    from reachp2p_sim.campaign.folder import Folder
    from reachp2p_sim.campaign.plan import Plan

FAILURES_SHOWN = 5
COSTLY_SHOWN = 5
ALL = "all"
"""Instead of names: every scenario that ships."""


def campaign(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCENARIO…", help="As `reachp2p-sim list` names them; or `all`."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many seeds for each scenario and point of the grid.")
    ] = 200,
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", help="KEY=VALUE,VALUE,…: vary an option, a protocol.CONSTANT, or nodes."),
    ] = None,
    nodes: Nodes = None,
    mutant: MutantName = None,
    settings: Settings = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes at once; all cores if not given.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run it on the workers of this Dask scheduler.")
    ] = None,
    determinism: Annotated[
        bool,
        typer.Option("--determinism", help="Make each run twice, in another process, and compare digests."),
    ] = False,
    run_limit: Annotated[
        float, typer.Option(min=1.0, help="Seconds of real time after which one run is given up.")
    ] = 3600.0,
    store: Annotated[
        Path, typer.Option(envvar=STORE_VARIABLE, help="Keep it in campaigns/TIME-SCENARIO there.")
    ] = STORE,
    out: Annotated[Path | None, typer.Option(help="Keep it in this very folder.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the one in --out, or the latest.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run scenarios with many seeds, and count how they end.

    Results are kept run by run, so a campaign that was stopped goes on with --resume.
    """
    from reachp2p_sim.campaign.conduct import Means, conduct
    from reachp2p_sim.campaign.folder import Unfinished
    from reachp2p_sim.campaign.plan import SHORT_NAMES, Plan
    from reachp2p_sim.campaign.plan import grid as grid_of
    from reachp2p_sim.results.files import said_of
    from reachp2p_sim.results.store import CAMPAIGNS
    from reachp2p_sim.running.configuration import UsageError, located
    from reachp2p_sim.scenarios import SCENARIOS

    try:
        plan = None
        if names or not resume:
            wanted = {SHORT_NAMES.get(key, key): value for key, value in pairs(settings).items()}
            if ALL in (names or ()) and names != [ALL]:
                usage(f"`{ALL}` is every scenario that ships: name no other with it")
            scenarios = tuple(sorted(SCENARIOS) if names == [ALL] else map(located, names or ()))
            plan = Plan(
                scenarios,
                seeds,
                first_seed,
                nodes,
                mutant,
                wanted,
                grid_of(grid or ()),
                determinism,
            )
            plan.check()
        with _folder(plan, store / CAMPAIGNS, out, resume) as folder:
            means = Means(workers or os.cpu_count() or 1, dask, run_limit)
            summary = conduct(folder, means, sys.stderr)
    except UsageError as error:
        usage(str(error))
    except OSError as error:
        usage(said_of(error))
    except Unfinished as error:
        leave(str(error), UNFINISHED)
    page = _page(Path(summary["folder"]))
    if as_json:
        print_json({**summary, "page": None if page is None else str(page)})
    else:
        _print(summary)
        if page is not None:
            print(f"page: {page}; reports of the worst seeds: reachp2p-sim report {summary['folder']}")
    if summary["failures"]:
        print(f"replay: {summary['failures'][0]['replay']}", file=sys.stderr)
    too_rare = [entry for entry in summary["coverage"] if not entry["is_enough"]]
    for entry in too_rare:
        print(f"too rare: {entry['branch']} in {entry['runs']} runs of {entry['scenario']}", file=sys.stderr)
    if summary["failed"] or summary["lost"] or too_rare:
        raise typer.Exit(FAIL)
    if page is None:
        raise typer.Exit(UNFINISHED)


def _page(folder: Path) -> Path | None:
    """Draw the campaign; the results are there without it."""
    from reachp2p_sim.report import campaign_page
    from reachp2p_sim.results.files import said_of

    try:
        return campaign_page.write(folder)
    except OSError as error:
        say(f"{said_of(error)}; all results are kept, draw the page with: reachp2p-sim report {folder}")
        return None


def _folder(plan: Plan | None, store: Path, out: Path | None, resume: bool) -> Folder:
    from reachp2p_sim.campaign.folder import Folder
    from reachp2p_sim.results.store import LATEST, point

    if resume:
        return Folder.reopen(out or store / LATEST, plan)
    assert plan is not None  # there is one unless it is resumed
    if out is not None:
        return Folder.create(out, plan)
    first = plan.scenarios[0]
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{Path(first).stem if Path(first).suffix else first}"
    folder = Folder.create(store / name, plan)
    point(store / LATEST, Path(name))
    return folder


def _print(summary: dict[str, Any]) -> None:
    from reachp2p_sim.running.configuration import short_name

    for cell in summary["cells"]:
        rate = cell["failure_rate"]
        lost = f", {cell['lost']} lost" if cell["lost"] else ""
        print(f"{cell['name']}: {cell['runs'] - cell['failed']} of {cell['runs']} pass{lost}")
        if rate is not None:
            shares = f"{rate['value']:.2%} (95 %: {rate['low']:.2%} to {rate['high']:.2%})"
            print(f"  {'fails':28} {shares}")
        for name, spread in cell["timings"].items():
            seeds = ", ".join(str(seed) for seed in spread["slowest_seeds"])
            print(
                f"  {name.replace('_', ' '):28} median {spread['median']:.3f}  p99 {spread['p99']:.3f}  "
                f"worst {spread['max']:.3f}  slowest seeds {seeds}"
            )
    _print_coverage(summary)
    for failure in summary["failures"][:FAILURES_SHOWN]:
        print(f"  {short_name(failure['scenario'])}, seed {failure['seed']}: {failure['what']}")
    for gone in summary["lost_runs"][:FAILURES_SHOWN]:
        print(
            f"  {short_name(gone['scenario'])}, seed {gone['seed']} is lost: {gone['what'].strip().splitlines()[-1]}"
        )
    effort = summary["effort"]
    if len(summary["cells"]) > 1:
        costs = sorted(effort["cpu_seconds_a_run"].items(), key=lambda pair: -pair[1])[:COSTLY_SHOWN]
        print("most CPU a run: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in costs))
    simulated = f"{summary['simulated_seconds']:.0f} s simulated in {effort['cpu_seconds']:.0f} s of CPU"
    print(f"{summary['runs']} runs, {simulated}; digest {summary['digest'][:16]}; {summary['folder']}")


def _print_coverage(summary: dict[str, Any]) -> None:
    from reachp2p_sim.running.configuration import short_name

    for name in summary["scenarios"]:
        entries = [entry for entry in summary["coverage"] if entry["scenario"] == name and entry["runs"]]
        if entries:
            seen = "  ".join(f"{entry['branch']} {entry['share']['value']:.0%}" for entry in entries)
            print(f"{short_name(name)} saw in so many runs: {seen}")
