"""The commands that talk to a running node over its control socket."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reachp2p.errors import ErrorCode, NodeError, ReachError
from reachp2p.runtime.control_client import request
from reachp2p.runtime.state_folder import running_process
from reachp2p_node.cli import output
from reachp2p_node.cli.nodes import Running, choose

ANSWER_MARGIN = 5.0
"""Seconds beyond a call's own timeout after which its node is not waited for any more."""
CALL_TIMEOUT_MAX = 86_400.0
"""The longest a capability may declare. The node ends every call by itself; whether it still can is asked meanwhile."""
ALIVE_INTERVAL = 3.0
ALIVE_TIMEOUT = 12.0
"""While a call runs, its node is asked for a sign of life every 3 s; without one for 12 s it is given up. A handler
that holds the event loop of its node for so long is as good as stopped: other nodes have given it up before."""
LEAVE_PATIENCE = 5.0
"""Seconds beyond its own deadline that a node has to be gone."""


def show_members(node: str | None, state: Path | None, *, with_all: bool, as_json: bool) -> None:
    """`reachp2p members`; JSON has all of them always."""
    asked, answer = trio.run(partial(ask, node, state, "members"))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    from reachp2p_node.cli import tables

    known = answer["members"]
    shown = known if with_all else [one for one in known if tables.is_news(one)]
    members = tables.members_table(shown, output.table_width())
    summary = tables.members_summary(known, answer["diagnostics"], len(known) - len(shown))
    output.print_table(members.table, summary)
    output.note_left_out(members.left_out)
    if len(known) == 1:
        output.note(f"{asked.name} has met nobody yet; others join with --seed {known[0]['addresses'][0]}")


def show_agents(node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p agents`."""
    asked, answer = trio.run(partial(ask, node, state, "agents"))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    from reachp2p_node.cli import tables

    if answer["agents"]:
        agents = tables.agents_table(answer["agents"], output.table_width())
        output.print_table(agents.table)
        output.note_left_out(agents.left_out)
    else:
        output.note(f"{asked.name} knows of no agents; `reachp2p run MODULE:AGENT` starts a node with one")


def show_explanation(args: Mapping[str, Any], node: str | None, state: Path | None, *, as_json: bool) -> int:
    """`reachp2p route explain`; the exit code says whether a call would find somebody."""
    asked, answer = trio.run(partial(ask, node, state, "explain", args))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
    else:
        from reachp2p_node.cli import tables

        if answer["candidates"]:
            candidates = tables.explanation_table(answer, output.table_width())
            output.print_table(candidates.table)
            output.note_left_out(candidates.left_out)
        output.print_table(tables.explanation_summary(answer))
    return output.FAILED if answer["code"] else output.OK


def make_call(args: Mapping[str, Any], node: str | None, state: Path | None, *, as_json: bool) -> None:
    """`reachp2p call`: the result on stdout, who answered on stderr."""
    timeout = args.get("timeout")
    patience = CALL_TIMEOUT_MAX if timeout is None else timeout + ANSWER_MARGIN
    asked, answer = trio.run(partial(_call, args, node, state, patience))
    if as_json:
        output.print_json({"asked": asked.name, **answer})
        return
    output.print_json(answer["value"])
    tries = "" if answer["attempts"] == 1 else f", {answer['attempts']} attempts"
    took = f"{answer['seconds'] * 1e3:.1f} ms{tries}"
    output.note(f"{answer['agent']} on node {answer['node'][:8]}, {took}; session {answer['session']}")


def make_leave(timeout: float, node: str | None, state: Path | None, *, as_json: bool) -> int:
    """`reachp2p leave`: asks, and waits until the process has let go of its state folder."""
    from reachp2p.runtime.run import (
        FORCE_PATIENCE,
    )  # with all that runs a node, which the other questions do not need

    begun = time.monotonic()
    asked = trio.run(partial(_leave, timeout, node, state))
    seconds = round(time.monotonic() - begun, 3)
    was_forced = seconds >= timeout + FORCE_PATIENCE
    if as_json:
        answer = {"left": True, "forced": was_forced, "name": asked.name, "pid": asked.process}
        output.print_json({**answer, "seconds": seconds})
    elif was_forced:
        output.note(f"{asked.name} did not finish within {timeout:g} s and was ended by force")
    else:
        output.note(f"{asked.name} has left after {seconds:.1f} s")
    return output.FAILED if was_forced else output.OK


async def _call(
    args: Mapping[str, Any], node: str | None, state: Path | None, patience: float
) -> tuple[Running, Any]:
    """A call, and beside it the question whether the node that makes it is still there to end it."""
    asked = await choose(node, state)
    answer: Any = None
    failure: ReachError | None = None

    async def watch(scope: trio.CancelScope) -> None:
        nonlocal failure
        while True:
            await trio.sleep(ALIVE_INTERVAL)
            with trio.move_on_after(ALIVE_TIMEOUT) as silence, suppress(ReachError):  # the call sees it too
                await request(asked.folder, "info", timeout=2 * ALIVE_TIMEOUT)
            if silence.cancelled_caught:
                failure = asked.silence
                scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        try:
            answer = await request(asked.folder, "call", args, patience)
        except ReachError as error:
            failure = error
        nursery.cancel_scope.cancel()
    if isinstance(failure, NodeError) and failure.code is ErrorCode.NODE_LOST:
        # Of the node that was asked, not of the one called: nobody knows how far it came.
        message = f"{failure.message}. Whether the handler has run is not known"
        raise NodeError(ErrorCode.OUTCOME_UNKNOWN, message) from failure
    if failure is not None:
        raise failure
    return asked, answer


async def ask(
    node: str | None,
    state: Path | None,
    operation: str,
    args: Mapping[str, Any] | None = None,
    timeout: float = 10.0,  # noqa: ASYNC109 (handed on)
) -> tuple[Running, Any]:
    """Ask the node that is meant; returns which one it was, and its answer."""
    asked = await choose(node, state)
    return asked, await request(asked.folder, operation, args, timeout)


async def _leave(timeout: float, node: str | None, state: Path | None) -> Running:  # noqa: ASYNC109 (handed on)
    asked = await choose(node, state, must_be_sure=True)
    await request(asked.folder, "leave", {"timeout": timeout})
    with trio.move_on_after(timeout + LEAVE_PATIENCE):
        while running_process(asked.folder) is not None:  # noqa: ASYNC110 (another's lock has no event)
            await trio.sleep(0.05)
        return asked
    raise NodeError(
        ErrorCode.DEADLINE_EXCEEDED,
        f"{asked.name} still runs {LEAVE_PATIENCE:g} s after its deadline; end process {asked.process} by force",
    )
