"""The commands that look back: `reachp2p trace` and `reachp2p sessions`. They are put into the application by `app`."""

from __future__ import annotations

from typing import Annotated

import typer

from reachp2p_node.cli.options import AgentOption, GatherTimeoutOption, JsonFlag, NodeOption, StateOption


def trace(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", help="Its id; the first 8 digits are enough if the node asked took part in it."
        ),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Say whose context was lost, and which clocks are wrong.")
    ] = False,
    timeout: GatherTimeoutOption = 10.0,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show what became of a call and of all that it led to.

    The nodes that took part are asked for their records of it, and shown in the order of what caused what: → is a call
    that a node made, · what a node did for one. `reachp2p call` tells the session of its call. With --check the exit
    code is 1 if anything is missing or wrong.

    \b
    Examples:
      reachp2p trace 3f2a91c04b7d4e0f9a6b5c4d3e2f1a0b
      reachp2p trace 3f2a91c0 --check
    """
    from reachp2p_node.cli.traces import show_trace

    return show_trace(session, _gather_timeout(timeout), node, state, check=check, as_json=as_json)


def sessions(
    failed: Annotated[bool, typer.Option("--failed", help="Only those with a hop that failed.")] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only what ended that long ago or later: 90s, 5m, 24h."),
    ] = None,
    capability: Annotated[
        str | None, typer.Option("--capability", metavar="NAME", help="Only calls of this capability.")
    ] = None,
    agent: AgentOption = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="COUNT", min=1, max=1_000, help="How many at most.")
    ] = 20,
    timeout: GatherTimeoutOption = 10.0,
    node: NodeOption = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List sessions, the latest first.

    A session is a call and all that were made on its behalf. All present nodes are asked for their records, which they
    keep for a day.

    \b
    Examples:
      reachp2p sessions --failed --since 24h
      reachp2p sessions --capability text.summarize --json
    """
    from reachp2p_node.cli.traces import seconds_of, show_sessions

    try:
        age = None if since is None else seconds_of(since)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from error
    wanted = {"failed": failed, "since": age, "capability": capability, "agent": agent, "limit": limit}
    show_sessions(wanted, _gather_timeout(timeout), node, state, as_json=as_json)


def _gather_timeout(seconds: float) -> float:
    if not 0 < seconds <= 60:  # also refuses nan
        raise typer.BadParameter(
            f"{seconds:g}: write seconds, above 0 and at most 60", param_hint="--timeout"
        )
    return seconds
