"""`reachp2p-sim run SCENARIO`: one run, its verdict, and what it leaves behind in the store."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reachp2p_sim.commands.shared import (
    FAIL,
    USAGE,
    AsJson,
    MutantName,
    Nodes,
    Settings,
    pairs,
    print_json,
    usage,
)

if TYPE_CHECKING:
    from reachp2p_sim.recording import Recorder
    from reachp2p_sim.run import RunConfig, RunResult
    from reachp2p_sim.store import Store
    from reachp2p_sim.world import World

STORE = Path("store")
STORE_VARIABLE = "REACHP2P_SIM_STORE"

Name = Annotated[
    str, typer.Argument(help="A scenario, as `reachp2p-sim list` names it, or a TOML or Python file.")
]


def run(
    name: Name,
    nodes: Nodes = None,
    seed: Annotated[int, typer.Option(help="The run seed: everything uncertain comes from it.")] = 0,
    mutant: MutantName = None,
    settings: Settings = None,
    codec: Annotated[
        str | None,
        typer.Option(
            help="off: hand messages over without signing and decoding; the same as --set codec=off."
        ),
    ] = None,
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
    determinism: Annotated[
        bool, typer.Option(help="Run it a second time in another process and compare the trace digests.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Run one scenario; print verdict, timings and trace digest, and keep a report."""
    from reachp2p_sim.checkers.determinism import judge, second_run
    from reachp2p_sim.recording import Recorder
    from reachp2p_sim.run import RunConfig, UsageError, record_of, run_scenario
    from reachp2p_sim.store import Store, StoreError

    keeper = None if no_store else Store(store)
    recorder = None if no_store else Recorder()
    worlds: list[World] = []

    def attach(world: World) -> None:
        worlds.append(world)
        if recorder is not None:
            recorder.attach(world)

    began_at = time.monotonic()
    try:
        chosen = pairs(settings) if codec is None else {**pairs(settings), "codec": codec}
        config = RunConfig(name, seed, nodes, mutant, chosen)
        if keeper is not None:
            keeper.prepare()
        other = second_run(config) if determinism else None
        with nullcontext() if log is None else log.open("w", encoding="utf-8") as lines:
            result = run_scenario(config, lines, attach)
        if record is not None:
            record.write_text(record_of(worlds[0], config), encoding="utf-8")
    except (UsageError, StoreError, OSError) as error:
        usage(str(error))
    wall_seconds = time.monotonic() - began_at
    if other is not None:
        judge(result, other)
    folder: Path | None = None
    trouble: str | None = None
    if keeper is not None and recorder is not None:
        folder, trouble = _keep(keeper, config, result, recorder, wall_seconds)
    if as_json:
        print_json({**result.to_json(), "store": None if folder is None else str(folder)})
    else:
        print_result(result)
        if folder is not None:
            print(f"  report         {folder / 'report.html'}")
    if trouble is not None:
        print(f"reachp2p-sim: {trouble}", file=sys.stderr)
    if result.verdict != "pass":
        print(f"replay: {result.replay}", file=sys.stderr)
        raise typer.Exit(FAIL)
    if trouble is not None:
        raise typer.Exit(USAGE)


def _keep(
    store: Store, config: RunConfig, result: RunResult, recorder: Recorder, wall_seconds: float
) -> tuple[Path | None, str | None]:
    """The folder of the run, or why there is none: the verdict is told either way."""
    from reachp2p_sim.store import StoreError

    recorder.finish(result)
    try:
        return store.write(config, result, recorder, wall_seconds), None
    except StoreError as error:
        return None, str(error)


def print_result(result: RunResult) -> None:
    """Verdict and figures on stdout; what the core raised on stderr."""
    print(f"{result.scenario}, {result.nodes} nodes, seed {result.seed}: {result.verdict.upper()}")
    print(f"  trace digest   {result.trace_digest}")
    print(f"  simulated      {result.simulated_seconds:.1f} s in {result.cpu_seconds:.1f} s of CPU")
    print(f"  delivered      {result.messages} datagrams and frames, {result.events} events")
    for name, seconds in result.timings.items():
        print(f"  {name.replace('_', ' '):28} {seconds:.3f}")
    if result.calls["started"]:
        ended = ", ".join(f"{count} with {code}" for code, count in result.calls["ended"].items())
        print(f"  calls          {result.calls['started']} started; ended: {ended.replace('with 0', 'well')}")
    print("  checkers       " + ", ".join(f"{name} {verdict}" for name, verdict in result.checkers.items()))
    if result.violation is not None:
        where = f" at {result.violation['node']}" if result.violation["node"] else ""
        print(f"  BROKEN         {result.violation['checker']}{where}, t = {result.violation['at']:.3f} s")
        print(f"                 {result.violation['message']}")
    if result.error is not None:
        print(result.error, file=sys.stderr)
