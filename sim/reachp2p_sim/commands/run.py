"""`reachp2p-sim run SCENARIO`: one run, its verdict, and what it leaves behind in the store."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reachp2p_sim.commands.shared import (
    FAIL,
    INTERRUPTED,
    PASS,
    RUNS_KEPT,
    STORE,
    USAGE,
    AsJson,
    KeepRuns,
    LogFile,
    MutantName,
    Nodes,
    NoStore,
    RecordFile,
    Settings,
    StoreFolder,
    may_write,
    pairs,
    print_json,
    say,
    usage,
)

if TYPE_CHECKING:
    from reachp2p_sim.report.live_view import Watch
    from reachp2p_sim.running.run import RunConfig, RunResult
    from reachp2p_sim.world.world import World

Name = Annotated[
    str,
    typer.Argument(metavar="SCENARIO", help="As `reachp2p-sim list` names it, or a TOML or Python file."),
]


def run(
    name: Name,
    nodes: Nodes = None,
    seed: Annotated[int, typer.Option(min=0, help="The run seed: everything uncertain comes from it.")] = 0,
    mutant: MutantName = None,
    settings: Settings = None,
    codec: Annotated[
        str | None,
        typer.Option(
            help="off: hand messages over without signing and decoding; the same as --set codec=off."
        ),
    ] = None,
    store: StoreFolder = STORE,
    no_store: NoStore = False,
    keep: KeepRuns = RUNS_KEPT,
    log: LogFile = None,
    record: RecordFile = None,
    determinism: Annotated[
        bool, typer.Option(help="Run it a second time in another process and compare the trace digests.")
    ] = True,
    watch: Annotated[bool, typer.Option("--watch", help="Show it in the terminal while it goes on.")] = False,
    pace: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="With --watch: seconds of run time a second; as fast as it goes if not given."
        ),
    ] = None,
    code: Annotated[
        str | None, typer.Option(help="The code that a replay line was printed by; another one is told.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run one scenario, print its verdict, and keep a report of it.

    Exits 0 if every promise was kept, 1 if one was broken: then the last line on stderr repeats the run. After Ctrl-C
    or SIGTERM the part of the run that there is is kept like a whole one, as interrupted.
    """
    from reachp2p_sim.running.run import RunConfig, UsageError

    try:
        chosen = pairs(settings) if codec is None else {**pairs(settings), "codec": codec}
        config = RunConfig(name, seed, nodes, mutant, chosen)
    except UsageError as error:
        usage(str(error))
    tell_other_code(code, config)
    if pace is not None and not watch:
        usage("--pace means nothing without --watch")
    left = Leaves(None if no_store else store, log, record, keep)
    _, exit_code = carry_out(config, left, determinism, as_json, _view(config, pace) if watch else None)
    raise typer.Exit(exit_code)


def _view(config: RunConfig, pace: float | None) -> Watch | None:
    """The live view, or None (and a word about it) where there is no terminal to draw on."""
    if not sys.stdout.isatty() or not sys.stderr.isatty():
        say("--watch is off: this is no terminal")
        return None
    from reachp2p_sim.report.live_view import Watch

    return Watch(config.command().removeprefix("reachp2p-sim run "), pace)


@dataclass(slots=True, frozen=True)
class Leaves:
    """What a run leaves behind: its folder in a store, its trace as text, its record as a scenario file.

    `keep`: how many runs of a scenario the store keeps (`store.prune`), 0 for all.
    """

    store: Path | None
    log: Path | None = None
    record: Path | None = None
    keep: int = RUNS_KEPT


def tell_other_code(code: str | None, config: RunConfig) -> None:
    """Say on stderr that a line or a folder is of other code than this, or of other files of the user's, if it is."""
    from reachp2p_sim.running.configuration import code_of, located

    if code is None:
        return
    then, _, files_then = code.partition("+")
    now, _, files_now = code_of(config.scenario).partition("+")
    if then != now:
        say(f"that run was made by the code {then} and this is {now}: it may differ")
    elif files_then not in ("", files_now):
        what = (
            "cannot be used any more" if files_now == "gone" else "has changed since, or a file that it names"
        )
        say(f"{located(config.scenario)} {what}: the run may differ")


def carry_out(
    config: RunConfig, left: Leaves, determinism: bool, as_json: bool, watch: Watch | None = None
) -> tuple[RunResult, int]:
    """Run, keep and print; returns the result and the exit code. Exits at once if it cannot be run.

    The verdict is told whatever becomes of the files.
    """
    from reachp2p_sim.checkers.determinism import judge, second_run
    from reachp2p_sim.recording import Recorder
    from reachp2p_sim.results.files import TraceFile, said_of, write_whole
    from reachp2p_sim.results.store import Store, StoreError
    from reachp2p_sim.running.run import UsageError, record_of, run_scenario

    keeper = None if left.store is None else Store(left.store)
    recorder = None if left.store is None else Recorder()
    worlds: list[World] = []

    def attach(world: World) -> None:
        worlds.append(world)
        if recorder is not None:
            recorder.attach(world)
        if watch is not None:
            watch.attach(world)

    began_at = time.monotonic()
    try:
        if keeper is not None:
            keeper.prepare()
        if left.record is not None:
            may_write(left.record)
        trace = None if left.log is None else TraceFile(left.log)
        other = second_run(config) if determinism else None
        with (
            nullcontext() if trace is None else trace,
            nullcontext() if watch is None else watch,
        ):
            result = run_scenario(config, trace, attach, keep_interrupted=True)
    except OSError as error:
        usage(said_of(error))
    except (UsageError, StoreError) as error:
        usage(str(error))
    wall_seconds = time.monotonic() - began_at
    if other is not None:
        if result.verdict == "interrupted":
            other.give_up()
        else:
            judge(result, other)
    folder: Path | None = None
    troubles = [] if trace is None or trace.trouble is None else [trace.trouble]
    if left.record is not None:
        try:
            write_whole(left.record, record_of(worlds[0], config))
        except OSError as error:
            troubles.append(said_of(error))
    if keeper is not None and recorder is not None:
        recorder.finish(result)
        try:
            folder = keeper.write(config, result, recorder, wall_seconds)
            said_of_removed(keeper.prune(folder.parent, left.keep))
        except StoreError as error:
            troubles.append(str(error))
    if as_json:
        print_json({**result.to_json(), "store": None if folder is None else str(folder)})
    else:
        print_result(result)
        if folder is not None:
            print(f"  report         {folder / 'report.html'}")
    for said in (*result.remarks, *troubles):
        say(said)
    if result.verdict == "interrupted":
        return result, INTERRUPTED
    if result.verdict != "pass":
        print(f"replay: {result.replay}", file=sys.stderr)
    return result, FAIL if result.verdict != "pass" else USAGE if troubles else PASS


def said_of_removed(removed: list[Path]) -> None:
    """Say on stderr which older runs have made room."""
    if removed:
        say(
            f"{', '.join(map(str, removed))} made room: older runs are kept with --keep, or under another name"
        )


def print_result(result: RunResult) -> None:
    """Verdict and figures on stdout; what the core raised on stderr."""
    from reachp2p_sim.report.words import ending
    from reachp2p_sim.running.configuration import short_name

    print(
        f"{short_name(result.scenario)}, {result.nodes} nodes, seed {result.seed}: {result.verdict.upper()}"
    )
    print(f"  trace digest   {result.trace_digest}")
    print(f"  simulated      {result.simulated_seconds:.1f} s in {result.cpu_seconds:.1f} s of CPU")
    print(f"  delivered      {result.messages} datagrams and frames, {result.events} events")
    for name, seconds in result.timings.items():
        print(f"  {name.replace('_', ' '):28} {seconds:.3f}")
    if result.calls["started"]:
        ended = ", ".join(
            f"{count} with {ending(int(code))}" for code, count in result.calls["ended"].items()
        )
        print(f"  calls          {result.calls['started']} started; ended: {ended or 'none'}")
    print("  checkers       " + ", ".join(f"{name} {verdict}" for name, verdict in result.checkers.items()))
    if result.violation is not None:
        where = f" at {result.violation['node']}" if result.violation["node"] else ""
        print(f"  BROKEN         {result.violation['checker']}{where}, t = {result.violation['at']:.3f} s")
        print(f"                 {result.violation['message']}")
    if result.error is not None:
        print(result.error, file=sys.stderr)
