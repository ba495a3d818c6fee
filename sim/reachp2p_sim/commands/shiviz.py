"""`reachp2p-sim shiviz RUN > file`: a run as a log that ShiViz loads as it is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from reachp2p_sim.commands.shared import say, usage

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A folder of the store (or store/SCENARIO, for its latest), or a line that repeats a run.",
    ),
]


def shiviz(
    run: Run,
    began_at: Annotated[float, typer.Option("--from", help="Seconds of run time to begin at.")] = 0.0,
    ended_at: Annotated[float | None, typer.Option("--to", help="Seconds of run time to end at.")] = None,
    nodes: Annotated[str, typer.Option(help="Only these nodes, as n01,n05.")] = "",
    kinds: Annotated[str, typer.Option(help="Only messages with one of these kinds, as Ping,Ack.")] = "",
    events: Annotated[int, typer.Option(min=1, help="At most so many events: ShiViz draws each.")] = 5_000,
) -> None:
    """Print a run as a log with vector clocks, for ShiViz.

    The log is loaded as it is at https://bestchai.bitbucket.io/shiviz/.
    """
    from reachp2p_sim.results.lookup import find
    from reachp2p_sim.results.shiviz import export, kinds_in
    from reachp2p_sim.results.store import StoreError
    from reachp2p_sim.running.configuration import UsageError

    try:
        found = find(run, on_run=lambda line: say(f"running {line}"))
    except (UsageError, StoreError) as error:
        usage(str(error))
    known = list(found.summary["recording"]["by_node"])
    wanted = [name for name in nodes.split(",") if name]
    for name in wanted:
        if name not in known:
            usage(f"--nodes {name}: there is no such node; there are: {', '.join(known)}")
    if ended_at is not None and not began_at <= ended_at:
        usage(f"--from {began_at:g} --to {ended_at:g}: nothing can be between them")
    there = kinds_in(found.history)
    wanted_kinds = [kind for kind in kinds.split(",") if kind]
    for kind in wanted_kinds:
        if kind not in there:
            usage(f"--kinds {kind}: no message with it was kept; there are: {', '.join(there) or 'none'}")
    log = export(
        found.history,
        began_at=began_at,
        ended_at=float("inf") if ended_at is None else ended_at,
        nodes=wanted,
        kinds=wanted_kinds,
        events_max=events,
    )
    if not log.events:
        usage("nothing was kept there: messages are kept around the moments that the report lists")
    sys.stdout.write("\n".join(log.lines) + "\n")
    if log.left_out:
        say(f"{log.left_out} later events are left out; choose a part with --from, --to, --nodes, --kinds")
