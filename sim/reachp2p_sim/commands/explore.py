"""`reachp2p-sim explore --for 10m`: runs with everything drawn, and every failure printed and kept."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reachp2p_sim.commands.shared import (
    FAIL,
    INTERRUPTED,
    RUNS_KEPT,
    STORE,
    STORE_VARIABLE,
    UNFINISHED,
    AsJson,
    KeepRuns,
    MutantName,
    leave,
    may_write,
    print_json,
    say,
    usage,
)

if TYPE_CHECKING:
    from reachp2p_sim.campaign.explore import Bounds, Found
    from reachp2p_sim.results.store import Store
    from reachp2p_sim.running.run import RunConfig

STORED_MAX = 10
"""Failures that are run once more and kept with a report; all others are told with their line."""
RUN_SECONDS_MAX = 3_600.0


def explore(
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 90s, 10m, 8h.")] = "10m",
    runs: Annotated[int | None, typer.Option(min=1, help="How many runs, instead of --for.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="What all is drawn from; a new one each time if not given.")
    ] = None,
    mutant: MutantName = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes at once; all cores if not given.")
    ] = None,
    store: Annotated[
        Path, typer.Option(envvar=STORE_VARIABLE, help="Where failing runs are kept with a report.")
    ] = STORE,
    keep: KeepRuns = RUNS_KEPT,
    out: Annotated[
        Path | None,
        typer.Option(help="Write what --json prints into this file, too, also if it is stopped."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw random runs until the time is over, and tell each failure.

    Drawn are nodes, weather, constants, and how many faults of which kinds. Stopped by Ctrl-C or SIGTERM, it sums
    up what it has seen.
    """
    from reachp2p_sim.campaign.explore import Found, drawn
    from reachp2p_sim.campaign.pool import WorkersFailed
    from reachp2p_sim.results.files import said_of, write_whole
    from reachp2p_sim.running.run import UsageError, check

    chosen = time.time_ns() % 2**31 if seed is None else seed
    found = Found(chosen)
    stopped_by: str | None = None
    code = UNFINISHED
    try:
        bounds = _bounds(duration, runs)
        check(drawn(chosen, 0, mutant))
        if out is not None:
            may_write(out)
        keeper = _prepared(store)
        print(f"exploring from seed {chosen}", file=sys.stderr)
        _explore(bounds, found, mutant, workers or os.cpu_count() or 1, keeper, keep, as_json)
    except UsageError as error:
        usage(str(error))
    except WorkersFailed as error:
        stopped_by = str(error)
    except KeyboardInterrupt:
        stopped_by, code = "interrupted", INTERRUPTED
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
    if out is not None:
        try:
            write_whole(out, json.dumps(found.to_json(), indent=2, ensure_ascii=False).encode())
        except OSError as error:
            say(said_of(error))
    has_passed = bool(found.runs) and not found.failed and not found.lost
    if stopped_by is not None and not (
        has_passed and code == INTERRUPTED
    ):  # that the command line says itself
        say(stopped_by)
    if found.failed or found.lost:
        raise typer.Exit(FAIL)
    if not found.runs:
        leave("no run has ended, so nothing is known", UNFINISHED)
    if stopped_by is not None:
        raise typer.Exit(code)


def _bounds(duration: str, runs: int | None) -> Bounds:
    from reachp2p_sim.campaign.explore import Bounds
    from reachp2p_sim.commands.durations import seconds_of
    from reachp2p_sim.running.run import UsageError

    if runs is not None:
        return Bounds(runs=runs)
    seconds = seconds_of(duration)
    if seconds is None:
        raise UsageError(f"--for {duration}: write a time such as 90s, 10m or 8h")
    return Bounds(seconds=seconds)


def _prepared(folder: Path) -> Store:
    from reachp2p_sim.results.store import Store, StoreError
    from reachp2p_sim.running.run import UsageError

    store = Store(folder)
    try:
        store.prepare()
    except StoreError as error:
        raise UsageError(str(error)) from error
    return store


def _explore(
    bounds: Bounds, found: Found, mutant: str | None, workers: int, store: Store, keep: int, as_json: bool
) -> None:
    from reachp2p_sim.campaign.pool import Pool

    out = sys.stderr if as_json else sys.stdout
    with Pool(workers, RUN_SECONDS_MAX) as pool:
        for outcome in pool.outcomes(bounds.tasks(found.seed, mutant)):
            failure = found.take(outcome)
            if failure is None:
                continue
            print(f"FAIL {failure['what']}: {failure['message']}", file=out)
            print(f"  replay: {failure['replay']}", file=out, flush=True)
            if failure["what"] != "lost" and found.failed <= STORED_MAX:
                failure["store"] = _keep(outcome[0].config, store, keep)
                if failure["store"] is not None:
                    print(f"  report  {failure['store']}", file=out, flush=True)


def _keep(config: RunConfig, store: Store, keep: int) -> str | None:
    """Run it once more, recorded, and keep its report; returns the folder, or None if it could not be kept."""
    from reachp2p_sim.commands.run import said_of_removed
    from reachp2p_sim.recording import Recorder
    from reachp2p_sim.results.store import StoreError
    from reachp2p_sim.running.run import run_scenario

    recorder = Recorder()
    began_at = time.monotonic()
    result = run_scenario(config, attach=recorder.attach)
    recorder.finish(result)
    try:
        folder = store.write(config, result, recorder, time.monotonic() - began_at)
        said_of_removed(store.prune(folder.parent, keep))
    except StoreError as error:
        say(str(error))
        return None
    return str(folder)


def _print(found: Found) -> None:
    print(
        f"{found.runs} runs from seed {found.seed}: {found.failed} failed, {found.lost} lost; "
        f"{found.simulated_seconds:.0f} s simulated in {found.cpu_seconds:.0f} s of CPU"
    )
    if found.failed_by:
        print(
            "  broken    " + ", ".join(f"{what} {times}" for what, times in sorted(found.failed_by.items()))
        )
    if found.branches:
        shares = (f"{branch} {runs / found.runs:.0%}" for branch, runs in sorted(found.branches.items()))
        print("  seen in   " + ", ".join(shares))
    if found.steps:
        print("  steps     " + ", ".join(f"{word} {times}" for word, times in sorted(found.steps.items())))
